//! The bookings of other replicas, counted here as if they were ours.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::peer::{Means, Peer};
use super::{BookingName, BookingsPart, DeltaBatch, Journal, ReplicaId, ReplicaLife};
use crate::LoadTracker;

/// The bounds of a [`ReplicaSync`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// Other replicas known at a time, at least 1. Default 64. The bookings of all of them together are bounded by
    /// [`LoadConfig::max_peer_requests`](crate::LoadConfig::max_peer_requests).
    pub max_replicas: usize,
    /// Runs of changes of one replica that count while an earlier one is missing. Default 4,096. What does not fit is
    /// dropped, as if it had been lost.
    pub max_ahead: usize,
    /// A replica that was not heard of for so long is dead, and its bookings expire. Default 10 s. Give it several
    /// heartbeats.
    pub dead_after: Duration,
    /// How long a missing change may be under way before all bookings are asked for. Default 100 ms.
    pub patience: Duration,
    /// When what is still lacking is asked for again, after the question or the last part of an answer. Default 1 s.
    pub ask_again: Duration,
}

impl Default for SyncConfig {
    fn default() -> Self {
        Self {
            max_replicas: 64,
            max_ahead: 4_096,
            dead_after: Duration::from_secs(10),
            patience: Duration::from_millis(100),
            ask_again: Duration::from_secs(1),
        }
    }
}

/// A field of [`SyncConfig`] outside its range, or a tracker that cannot take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncConfigError {
    /// `max_replicas` is 0.
    MaxReplicas,
    /// The tracker has no journal.
    NoJournal,
}

impl fmt::Display for SyncConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxReplicas => "max_replicas is 0: choose at least 1",
            Self::NoJournal => "the tracker keeps no journal: build it with one, so that it has a name",
        })
    }
}

impl Error for SyncConfigError {}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// It is in the load now.
    Applied,
    /// It said nothing new.
    Known,
    /// An earlier one is missing. What can count by itself does.
    Ahead,
    /// It is of a life that has ended or was forgotten, or is our own.
    Stale,
    /// Too many replicas are known: its sender is not counted. Raise `max_replicas`.
    TooManyReplicas,
}

/// What a [`ReplicaSync`] holds and has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncStats {
    /// Replicas that are heard of.
    pub replicas: usize,
    /// Those of them of which something is missing.
    pub behind: usize,
    /// Their bookings that count here.
    pub bookings: usize,
    /// Changes that count although an earlier one is missing.
    pub ahead: u64,
    /// Changes applied since the beginning.
    pub applied: u64,
    /// Parts of the bookings of others applied since the beginning.
    pub parts: u64,
    /// How often parts had told everything that was lacking of a replica, since the beginning.
    pub snapshots: u64,
    /// Bookings that could not be counted, because their rank is unknown here or a bound is reached. They are asked for
    /// again: when a rank is added, or when there is room, at most every [`SyncConfig::ask_again`].
    pub refused: u64,
    /// Replicas that fell silent.
    pub expired: u64,
    /// Our own bookings whose prompts were too long to be told in whole:
    /// [`JournalConfig::max_message_bytes`](crate::JournalConfig::max_message_bytes).
    pub shortened: u64,
}

/// Lives of forgotten replicas that are remembered. Above it the one that was forgotten first goes.
const MOST_FORGOTTEN: usize = 256;

/// Names of bookings that are lacking of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingsWish {
    /// Whose.
    pub of: ReplicaId,
    /// Which: ask it for its [`LoadTracker::bookings_parts`] with these names.
    pub names: Range<BookingName>,
}

/// Books what other replicas have booked, so that a [`LoadTracker`] shows the load of the whole fleet.
///
/// Feed it every message, however late, often or out of order it comes, and two duties on a timer: send what
/// [`wanted`](Self::wanted) asks for, and let the dead [expire](Self::expire). Send out, just as often, what
/// [`LoadTracker::take_deltas`] gives, an empty batch too: it is a heartbeat.
///
/// # Consistency
///
/// Once every message has arrived that is not lost, and every part asked for, the load of each rank is equal on all
/// replicas that know the rank, but for what of too long prompts is shared: see
/// [`JournalConfig::max_message_bytes`](crate::JournalConfig::max_message_bytes). A change that is lost is noticed by the
/// next message of its sender. What is told of a replica while something of it is missing counts at once, as far as it
/// can.
#[derive(Debug)]
pub struct ReplicaSync {
    tracker: LoadTracker,
    own: ReplicaLife,
    config: SyncConfig,
    peers: BTreeMap<ReplicaId, Peer>,
    /// The lives that said goodbye last, the first of them first.
    forgotten: VecDeque<ReplicaLife>,
    stats: SyncStats,
}

