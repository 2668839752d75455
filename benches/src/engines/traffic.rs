//! The event streams of a fleet whose caches are full, as payloads.
//!
//! Every rank is a small engine: a step computes up to 128 blocks of prompts (2,048 tokens, vLLM's default), each
//! request in generation fills a block every sixteenth step, and what does not fit evicts the requests that ended
//! first, from their last block to their first. One payload a step, evictions before stores, ranks in turn.

use std::collections::VecDeque;

use kv_router_engines::{
    BatchEncoder, EventForm, ExtraKey, Presence, RemoveFields, StoreFields, WireHash, WireTokens,
};
use kv_router_hash::{HashScheme, Prompt};
use kv_router_sim::random::SeededRandom;
use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier};

/// Tokens a block.
pub const BLOCK_TOKENS: usize = 16;
/// Blocks of prompts that a step computes.
const STEP_BLOCKS: usize = 128;
/// Blocks of the prefixes that many requests begin with.
const PREFIX_BLOCKS: [usize; 8] = [16, 24, 32, 48, 64, 96, 128, 192];

/// How engines write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// vLLM 0.22 and 0.23: arrays, with all that stands in them; an event for each eviction.
    VllmArrays,
    /// vLLM from 0.24: maps; an event for each eviction.
    VllmMaps,
    /// SGLang from 0.5.20: maps, signed hashes, evictions of a step in one event.
    SglangMaps,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::VllmArrays, Self::VllmMaps, Self::SglangMaps];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VllmArrays => "vllm-arrays",
            Self::VllmMaps => "vllm-maps",
            Self::SglangMaps => "sglang-maps",
        }
    }

    /// What repeated stores mean.
    pub const fn presence(self) -> Presence {
        match self {
            Self::VllmArrays | Self::VllmMaps => Presence::Copies,
            Self::SglangMaps => Presence::Logical,
        }
    }

    const fn form(self) -> EventForm {
        match self {
            Self::VllmArrays => EventForm::ARRAY_WITH_ADAPTERS,
            Self::VllmMaps | Self::SglangMaps => EventForm::Map,
        }
    }

    fn hash(self, name: u64) -> WireHash<'static> {
        let signed = name.cast_signed();
        match self {
            Self::SglangMaps if signed < 0 => WireHash::Negative(signed),
            _ => WireHash::Unsigned(name),
        }
    }
}

/// How large the fleet is, and how long it is watched.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Ranks.
    pub ranks: u32,
    /// Blocks that a rank holds once it is full.
    pub blocks: usize,
    /// Blocks that the fleet stores once all are full, at the least; it removes as many.
    pub stored: u64,
}

/// One payload.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Whose it is.
    pub rank: u32,
    /// Its number, from 0 for each rank.
    pub sequence: u64,
    /// What stands in it.
    pub payload: Vec<u8>,
}

/// What a fleet published.
#[derive(Clone, Debug)]
pub struct Recording {
    /// How it was written.
    pub dialect: Dialect,
    /// Ranks.
    pub ranks: u32,
    /// Until every cache was full.
    pub filling: Vec<Frame>,
    /// From then on.
    pub steady: Vec<Frame>,
    /// Blocks stored and removed while filling.
    pub filled: u64,
    /// Blocks stored and removed from then on.
    pub blocks: u64,
    /// Events of the steady part.
    pub events: u64,
    /// All that happened, as an index would have to be told: made from what the engines did, not from payloads.
    pub history: Vec<(u32, KvEvent)>,
    /// Prompts to ask an index for, some of them held.
    pub prompts: Vec<Vec<u32>>,
}

