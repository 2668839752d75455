//! A part of the ranks with everything that is known about them, behind one lock.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_router_types::{RequestId, SequenceHash, WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use crate::engine::Besides;
use crate::prompts::{Fork, PromptTree, Slot};
use crate::requests::{Origin, Request, RequestKey, Requests};
use crate::{Demand, EngineReport, RankCapacity, WorkerLoad};

/// Every change of membership gets a number of its own, over all trackers of the process, so that a snapshot can
/// tell an unchanged shard without knowing which tracker it belongs to. 0 stands for "never had a rank".
static NEXT_MEMBERSHIP: AtomicU64 = AtomicU64::new(1);

/// Ranks whose loads are copied together. Few enough that a change of one costs a snapshot little, enough that the
/// stamps of a shard are quickly looked through.
const GROUP: usize = 16;

/// What a request that is no longer counted leaves to be settled outside its shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) worker: WorkerRank,
    pub(crate) key: RequestKey,
    pub(crate) origin: Origin,
    pub(crate) request: Option<RequestId>,
    /// Blocks of its prompt, and those of them that nobody else has in flight.
    pub(crate) prompt_blocks: u64,
    pub(crate) stored_blocks: u64,
    pub(crate) last_activity: Instant,
}

/// What a report did to the load of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trend {
    Same,
    Rose,
    /// Something in it did, whatever else rose.
    Fell,
}