impl ReplicaSync {
    /// Counts into `tracker`, which tells its own bookings by its journal.
    ///
    /// # Errors
    ///
    /// [`SyncConfigError`].
    pub fn new(tracker: LoadTracker, config: SyncConfig) -> Result<Self, SyncConfigError> {
        let own = tracker.life().ok_or(SyncConfigError::NoJournal)?;
        if config.max_replicas == 0 {
            return Err(SyncConfigError::MaxReplicas);
        }
        let (peers, forgotten) = (BTreeMap::new(), VecDeque::new());
        Ok(Self { tracker, own, config, peers, forgotten, stats: SyncStats::default() })
    }

    /// Takes changes of another replica.
    pub fn receive(&mut self, batch: DeltaBatch, now: Instant) -> SyncOutcome {
        let DeltaBatch { from, first, deltas } = batch;
        self.with_peer(from, now, |peer, means| peer.receive(first, deltas, means))
    }

    /// Takes a part of the bookings of another replica. They replace what was known of those with these names.
    pub fn receive_part(&mut self, part: BookingsPart, now: Instant) -> SyncOutcome {
        self.with_peer(part.from, now, |peer, means| peer.receive_part(part, means))
    }

    /// Has the sender of a message take it in, in the life that the message is of, if that counts.
    fn with_peer(
        &mut self,
        from: ReplicaLife,
        now: Instant,
        work: impl FnOnce(&mut Peer, &mut Means<'_>) -> SyncOutcome,
    ) -> SyncOutcome {
        let is_full = self.peers.len() >= self.config.max_replicas;
        let peer = match self.peers.entry(from.replica) {
            _ if from.replica == self.own.replica => return SyncOutcome::Stale,
            Entry::Occupied(peer) => {
                let peer = peer.into_mut();
                if from.life < peer.life {
                    return SyncOutcome::Stale;
                }
                if from.life > peer.life {
                    *peer = Peer::new(from.life, now);
                }
                peer
            }
            Entry::Vacant(_) if is_fenced(&self.forgotten, from) => return SyncOutcome::Stale,
            Entry::Vacant(_) if is_full => return SyncOutcome::TooManyReplicas,
            Entry::Vacant(place) => place.insert(Peer::new(from.life, now)),
        };
        peer.heard = peer.heard.max(now);
        let (tracker, max_ahead) = (&self.tracker, self.config.max_ahead);
        work(peer, &mut Means { tracker, stats: &mut self.stats, max_ahead, now })
    }

    /// The bookings that are lacking and have to be asked for now. What is asked for comes in parts, and what is lacking
    /// of those is asked for again.
    pub fn wanted(&mut self, now: Instant) -> Vec<BookingsWish> {
        let mut wanted = Vec::new();
        for (&of, peer) in &mut self.peers {
            let names = peer.wanted(&self.config, &self.tracker, now);
            wanted.extend(names.into_iter().map(|names| BookingsWish { of, names }));
        }
        wanted
    }

    /// Gives back the bookings of replicas that nothing was heard of for [`SyncConfig::dead_after`], and names them.
    pub fn expire(&mut self, now: Instant) -> Vec<ReplicaId> {
        let is_dead = |peer: &Peer| now.saturating_duration_since(peer.heard) >= self.config.dead_after;
        let dead: Vec<ReplicaId> =
            self.peers.iter().filter(|(_, peer)| is_dead(peer)).map(|(&replica, _)| replica).collect();
        for replica in &dead {
            self.peers.remove(replica);
            self.stats.expired += 1;
        }
        dead
    }

    /// Gives back the bookings of a replica that said goodbye, and takes in nothing more of this life of it, however
    /// late it comes: only a restart, which is a new life, brings it back. 256 lives are remembered so. `false` when it
    /// is unknown.
    pub fn forget(&mut self, replica: ReplicaId) -> bool {
        let Some(peer) = self.peers.remove(&replica) else { return false };
        self.forgotten.retain(|forgotten| forgotten.replica != replica);
        if self.forgotten.len() >= MOST_FORGOTTEN {
            self.forgotten.pop_front();
        }
        self.forgotten.push_back(ReplicaLife { replica, life: peer.life });
        true
    }

    /// Says that a rank was added to the tracker: others may have bookings on it that did not count before. They are
    /// asked for everything anew.
    pub fn rank_added(&mut self, now: Instant) {
        self.peers.values_mut().for_each(|peer| peer.lack_all(now));
    }

    /// What is held, and has been counted.
    pub fn stats(&self) -> SyncStats {
        SyncStats {
            replicas: self.peers.len(),
            behind: self.peers.values().filter(|peer| peer.is_behind()).count(),
            bookings: self.peers.values().map(Peer::bookings).sum(),
            ahead: self.peers.values().map(Peer::ahead).sum(),
            shortened: self.tracker.shared().journal.as_ref().map_or(0, Journal::shortened),
            ..self.stats
        }
    }
}

/// Whether a replica said goodbye in this life, or in a later one.
fn is_fenced(forgotten: &VecDeque<ReplicaLife>, from: ReplicaLife) -> bool {
    forgotten.iter().any(|gone| gone.replica == from.replica && gone.life >= from.life)
}
