//! The workers that a plain policy chooses from, and which of them are up.

use kv_router_types::WorkerRank;
use rustc_hash::FxHashMap;

/// A fixed fleet whose members come and go.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    workers: Vec<WorkerRank>,
    is_up: Vec<bool>,
    position: FxHashMap<WorkerRank, usize>,
}

impl Roster {
    /// All of them up.
    pub(super) fn new(workers: &[WorkerRank]) -> Self {
        Self {
            workers: workers.to_vec(),
            is_up: vec![true; workers.len()],
            position: workers.iter().enumerate().map(|(index, &worker)| (worker, index)).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn position(&self, worker: WorkerRank) -> Option<usize> {
        self.position.get(&worker).copied()
    }

    /// The worker at a place, when it is up.
    pub(super) fn up_at(&self, index: usize) -> Option<WorkerRank> {
        self.is_up.get(index).filter(|&&is_up| is_up).map(|_| self.workers[index])
    }

    /// Places of those who are down come last in any order by `(is_down, ..)`.
    pub(super) fn is_down(&self, index: usize) -> bool {
        !self.is_up.get(index).copied().unwrap_or(false)
    }

    /// The workers that are up, in order.
    pub(super) fn up(&self) -> impl Iterator<Item = WorkerRank> {
        self.workers.iter().zip(&self.is_up).filter(|(_, is_up)| **is_up).map(|(&worker, _)| worker)
    }

    pub(super) fn lost(&mut self, worker: WorkerRank) {
        self.set(worker, false);
    }

    pub(super) fn back(&mut self, worker: WorkerRank) {
        self.set(worker, true);
    }

    fn set(&mut self, worker: WorkerRank, value: bool) {
        if let Some(&index) = self.position.get(&worker) {
            self.is_up[index] = value;
        }
    }
}
