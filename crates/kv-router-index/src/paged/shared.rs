//! What all handles of one index share.

use kv_router_types::WorkerRank;
use rustc_hash::FxHashMap;

use super::config::PagedConfig;
use super::id::IdError;
use super::lane::Lane;
use super::pages::Pages;
use super::record::Record;
use super::sizes::{AT_ONCE, SLICE};
use super::slots::Slots;
use super::words::ROOT;
use crate::ApplyError;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, RwLock};

/// The index behind its handles.
pub(super) struct Shared {
    pub(super) config: PagedConfig,
    pub(super) pages: Pages,
    pub(super) slots: Slots,
    pub(super) lanes: RwLock<FxHashMap<WorkerRank, Arc<LaneCell>>>,
    /// What is left of cleared ranks.
    graves: Mutex<Vec<Grave>>,
    /// Records in all graves.
    buried: AtomicUsize,
    pub(super) ranks: AtomicUsize,
    pub(super) names: AtomicUsize,
    pub(super) twins: AtomicUsize,
}

/// One rank's lane and who may write to it.
pub(super) struct LaneCell {
    pub(super) lane: Mutex<Lane>,
    /// Whether a writer of either kind exists.
    pub(super) is_taken: AtomicBool,
}

/// A limit that a store would pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Full {
    Rank { limit: usize },
    Index { limit: usize },
}

impl From<Full> for ApplyError {
    fn from(full: Full) -> Self {
        match full {
            Full::Rank { limit } => Self::RankFull { limit },
            Full::Index { limit } => Self::IndexFull { limit },
        }
    }
}

impl From<Full> for IdError {
    fn from(full: Full) -> Self {
        match full {
            Full::Rank { limit } => Self::RankFull { limit },
            Full::Index { limit } => Self::IndexFull { limit },
        }
    }
}

struct Grave {
    slot: u32,
    records: Vec<Record>,
}

impl Shared {
    pub(super) fn new(config: PagedConfig) -> Self {
        Self {
            pages: Pages::new(config.hash_seed),
            config,
            slots: Slots::new(),
            lanes: RwLock::default(),
            graves: Mutex::default(),
            buried: AtomicUsize::new(0),
            ranks: AtomicUsize::new(0),
            names: AtomicUsize::new(0),
            twins: AtomicUsize::new(0),
        }
    }

    /// The lane of a rank, if it has one.
    pub(super) fn cell(&self, rank: WorkerRank) -> Option<Arc<LaneCell>> {
        self.lanes.read().get(&rank).map(Arc::clone)
    }

    /// The lane of a rank, made if need be.
    pub(super) fn cell_or_new(&self, rank: WorkerRank) -> Arc<LaneCell> {
        if let Some(cell) = self.cell(rank) {
            return cell;
        }
        let mut lanes = self.lanes.write();
        let cell = lanes.entry(rank).or_insert_with(|| {
            Arc::new(LaneCell { lane: Mutex::new(Lane::new(rank)), is_taken: AtomicBool::new(false) })
        });
        Arc::clone(cell)
    }

    /// All lanes, in no order.
    pub(super) fn cells(&self) -> Vec<Arc<LaneCell>> {
        self.lanes.read().values().map(Arc::clone).collect()
    }

    /// Changes a lane and keeps the counts.
    #[inline]
    pub(super) fn change<R>(&self, lane: &mut Lane, change: impl FnOnce(&mut Lane) -> R) -> R {
        if self.buried.load(Ordering::Relaxed) > 0 {
            self.reclaim(SLICE);
        }
        let (names, twins) = (lane.len(), lane.twins.len());
        let result = change(lane);
        let now = lane.len();
        // Wraps around for what became less.
        if now != names {
            self.names.fetch_add(now.wrapping_sub(names), Ordering::Relaxed);
            let ranks = usize::from(now > 0).wrapping_sub(usize::from(names > 0));
            if ranks != 0 {
                self.ranks.fetch_add(ranks, Ordering::Relaxed);
            }
        }
        if lane.twins.len() != twins {
            self.twins.fetch_add(lane.twins.len().wrapping_sub(twins), Ordering::Relaxed);
        }
        result
    }

    /// Drops a lane that holds nothing and that nobody keeps.
    pub(super) fn release_if_empty(&self, cell: &Arc<LaneCell>, lane: &mut Lane) {
        if lane.len() > 0 || lane.is_dead || cell.is_taken.load(Ordering::Acquire) {
            return;
        }
        lane.is_dead = true;
        if let Some(slot) = lane.slot.take() {
            self.slots.recycle(slot);
        }
        self.lanes.write().remove(&lane.rank);
    }

    /// A slot for a rank that begins to hold something.
    pub(super) fn allocate_slot(&self, rank: WorkerRank) -> Result<u32, Full> {
        let limit = self.config.max_ranks;
        loop {
            if let Some(slot) = self.slots.allocate(rank, limit) {
                return Ok(slot);
            }
            // Cleared ranks keep their slots until their pages are reclaimed: by us, or by somebody who is at it.
            if self.take_apart(&mut self.graves.lock(), AT_ONCE) == 0 {
                return match self.slots.allocate(rank, limit) {
                    Some(slot) => Ok(slot),
                    None => Err(Full::Index { limit }),
                };
            }
        }
    }

    /// Retires a slot, and leaves what it holds to [`reclaim`](Self::reclaim).
    pub(super) fn bury(&self, slot: u32, records: Vec<Record>) {
        self.slots.retire(slot);
        let mut graves = self.graves.lock();
        // One for the slot itself, so that a grave without records is seen too.
        self.buried.fetch_add(records.len() + 1, Ordering::Relaxed);
        graves.push(Grave { slot, records });
        drop(graves);
        self.reclaim(AT_ONCE);
    }

    /// Takes apart up to `budget` records of cleared ranks; how many it did.
    pub(super) fn reclaim(&self, budget: usize) -> usize {
        // Somebody else at it is as good.
        self.graves.try_lock().map_or(0, |mut graves| self.take_apart(&mut graves, budget))
    }

    fn take_apart(&self, graves: &mut Vec<Grave>, budget: usize) -> usize {
        let mut done = 0;
        while done < budget
            && let Some(grave) = graves.last_mut()
        {
            done += 1;
            self.buried.fetch_sub(1, Ordering::Relaxed);
            match grave.records.pop() {
                Some(record) if record.page != ROOT => {
                    self.pages.unhold(record.page, grave.slot, record.hint());
                }
                Some(_) => {}
                None => {
                    self.slots.recycle(grave.slot);
                    graves.pop();
                }
            }
        }
        done
    }

    /// Holds of cleared ranks that are still in pages.
    pub(super) fn buried_records(&self) -> usize {
        let graves = self.graves.lock();
        graves.iter().flat_map(|grave| &grave.records).filter(|record| record.page != ROOT).count()
    }

    /// Records of cleared ranks that are still to be taken apart.
    pub(super) fn buried(&self) -> usize {
        self.buried.load(Ordering::Relaxed)
    }
}
