//! Hostile bytes against everything that reads bytes from outside.
//!
//! A [`Target`] is a function of one input that must hold whatever the input is. Each asserts more than that nothing
//! panics: a refused input leaves nothing behind, an accepted one can be written again as it was, and memory is never
//! bought with a declared length. `cargo xtask fuzz` looks for inputs that break one, guided by coverage; the tests
//! replay the [seeds](Target::seeds), and damage them, on every run of the suite; the program of this package runs one
//! target on files.
//!
//! A new decoder is a new function in `targets` and a line in [`TARGETS`].

mod damage;
mod input;
mod memory;
mod seal;
mod seeds;
mod targets;

pub use damage::Damage;
pub use targets::TARGETS;

/// One thing that reads bytes from outside, and what must hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// How it is called on the command line.
    pub name: &'static str,
    /// What it reads, in a few words.
    pub about: &'static str,
    /// Panics when something does not hold for these bytes.
    pub check: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// The target of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Inputs to start from, and those in the checkout that once broke this target.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = (self.seeds)();
        corpus.extend(seeds::kept(self.name));
        corpus
    }
}
