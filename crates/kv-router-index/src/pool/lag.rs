//! How long events waited.

use std::time::Duration;

/// Buckets by powers of two of a nanosecond: the last begins at about 4.6 minutes.
const BUCKETS: usize = 40;

/// How long events took from being enqueued to being applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    count: u64,
    total: Duration,
    max: Duration,
    /// Bucket `i` counts lags below `2^i` ns and not below half of that; the last one all longer ones too.
    buckets: [u64; BUCKETS],
}

impl Lag {
    /// Events that were timed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest lag.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The average lag; zero when nothing was timed.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos().checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A bound that this fraction of the lags, from 0 to 1, did not exceed; less than twice what it needs to
    /// be.
    pub fn quantile(&self, fraction: f64) -> Duration {
        let rank = (fraction.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut below = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank && at + 1 < BUCKETS {
                return Duration::from_nanos(1 << at).min(self.max);
            }
        }
        self.max
    }

    pub(super) fn add(&mut self, lag: Duration) {
        self.count += 1;
        self.total = self.total.saturating_add(lag);
        self.max = self.max.max(lag);
        let bits = u128::BITS - lag.as_nanos().leading_zeros();
        self.buckets[(bits as usize).min(BUCKETS - 1)] += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
    }
}

impl Default for Lag {
    fn default() -> Self {
        Self { count: 0, total: Duration::ZERO, max: Duration::ZERO, buckets: [0; BUCKETS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_bound_the_lags_within_a_factor_of_two() {
        let mut lag = Lag::default();
        assert_eq!(
            (lag.quantile(0.5), lag.mean(), lag.max()),
            (Duration::ZERO, Duration::ZERO, Duration::ZERO)
        );
        (1..=1000).map(Duration::from_micros).for_each(|sample| lag.add(sample));
        for (fraction, exact) in [(0.1, 100), (0.5, 500), (0.9, 900), (1.0, 1000)] {
            let (exact, found) = (Duration::from_micros(exact), lag.quantile(fraction));
            assert!(exact <= found && found < exact * 2, "{fraction}: {found:?}");
        }
        assert_eq!(lag.mean(), Duration::from_nanos(500_500));
        lag.add(Duration::from_secs(3600));
        assert_eq!(lag.quantile(1.0), Duration::from_secs(3600), "beyond the buckets the longest is known");
    }
}
