//! The gap rule of one rank as a pure state machine: inputs here, lives in `life`, recoveries in `recovery`.
//!
//! The rule itself is on [`StreamSequencer`] and in the crate's documentation. Deliberately absent: I/O, clock,
//! threads, a look into payloads, and a throttle on the requests of many ranks, which is up to whoever executes
//! them.

mod action;
mod config;
mod life;
mod recovery;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

pub use action::{
    Action, ForgetReason, Numbered, RecoveryId, ReplayRequest, SequencerCounters, SkipReason,
    SnapshotRequest, Standing,
};
pub use config::{ReplayWaits, SequencerConfig, SequencerConfigError};

use self::life::Place;
use crate::{Incarnation, Watermark};

/// Puts the batches of one worker rank in order, and tells how far its state can be trusted.
///
/// A pure state machine: batches, answers and the time go in, [`Action`]s come out, appended to `out` in the
/// order in which they are to be done; clear and reuse that buffer. The crate's documentation has the gap rule.
///
/// # Lives
///
/// [`Numbered::incarnation`] tells one life of an engine from the next, exactly, whatever the transport loses,
/// repeats or reorders:
///
/// * the same incarnation and a sequence that was applied already: a duplicate, skipped;
/// * a lower incarnation: stale, never applies;
/// * a higher incarnation: the rank is forgotten, then the new life starts.
///
/// The event streams of engines have no incarnations. [`RankFeed`](crate::RankFeed) finds out about their lives, and
/// numbers them.
///
/// # Guarantees
///
/// * Between two [`Action::Forget`]s the applied batches are a run of one life, without holes or repeats, in
///   order. A store before a clear therefore never comes after it.
/// * Lives never go back. Within a life sequences do not either, no batch applies twice, unless the caller asks for
///   it with [`resync`](Self::resync), [`restored`](Self::restored) or [`revive`](Self::revive).
/// * Each batch put in comes out exactly once, as [`Action::Apply`] or as [`Action::Skip`] with its reason, or is
///   held. At most [`SequencerConfig::held`] are.
/// * Exactly while the rank is [`Standing::Recovering`] there is a deadline, and [`tick`](Self::tick) or any
///   batch after it ends the wait.
///
/// # Cold and fresh
///
/// A rank becomes [`Standing::Cold`] when something was lost for good. It becomes [`Standing::Fresh`] again when
///
/// * a batch with a clear is applied,
/// * a new life is seen from its first batch,
/// * a replay from the first batch of the life on is complete, or
/// * a state with a watermark is restored and what came after it is applied,
///
/// and never otherwise: time heals nothing.
///
/// # Cost
///
/// O(log held) an input while recovering and O(1) otherwise; allocates only to hold a batch.
pub struct StreamSequencer<P> {
    config: SequencerConfig,
    phase: Phase,
    /// The newest life heard of. Kept while retired, as the fence for older batches.
    life: Option<Incarnation>,
    /// Whether a batch or a restored state of the present life was seen.
    contact: bool,
    /// The batch that extends the run. All before it are applied, or given up.
    next: u64,
    /// The highest sequence of this life known to exist.
    known: Option<u64>,
    /// The highest sequence of this life that came live.
    newest_live: Option<u64>,
    /// Batches ahead of `next`, none above `known`. Empty unless recovering.
    held: BTreeMap<u64, Held<P>>,
    /// Whether the run has all that the rank holds.
    whole: bool,
    /// Whether nothing was applied or restored since the rank was forgotten.
    blank: bool,
    suspect: bool,
    /// Whether this recovery asked a peer already: one recovery asks once.
    snapshot_tried: bool,
    requests: u64,
    counters: SequencerCounters,
}

