//! Damage without guidance, for the run that every change must pass.

use kv_router_engines::soak::Mutator;

/// Inputs made of a corpus by a few random changes each, decided by the corpus and a seed.
#[derive(Debug)]
pub struct Damage<'c>(Mutator<'c>);

impl<'c> Damage<'c> {
    /// Changes to what is in `corpus`.
    pub fn to(corpus: &'c [Vec<u8>], seed: u64) -> Self {
        Self(Mutator::new(corpus, seed))
    }

    /// The next input.
    pub fn input(&mut self) -> &[u8] {
        self.0.damaged()
    }
}
