//! No stability promise: damaged payloads against every decoder, for tests and for `cargo xtask soak`.
//!
//! What must hold: no panic, no table beyond its limits, and every byte accounted for: a payload is refused, or its
//! events are read or counted.

use kv_router_hash::{HashScheme, Window};
use kv_router_types::{BlockSize, KvEvent};

use crate::{DecodeLimits, Ingest, IngestConfig, LoadStat, TrtllmDecoder, WireBatch};

/// What a run has seen. A run in which nothing was accepted, or nothing refused, has tested little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoakReport {
    /// Payloads that were tried.
    pub payloads: u64,
    /// Batches that could be used.
    pub accepted: u64,
    /// Events that were lost from such batches.
    pub lost_events: u64,
    /// Events that came out for an index.
    pub events: u64,
}

/// Damages payloads of a corpus, and makes some from nothing.
#[derive(Clone, Debug)]
pub struct Mutator<'c> {
    corpus: &'c [Vec<u8>],
    state: u64,
    payload: Vec<u8>,
}

/// Starts of values that declare much: arrays, maps, strings, bytes and extensions of up to 4 GiB.
const BOMBS: &[&[u8]] = &[
    &[0xdd, 0xff, 0xff, 0xff, 0xff],
    &[0xdd, 0x05, 0xf5, 0xe1, 0x00],
    &[0xdc, 0xff, 0xff],
    &[0xdf, 0x7f, 0xff, 0xff, 0xff],
    &[0xde, 0xff, 0xff],
    &[0xdb, 0xff, 0xff, 0xff, 0xff],
    &[0xc6, 0x05, 0xf5, 0xe1, 0x00],
    &[0xc9, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
    &[0xc0],
    &[0xc1],
    &[0x90],
    &[0x80],
];

impl<'c> Mutator<'c> {
    /// Decided by the corpus and the seed.
    pub fn new(corpus: &'c [Vec<u8>], seed: u64) -> Self {
        Self { corpus, state: seed ^ 0x9e37_79b9_7f4a_7c15, payload: Vec::new() }
    }

    /// The next payload.
    pub fn damaged(&mut self) -> &[u8] {
        self.payload.clear();
        let pick = self.below(self.corpus.len());
        self.payload.extend_from_slice(self.corpus.get(pick).map_or(&[], Vec::as_slice));
        for _ in 0..1 + self.below(4) {
            self.damage();
        }
        &self.payload
    }

    fn damage(&mut self) {
        let length = self.payload.len();
        let at = self.below(length);
        match self.below(9) {
            0 if length > 0 => self.payload[at] ^= 1 << self.below(8),
            1 if length > 0 => self.payload[at] = self.random() as u8,
            2 => self.payload.truncate(at),
            3 => {
                let end = (at + self.below(64)).min(length);
                self.payload.drain(at..end);
            }
            4 => {
                let end = (at + self.below(64)).min(length);
                let copy = self.payload[at..end].to_vec();
                let to = self.below(length);
                self.payload.splice(to..to, copy);
            }
            5 => {
                let other = self.below(self.corpus.len());
                let other = self.corpus.get(other).map_or(&[][..], Vec::as_slice);
                let from = other.len().min(at);
                let tail = other[from..].iter().take(4_096).copied().collect::<Vec<_>>();
                self.payload.truncate(at);
                self.payload.extend(tail);
            }
            6 => {
                let bomb = BOMBS[self.below(BOMBS.len())];
                let end = (at + bomb.len() * self.below(2)).min(length);
                self.payload.splice(at..end, bomb.iter().copied());
            }
            7 => {
                let (opener, depth) = ([0x91, 0x81, 0x92, b'['][self.below(4)], self.below(2_000));
                self.payload.splice(at..at, std::iter::repeat_n(opener, depth));
            }
            _ => {
                let noise: Vec<u8> = (0..self.below(32)).map(|_| self.random() as u8).collect();
                self.payload.splice(at..at, noise);
            }
        }
    }

    /// A number below `limit`, or 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.random() % limit.max(1) as u64) as usize
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = self.state;
        let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

/// Feeds `payloads` damaged payloads to every decoder, and what they accept to ranks that live as long as the run.
///
/// # Panics
///
/// When a decoder does, or when a table is larger than it may be. That is what it is for.
pub fn run(corpus: &[Vec<u8>], payloads: u64, seed: u64) -> SoakReport {
    const MAX_NAMES: usize = 4_096;
    let mut mutator = Mutator::new(corpus, seed);
    let mut report = SoakReport::default();
    let limits = DecodeLimits { hashes: 1 << 16, ..DecodeLimits::default() };
    let (mut batch, mut trtllm) = (WireBatch::new(), TrtllmDecoder::new());
    let mut ranks: Vec<Ingest> =
        [(16, Window::Plain), (4, Window::Plain), (1, Window::Plain), (4, Window::Eagle)]
            .into_iter()
            .filter_map(|(size, window)| Some(HashScheme::new(BlockSize::new(size).ok()?, window)))
            .map(|scheme| Ingest::new(IngestConfig { max_names: MAX_NAMES, ..IngestConfig::new(scheme) }))
            .collect();
    let mut events = Vec::new();
    for _ in 0..payloads {
        let payload = mutator.damaged();
        report.payloads += 1;
        let _ = LoadStat::decode(payload);
        let json = payload.first().is_some_and(|first| matches!(first, b'[' | b'{'));
        let result = match json {
            true => trtllm.decode(payload, &limits, &mut batch),
            false => batch.decode(payload, &limits),
        };
        if result.is_err() {
            assert_eq!(batch.events().len(), 0, "a refused batch says nothing");
            continue;
        }
        report.accepted += 1;
        report.lost_events += batch.faults().total();
        assert!(batch.events().len() as u64 + batch.faults().total() <= 2 * payload.len() as u64 + 1);
        for rank in &mut ranks {
            events.clear();
            rank.apply(&batch, &mut events);
            report.events += events.len() as u64;
            assert!(rank.name_count() <= MAX_NAMES && rank.salt_count() <= rank.name_count());
            assert!(events.iter().all(|event| *event == KvEvent::Cleared || event.block_count() > 0));
        }
    }
    report
}
