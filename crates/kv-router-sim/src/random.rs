//! The one source of chance: a small seeded generator and the bit mix under it.
//!
//! Written out here so that a seed means the same run on every platform and with every version of any
//! dependency.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit words in which every input bit reaches every output bit (the finaliser of
/// SplitMix64).
#[inline]
pub(crate) const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(STEP);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Two words into one. Not symmetric, and as good as random in each argument.
#[inline]
pub(crate) const fn mix2(first: u64, second: u64) -> u64 {
    mix(mix(first) ^ second)
}

/// A seeded generator of evenly spread words. Copying it forks the same future.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// A generator whose whole future `seed` decides.
    pub const fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The next word.
    #[inline]
    pub const fn next_word(&mut self) -> u64 {
        let word = mix(self.state);
        self.state = self.state.wrapping_add(STEP);
        word
    }

    /// A number below `bound`; 0 when `bound` is 0. Bias is below `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next_word()) * bound as u128;
        (product >> 64) as usize // below `bound`, so it fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_future() {
        let draw = |seed| {
            let mut random = SeededRandom::new(seed);
            [random.next_word(), random.next_word(), random.next_word()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_are_even_and_in_range() {
        let mut random = SeededRandom::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..50_000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|&count| (9_500..10_500).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }
}
