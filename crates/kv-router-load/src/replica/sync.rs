//! The bookings of other replicas, counted here as if they were ours.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{BookingName, BookingsSnapshot, DeltaBatch, LoadDelta, ReplicaId, ReplicaLife, SharedBooking};
use crate::{BookError, Booking, BookingState, LoadTracker};

/// The bounds of a [`ReplicaSync`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// Other replicas known at a time, at least 1. Default 64. Their bookings are bounded by the tracker's own
    /// [`LoadConfig::max_requests`](crate::LoadConfig::max_requests).
    pub max_replicas: usize,
    /// Changes of one replica that are held while an earlier one is missing. Default 4,096. What does not fit is
    /// dropped; a snapshot then brings it.
    pub max_held: usize,
    /// A replica that was not heard of for so long is dead, and its bookings expire. Default 10 s. Give it several
    /// heartbeats.
    pub dead_after: Duration,
    /// How long a missing change may be under way before a snapshot is asked for. Default 100 ms.
    pub patience: Duration,
    /// When an unanswered question for a snapshot is asked again. Default 1 s.
    pub ask_again: Duration,
}

impl Default for SyncConfig {
    fn default() -> Self {
        Self {
            max_replicas: 64,
            max_held: 4_096,
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
    /// An earlier one is missing. It is held, or will come with a snapshot.
    Ahead,
    /// It is of a life that has ended, or is our own.
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
    /// Changes that wait for an earlier one.
    pub held: usize,
    /// Changes applied since the beginning.
    pub applied: u64,
    /// Snapshots applied since the beginning.
    pub snapshots: u64,
    /// Bookings that could not be counted, because their rank is unknown here or a bound is reached. They are asked for
    /// again: when a rank is added, or every [`SyncConfig::ask_again`] while there is no room.
    pub refused: u64,
    /// Replicas that fell silent.
    pub expired: u64,
}

/// Releases remembered while a snapshot is wanted. Above it only a younger snapshot will do.
const MOST_RELEASED: usize = 65_536;

/// What is known of one replica.
#[derive(Debug)]
struct Peer {
    life: u64,
    /// The number of the next change to apply.
    next: u64,
    /// One more than the highest number heard of.
    known: u64,
    /// Everything is wanted anew, whatever the numbers say, since the next change had this number.
    incomplete: Option<u64>,
    /// What was released since then: a snapshot that was overtaken must not bring it back.
    released: FxHashSet<BookingName>,
    /// When a booking could not be counted for lack of room, since everything was asked for last.
    refused: Option<Instant>,
    behind_since: Option<Instant>,
    asked: Option<Instant>,
    heard: Instant,
    bookings: FxHashMap<BookingName, Booking>,
    held: BTreeMap<u64, LoadDelta>,
}

impl Peer {
    fn new(life: u64, now: Instant) -> Self {
        Self {
            life,
            next: 0,
            known: 0,
            incomplete: None,
            released: FxHashSet::default(),
            refused: None,
            behind_since: None,
            asked: None,
            heard: now,
            bookings: FxHashMap::default(),
            held: BTreeMap::new(),
        }
    }

    fn is_behind(&self) -> bool {
        self.incomplete.is_some() || self.next < self.known
    }

    /// Wants everything anew. Only snapshots from now on will do: what was refused before is in them.
    fn lack(&mut self) {
        self.incomplete = Some(self.next);
        self.released.clear();
    }

    fn lack_nothing(&mut self) {
        self.incomplete = None;
        self.released = FxHashSet::default();
    }

    fn note_progress(&mut self, now: Instant) {
        if !self.is_behind() {
            (self.behind_since, self.asked) = (None, None);
        } else if self.behind_since.is_none() {
            self.behind_since = Some(now);
        }
    }
}

/// Books what other replicas have booked, so that a [`LoadTracker`] shows the load of the whole fleet.
///
/// Feed it every message, however late, often or out of order it comes, and two duties on a timer: send what
/// [`wanted`](Self::wanted) asks for, and let the dead [expire](Self::expire). Send out, just as often, what
/// [`LoadTracker::take_deltas`] gives, an empty batch too: it is a heartbeat.
///
/// # Consistency
///
/// Once every message has arrived that is not lost, and every snapshot asked for, the load of each rank is equal on all
/// replicas that know the rank. A change that is lost is noticed by the next message of its sender.
#[derive(Debug)]
pub struct ReplicaSync {
    tracker: LoadTracker,
    own: ReplicaLife,
    config: SyncConfig,
    peers: BTreeMap<ReplicaId, Peer>,
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
        Ok(Self { tracker, own, config, peers: BTreeMap::new(), stats: SyncStats::default() })
    }

    /// Takes changes of another replica.
    pub fn receive(&mut self, batch: DeltaBatch, now: Instant) -> SyncOutcome {
        let DeltaBatch { from, first, deltas } = batch;
        let Some(peer) = greet(&mut self.peers, self.own, &self.config, from, now) else {
            return self.turned_away(from);
        };
        let end = first.saturating_add(deltas.len() as u64);
        peer.known = peer.known.max(end);
        let before = peer.next;
        for (number, delta) in (first..end).zip(deltas) {
            match number.cmp(&peer.next) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => apply(&self.tracker, &mut self.stats, peer, delta, now),
                std::cmp::Ordering::Greater if peer.held.len() < self.config.max_held => {
                    peer.held.insert(number, delta);
                }
                std::cmp::Ordering::Greater => {}
            }
        }
        catch_up(&self.tracker, &mut self.stats, peer, now);
        peer.note_progress(now);
        match peer.next {
            next if next > before => SyncOutcome::Applied,
            next if next < end => SyncOutcome::Ahead,
            _ => SyncOutcome::Known,
        }
    }

