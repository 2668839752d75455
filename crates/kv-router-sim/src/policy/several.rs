//! Several routers over one fleet, each with its own idea of it.

use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::WorkerRank;
use rustc_hash::FxHashMap;

use super::{Policy, PolicyError};
use crate::progress::{Milestone, Progress};
use crate::random::mix;
use crate::request::SimRequest;
use crate::time::SimTime;

/// Members that share a fleet as gateways behind one address do: each request comes to one of them, any with the same
/// chance, which alone hears how it goes on. All hear of every cache.
#[derive(Debug)]
pub struct Several<P> {
    name: String,
    members: Vec<P>,
    /// Of every request on its way.
    owner: FxHashMap<u32, usize>,
}

impl<P: Policy> Several<P> {
    /// Puts members side by side under one name.
    pub fn new(name: impl Into<String>, members: Vec<P>) -> Self {
        Self { name: name.into(), members, owner: FxHashMap::default() }
    }

    /// The members.
    pub fn members(&self) -> &[P] {
        &self.members
    }

    /// Who gets a request.
    fn member(&self, request: &SimRequest) -> usize {
        // Mixed, so that no member gets every n-th request of a pattern in the trace.
        (mix(u64::from(request.index())) % self.members.len().max(1) as u64) as usize
    }
}

impl<P: Policy> Policy for Several<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, request: &SimRequest) {
        let member = self.member(request);
        if let Some(member) = self.members.get_mut(member) {
            member.prepare(request);
        }
    }

    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError> {
        let index = self.member(request);
        let member = self.members.get_mut(index).ok_or(PolicyError::NoWorkers)?;
        let worker = member.choose(request, now)?;
        self.owner.insert(request.index(), index);
        Ok(worker)
    }

    fn on_events(&mut self, batch: EventBatch) {
        self.members.iter_mut().for_each(|member| member.on_events(batch.clone()));
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        let request = milestone.request.index();
        let Some(&owner) = self.owner.get(&request) else { return };
        self.members[owner].on_progress(milestone);
        if matches!(milestone.progress, Progress::Finished | Progress::Refused | Progress::Lost) {
            self.owner.remove(&request);
        }
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, now: SimTime) {
        self.members.iter_mut().for_each(|member| member.on_worker_lost(worker, now));
    }

    fn on_worker_back(&mut self, worker: WorkerRank, life: Incarnation, now: SimTime) {
        self.members.iter_mut().for_each(|member| member.on_worker_back(worker, life, now));
    }
}

impl Policy for Box<dyn Policy> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn prepare(&mut self, request: &SimRequest) {
        (**self).prepare(request);
    }

    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError> {
        (**self).choose(request, now)
    }

    fn on_events(&mut self, batch: EventBatch) {
        (**self).on_events(batch);
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        (**self).on_progress(milestone);
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, now: SimTime) {
        (**self).on_worker_lost(worker, now);
    }

    fn on_worker_back(&mut self, worker: WorkerRank, life: Incarnation, now: SimTime) {
        (**self).on_worker_back(worker, life, now);
    }
}
