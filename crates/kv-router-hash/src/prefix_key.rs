//! Keys of prefixes, by which an index compares runs of blocks in one word.
//!
//! The key of blocks `b1 .. bn` is the polynomial `m(b1)*x^(n-1) + ... + m(bn)` modulo the prime 2^61 - 1 (Carter and
//! Wegman 1979; Karp and Rabin 1987), where `x` is secret and `m` multiplies a local hash by another secret. From the
//! keys of two prefixes follows the key of the blocks between them, wherever these stand: that is what makes it
//! different from a [sequence hash](crate::SequenceHasher).

use std::fmt;

use kv_router_types::LocalBlockHash;

use crate::{BlockHasher, Prompt};

const PRIME: u64 = (1 << 61) - 1;

/// The key of a run of blocks, below 2^61. Comparable only with keys of the same [`PrefixKeyer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrefixKey(u64);

impl PrefixKey {
    /// The key as a number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Makes keys. Two that were made with the same seed are equal and make the same keys.
///
/// Two different runs of `n` blocks have equal keys with odds of about `n` in 2^61, for whoever does not know the seed.
/// Who knows it can choose prompts whose runs have equal keys: draw it at random in a process that serves strangers.
///
/// ```
/// use kv_router_hash::PrefixKeyer;
/// use kv_router_types::LocalBlockHash;
///
/// let keyer = PrefixKeyer::new(7);
/// let blocks = [3, 1, 4, 1, 5].map(LocalBlockHash::new);
/// let (two, five) = (keyer.key(&blocks[..2]), keyer.key(&blocks));
/// assert_eq!(keyer.between(two, five, keyer.step(3)), keyer.key(&blocks[2..]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrefixKeyer {
    base: u64,
    spread: u64,
}

/// What a key is multiplied with when it is moved by some number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStep(u64);

impl PrefixKeyer {
    /// Secrets from a seed.
    pub const fn new(seed: u64) -> Self {
        // Far from 0 and 1, whatever the seed; the multiplier is odd, so that no two hashes become the same.
        let base = split_mix(seed) % (PRIME - (1 << 32)) + (1 << 31);
        Self { base, spread: split_mix(seed ^ 0x5bf0_3635) | 1 }
    }

    /// The key of the same run with one more block. About 3 ns, and what follows has to wait for it.
    #[inline]
    pub const fn extend(&self, key: PrefixKey, block: LocalBlockHash) -> PrefixKey {
        let block = reduce(block.get().wrapping_mul(self.spread) as u128);
        PrefixKey(reduce(key.0 as u128 * self.base as u128 + block as u128))
    }

    /// The key of a run.
    pub fn key(&self, blocks: &[LocalBlockHash]) -> PrefixKey {
        blocks.iter().fold(PrefixKey::default(), |key, &block| self.extend(key, block))
    }

    /// For [`between`](Self::between): the number of blocks in between.
    pub fn step(&self, blocks: usize) -> KeyStep {
        KeyStep((0..blocks).fold(1, |power, _| reduce(u128::from(power) * u128::from(self.base))))
    }

    /// The key of the blocks behind a prefix, from the keys of the prefix and of the longer one.
    #[inline]
    pub const fn between(&self, before: PrefixKey, after: PrefixKey, step: KeyStep) -> PrefixKey {
        let moved = reduce(before.0 as u128 * step.0 as u128);
        PrefixKey(reduce((after.0 + PRIME - moved) as u128))
    }
}

/// Leaves out the secrets.
impl fmt::Debug for PrefixKeyer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixKeyer").finish_non_exhaustive()
    }
}

/// Below the prime, for anything below its square and some.
#[inline]
const fn reduce(wide: u128) -> u64 {
    let once = (wide as u64 & PRIME) + (wide >> 61) as u64;
    let twice = (once & PRIME) + (once >> 61);
    if twice >= PRIME { twice - PRIME } else { twice }
}

/// Steele, Lea and Flood 2014: every seed gives another number, and similar seeds give different ones.
const fn split_mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The local hashes of a prompt, with the keys of its prefixes if there is somebody who asks for them. Reusable.
///
/// ```
/// use kv_router_hash::{BlockHasher, HashScheme, KeyedHashes, PrefixKeyer, Prompt, Window};
/// use kv_router_types::BlockSize;
///
/// let mut hasher = BlockHasher::new(HashScheme::new(BlockSize::new(4)?, Window::Plain));
/// let mut keyed = KeyedHashes::new(Some(PrefixKeyer::new(7)));
/// hasher.hash_keyed_into(&Prompt::new(&[1, 2, 3, 4, 5, 6, 7, 8]), &mut keyed);
/// assert_eq!(keyed.locals().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyedHashes {
    keyer: Option<PrefixKeyer>,
    locals: Vec<LocalBlockHash>,
    /// Of the prefixes of 0, 1, ... blocks.
    keys: Vec<PrefixKey>,
}

