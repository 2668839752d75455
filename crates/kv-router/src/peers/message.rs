//! What routers over one fleet tell each other.

use std::ops::Range;

use kv_router_load::{BookingName, BookingsPart, DeltaBatch, ReplicaId, SyncOutcome};
use kv_router_schedule::SessionGossip;

/// One message from router to router. It may be lost, come late, twice or out of order.
///
/// [`encode`](Self::encode) and [`decode`](Self::decode) turn it into bytes and back, for any transport that keeps the
/// bounds of a message; docs/wire.md has the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// How the bookings of its sender changed. Without a change it is a heartbeat.
    Deltas(DeltaBatch),
    /// The bookings of its sender that have a name in some range: as many of all as fit a message.
    Bookings(BookingsPart),
    /// A router lacks bookings of another.
    WantBookings {
        /// Who asks.
        from: ReplicaId,
        /// Whose bookings it lacks.
        of: ReplicaId,
        /// Which.
        names: Range<BookingName>,
    },
    /// Where sessions are bound now.
    Sessions(Vec<SessionGossip>),
}

/// Who has to get a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// Every other router. One that gets it without need loses nothing.
    Everyone,
    /// This one.
    Only(ReplicaId),
}

/// A message, and who has to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerEnvelope {
    /// Who.
    pub to: Recipient,
    /// What.
    pub message: PeerMessage,
}

/// What became of a message from another router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerOutcome {
    /// It was about load.
    Load(SyncOutcome),
    /// It asked for our bookings: the next poll has them, or begins to have them.
    Asked,
    /// It asked for the bookings of somebody else, or for none, or more ask for ours than there may be replicas.
    NotAnswered,
    /// It was about sessions.
    Sessions {
        /// Of how many it told something new.
        news: usize,
    },
    /// This router has no journal: it is alone, and takes nothing in.
    Alone,
}