struct Held<P> {
    clears: bool,
    lossy: bool,
    payload: P,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing was heard.
    Initial,
    Live,
    Replaying(Replay),
    AwaitingSnapshot(SnapshotWait),
    /// The worker is gone.
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Replay {
    id: RecoveryId,
    to: Option<u64>,
    /// `newest_live` when this was asked: what is open-ended is caught up once a later batch came live.
    newest_live: Option<u64>,
    idle_until: Instant,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct SnapshotWait {
    id: RecoveryId,
    until: Instant,
    /// The replay source answers, only not from far enough back: it is worth a second question.
    replay_alive: bool,
}

impl<P> StreamSequencer<P> {
    /// A sequencer for a rank that nothing is known of.
    ///
    /// # Errors
    ///
    /// [`SequencerConfigError`] when the configuration contradicts itself.
    pub fn new(config: SequencerConfig) -> Result<Self, SequencerConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            phase: Phase::Initial,
            life: None,
            contact: false,
            next: config.first_sequence,
            known: None,
            newest_live: None,
            held: BTreeMap::new(),
            whole: false,
            blank: true,
            suspect: false,
            snapshot_tried: false,
            requests: 0,
            counters: SequencerCounters::default(),
        })
    }

    /// A batch came from the live stream.
    pub fn live(&mut self, now: Instant, batch: Numbered<P>, out: &mut Vec<Action<P>>) {
        self.tick(now, out);
        let sequence = batch.sequence;
        match self.place(&batch) {
            _ if sequence == u64::MAX => return self.skip(sequence, SkipReason::Reserved, out),
            Place::Stale => return self.skip(sequence, SkipReason::Stale, out),
            Place::Starts(reason) => self.begin_life(&batch, reason, out),
            Place::Continues => {}
        }
        self.newest_live = self.newest_live.max(Some(sequence));
        self.arrived(now, batch, out);
    }

    /// A batch came in answer to replay request `id`. Batches of one answer come in order.
    pub fn replayed(&mut self, now: Instant, id: RecoveryId, batch: Numbered<P>, out: &mut Vec<Action<P>>) {
        self.tick(now, out);
        let sequence = batch.sequence;
        if !self.answers(now, id) {
            return self.skip(sequence, SkipReason::Unasked, out);
        }
        match self.place(&batch) {
            _ if sequence == u64::MAX => self.skip(sequence, SkipReason::Reserved, out),
            Place::Stale => self.skip(sequence, SkipReason::Stale, out),
            Place::Starts(reason) => {
                self.begin_life(&batch, reason, out);
                // A newer life ends the recovery that asked; its own gap is a new one.
                match self.phase {
                    Phase::Replaying(replay) => self.replay_arrived(now, replay, batch, out),
                    _ => self.arrived(now, batch, out),
                }
            }
            Place::Continues => {
                if let Phase::Replaying(replay) = self.phase {
                    self.replay_arrived(now, replay, batch, out);
                }
            }
        }
    }

    /// The source sent something in answer to replay request `id`: it has its time for the next batch. `false` when
    /// that request is no longer open.
    pub(crate) fn answers(&mut self, now: Instant, id: RecoveryId) -> bool {
        let waits = self.config.replay.unwrap_or_default();
        match &mut self.phase {
            Phase::Replaying(replay) if replay.id == id => {
                replay.idle_until = now + waits.idle;
                true
            }
            _ => false,
        }
    }

    /// The answer to replay request `id` is complete. Nothing happens when that request is no longer open.
    pub fn replay_ended(&mut self, now: Instant, id: RecoveryId, out: &mut Vec<Action<P>>) {
        if let Phase::Replaying(replay) = self.phase
            && replay.id == id
        {
            self.answered(now, replay, out);
        }
    }

    /// Replay request `id` cannot be answered, or not to the end. Nothing happens when it is no longer open.
    pub fn replay_failed(&mut self, now: Instant, id: RecoveryId, out: &mut Vec<Action<P>>) {
        if let Phase::Replaying(replay) = self.phase
            && replay.id == id
        {
            self.unanswered(now, replay, ForgetReason::ReplayFailed, out);
        }
    }

    /// Snapshot request `id` cannot be answered. Nothing happens when it is no longer open.
    pub fn snapshot_failed(&mut self, now: Instant, id: RecoveryId, out: &mut Vec<Action<P>>) {
        if let Phase::AwaitingSnapshot(wait) = self.phase
            && wait.id == id
        {
            self.without_snapshot(now, wait, ForgetReason::SnapshotFailed, out);
        }
    }

    /// What the rank holds was just replaced by a state with this watermark: a peer's snapshot, or at start a
    /// dump.
    ///
    /// Batches held from before it are dropped, those after it join; what is missing between is replayed, or
    /// else the state is forgotten again. A snapshot that comes after its wait ended is better not restored at
    /// all ([`recovers_by_snapshot`](Self::recovers_by_snapshot)).
    pub fn restored(&mut self, now: Instant, watermark: Watermark, out: &mut Vec<Action<P>>) {
        self.join(now, watermark, out);
    }

    /// Ends a wait whose deadline has come. Cheap: call it whenever the thread is idle, and at
    /// [`next_deadline`](Self::next_deadline) at the latest. A batch put in does it too.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        match self.phase {
            Phase::Replaying(replay) if now >= replay.idle_until.min(replay.until) => {
                self.unanswered(now, replay, ForgetReason::ReplayDeadline, out);
            }
            Phase::AwaitingSnapshot(wait) if now >= wait.until => {
                self.without_snapshot(now, wait, ForgetReason::SnapshotDeadline, out);
            }
            _ => {}
        }
    }

    /// Asks for what may have been published unseen: at start, and after a lost connection came back.
    ///
    /// Without it a rank whose engine is idle stays unknown until its next batch. Amid a replay that only fills a
    /// hole, everything is asked for in its place. Does nothing while that is asked for already or a snapshot is
    /// waited for, while retired, and when no source can tell. When the source fails and nothing is known to be
    /// missing, the rank stands as it did before: the next live batch tells.
    pub fn catch_up(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        let asked = match self.phase {
            Phase::Initial | Phase::Live => {
                self.snapshot_tried = false;
                self.request_replay(now, None, out)
            }
            Phase::Replaying(Replay { to: Some(_), .. }) => self.request_replay(now, None, out),
            _ => return,
        };
        if !asked && !self.contact {
            self.request_snapshot(now, false, out);
        }
    }

    /// The same, where what is open was asked of a process that may be gone: all of it is asked for anew.
    pub(crate) fn catch_up_anew(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        match self.phase {
            Phase::Replaying(_) => drop(self.request_replay(now, None, out)),
            _ => self.catch_up(now, out),
        }
    }

    /// Forgets the rank and rebuilds it from the start, because what it holds is found to be wrong: too many
    /// unknown parents, an event that could not be decoded.
    ///
    /// Does nothing, and says so with `false`, when there is no source to rebuild from, before the first batch,
    /// and while recovering or retired.
    pub fn resync(&mut self, now: Instant, out: &mut Vec<Action<P>>) -> bool {
        let source = self.config.replay.is_some() || self.config.snapshot.is_some();
        if !matches!(self.phase, Phase::Live) || !source {
            return false;
        }
        self.forget(ForgetReason::Resync, out);
        self.whole = true;
        self.next = self.known.map_or(self.next, |known| known.min(self.config.first_sequence));
        self.recover(now, out);
        true
    }

    /// The worker is gone: forgets the rank and fences it off.
    ///
    /// Batches still under way are stale from now on, so that they do not bring its blocks back. A higher
    /// incarnation ends this, and so does [`revive`](Self::revive).
    pub fn retire(&mut self, out: &mut Vec<Action<P>>) {
        self.abandon_below(u64::MAX, out);
        self.forget(ForgetReason::Retired, out);
        self.phase = Phase::Retired;
        self.leave_life();
    }

    /// A retired worker is back: its next batch is the first contact. Nothing happens when it is not retired.
    pub fn revive(&mut self) {
        if matches!(self.phase, Phase::Retired) {
            self.phase = Phase::Initial;
        }
    }

    /// Whether the worker is gone: nothing is held, and nothing of the life that was applies any more.
    pub fn is_retired(&self) -> bool {
        matches!(self.phase, Phase::Retired)
    }

    /// What the rank holds was found to be wrong in part, for instance because the index refused a store.
    ///
    /// Only marks: [`is_suspect`](Self::is_suspect) is true, and there is no watermark, until the rank is
    /// forgotten, cleared or restored. Whether to [`resync`](Self::resync) is the caller's choice. An event that
    /// was lost from a batch is better told with the batch ([`Numbered::lossy`]), which may be held first.
    pub fn mark_suspect(&mut self) {
        self.suspect = true;
    }

    /// Whether what the rank holds is wrong in part: a batch in it was lossy, or it was marked.
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// How far the rank's state can be trusted now.
    pub fn standing(&self) -> Standing {
        match self.phase {
            Phase::Replaying(_) | Phase::AwaitingSnapshot(_) => Standing::Recovering,
            Phase::Live if self.whole => Standing::Fresh,
            Phase::Live | Phase::Initial | Phase::Retired => Standing::Cold,
        }
    }

    /// The watermark of the state as applied so far. `None` when that state is not all the rank holds, for then
    /// a dump of it could not be told from a whole one.
    ///
    /// Take it before the dump: batches applied meanwhile are replayed over it, which changes nothing.
    pub fn watermark(&self) -> Option<Watermark> {
        let life = self.life.filter(|_| self.whole && !self.blank && !self.suspect)?;
        Some(Watermark::new(life, self.next.checked_sub(1)?))
    }

    /// When to [`tick`](Self::tick) next. `Some` exactly while recovering.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Replaying(replay) => Some(replay.idle_until.min(replay.until)),
            Phase::AwaitingSnapshot(wait) => Some(wait.until),
            Phase::Initial | Phase::Live | Phase::Retired => None,
        }
    }

    /// Whether a snapshot would still be of use.
    pub fn recovers_by_snapshot(&self) -> bool {
        matches!(self.phase, Phase::AwaitingSnapshot(_))
    }

    /// Whether replay request `id` is still open. A source may stop sending once it is not.
    pub fn wants_replay(&self, id: RecoveryId) -> bool {
        matches!(self.phase, Phase::Replaying(replay) if replay.id == id)
    }

    /// Live batches held now.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What happened so far.
    pub fn counters(&self) -> SequencerCounters {
        self.counters
    }
}

impl<P> fmt::Debug for StreamSequencer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSequencer")
            .field("phase", &self.phase)
            .field("life", &self.life)
            .field("next", &self.next)
            .field("known", &self.known)
            .field("held", &self.held.len())
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
