//! Where sessions went last, and what other routers have to be told of that.

use std::collections::VecDeque;
use std::time::Instant;

use kv_router_schedule::{NoSessions, SessionConfig, SessionGossip, SessionId, SessionStats, SessionTable};
use kv_router_types::{WorkerId, WorkerRank};
use parking_lot::Mutex;

/// Gossip kept until it is taken. What is older is dropped: it costs other routers a cache hit.
const MOST_GOSSIP: usize = 65_536;

/// A session table that many threads use, with its outbox.
#[derive(Debug)]
pub(crate) struct Sessions(Mutex<State>);

/// Whether what others have to be told is kept from the start, or only once somebody takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    None,
    Kept,
}

/// Sessions that are no longer bound where they were: one that went elsewhere, and one that was forgotten to make room
/// for it. Requests that are stuck to them may have another way now.
pub(crate) type Loosened = [Option<SessionId>; 2];

#[derive(Debug)]
struct State {
    table: SessionTable,
    outbox: VecDeque<SessionGossip>,
    /// Whether anybody takes what is in the outbox: until then nothing is put there.
    is_shared: bool,
}

impl Sessions {
    pub(crate) fn new(config: SessionConfig, replica: u64, outbox: Outbox) -> Result<Self, NoSessions> {
        let table = SessionTable::new(config, replica)?;
        let is_shared = outbox == Outbox::Kept;
        Ok(Self(Mutex::new(State { table, outbox: VecDeque::new(), is_shared })))
    }

    pub(crate) fn get(&self, session: SessionId, now: Instant) -> Option<WorkerRank> {
        self.0.lock().table.get(session, now)
    }

    #[must_use]
    pub(crate) fn bind(&self, session: SessionId, worker: WorkerRank, now: Instant) -> Loosened {
        let mut state = self.0.lock();
        let before = state.table.get(session, now);
        let gossip = state.table.bind(session, worker, now);
        state.tell(gossip);
        let has_moved = before.is_some_and(|before| before != worker);
        [has_moved.then_some(session), state.table.take_evicted()]
    }

    pub(crate) fn unbind(&self, session: SessionId, now: Instant) -> bool {
        let mut state = self.0.lock();
        let gossip = state.table.unbind(session, now);
        state.tell(gossip);
        gossip.is_some()
    }

    pub(crate) fn unbind_worker(&self, worker: WorkerId) {
        self.0.lock().table.unbind_worker(worker);
    }

    /// `None` when something as young was known.
    #[must_use]
    pub(crate) fn merge(&self, gossip: SessionGossip, now: Instant) -> Option<Loosened> {
        let table = &mut self.0.lock().table;
        let before = table.get(gossip.session, now);
        if !table.merge(gossip, now) {
            return None;
        }
        let has_moved = before.is_some() && table.get(gossip.session, now) != before;
        Some([has_moved.then_some(gossip.session), table.take_evicted()])
    }

    pub(crate) fn take_gossip(&self) -> Vec<SessionGossip> {
        let mut state = self.0.lock();
        state.is_shared = true;
        state.outbox.drain(..).collect()
    }

    pub(crate) fn expire(&self, now: Instant) {
        self.0.lock().table.expire(now);
    }

    pub(crate) fn stats(&self) -> SessionStats {
        self.0.lock().table.stats()
    }
}

impl State {
    fn tell(&mut self, gossip: Option<SessionGossip>) {
        if self.is_shared {
            self.outbox.extend(gossip);
            if self.outbox.len() > MOST_GOSSIP {
                self.outbox.pop_front();
            }
        }
    }
}
