//! A prefix cache that does everything to its blocks that engines do, at random, and says so.

use std::collections::BTreeMap;

use kv_router_engines::{BatchEncoder, RemoveFields, StoreFields, WireHash, WireTokens};
use kv_router_hash::{HashScheme, Prompt, next_sequence_hash};
use kv_router_types::{DpRank, ExternalSequenceHash, SequenceHash, Tier, TierSet, WorkerRank};

use super::{Dialect, HashForm, Holdings, Media};
use crate::random::{SeededRandom, mix2};

/// One rank's cache: device and host memory, blocks of real tokens.
#[derive(Debug)]
pub struct WireCache {
    dialect: Dialect,
    scheme: HashScheme,
    random: SeededRandom,
    encoder: BatchEncoder,
    blocks: BTreeMap<u64, Block>,
    /// All held names, in no order: to draw from.
    names: Vec<u64>,
    /// Blocks that left, and may come back under their names.
    gone: Vec<(u64, Block)>,
    handed_out: u64,
    salt: u64,
    max_blocks: usize,
    /// Of 1,000 things that happen, so many clear everything.
    clears: usize,
}

#[derive(Clone, Debug)]
struct Block {
    parent: Option<u64>,
    tokens: Vec<u32>,
    path: SequenceHash,
    tiers: TierSet,
    /// Its place in `names`.
    at: usize,
}

/// A name as the dialect writes it.
struct Written {
    digest: [u8; 32],
    name: u64,
    form: HashForm,
}

impl Written {
    fn new(name: u64, form: HashForm) -> Self {
        let mut digest = [0x5a; 32];
        digest[24..].copy_from_slice(&name.to_be_bytes());
        Self { digest, name, form }
    }

    fn hash(&self) -> WireHash<'_> {
        match self.form {
            HashForm::Signed if self.name.cast_signed() < 0 => WireHash::Negative(self.name.cast_signed()),
            HashForm::Signed | HashForm::Unsigned => WireHash::Unsigned(self.name),
            HashForm::Digest => WireHash::Digest(&self.digest),
        }
    }
}

/// Blocks that left and are remembered, so that they may come back.
const MAX_GONE: usize = 64;

impl WireCache {
    /// An empty cache. The seed decides all that ever happens in it.
    pub fn new(dialect: Dialect, scheme: HashScheme, max_blocks: usize, seed: u64) -> Self {
        Self {
            dialect,
            scheme,
            random: SeededRandom::new(seed),
            encoder: BatchEncoder::new(dialect.form),
            blocks: BTreeMap::new(),
            names: Vec::new(),
            gone: Vec::new(),
            handed_out: 0,
            salt: seed,
            max_blocks,
            clears: 2,
        }
    }

    /// The same, which is never cleared: it grows to its limit.
    #[must_use]
    pub fn without_clears(mut self) -> Self {
        self.clears = 0;
        self
    }

    /// Something happens; the payload that says so. `time` is in seconds since 1970.
    pub fn step(&mut self, time: f64, rank: Option<DpRank>) -> Vec<u8> {
        for _ in 0..=self.random.below(3) {
            self.happen();
        }
        let mut payload = Vec::new();
        self.encoder.finish(time, rank, &mut payload);
        payload
    }

    /// What is in it.
    pub fn holdings(&self, rank: WorkerRank) -> Holdings {
        self.blocks
            .iter()
            .map(|(&name, block)| ((rank, ExternalSequenceHash::new(name)), (block.path, block.tiers)))
            .collect()
    }

