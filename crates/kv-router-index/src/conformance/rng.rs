//! Random numbers that a seed decides: order and churn must be repeatable.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Spreads a number over 64 bits; different numbers stay different.
pub(super) fn mix(raw: u64) -> u64 {
    let raw = (raw ^ (raw >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let raw = (raw ^ (raw >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    raw ^ (raw >> 31)
}