    /// Takes all bookings of another replica. They replace what was known of it.
    pub fn receive_snapshot(&mut self, snapshot: BookingsSnapshot, now: Instant) -> SyncOutcome {
        let BookingsSnapshot { from, next, bookings } = snapshot;
        let Some(peer) = greet(&mut self.peers, self.own, &self.config, from, now) else {
            return self.turned_away(from);
        };
        peer.known = peer.known.max(next);
        if next < peer.next {
            // It would undo changes that were applied since. But what it has and we have not, and what was not released
            // since, could not be counted when it was booked.
            if peer.incomplete.is_none_or(|since| next < since) {
                return SyncOutcome::Known;
            }
            for booking in bookings {
                if !peer.released.contains(&booking.name) {
                    let held = peer.bookings.remove(&booking.name);
                    renew(&self.tracker, &mut self.stats, peer, held, booking, now);
                }
            }
        } else {
            let mut gone = std::mem::take(&mut peer.bookings);
            for booking in bookings {
                let held = gone.remove(&booking.name);
                renew(&self.tracker, &mut self.stats, peer, held, booking, now);
            }
            drop(gone);
            peer.next = next;
            peer.held = peer.held.split_off(&next);
        }
        peer.lack_nothing();
        catch_up(&self.tracker, &mut self.stats, peer, now);
        // The question is answered, even if there is more to ask.
        (peer.behind_since, peer.asked) = (None, None);
        peer.note_progress(now);
        self.stats.snapshots += 1;
        SyncOutcome::Applied
    }

    fn turned_away(&self, from: ReplicaLife) -> SyncOutcome {
        let is_known = from.replica == self.own.replica || self.peers.contains_key(&from.replica);
        if is_known { SyncOutcome::Stale } else { SyncOutcome::TooManyReplicas }
    }