    /// Blocks in it.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn happen(&mut self) {
        if self.blocks.len() > self.max_blocks {
            for _ in 0..1 + self.random.below(16) {
                self.evict();
            }
            return;
        }
        match self.random.below(1_000) {
            0..650 => self.store(),
            650..800 => self.evict(),
            800..880 => self.offload(),
            at if at < 1_000 - self.clears => self.come_back(),
            _ => self.clear(),
        }
    }

    /// A chain of new blocks under any block, or at the root.
    fn store(&mut self) {
        let parent = if self.random.below(8) == 0 { None } else { self.any() };
        let count = 1 + self.random.below(8);
        let size = self.scheme.block_size().get() as usize;
        let mut above = parent;
        let mut chain = Vec::with_capacity(count);
        for _ in 0..count {
            self.handed_out += 1;
            let name = mix2(self.salt, self.handed_out);
            let tokens = (0..size).map(|_| self.random.next_word() as u32 & 0x1_ffff).collect();
            self.insert(name, above, tokens);
            chain.push(name);
            above = Some(name);
        }
        self.announce(parent, &chain, Tier::Device);
    }

    fn insert(&mut self, name: u64, parent: Option<u64>, tokens: Vec<u32>) {
        let locals = self.scheme.hash(&Prompt::new(&tokens));
        let above = parent.and_then(|parent| self.blocks.get(&parent)).map(|block| block.path);
        let path = next_sequence_hash(above, locals[0]);
        let tiers = TierSet::only(Tier::Device);
        self.blocks.insert(name, Block { parent, tokens, path, tiers, at: self.names.len() });
        self.names.push(name);
    }

    /// A copy leaves, whatever hangs below it.
    fn evict(&mut self) {
        let Some(name) = self.any() else { return };
        let Some(block) = self.blocks.get_mut(&name) else { return };
        let tier = block.tiers.iter().next().unwrap_or(Tier::Device);
        block.tiers = block.tiers.without(tier);
        if block.tiers.is_empty() {
            self.forget(name);
        }
        let written = Written::new(name, self.dialect.hashes);
        let medium = self.medium(tier);
        self.encoder.removed(&RemoveFields { hashes: &[written.hash()], medium, group: None });
    }

    fn forget(&mut self, name: u64) {
        let Some(block) = self.blocks.remove(&name) else { return };
        self.names.swap_remove(block.at);
        if let Some(moved) = self.names.get(block.at).and_then(|moved| self.blocks.get_mut(moved)) {
            moved.at = block.at;
        }
        if self.gone.len() == MAX_GONE {
            self.gone.remove(0);
        }
        self.gone.push((name, block));
    }

    /// A second copy, in host memory.
    fn offload(&mut self) {
        let Media::Named(_) = self.dialect.media else { return };
        let Some(name) = self.any() else { return };
        let parent = self.blocks[&name].parent;
        // An engine that does not know the parent any more says nothing.
        if parent.is_some_and(|parent| !self.blocks.contains_key(&parent)) {
            return;
        }
        let Some(block) = self.blocks.get_mut(&name) else { return };
        if block.tiers.contains(Tier::Host) {
            return;
        }
        block.tiers = block.tiers.with(Tier::Host);
        self.announce(parent, &[name], Tier::Host);
    }

    /// A block that left is computed again.
    fn come_back(&mut self) {
        if self.gone.is_empty() {
            return;
        }
        let (name, block) = self.gone.remove(self.random.below(self.gone.len()));
        if block.parent.is_some_and(|parent| !self.blocks.contains_key(&parent)) {
            return;
        }
        self.insert(name, block.parent, block.tokens);
        self.announce(block.parent, &[name], Tier::Device);
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.names.clear();
        self.gone.clear();
        self.encoder.cleared();
    }

    fn announce(&mut self, parent: Option<u64>, chain: &[u64], tier: Tier) {
        let form = self.dialect.hashes;
        let written: Vec<_> = chain.iter().map(|&name| Written::new(name, form)).collect();
        let hashes: Vec<_> = written.iter().map(Written::hash).collect();
        let parent = parent.map(|parent| Written::new(parent, form));
        let tokens: Vec<u32> =
            chain.iter().flat_map(|name| self.blocks[name].tokens.iter().copied()).collect();
        let medium = self.medium(tier);
        self.encoder.stored(&StoreFields {
            hashes: &hashes,
            parent: parent.as_ref().map(Written::hash),
            tokens: WireTokens::Flat(&tokens),
            block_size: Some(u64::from(self.scheme.block_size().get())),
            medium,
            ..StoreFields::default()
        });
    }

    fn medium(&self, tier: Tier) -> Option<&'static str> {
        match (self.dialect.media, tier) {
            (Media::Unnamed, _) => None,
            (Media::Named(_), Tier::Device) => Some("GPU"),
            (Media::Named(host), _) => Some(host),
        }
    }

    fn any(&mut self) -> Option<u64> {
        self.names.get(self.random.below(self.names.len())).copied()
    }
}
