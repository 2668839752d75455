//! The buffers of one decision, and what can be kept from one to the next.

use std::sync::Arc;

use kv_router_hash::{BlockHasher, HashScheme, KeyedHashes, PrefixKeyer, sequence_hashes_into};
use kv_router_index::{Certainty, Overlap, Overlaps};
use kv_router_load::{LoadSnapshot, Membership, RankLoad};
use kv_router_schedule::{
    Candidate, Capacity, Entropy, Explanation, Holding, Scratch, SelectError, SelectRequest, Selection,
    Selector, Slate, StreamFreshness,
};
use kv_router_types::{LocalBlockHash, SequenceHash, Tier, WorkerRank};
use rustc_hash::FxHashMap;

use crate::fleet::{Fleet, Rank};
use crate::request::Content;

/// Everything that a decision writes to.
pub(crate) struct Room {
    hasher: BlockHasher,
    pub(crate) prompt: KeyedHashes,
    pub(crate) sequence: Vec<SequenceHash>,
    /// What events say.
    pub(crate) overlaps: Overlaps,
    /// What is guessed. Filled and looked at only where somebody is guessed.
    pub(crate) guesses: Overlaps,
    pub(crate) loads: LoadSnapshot,
    pub(crate) scratch: Scratch,
    columns: Columns,
    slate: Slate,
}

impl Room {
    pub(crate) fn new(scheme: HashScheme, selector: Selector, keyer: Option<PrefixKeyer>) -> Self {
        Self {
            hasher: BlockHasher::new(scheme),
            prompt: KeyedHashes::new(keyer),
            sequence: Vec::new(),
            overlaps: Overlaps::new(),
            guesses: Overlaps::new(),
            loads: LoadSnapshot::new(),
            scratch: Scratch::new(),
            columns: Columns::default(),
            slate: Slate::new(selector, scheme.block_size()),
        }
    }

    /// The local hashes of the prompt.
    pub(crate) fn locals(&self) -> &[LocalBlockHash] {
        self.prompt.locals()
    }

    /// Fills `prompt` and `sequence`.
    pub(crate) fn hash(&mut self, content: &Content<'_>) {
        match content {
            Content::Prompt(prompt) => self.hasher.hash_keyed_into(prompt, &mut self.prompt),
            Content::Hashed { locals, .. } => self.prompt.set_locals(locals),
        }
        sequence_hashes_into(self.prompt.locals(), &mut self.sequence);
    }

    /// Joins `overlaps` and `loads` to candidates. Both must have been filled, and `loads` after `fleet` was read.
    pub(crate) fn line_up(&mut self, fleet: &Arc<Fleet>) {
        self.columns.judge(fleet, &self.loads, &mut self.slate);
        self.columns.clear_overlaps();
        self.columns.place(&self.overlaps, Certainty::Exact);
    }

    /// Whether any rank is guessed in this decision: then `guesses` has to be filled, and
    /// [placed](Self::place_guesses).
    pub(crate) fn is_guessing(&self) -> bool {
        self.columns.is_guessing
    }

    pub(crate) fn place_guesses(&mut self) {
        self.columns.place(&self.guesses, Certainty::Guess);
    }

    /// What one rank has of the prompt, and how that is known: by events or by a guess, never by both.
    pub(crate) fn overlap(&self, worker: WorkerRank) -> (Option<Overlap>, Certainty) {
        let position = self.columns.position.get(&worker).copied();
        match position.is_some_and(|position| self.columns.is_predicted(position as usize)) {
            true => (self.guesses.get(worker), Certainty::Guess),
            false => (self.overlaps.get(worker), Certainty::Exact),
        }
    }

    /// The rank that was looked at.
    pub(crate) fn rank(&self, worker: WorkerRank) -> Option<&Arc<Rank>> {
        self.columns.fleet.get(worker)
    }

    /// Chooses. `blocks` is what the prompt takes on a rank that shares none of it.
    pub(crate) fn select(
        &mut self,
        request: &SelectRequest<'_>,
        blocks: u32,
        entropy: &mut impl Entropy,
    ) -> Result<Selection, SelectError> {
        let Self { columns, slate, loads, scratch, .. } = self;
        let holding = |position: usize| {
            let shared = loads.shared_blocks().get(position).copied().unwrap_or(0);
            let overlap = columns.overlap[position];
            Holding { position, overlap, incoming_blocks: blocks.saturating_sub(shared) }
        };
        let holders = columns.touched.iter().map(|&position| position as usize);
        let sharers = loads.sharers().filter(|&position| columns.overlap[position] == [0; Tier::COUNT]);
        let special = holders.chain(sharers).map(holding);
        let candidate = |position| columns.candidate(position, loads, blocks);
        slate.select(request, blocks, special, candidate, entropy, scratch)
    }

