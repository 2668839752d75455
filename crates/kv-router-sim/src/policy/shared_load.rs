//! Several routers that tell each other of their load.

use std::fmt;
use std::time::Duration;

use kv_router::JournalConfig;
use kv_router_load::{ReplicaId, ReplicaLife, ReplicaSync, SyncConfig, SyncStats};
use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::WorkerRank;

use super::{Knobs, KvAware, Policy, PolicyContext, PolicyError, Several};
use crate::progress::Milestone;
use crate::random::mix2;
use crate::request::SimRequest;
use crate::time::SimTime;

/// Deltas in one message.
const MOST_DELTAS: usize = 4_096;

/// [`Several`] routers, and a [`ReplicaSync`] around each that carries its bookings to the others every so often.
pub struct SharedLoad {
    several: Several<KvAware>,
    /// One a member.
    syncs: Vec<ReplicaSync>,
    interval: Duration,
    next: SimTime,
}

impl SharedLoad {
    /// Routers number 0 to `count`, each with its own seed and its own journal.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Router`] when a router does not take the settings or the fleet.
    pub fn new(
        name: impl Into<String>,
        context: &PolicyContext<'_>,
        knobs: &Knobs,
        count: u32,
        interval: Duration,
    ) -> Result<Self, PolicyError> {
        let (mut members, mut syncs) = (Vec::new(), Vec::new());
        for index in 0..count {
            let life = ReplicaLife { replica: ReplicaId::new(u64::from(index)), life: 1 };
            let own = PolicyContext { seed: mix2(context.seed, u64::from(index)), ..*context };
            let member = KvAware::tuned(&own, knobs, Some(JournalConfig::new(life)))?;
            let tracker = member.router().load_tracker().clone();
            syncs.push(ReplicaSync::new(tracker, SyncConfig::default()).map_err(PolicyError::router)?);
            members.push(member);
        }
        Ok(Self { several: Several::new(name, members), syncs, interval, next: SimTime::ZERO })
    }

    /// The routers, to look at what they have learnt.
    pub fn members(&self) -> &[KvAware] {
        self.several.members()
    }

    /// How each router does with what the others tell, in their order.
    pub fn sync_stats(&self) -> impl Iterator<Item = SyncStats> {
        self.syncs.iter().map(ReplicaSync::stats)
    }

    /// Carries everything that has not been told yet. [`Policy`] calls do it whenever the interval is over.
    pub fn exchange(&mut self, now: SimTime) {
        let members = self.several.members();
        for (from, member) in members.iter().enumerate() {
            while let Some(batch) = member.router().load_tracker().take_deltas(MOST_DELTAS) {
                let is_last = batch.deltas.is_empty();
                for (to, sync) in self.syncs.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                    sync.receive(batch.clone(), members[to].at(now));
                }
                if is_last {
                    break;
                }
            }
        }
        for (to, sync) in self.syncs.iter_mut().enumerate() {
            let now = members[to].at(now);
            for wish in sync.wanted(now) {
                let owner = members.get(wish.of.get() as usize);
                let parts = owner.and_then(|owner| owner.router().load_tracker().bookings_parts(wish.names));
                for part in parts.into_iter().flatten() {
                    sync.receive_part(part, now);
                }
            }
        }
    }

    fn exchange_if_due(&mut self, now: SimTime) {
        if now >= self.next {
            self.exchange(now);
            self.next = now + self.interval;
        }
    }
}

impl Policy for SharedLoad {
    fn name(&self) -> &str {
        self.several.name()
    }

    fn prepare(&mut self, request: &SimRequest) {
        self.several.prepare(request);
    }

    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError> {
        self.several.choose(request, now)
    }

    fn on_events(&mut self, batch: EventBatch) {
        self.several.on_events(batch);
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        self.several.on_progress(milestone);
        // Here and not while choosing, so that an exchange is no part of a decision's time.
        self.exchange_if_due(milestone.at);
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, now: SimTime) {
        self.several.on_worker_lost(worker, now);
    }

    fn on_worker_back(&mut self, worker: WorkerRank, life: Incarnation, now: SimTime) {
        self.several.on_worker_back(worker, life, now);
        let members = self.several.members();
        for (sync, member) in self.syncs.iter_mut().zip(members) {
            sync.rank_added(member.at(now));
        }
    }
}

impl fmt::Debug for SharedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLoad").field("several", &self.several).finish_non_exhaustive()
    }
}