impl KeyedHashes {
    /// Of no blocks. Without a keyer no keys are made.
    pub fn new(keyer: Option<PrefixKeyer>) -> Self {
        Self { keyer, locals: Vec::new(), keys: Vec::from_iter(keyer.map(|_| PrefixKey::default())) }
    }

    /// Whose keys these are.
    #[inline]
    pub fn keyer(&self) -> Option<PrefixKeyer> {
        self.keyer
    }

    /// The local hashes, one a block.
    #[inline]
    pub fn locals(&self) -> &[LocalBlockHash] {
        &self.locals
    }

    /// The keys of the prefixes of 0, 1, ... blocks: one more than there are blocks. None without a keyer.
    #[inline]
    pub fn keys(&self) -> &[PrefixKey] {
        &self.keys
    }

    /// Takes over local hashes that are known already.
    pub fn set_locals(&mut self, locals: &[LocalBlockHash]) {
        self.locals.clear();
        self.locals.extend_from_slice(locals);
        self.key_all();
    }

    fn key_all(&mut self) {
        let Self { keyer: Some(keyer), locals, keys } = self else { return };
        keys.truncate(1);
        keys.extend(locals.iter().scan(PrefixKey::default(), |key, &block| {
            *key = keyer.extend(*key, block);
            Some(*key)
        }));
    }
}

impl BlockHasher {
    /// Replaces `out` by the local hashes of a prompt and the keys of its prefixes, for an index that asks for them.
    pub fn hash_keyed_into(&mut self, prompt: &Prompt<'_>, out: &mut KeyedHashes) {
        self.hash_into(prompt, &mut out.locals);
        out.key_all();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, in arithmetic that cannot overflow.
    fn by_definition(keyer: &PrefixKeyer, blocks: &[LocalBlockHash]) -> u64 {
        let prime = u128::from(PRIME);
        let of = |block: &LocalBlockHash| u128::from(block.get().wrapping_mul(keyer.spread)) % prime;
        let sum = blocks.iter().fold(0, |sum, block| (sum * u128::from(keyer.base) + of(block)) % prime);
        sum as u64
    }

    fn blocks() -> impl Strategy<Value = Vec<LocalBlockHash>> {
        let hash = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(PRIME), 0u64..3];
        prop::collection::vec(hash.prop_map(LocalBlockHash::new), 0..80)
    }

    proptest! {
        #[test]
        fn a_key_is_a_polynomial(seed: u64, blocks in blocks(), cut in 0usize..80) {
            let keyer = PrefixKeyer::new(seed);
            let mut keyed = KeyedHashes::new(Some(keyer));
            keyed.set_locals(&blocks);
            prop_assert_eq!(keyed.locals(), &blocks[..]);
            prop_assert_eq!(keyed.keys().len(), blocks.len() + 1);
            for (len, key) in keyed.keys().iter().enumerate() {
                prop_assert_eq!(key.get(), by_definition(&keyer, &blocks[..len]));
                prop_assert!(key.get() < PRIME);
            }
            let cut = cut.min(blocks.len());
            let between = keyer.between(keyed.keys()[cut], keyed.keys()[blocks.len()], keyer.step(blocks.len() - cut));
            prop_assert_eq!(between, keyer.key(&blocks[cut..]));
        }

        #[test]
        fn other_blocks_have_another_key(seed: u64, blocks in blocks(), at in 0usize..80, other: u64) {
            prop_assume!(at < blocks.len() && blocks[at].get() != other);
            let keyer = PrefixKeyer::new(seed);
            let mut changed = blocks.clone();
            changed[at] = LocalBlockHash::new(other);
            prop_assert_ne!(keyer.key(&blocks), keyer.key(&changed));
            changed = blocks.clone();
            changed.swap(0, at);
            prop_assert_eq!(keyer.key(&blocks) == keyer.key(&changed), blocks == changed);
        }
    }

    #[test]
    fn seeds_make_other_keys() {
        let block = [LocalBlockHash::new(5), LocalBlockHash::new(6)];
        let keys: std::collections::BTreeSet<_> =
            (0..1000).map(|seed| PrefixKeyer::new(seed).key(&block).get()).collect();
        assert_eq!(keys.len(), 1000);
    }
}
