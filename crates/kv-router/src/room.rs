//! The buffers of one decision, and what can be kept from one to the next.

use std::sync::Arc;

use kv_router_hash::{BlockHasher, HashScheme, sequence_hashes_into};
use kv_router_index::Overlaps;
use kv_router_load::{LoadSnapshot, Membership, RankLoad};
use kv_router_schedule::{Candidate, Scratch, StreamFreshness};
use kv_router_types::{LocalBlockHash, SequenceHash, Tier, WorkerRank};
use rustc_hash::FxHashMap;

use crate::fleet::{Fleet, Rank};
use crate::request::Content;

/// Everything that a decision writes to.
pub(crate) struct Room {
    hasher: BlockHasher,
    pub(crate) locals: Vec<LocalBlockHash>,
    pub(crate) sequence: Vec<SequenceHash>,
    pub(crate) overlaps: Overlaps,
    pub(crate) loads: LoadSnapshot,
    pub(crate) scratch: Scratch,
    columns: Columns,
}

impl Room {
    pub(crate) fn new(scheme: HashScheme) -> Self {
        Self {
            hasher: BlockHasher::new(scheme),
            locals: Vec::new(),
            sequence: Vec::new(),
            overlaps: Overlaps::new(),
            loads: LoadSnapshot::new(),
            scratch: Scratch::new(),
            columns: Columns::default(),
        }
    }

    /// Fills `locals` and `sequence`.
    pub(crate) fn hash(&mut self, content: &Content<'_>) {
        match content {
            Content::Prompt(prompt) => self.hasher.hash_into(prompt, &mut self.locals),
            Content::Hashed { locals, .. } => {
                self.locals.clear();
                self.locals.extend_from_slice(locals);
            }
        }
        sequence_hashes_into(&self.locals, &mut self.sequence);
    }

    /// Joins `overlaps` and `loads` to candidates. Both must have been filled, and `loads` after `fleet` was read.
    pub(crate) fn line_up(&mut self, fleet: &Arc<Fleet>) {
        self.columns.refresh(fleet, &self.loads);
        self.columns.place(&self.overlaps);
        self.columns.judge();
    }

    /// The candidates, in the order of `loads`. `blocks` is what the prompt takes on a rank that shares none of it.
    pub(crate) fn candidates(&self, blocks: u32) -> impl Iterator<Item = Candidate<'_>> {
        let known = self.loads.iter().zip(&self.columns.ranks);
        let seen = self.columns.overlap.iter().zip(&self.columns.freshness);
        known.zip(seen).filter_map(move |((load, rank), (overlap, freshness))| {
            rank.as_deref().map(|rank| candidate(rank, &load, *overlap, *freshness, blocks))
        })
    }

    /// Whether the rank that was looked at is the one that `fleet` has now, not another life of it.
    pub(crate) fn is_current(&self, worker: WorkerRank, fleet: &Fleet) -> bool {
        match (self.columns.fleet.get(worker), fleet.get(worker)) {
            (Some(seen), Some(now)) => Arc::ptr_eq(seen, now),
            _ => false,
        }
    }

    /// The candidate of one rank.
    pub(crate) fn candidate(&self, worker: WorkerRank, blocks: u32) -> Option<Candidate<'_>> {
        let position = *self.columns.position.get(&worker)? as usize;
        let rank = self.columns.ranks[position].as_deref()?;
        let (overlap, freshness) = (self.columns.overlap[position], self.columns.freshness[position]);
        Some(candidate(rank, &self.loads.get(position)?, overlap, freshness, blocks))
    }
}

fn candidate<'r>(
    rank: &'r Rank,
    load: &RankLoad,
    overlap: [u32; Tier::COUNT],
    stream: StreamFreshness,
    blocks: u32,
) -> Candidate<'r> {
    Candidate {
        worker: rank.id,
        overlap,
        prefill_tokens: load.load.prefill_tokens,
        active_blocks: load.load.blocks,
        active_requests: load.load.requests,
        incoming_blocks: blocks.saturating_sub(load.shared_blocks),
        capacity: rank.capacity,
        stream,
        traits: &rank.traits,
    }
}

/// What is known of the ranks besides their load, one entry for each position of the load snapshot.
#[derive(Default)]
struct Columns {
    membership: Option<Membership>,
    fleet: Arc<Fleet>,
    /// `None` for a rank that left between the two reads: it is no candidate.
    ranks: Vec<Option<Arc<Rank>>>,
    position: FxHashMap<WorkerRank, u32>,
    overlap: Vec<[u32; Tier::COUNT]>,
    /// Read once a decision, so that all of it judges a rank alike.
    freshness: Vec<StreamFreshness>,
    /// Positions where `overlap` is not zero, to be cleared by the next decision.
    touched: Vec<u32>,
}

impl Columns {
    /// Rebuilds the columns when ranks came or went, which is rare.
    fn refresh(&mut self, fleet: &Arc<Fleet>, loads: &LoadSnapshot) {
        if Arc::ptr_eq(&self.fleet, fleet) && self.membership == Some(loads.membership()) {
            return;
        }
        self.fleet = Arc::clone(fleet);
        self.membership = Some(loads.membership());
        self.ranks.clear();
        self.ranks.extend(loads.workers().iter().map(|&worker| fleet.get(worker).cloned()));
        self.position.clear();
        self.position.extend(loads.workers().iter().copied().zip(0..));
        self.overlap.clear();
        self.overlap.resize(loads.len(), [0; Tier::COUNT]);
        self.touched.clear();
    }

    fn judge(&mut self) {
        let freshness =
            |rank: &Option<Arc<Rank>>| rank.as_deref().map_or(StreamFreshness::Cold, Rank::freshness);
        self.freshness.clear();
        self.freshness.extend(self.ranks.iter().map(freshness));
    }

    /// Costs as many steps as ranks hold something, not as there are ranks.
    fn place(&mut self, overlaps: &Overlaps) {
        for position in self.touched.drain(..) {
            self.overlap[position as usize] = [0; Tier::COUNT];
        }
        for overlap in overlaps.iter() {
            if let Some(&position) = self.position.get(&overlap.worker()) {
                self.overlap[position as usize] = overlap.by_tier();
                self.touched.push(position);
            }
        }
    }
}