    /// The replicas of which a snapshot is needed now: ask each for its [`LoadTracker::bookings_snapshot`].
    pub fn wanted(&mut self, now: Instant) -> Vec<ReplicaId> {
        let SyncConfig { patience, ask_again, .. } = self.config;
        let since = |then: Instant| now.saturating_duration_since(then);
        let mut wanted = Vec::new();
        for (&replica, peer) in &mut self.peers {
            if peer.refused.is_some_and(|then| since(then) >= ask_again) {
                peer.refused = None;
                peer.lack();
                peer.note_progress(now);
            }
            let is_due =
                peer.behind_since.is_some_and(|then| peer.incomplete.is_some() || since(then) >= patience);
            if is_due && peer.asked.is_none_or(|then| since(then) >= ask_again) {
                peer.asked = Some(now);
                wanted.push(replica);
            }
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

    /// Gives back the bookings of a replica that said goodbye. `false` when it is unknown.
    pub fn forget(&mut self, replica: ReplicaId) -> bool {
        self.peers.remove(&replica).is_some()
    }

    /// Says that a rank was added to the tracker: others may have bookings on it that did not count before. They are
    /// asked for everything anew.
    pub fn rank_added(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.lack();
            peer.note_progress(now);
        }
    }

    /// What is held, and has been counted.
    pub fn stats(&self) -> SyncStats {
        SyncStats {
            replicas: self.peers.len(),
            behind: self.peers.values().filter(|peer| peer.is_behind()).count(),
            bookings: self.peers.values().map(|peer| peer.bookings.len()).sum(),
            held: self.peers.values().map(|peer| peer.held.len()).sum(),
            ..self.stats
        }
    }
}

/// The sender of a message, in the life that the message is of. `None` when it does not count.
fn greet<'p>(
    peers: &'p mut BTreeMap<ReplicaId, Peer>,
    own: ReplicaLife,
    config: &SyncConfig,
    from: ReplicaLife,
    now: Instant,
) -> Option<&'p mut Peer> {
    let is_full = peers.len() >= config.max_replicas && !peers.contains_key(&from.replica);
    if from.replica == own.replica || is_full {
        return None;
    }
    let peer = peers.entry(from.replica).or_insert_with(|| Peer::new(from.life, now));
    if from.life < peer.life {
        return None;
    }
    if from.life > peer.life {
        *peer = Peer::new(from.life, now);
    }
    peer.heard = peer.heard.max(now);
    Some(peer)
}

/// Applies what was held and is no longer ahead.
fn catch_up(tracker: &LoadTracker, stats: &mut SyncStats, peer: &mut Peer, now: Instant) {
    while let Some(entry) = peer.held.first_entry() {
        if *entry.key() > peer.next {
            break;
        }
        let (number, delta) = entry.remove_entry();
        if number == peer.next {
            apply(tracker, stats, peer, delta, now);
        }
    }
}

fn apply(tracker: &LoadTracker, stats: &mut SyncStats, peer: &mut Peer, delta: LoadDelta, now: Instant) {
    match delta {
        LoadDelta::Booked(booking) => book(tracker, stats, peer, booking, now),
        LoadDelta::Progressed { name, prefill_tokens, output_blocks } => {
            if let Some(booking) = peer.bookings.get(&name) {
                let _ = booking.set_progress(prefill_tokens, output_blocks, now);
            }
        }
        LoadDelta::Released { name } => {
            peer.bookings.remove(&name);
            if peer.incomplete.is_some() {
                peer.released.insert(name);
            }
        }
    }
    peer.next += 1;
    if peer.released.len() > MOST_RELEASED {
        peer.lack();
    }
    stats.applied += 1;
}

/// Counts a booking of a snapshot, of which `held` is known.
fn renew(
    tracker: &LoadTracker,
    stats: &mut SyncStats,
    peer: &mut Peer,
    held: Option<Booking>,
    booking: SharedBooking,
    now: Instant,
) {
    let told = (booking.prefill_tokens, booking.output_blocks);
    match held {
        Some(held) if held.set_progress(told.0, told.1, now) == BookingState::Held => {
            peer.bookings.insert(booking.name, held);
        }
        // One whose rank left and came back counts for nothing: it is booked again.
        _ => book(tracker, stats, peer, booking, now),
    }
}

fn book(tracker: &LoadTracker, stats: &mut SyncStats, peer: &mut Peer, booking: SharedBooking, now: Instant) {
    // A snapshot may have been ahead of the change that booked it.
    if peer.bookings.contains_key(&booking.name) {
        return;
    }
    match tracker.book_shared(&booking, now) {
        Ok(held) => {
            peer.bookings.insert(booking.name, held);
        }
        Err(error) => {
            stats.refused += 1;
            // For a rank that is unknown here there is `rank_added`; room may come up at any time.
            if !matches!(error, BookError::UnknownRank { .. }) {
                peer.refused.get_or_insert(now);
            }
        }
    }
}
