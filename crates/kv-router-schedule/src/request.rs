//! What a request needs and where it may go.

use kv_router_types::{BlockSize, RequestId, WorkerId, WorkerRank};

use crate::Taint;

/// A set of workers, for allow-lists. Sorted once, searched by halving.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerSet(Vec<WorkerId>);

impl WorkerSet {
    /// Whether `worker` is in the set.
    #[inline]
    pub fn contains(&self, worker: WorkerId) -> bool {
        self.0.binary_search(&worker).is_ok()
    }

    /// How many workers are in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no worker is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<WorkerId> for WorkerSet {
    fn from_iter<I: IntoIterator<Item = WorkerId>>(workers: I) -> Self {
        let mut workers: Vec<WorkerId> = workers.into_iter().collect();
        workers.sort_unstable();
        workers.dedup();
        Self(workers)
    }
}

/// The one place where a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// Any rank of a worker.
    Worker(WorkerId),
    /// One rank.
    Rank(WorkerRank),
}

impl Pin {
    /// Whether the pin admits `worker`.
    #[inline]
    pub fn admits(self, worker: WorkerRank) -> bool {
        match self {
            Self::Worker(pinned) => pinned == worker.worker,
            Self::Rank(pinned) => pinned == worker,
        }
    }
}

/// Where a request may go. The default is anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Constraints<'a> {
    /// These workers alone. An empty set admits nobody.
    pub allow: Option<&'a WorkerSet>,
    /// This worker or rank alone.
    pub pin: Option<Pin>,
    /// Workers that carry all of these taints alone.
    pub required_taints: &'a [Taint],
    /// Workers that carry all of these taints, if any of them passes every other filter; anyone otherwise.
    pub preferred_taints: &'a [Taint],
    /// Workers that can serve this LoRA adapter alone. `None` and the empty name mean the base model.
    pub adapter: Option<&'a str>,
}

impl Constraints<'_> {
    /// Whether there is anything to look up about a worker.
    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        self.restrict() || !self.preferred_taints.is_empty()
    }

    /// The same, preferences apart.
    #[inline]
    pub(crate) fn restrict(&self) -> bool {
        self.allow.is_some()
            || self.pin.is_some()
            || !self.required_taints.is_empty()
            || self.adapter.is_some()
    }
}

/// How far a decision without a temperature may stray from the lowest cost.
///
/// A router that is alone sees its own last booking, so the lowest cost is the place to go. Several routers over one
/// fleet see each other's bookings late: all of them find the same idle rank, and herd onto it. The cheaper of two
/// random near equals is nearly as good a place for each of them, and another one for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// The lowest cost wins, and equals are drawn from uniformly. For loads that are current.
    #[default]
    Lowest,
    /// Two different candidates are drawn uniformly among those within a margin of the lowest cost, and the cheaper
    /// wins. For loads that are stale.
    TwoChoices {
        /// The margin, in blocks. About what the other routers place between two of their reports.
        within_blocks: u32,
    },
}

/// A request as a decision sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectRequest<'a> {
    /// What the caller calls it, for custom rules that know more about requests than stands here.
    pub id: Option<RequestId>,
    /// Whole blocks in the prompt.
    pub prompt_blocks: u32,
    /// Tokens per block: turns the prefill load of the candidates into blocks.
    pub block_size: BlockSize,
    /// Where it may go.
    pub constraints: Constraints<'a>,
    /// What to make of near equals. A temperature above 0 spreads already, and this then counts for nothing.
    pub spread: Spread,
}

impl SelectRequest<'_> {
    /// A request that may go anywhere.
    pub fn new(prompt_blocks: u32, block_size: BlockSize) -> Self {
        Self {
            id: None,
            prompt_blocks,
            block_size,
            constraints: Constraints::default(),
            spread: Spread::Lowest,
        }
    }
}
