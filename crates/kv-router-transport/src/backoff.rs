//! How long to wait before trying again: longer each time, and never all at the same moment.

use std::time::Duration;

/// Waits that double from `first` to `longest`, each shortened at random by up to half, so that a thousand
/// subscribers of one host that came back do not all knock at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait, before it is shortened.
    pub first: Duration,
    /// No wait is longer.
    pub longest: Duration,
}

impl Backoff {
    /// The wait before try `attempt`, counted from 0.
    pub fn wait(self, attempt: u32, jitter: &mut Jitter) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
        let wait = doubled.min(self.longest);
        wait - wait.mul_f64(jitter.fraction() / 2.0)
    }
}

/// Seeded chance, so that a run can be repeated. SplitMix64: small, and nothing depends on its quality.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Chance that is the same for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// At least 0 and below 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_differ() {
        let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let mut jitter = Jitter::new(1);
        let mut seen = Vec::new();
        for attempt in [0, 1, 2, 3, 4, 31, 32, u32::MAX] {
            let wait = backoff.wait(attempt, &mut jitter);
            let full = Duration::from_millis(100 << attempt.min(4)).min(backoff.longest);
            assert!(wait <= full && wait > full / 2 - Duration::from_millis(1), "{attempt}: {wait:?}");
            seen.push(wait);
        }
        seen.dedup();
        assert_eq!(seen.len(), 8, "{seen:?}");
    }
}
