//! Where the luck of a draw comes from: the caller, so that a decision can be repeated.

/// A source of uniformly distributed bits.
pub trait Entropy {
    /// The next 64 of them.
    fn next_u64(&mut self) -> u64;
}

impl<E: Entropy + ?Sized> Entropy for &mut E {
    fn next_u64(&mut self) -> u64 {
        (**self).next_u64()
    }
}

/// A small generator with a 64-bit state, good enough to spread load and no good for secrets.
///
/// Every seed gives a sequence of its own, neighbouring seeds too: a counter that many threads share is a fine
/// source of seeds, one for each decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }
}

impl Entropy for SplitMix64 {
    #[inline]
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A number below `bound`, each with the same probability. 0 for a bound of 0.
///
/// The high half of a product is uniform but for the lowest few values of the low half, which are thrown away. A
/// fair source makes a second attempt unlikely and a 64th impossible; one that is stuck gets an answer all the same.
pub(crate) fn below(bound: u64, entropy: &mut impl Entropy) -> u64 {
    let surplus = if bound == 0 { 0 } else { bound.wrapping_neg() % bound };
    let mut wide = 0;
    for _ in 0..64 {
        wide = u128::from(entropy.next_u64()) * u128::from(bound);
        if wide as u64 >= surplus {
            break;
        }
    }
    (wide >> 64) as u64
}

/// A number from 0 up to and without 1, in steps of 2^-53.
pub(crate) fn unit(entropy: &mut impl Entropy) -> f64 {
    (entropy.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64);

    impl Entropy for Fixed {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_generator_gives_the_published_sequence() {
        let mut entropy = SplitMix64::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| entropy.next_u64());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_ends_of_the_range_are_inside_it() {
        assert_eq!(unit(&mut Fixed(0)), 0.0);
        assert!(unit(&mut Fixed(u64::MAX)) < 1.0);
        for bound in [1, 2, 3, 1 << 33, u64::MAX] {
            assert!(below(bound, &mut Fixed(0)) < bound);
            assert_eq!(below(bound, &mut Fixed(u64::MAX)), bound - 1);
        }
        assert_eq!(below(0, &mut Fixed(9)), 0);
    }

    #[test]
    fn a_bound_that_divides_badly_is_still_uniform() {
        // Without throwing the surplus away, every third number would come up twice as often.
        let bound = (1 << 63) + (1 << 62);
        let mut entropy = SplitMix64::new(5);
        let thirds = (0..30_000).fold([0u32; 3], |mut thirds, _| {
            thirds[(below(bound, &mut entropy) % 3) as usize] += 1;
            thirds
        });
        assert!(thirds.iter().all(|count| count.abs_diff(10_000) < 400), "{thirds:?}");
    }
}
