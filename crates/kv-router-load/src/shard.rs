//! A part of the ranks with everything that is known about them, behind one lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_router_types::{RequestId, SequenceHash, WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use crate::prompts::{Fork, PromptTree, Slot};
use crate::requests::{Request, RequestKey, Requests};
use crate::{Demand, WorkerLoad};

/// Every change of membership gets a number of its own, over all trackers of the process, so that a snapshot can
/// tell an unchanged shard without knowing which tracker it belongs to. 0 stands for "never had a rank".
static NEXT_MEMBERSHIP: AtomicU64 = AtomicU64::new(1);

/// What a request that is no longer counted leaves to be settled outside its shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) worker: WorkerRank,
    pub(crate) request: Option<RequestId>,
    pub(crate) stored_blocks: u64,
    pub(crate) last_activity: Instant,
}

#[derive(Debug)]
pub(crate) struct Shard {
    slots: FxHashMap<WorkerRank, Slot>,
    free_slots: Vec<Slot>,
    /// Position of each slot in `workers` and `loads`. Slots stay, because requests and prompts know them;
    /// positions move, so that a snapshot copies two arrays without holes.
    positions: Vec<u32>,
    workers: Vec<WorkerRank>,
    loads: Vec<WorkerLoad>,
    membership: u64,
    requests: Requests,
    prompts: PromptTree,
}

impl Shard {
    pub(crate) fn new() -> Self {
        Self {
            slots: FxHashMap::default(),
            free_slots: Vec::new(),
            positions: Vec::new(),
            workers: Vec::new(),
            loads: Vec::new(),
            membership: 0,
            requests: Requests::default(),
            prompts: PromptTree::new(),
        }
    }

    pub(crate) fn contains(&self, worker: WorkerRank) -> bool {
        self.slots.contains_key(&worker)
    }

    /// Adds a rank that is not there.
    pub(crate) fn add(&mut self, worker: WorkerRank) {
        let position = self.workers.len() as u32; // fits: `LoadConfig::max_ranks` is a u32
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.positions[slot.0 as usize] = position;
                slot
            }
            None => {
                self.positions.push(position);
                Slot(self.positions.len() as u32 - 1)
            }
        };
        self.slots.insert(worker, slot);
        self.workers.push(worker);
        self.loads.push(WorkerLoad::default());
        self.membership_changed();
    }

    /// Removes a rank with its requests. Returns the load that it had.
    pub(crate) fn remove(&mut self, worker: WorkerRank, mut freed: impl FnMut(Freed)) -> Option<WorkerLoad> {
        let slot = *self.slots.get(&worker)?;
        let load = *self.load_mut(slot);
        let keys: Vec<RequestKey> =
            self.requests.iter().filter(|(_, request)| request.slot == slot).map(|(key, _)| key).collect();
        for key in keys {
            self.free(key).into_iter().for_each(&mut freed);
        }
        debug_assert_eq!(*self.load_mut(slot), WorkerLoad::default());
        self.slots.remove(&worker);
        self.free_slots.push(slot);
        let position = self.position(slot);
        self.workers.swap_remove(position);
        self.loads.swap_remove(position);
        if let Some(moved) = self.workers.get(position) {
            let moved = self.slots[moved];
            self.positions[moved.0 as usize] = position as u32;
        }
        self.membership_changed();
        Some(load)
    }

    pub(crate) fn ranks_of(&self, worker: WorkerId) -> Vec<WorkerRank> {
        self.workers.iter().copied().filter(|rank| rank.worker == worker).collect()
    }

    pub(crate) fn load(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        self.slots.get(&worker).map(|&slot| self.loads[self.position(slot)])
    }

    /// Where a prompt leaves what is in flight. Good until the next change.
    pub(crate) fn find_prompt(&self, prompt: &[SequenceHash]) -> Fork {
        self.prompts.find(prompt)
    }

    /// Counts a request. `None` when the rank is unknown.
    pub(crate) fn book(
        &mut self,
        worker: WorkerRank,
        demand: &Demand<'_>,
        fork: Fork,
        now: Instant,
    ) -> Option<RequestKey> {
        let slot = *self.slots.get(&worker)?;
        let (end, gained) = self.prompts.insert(fork, demand.prompt_blocks, slot);
        let load = self.load_mut(slot);
        load.prefill_tokens += demand.prefill_tokens;
        load.blocks += gained + u64::from(demand.private_blocks);
        load.requests += 1;
        Some(self.requests.insert(Request {
            id: demand.request,
            slot,
            end,
            prefill_tokens: demand.prefill_tokens,
            private_blocks: demand.private_blocks,
            output_blocks: 0,
            last_activity: now,
        }))
    }

    /// Notes activity, and what else `change` does to a request and the load of its rank. `None` when the request
    /// is no longer counted.
    pub(crate) fn progress(
        &mut self,
        key: RequestKey,
        now: Instant,
        change: impl FnOnce(&mut Request, &mut WorkerLoad),
    ) -> Option<()> {
        let request = self.requests.get_mut(key)?;
        request.last_activity = request.last_activity.max(now);
        let position = self.positions[request.slot.0 as usize] as usize;
        change(request, &mut self.loads[position]);
        Some(())
    }

    /// Stops counting a request. `None` when that happened before.
    pub(crate) fn free(&mut self, key: RequestKey) -> Option<Freed> {
        let request = self.requests.remove(key)?;
        let released = self.prompts.remove(request.end, request.slot);
        let load = self.load_mut(request.slot);
        load.prefill_tokens -= request.prefill_tokens;
        load.blocks -= request.own_blocks() + released.held;
        load.requests -= 1;
        Some(Freed {
            worker: self.workers[self.position(request.slot)],
            request: request.id,
            stored_blocks: released.stored,
            last_activity: request.last_activity,
        })
    }

    /// Requests without activity for `ttl` or longer.
    pub(crate) fn idle(&self, now: Instant, ttl: Duration) -> Vec<RequestKey> {
        let idle = self.requests.iter().filter(|(_, request)| request.idle_for(now) >= ttl);
        idle.map(|(key, _)| key).collect()
    }

    /// Stops counting a request if it is still idle.
    pub(crate) fn free_idle(&mut self, key: RequestKey, now: Instant, ttl: Duration) -> Option<Freed> {
        self.requests.get(key).filter(|request| request.idle_for(now) >= ttl)?;
        self.free(key)
    }

    pub(crate) fn membership(&self) -> u64 {
        self.membership
    }

    pub(crate) fn workers(&self) -> &[WorkerRank] {
        &self.workers
    }

    pub(crate) fn loads(&self) -> &[WorkerLoad] {
        &self.loads
    }

    /// Adds to each rank's entry the blocks of `prompt` that it has in flight. One entry a rank, all 0 before.
    pub(crate) fn add_shared_blocks(&self, prompt: &[SequenceHash], shared: &mut [u32]) {
        self.prompts.for_each_share(prompt, |slot, blocks| {
            let entry = &mut shared[self.positions[slot.0 as usize] as usize];
            *entry = entry.saturating_add(blocks);
        });
    }

    pub(crate) fn request_count(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn run_count(&self) -> usize {
        self.prompts.run_count()
    }

    fn position(&self, slot: Slot) -> usize {
        self.positions[slot.0 as usize] as usize
    }

    fn load_mut(&mut self, slot: Slot) -> &mut WorkerLoad {
        let position = self.position(slot);
        &mut self.loads[position]
    }

    fn membership_changed(&mut self) {
        self.membership = NEXT_MEMBERSHIP.fetch_add(1, Ordering::Relaxed);
    }
}