impl Recording {
    /// Lets a fleet run.
    pub fn of(fleet: Fleet, dialect: Dialect, scheme: HashScheme) -> Self {
        let mut engines: Vec<_> =
            (0..fleet.ranks).map(|rank| Engine::new(rank, fleet.blocks, dialect)).collect();
        let (mut filling, mut steady, mut history) = (Vec::new(), Vec::new(), Vec::new());
        let mut filled = None;
        loop {
            let tally = engines.iter().fold(Tally::default(), |sum, engine| sum.plus(engine.tally));
            let is_full = engines.iter().all(|engine| engine.tally.removed > 0);
            let at_full = if is_full { *filled.get_or_insert(tally) } else { tally };
            let turned = tally.minus(at_full);
            if is_full && turned.stored >= fleet.stored {
                let prompts = engines.iter().flat_map(|engine| engine.asked.iter().cloned()).collect();
                return Self {
                    dialect,
                    ranks: fleet.ranks,
                    filling,
                    steady,
                    filled: at_full.stored + at_full.removed,
                    blocks: turned.stored + turned.removed,
                    events: turned.events,
                    history,
                    prompts,
                };
            }
            let frames = engines.iter_mut().map(|engine| engine.step(scheme, &mut history));
            if is_full { steady.extend(frames) } else { filling.extend(frames) }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    stored: u64,
    removed: u64,
    events: u64,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            stored: self.stored + other.stored,
            removed: self.removed + other.removed,
            events: self.events + other.events,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            stored: self.stored - other.stored,
            removed: self.removed - other.removed,
            events: self.events - other.events,
        }
    }
}

/// A request that a rank works on, or worked on.
#[derive(Debug)]
struct Request {
    /// The last block of the shared prefix.
    parent: Option<u64>,
    /// Blocks of its own.
    names: Vec<u64>,
    /// Blocks that it will have.
    prompt: usize,
    total: usize,
    tokens: SeededRandom,
    /// In which of sixteen steps it fills a block.
    phase: usize,
}

#[derive(Debug)]
struct Engine {
    rank: u32,
    dialect: Dialect,
    room: usize,
    random: SeededRandom,
    encoder: BatchEncoder,
    /// The last name of each prefix that is cached; prefixes stay.
    prefixes: [Option<u64>; PREFIX_BLOCKS.len()],
    waiting: Option<Request>,
    running: Vec<Request>,
    ended: VecDeque<Request>,
    held: usize,
    steps: usize,
    tally: Tally,
    asked: VecDeque<Vec<u32>>,
}

/// Prompts a rank that are asked for in the end.
const ASKED: usize = 24;

impl Engine {
    fn new(rank: u32, room: usize, dialect: Dialect) -> Self {
        Self {
            rank,
            dialect,
            room,
            random: SeededRandom::new(u64::from(rank)),
            encoder: BatchEncoder::new(dialect.form()),
            prefixes: [None; PREFIX_BLOCKS.len()],
            waiting: None,
            running: Vec::new(),
            ended: VecDeque::new(),
            held: 0,
            steps: 0,
            tally: Tally::default(),
            asked: VecDeque::new(),
        }
    }

    /// One step's payload.
    fn step(&mut self, scheme: HashScheme, history: &mut Vec<(u32, KvEvent)>) -> Frame {
        let mut stores: Vec<Store> = Vec::new();
        let mut budget = STEP_BLOCKS;
        while budget > 0 {
            let mut request = match self.waiting.take() {
                Some(request) => request,
                None => self.arrive(&mut stores),
            };
            let count = budget.min(request.prompt - request.names.len());
            stores.push(request.grow(count, &mut self.random));
            budget -= count;
            if request.names.len() < request.prompt {
                self.waiting = Some(request);
            } else {
                self.running.push(request);
            }
        }
        for request in &mut self.running {
            if self.steps % BLOCK_TOKENS == request.phase {
                stores.push(request.grow(1, &mut self.random));
            }
        }
        let ended = self.running.extract_if(.., |request| request.names.len() >= request.total);
        self.ended.extend(ended);
        history.extend(self.evict(stores.iter().map(|store| store.names.len()).sum()));
        for store in &stores {
            self.store(store);
            history.push((self.rank, store.event(scheme)));
        }
        let mut payload = Vec::new();
        self.encoder.finish(1.7e9 + self.steps as f64 * 0.025, None, &mut payload);
        self.steps += 1;
        Frame { rank: self.rank, sequence: self.steps as u64 - 1, payload }
    }