    /// Judges one rank alone.
    pub(crate) fn select_only(
        &mut self,
        request: &SelectRequest<'_>,
        blocks: u32,
        only: WorkerRank,
        entropy: &mut impl Entropy,
    ) -> Result<Selection, SelectError> {
        let Self { columns, slate, loads, scratch, .. } = self;
        let position = columns.position.get(&only).map(|&position| position as usize);
        let candidate = position.and_then(|position| columns.candidate(position, loads, blocks));
        slate.selector().select(request, candidate, entropy, scratch)
    }

    /// Chooses the same, and says why.
    pub(crate) fn explain(
        &mut self,
        request: &SelectRequest<'_>,
        blocks: u32,
        only: Option<WorkerRank>,
        entropy: &mut impl Entropy,
    ) -> Explanation {
        let Self { columns, slate, loads, scratch, .. } = self;
        let all = (0..loads.len()).filter_map(|position| columns.candidate(position, loads, blocks));
        let candidates = all.filter(|candidate| only.is_none_or(|only| candidate.worker == only));
        slate.selector().explain(request, candidates, entropy, scratch)
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
        self.columns.candidate(position, &self.loads, blocks)
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
    /// Copied while `judged` says so, so that all of a decision judges a rank alike.
    freshness: Vec<StreamFreshness>,
    /// Whether any of them says that its rank is guessed.
    is_guessing: bool,
    /// What [`Fleet::judgements`] was when `freshness` was copied.
    judged: u64,
    /// Positions where `overlap` is not zero, to be cleared by the next decision.
    touched: Vec<u32>,
}

impl Columns {
    /// Rebuilds the columns when ranks came or went, which is rare. Tells whether it did.
    fn refresh(&mut self, fleet: &Arc<Fleet>, loads: &LoadSnapshot) -> bool {
        if Arc::ptr_eq(&self.fleet, fleet) && self.membership == Some(loads.membership()) {
            return false;
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
        true
    }

    /// Brings the slate up to date. Costs a step for each rank whose load changed; for every rank when ranks came, or
    /// went, or are trusted more or less than before.
    fn judge(&mut self, fleet: &Arc<Fleet>, loads: &LoadSnapshot, slate: &mut Slate) {
        let judgements = fleet.judgements();
        let rebuilt = self.refresh(fleet, loads);
        if !rebuilt && judgements == self.judged {
            for position in loads.changed() {
                let rank = self.candidate(position, loads, 0);
                slate.set(position, rank.as_ref());
            }
            return;
        }
        self.judged = judgements;
        let freshness =
            |rank: &Option<Arc<Rank>>| rank.as_deref().map_or(StreamFreshness::Cold, Rank::freshness);
        self.freshness.clear();
        self.freshness.extend(self.ranks.iter().map(freshness));
        self.is_guessing = self.freshness.contains(&StreamFreshness::Predicted);
        slate.clear();
        for position in 0..loads.len() {
            let rank = self.candidate(position, loads, 0);
            slate.set(position, rank.as_ref());
        }
    }

    fn is_predicted(&self, position: usize) -> bool {
        self.freshness.get(position) == Some(&StreamFreshness::Predicted)
    }

    fn clear_overlaps(&mut self) {
        for position in self.touched.drain(..) {
            self.overlap[position as usize] = [0; Tier::COUNT];
        }
    }

    /// Takes from an index the answers for those ranks that are its business: the guessed ones, or all others. Costs as
    /// many steps as ranks hold something, not as there are ranks.
    fn place(&mut self, overlaps: &Overlaps, certainty: Certainty) {
        for overlap in overlaps.iter() {
            if let Some(&position) = self.position.get(&overlap.worker())
                && self.is_predicted(position as usize) == (certainty == Certainty::Guess)
            {
                self.overlap[position as usize] = overlap.by_tier();
                self.touched.push(position);
            }
        }
    }

    fn candidate(&self, position: usize, loads: &LoadSnapshot, blocks: u32) -> Option<Candidate<'_>> {
        let rank = self.ranks.get(position)?.as_deref()?;
        let RankLoad { load, shared_blocks, capacity, .. } = loads.get(position)?;
        Some(Candidate {
            worker: rank.id,
            overlap: *self.overlap.get(position)?,
            prefill_tokens: load.prefill_tokens,
            active_blocks: load.blocks,
            active_requests: load.requests,
            incoming_blocks: blocks.saturating_sub(shared_blocks),
            capacity: Capacity {
                batched_tokens: capacity.batched_tokens,
                total_blocks: capacity.total_blocks,
            },
            stream: *self.freshness.get(position)?,
            traits: &rank.traits,
        })
    }
}
