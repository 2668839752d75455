//! Several routers over one fleet: what goes out, what comes in, and when.
//!
//! How messages travel is the caller's business; nothing here has a socket, a thread or a timer. A router tells what it
//! booked and hears what others booked, so that each decides by the load of the whole fleet; and they tell each other of
//! their sessions.

mod asked;
mod error;
mod message;
mod wire;

use std::ops::Range;
use std::time::Instant;

use kv_router_load::{
    BookingName, BookingsWish, JournalConfig, LoadTracker, ReplicaId, ReplicaSync, SyncConfig,
    SyncConfigError, SyncStats,
};
use parking_lot::Mutex;

use crate::Router;
use crate::admit::{ring_for_news, ring_for_sessions};
use crate::core::Core;
pub use error::{PeerDecodeError, PeerEncodeError};
pub use message::{PeerEnvelope, PeerMessage, PeerOutcome, Recipient};
pub use wire::PeerLimits;

use asked::Asked;
use wire::{SESSION_BYTES, SESSIONS_HEAD};

/// Changes in one message.
const MOST_DELTAS: usize = 1_024;

/// Sessions in one message, however large it may be.
const MOST_SESSIONS: usize = 4_096;

/// Messages with bookings in one poll. The rest comes with the next.
const MOST_PARTS: usize = 16;

/// What is known of the other routers.
#[derive(Debug)]
pub(crate) struct Peers {
    own: ReplicaId,
    /// The most that one message carries.
    sessions_in_one: usize,
    /// Locked only with the doorbell [hushed](crate::admit::Doorbell::hush): giving up bookings of others makes load
    /// fall, and whoever waits for that must not be served under this lock.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sync: ReplicaSync,
    /// What others lack of our bookings.
    asked: Asked,
}

impl Peers {
    pub(crate) fn new(
        tracker: &LoadTracker,
        journal: JournalConfig,
        config: SyncConfig,
    ) -> Result<Self, SyncConfigError> {
        let asked = Asked::new(config.max_replicas);
        let sync = ReplicaSync::new(tracker.clone(), config)?;
        let bytes = journal.max_message_bytes.saturating_sub(SESSIONS_HEAD);
        let sessions_in_one = (bytes / SESSION_BYTES).clamp(1, MOST_SESSIONS);
        Ok(Self { own: journal.life.replica, sessions_in_one, state: Mutex::new(State { sync, asked }) })
    }

    fn receive_wish(&self, from: ReplicaId, of: ReplicaId, names: Range<BookingName>) -> PeerOutcome {
        let is_ours = of == self.own && from != self.own && !names.is_empty();
        let is_noted = is_ours && self.state.lock().asked.note(from, names);
        if is_noted { PeerOutcome::Asked } else { PeerOutcome::NotAnswered }
    }

    /// Everything that others have to be told now.
    fn poll(&self, core: &Core, now: Instant) -> Vec<PeerEnvelope> {
        let mut state = self.state.lock();
        state.sync.expire(now);
        let wanted = state.sync.wanted(now);
        let mut asked = state.asked.take();
        drop(state);

        let mut out = Vec::new();
        let mut send = |to, message| out.push(PeerEnvelope { to, message });
        // A heartbeat, if nothing has changed. A batch of long prompts holds fewer changes than it may.
        let mut batch = core.load.take_deltas(MOST_DELTAS);
        while let Some(deltas) = batch {
            let may_be_more = !deltas.deltas.is_empty();
            send(Recipient::Everyone, PeerMessage::Deltas(deltas));
            let next = || core.load.take_deltas(MOST_DELTAS).filter(|next| !next.deltas.is_empty());
            batch = may_be_more.then(next).flatten();
        }
        if let Some(to) = asked.recipient() {
            for part in asked.answer(&core.load, MOST_PARTS) {
                send(to, PeerMessage::Bookings(part));
            }
        }
        for BookingsWish { of, names } in wanted {
            send(Recipient::Only(of), PeerMessage::WantBookings { from: self.own, of, names });
        }
        for gossip in core.sessions.take_gossip().chunks(self.sessions_in_one) {
            send(Recipient::Everyone, PeerMessage::Sessions(gossip.to_vec()));
        }
        self.state.lock().asked.put_back(asked);
        out
    }
}

impl Core {
    /// Works on what is known of the other routers. `None` for a router that is alone.
    fn with_peers<R>(&self, work: impl FnOnce(&Peers, Instant) -> R) -> Option<R> {
        let peers = self.peers.as_ref()?;
        let now = self.clock.now();
        let hush = self.doorbell.hush();
        let result = work(peers, now);
        if hush.end() {
            ring_for_news(self);
        }
        Some(result)
    }

    /// A rank joined: others may have bookings on it that were not counted.
    pub(crate) fn tell_peers_of_rank(&self) {
        self.with_peers(|peers, now| peers.state.lock().sync.rank_added(now));
    }

    pub(crate) fn peer_stats(&self) -> SyncStats {
        self.peers.as_ref().map(|peers| peers.state.lock().sync.stats()).unwrap_or_default()
    }
}

impl Router {
    /// What the other routers have to be told now: bookings that changed, at least a heartbeat; what they asked for; what
    /// is lacking of them; sessions. Lets go of the bookings of those that are dead. No message becomes larger than
    /// [`JournalConfig::max_message_bytes`]; of an answer that takes more than 16 the rest comes with later calls.
    ///
    /// Call it on a timer, several times within [`SyncConfig::dead_after`], and send what it returns. The more often, the
    /// better decisions know what others just decided. Nothing, for a router without
    /// [`RouterConfig::journal`](crate::RouterConfig::journal).
    pub fn poll_peers(&self) -> Vec<PeerEnvelope> {
        self.core.with_peers(|peers, now| peers.poll(&self.core, now)).unwrap_or_default()
    }

    /// Takes in what another router says, however late, often or out of order it comes.
    pub fn receive_peer(&self, message: PeerMessage) -> PeerOutcome {
        let core = &self.core;
        let outcome = core.with_peers(|peers, now| match message {
            PeerMessage::Deltas(batch) => Ok(PeerOutcome::Load(peers.state.lock().sync.receive(batch, now))),
            PeerMessage::Bookings(part) => {
                Ok(PeerOutcome::Load(peers.state.lock().sync.receive_part(part, now)))
            }
            PeerMessage::WantBookings { from, of, names } => Ok(peers.receive_wish(from, of, names)),
            PeerMessage::Sessions(gossip) => Err((gossip, now)),
        });
        match outcome {
            None => PeerOutcome::Alone,
            Some(Ok(outcome)) => outcome,
            Some(Err((gossip, now))) => {
                let merged = gossip.into_iter().filter_map(|gossip| core.sessions.merge(gossip, now));
                let loosened: Vec<_> = merged.collect();
                ring_for_sessions(core, loosened.iter().flatten().copied());
                PeerOutcome::Sessions { news: loosened.len() }
            }
        }
    }

    /// Lets go of the bookings of a router that said goodbye, without waiting for it to be taken for dead. Nothing that
    /// this life of it said of its load counts any more, however late it comes: it is heard again after a restart.
    /// `false` when it is not known.
    pub fn forget_peer(&self, replica: ReplicaId) -> bool {
        self.core.with_peers(|peers, _| peers.state.lock().sync.forget(replica)).unwrap_or(false)
    }
}
