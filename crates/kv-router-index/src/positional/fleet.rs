//! The ranks that hold something, each under a dense number: its slot.

use std::array;
use std::collections::BTreeSet;

use kv_router_types::{WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use super::cell::Cell;
use crate::sync::{Arc, RwLock};

/// Cells that are allocated together.
const SEGMENT: usize = 64;

type Segment = [Cell; SEGMENT];

/// The cells of a fleet as it was at some moment.
///
/// Cells stay where they are, so an old table and a new one share them; a rank that came later may have no
/// cell here.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells(Vec<Arc<Segment>>);

impl Cells {
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&Cell> {
        Some(&self.0.get(slot as usize / SEGMENT)?[slot as usize % SEGMENT])
    }

    fn segment(&self, slot: u32) -> Option<&Arc<Segment>> {
        self.0.get(slot as usize / SEGMENT)
    }
}

/// Where a rank was found: its slot and its cell.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) slot: u32,
    segment: Arc<Segment>,
}

impl Seat {
    pub(super) fn cell(&self) -> &Cell {
        &self.segment[self.slot as usize % SEGMENT]
    }
}

/// Who sits where. The lock is held for a probe or a change of the table, and no other is taken meanwhile.
#[derive(Debug)]
pub(super) struct Fleet {
    registry: RwLock<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    slots: FxHashMap<WorkerRank, u32>,
    /// The lowest is used again first, so that sets of slots stay dense.
    free: BTreeSet<u32>,
    /// Slots in use or free.
    known: u32,
    cells: Arc<Cells>,
}

impl Registry {
    fn seat(&self, id: WorkerRank) -> Option<Seat> {
        let slot = *self.slots.get(&id)?;
        Some(Seat { slot, segment: Arc::clone(self.cells.segment(slot)?) })
    }

    fn add(&mut self, id: WorkerRank) {
        let slot = self.free.pop_first().unwrap_or_else(|| {
            // Each slot in use is a table of names: memory ends long before `u32` does.
            self.known += 1;
            self.known - 1
        });
        if self.cells.segment(slot).is_none() {
            let mut more = Cells::clone(&self.cells);
            more.0.push(Arc::new(array::from_fn(|_| Cell::new())));
            self.cells = Arc::new(more);
        }
        self.slots.insert(id, slot);
    }
}

impl Fleet {
    pub(super) fn new() -> Self {
        Self { registry: RwLock::new(Registry::default()) }
    }

    /// All cells that there are now.
    pub(super) fn cells(&self) -> Arc<Cells> {
        Arc::clone(&self.registry.read().cells)
    }

    pub(super) fn len(&self) -> usize {
        self.registry.read().slots.len()
    }

    pub(super) fn seat(&self, id: WorkerRank) -> Option<Seat> {
        self.registry.read().seat(id)
    }

    /// The rank's seat, new if need be. A new one has an empty cell, which the rank must occupy.
    pub(super) fn seat_or_add(&self, id: WorkerRank) -> Seat {
        loop {
            if let Some(seat) = self.seat(id) {
                return seat;
            }
            let mut registry = self.registry.write();
            if !registry.slots.contains_key(&id) {
                registry.add(id);
            }
        }
    }

    /// Whether the rank sits there still.
    pub(super) fn sits(&self, id: WorkerRank, seat: &Seat) -> bool {
        self.seat(id).is_some_and(|now| now.slot == seat.slot && Arc::ptr_eq(&now.segment, &seat.segment))
    }

    /// Gives up the seat of a rank whose cell is vacant. The memory goes back with the last rank.
    pub(super) fn leave(&self, id: WorkerRank) {
        let mut registry = self.registry.write();
        if let Some(slot) = registry.slots.remove(&id) {
            registry.free.insert(slot);
        }
        if registry.slots.is_empty() {
            *registry = Registry::default();
        }
    }

    pub(super) fn of_worker(&self, worker: WorkerId) -> Vec<WorkerRank> {
        self.registry.read().slots.keys().copied().filter(|id| id.worker == worker).collect()
    }

    /// Every rank, in order.
    pub(super) fn ranks(&self) -> Vec<WorkerRank> {
        let mut ranks: Vec<_> = self.registry.read().slots.keys().copied().collect();
        ranks.sort_unstable();
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(worker: u64) -> WorkerRank {
        WorkerId::new(worker).into()
    }

    #[test]
    fn slots_are_dense_and_used_again_from_the_lowest() {
        let fleet = Fleet::new();
        let slots: Vec<_> = (0..200).map(|worker| fleet.seat_or_add(rank(worker)).slot).collect();
        assert_eq!(slots, Vec::from_iter(0..200));
        assert_eq!(fleet.seat_or_add(rank(7)).slot, 7);
        fleet.leave(rank(150));
        fleet.leave(rank(3));
        assert_eq!([1000, 1001, 1002].map(|worker| fleet.seat_or_add(rank(worker)).slot), [3, 150, 200]);
        assert_eq!(fleet.len(), 201);
    }

    #[test]
    fn an_empty_fleet_has_no_memory_and_old_seats_are_told_apart() {
        let fleet = Fleet::new();
        let old = fleet.seat_or_add(rank(1));
        let cells = fleet.cells();
        assert!(fleet.sits(rank(1), &old) && !fleet.sits(rank(2), &old));
        fleet.leave(rank(1));
        assert!(fleet.cells().get(0).is_none() && cells.get(0).is_some());
        let new = fleet.seat_or_add(rank(1));
        assert!(new.slot == old.slot && !fleet.sits(rank(1), &old) && fleet.sits(rank(1), &new));
    }

    #[test]
    fn a_worker_has_all_its_ranks() {
        use kv_router_types::DpRank;
        let fleet = Fleet::new();
        let ids = [(1, 0), (2, 0), (1, 5)]
            .map(|(worker, n)| WorkerRank::new(WorkerId::new(worker), DpRank::new(n)));
        ids.iter().for_each(|&id| drop(fleet.seat_or_add(id)));
        let mut of_one = fleet.of_worker(WorkerId::new(1));
        of_one.sort();
        assert_eq!(of_one, [ids[0], ids[2]]);
        assert_eq!(fleet.ranks(), [ids[0], ids[2], ids[1]]);
    }
}