#[derive(Debug)]
pub(crate) struct Shard {
    slots: FxHashMap<WorkerRank, Slot>,
    free_slots: Vec<Slot>,
    /// Position of each slot in `workers` and `loads`. Slots stay, because requests and prompts know them;
    /// positions move, so that a snapshot copies two arrays without holes.
    positions: Vec<u32>,
    workers: Vec<WorkerRank>,
    /// What is booked, and foreign load.
    loads: Vec<WorkerLoad>,
    besides: Vec<Besides>,
    /// Changes of any load or capacity, counted.
    changes: u64,
    /// For each group of `GROUP` positions, the number of its latest change.
    stamps: Vec<u64>,
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
            besides: Vec::new(),
            changes: 0,
            stamps: Vec::new(),
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
        self.besides.push(Besides::default());
        self.stamps.resize(self.loads.len().div_ceil(GROUP), 0);
        self.membership_changed();
    }

    /// Removes a rank with its requests. Returns the load that it had.
    pub(crate) fn remove(&mut self, worker: WorkerRank, mut freed: impl FnMut(Freed)) -> Option<WorkerLoad> {
        let slot = *self.slots.get(&worker)?;
        let load = self.loads[self.position(slot)];
        let keys: Vec<RequestKey> =
            self.requests.iter().filter(|(_, request)| request.slot == slot).map(|(key, _)| key).collect();
        for key in keys {
            self.free(key).into_iter().for_each(&mut freed);
        }
        debug_assert_eq!(self.loads[self.position(slot)], self.besides[self.position(slot)].foreign);
        self.slots.remove(&worker);
        self.free_slots.push(slot);
        let position = self.position(slot);
        self.workers.swap_remove(position);
        self.loads.swap_remove(position);
        self.besides.swap_remove(position);
        self.stamps.truncate(self.loads.len().div_ceil(GROUP));
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
        origin: Origin,
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
            origin,
            slot,
            end,
            prompt_blocks: demand.prompt_blocks.len() as u64,
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
    ) -> Option<Trend> {
        let request = self.requests.get_mut(key)?;
        request.last_activity = request.last_activity.max(now);
        let position = self.positions[request.slot.0 as usize] as usize;
        let before = self.loads[position];
        change(request, &mut self.loads[position]);
        let after = self.loads[position];
        if after == before {
            return Some(Trend::Same);
        }
        self.mark(position);
        let fell = after.prefill_tokens < before.prefill_tokens || after.blocks < before.blocks;
        Some(if fell { Trend::Fell } else { Trend::Rose })
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
            key,
            origin: request.origin,
            request: request.id,
            prompt_blocks: request.prompt_blocks,
            stored_blocks: released.stored,
            last_activity: request.last_activity,
        })
    }

    /// A request that is counted.
    pub(crate) fn request(&self, key: RequestKey) -> Option<&Request> {
        self.requests.get(key)
    }

    /// A request that is counted, with its rank and its prompt.
    pub(crate) fn request_with_prompt(
        &self,
        key: RequestKey,
    ) -> Option<(&Request, WorkerRank, Vec<SequenceHash>)> {
        let request = self.requests.get(key)?;
        Some((request, self.workers[self.position(request.slot)], self.prompts.prompt(request.end)))
    }

    /// Our own requests.
    pub(crate) fn own_requests(&self) -> impl Iterator<Item = RequestKey> {
        let own = self.requests.iter().filter(|(_, request)| request.origin == Origin::Own);
        own.map(|(key, _)| key)
    }

    /// What is known of a rank besides what is booked.
    pub(crate) fn besides(&self, worker: WorkerRank) -> Option<&Besides> {
        self.slots.get(&worker).map(|&slot| &self.besides[self.position(slot)])
    }

    /// What the ranks at these positions can bear.
    pub(crate) fn capacities(&self, range: Range<usize>) -> impl Iterator<Item = RankCapacity> {
        self.besides[range].iter().map(|besides| besides.capacity)
    }

    /// Notes what an engine says of its load. Tells whether any of it fell; `None` when the rank is unknown.
    pub(crate) fn report(&mut self, worker: WorkerRank, report: &EngineReport, now: Instant) -> Option<bool> {
        let position = self.position(*self.slots.get(&worker)?);
        let booked = self.loads[position].minus(&self.besides[position].foreign);
        Some(self.set_foreign(position, report.beyond(&booked), Some(now)))
    }

    /// Forgets reports that are `ttl` old, and names their ranks.
    pub(crate) fn expire_reports(&mut self, now: Instant, ttl: Duration) -> Vec<WorkerRank> {
        let mut stale = Vec::new();
        for position in 0..self.besides.len() {
            let reported = self.besides[position].reported;
            if reported.is_some_and(|then| now.saturating_duration_since(then) >= ttl) {
                self.set_foreign(position, WorkerLoad::default(), None);
                stale.push(self.workers[position]);
            }
        }
        stale
    }

    /// Tells whether any of it fell.
    fn set_foreign(&mut self, position: usize, foreign: WorkerLoad, reported: Option<Instant>) -> bool {
        let before = std::mem::replace(&mut self.besides[position].foreign, foreign);
        self.besides[position].reported = reported;
        if before != foreign {
            self.loads[position] = self.loads[position].minus(&before).plus(&foreign);
            self.mark(position);
        }
        foreign.prefill_tokens < before.prefill_tokens || foreign.blocks < before.blocks
    }

    /// `false` when the rank is unknown.
    pub(crate) fn set_capacity(&mut self, worker: WorkerRank, capacity: RankCapacity) -> bool {
        let Some(&slot) = self.slots.get(&worker) else { return false };
        let position = self.position(slot);
        self.besides[position].capacity = capacity;
        self.mark(position);
        true
    }

    /// Our own requests without activity for `ttl` or longer.
    pub(crate) fn idle(&self, now: Instant, ttl: Duration) -> Vec<RequestKey> {
        let own = self.requests.iter().filter(|(_, request)| request.origin == Origin::Own);
        let idle = own.filter(|(_, request)| request.idle_for(now) >= ttl);
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

    /// How often a load has changed, for [`changed_since`](Self::changed_since).
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Positions that hold every load which has changed since there were `seen` changes. Right as long as the
    /// membership is the same.
    pub(crate) fn changed_since(&self, seen: u64) -> impl Iterator<Item = Range<usize>> {
        // Nothing at all is the common case of a large fleet: its stamps need no look.
        let stamps = if seen == self.changes { &[][..] } else { &self.stamps[..] };
        let groups = stamps.iter().enumerate().filter(move |&(_, &stamp)| stamp > seen);
        groups.map(|(group, _)| group * GROUP..self.loads.len().min((group + 1) * GROUP))
    }

    /// Calls `each` with positions and the blocks of `prompt` that requests there have in flight, once for each run
    /// of blocks: what a rank shares is the sum.
    pub(crate) fn for_each_share(&self, prompt: &[SequenceHash], mut each: impl FnMut(usize, u32)) {
        self.prompts.for_each_share(prompt, |slot, blocks| each(self.position(slot), blocks));
    }

    pub(crate) fn run_count(&self) -> usize {
        self.prompts.run_count()
    }

    fn position(&self, slot: Slot) -> usize {
        self.positions[slot.0 as usize] as usize
    }

    /// The load of a rank, to be changed.
    fn load_mut(&mut self, slot: Slot) -> &mut WorkerLoad {
        let position = self.position(slot);
        self.mark(position);
        &mut self.loads[position]
    }

    fn mark(&mut self, position: usize) {
        self.changes += 1;
        self.stamps[position / GROUP] = self.changes;
    }

    fn membership_changed(&mut self) {
        self.membership = NEXT_MEMBERSHIP.fetch_add(1, Ordering::Relaxed);
    }
}