    /// A new request. The prefix is stored with the first that has it.
    fn arrive(&mut self, stores: &mut Vec<Store>) -> Request {
        let family = self.random.below(10);
        let mut asked = Vec::new();
        let parent = PREFIX_BLOCKS.get(family).map(|&blocks| {
            // Every rank has the same prefixes, under names of its own.
            let mut content = SeededRandom::new(1 << 40 | family as u64);
            asked = tokens(&mut content, blocks * BLOCK_TOKENS);
            *self.prefixes[family].get_or_insert_with(|| {
                let names: Vec<u64> = (0..blocks).map(|_| self.random.next_word()).collect();
                let last = names[blocks - 1];
                stores.push(Store { parent: None, names, tokens: asked.clone() });
                last
            })
        });
        // 8 to 515 blocks, 102 on average: three in four are short.
        let prompt = match self.random.below(4) {
            0 => 128 + self.random.below(388),
            _ => 8 + self.random.below(32),
        };
        let own = SeededRandom::new(self.random.next_word());
        asked.extend(tokens(&mut own.clone(), prompt * BLOCK_TOKENS));
        self.asked.push_back(asked);
        if self.asked.len() > ASKED {
            self.asked.pop_front();
        }
        Request {
            parent,
            names: Vec::new(),
            prompt,
            total: prompt + 1 + self.random.below(7),
            tokens: own,
            phase: self.random.below(BLOCK_TOKENS),
        }
    }

    fn store(&mut self, store: &Store) {
        let hashes: Vec<_> = store.names.iter().map(|&name| self.dialect.hash(name)).collect();
        let nothing: Vec<Option<&[ExtraKey<'_>]>> = vec![None; hashes.len()];
        let is_vllm = self.dialect != Dialect::SglangMaps;
        self.encoder.stored(&StoreFields {
            hashes: &hashes,
            parent: store.parent.map(|parent| self.dialect.hash(parent)),
            tokens: WireTokens::Flat(&store.tokens),
            block_size: Some(BLOCK_TOKENS as u64),
            medium: Some("GPU"),
            extra_keys: is_vllm.then_some(&nothing),
            group: is_vllm.then_some(0),
            spec_kind: is_vllm.then_some("full_attention"),
            ..StoreFields::default()
        });
        self.held += store.names.len();
        self.tally.stored += store.names.len() as u64;
        self.tally.events += 1;
    }

    /// Makes room for so many blocks.
    fn evict(&mut self, needed: usize) -> Option<(u32, KvEvent)> {
        let mut gone = Vec::new();
        while self.held + needed > self.room + gone.len() {
            let Some(oldest) = self.ended.front_mut() else { break };
            match oldest.names.pop() {
                Some(name) => gone.push(name),
                None => drop(self.ended.pop_front()),
            }
        }
        self.held -= gone.len();
        self.tally.removed += gone.len() as u64;
        let is_vllm = self.dialect != Dialect::SglangMaps;
        let hashes: Vec<_> = gone.iter().map(|&name| self.dialect.hash(name)).collect();
        for hashes in hashes.chunks(if is_vllm { 1 } else { hashes.len().max(1) }) {
            let group = is_vllm.then_some(0);
            self.encoder.removed(&RemoveFields { hashes, medium: Some("GPU"), group });
            self.tally.events += 1;
        }
        let blocks: Vec<_> = gone.into_iter().map(ExternalSequenceHash::new).collect();
        (!blocks.is_empty()).then_some((self.rank, KvEvent::Removed { tier: Tier::Device, blocks }))
    }
}

#[derive(Debug)]
struct Store {
    parent: Option<u64>,
    names: Vec<u64>,
    tokens: Vec<u32>,
}

impl Store {
    fn event(&self, scheme: HashScheme) -> KvEvent {
        let locals = scheme.hash(&Prompt::new(&self.tokens));
        let names = self.names.iter().map(|&name| ExternalSequenceHash::new(name));
        KvEvent::Stored {
            tier: Tier::Device,
            parent: self.parent.map(ExternalSequenceHash::new),
            blocks: names.zip(locals).map(|(name, local)| StoredBlock::new(name, local)).collect(),
        }
    }
}

impl Request {
    fn grow(&mut self, blocks: usize, random: &mut SeededRandom) -> Store {
        let parent = self.names.last().copied().or(self.parent);
        let names: Vec<u64> = (0..blocks).map(|_| random.next_word()).collect();
        self.names.extend(&names);
        Store { parent, names, tokens: tokens(&mut self.tokens, blocks * BLOCK_TOKENS) }
    }
}

/// Text, as far as the length of its numbers goes: punctuation and single letters are numbers below 128, frequent words
/// come next, and one in ten is beyond 65,535.
fn tokens(random: &mut SeededRandom, count: usize) -> Vec<u32> {
    let token = |word: u64| match word % 10 {
        0 => (word >> 32) % 128,
        1 => 65_536 + (word >> 32) % 62_720,
        _ => 128 + (word >> 32) % 65_408,
    };
    (0..count).map(|_| token(random.next_word()) as u32).collect()
}
