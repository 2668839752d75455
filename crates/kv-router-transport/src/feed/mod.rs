//! One engine's stream: from what its publisher sends to what its rank is to do.
//!
//! The sequence machine knows numbers and lives. Engines send numbers alone, so the feed finds out about lives: over
//! one connection a life goes on; over a new one, or from a snapshot, it goes on exactly if the replay source still
//! has the last batch that was applied here, byte for byte. A live stream and a replay may also come from two lives,
//! while the connection to the older one is still open. So a replay shows both banks of the hole that it fills, and a
//! batch that comes both ways must be the same. No I/O here, and no clock.

mod config;
mod health;
mod life;
mod replay;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Instant;

pub use self::config::FeedConfig;
pub use self::health::{FeedCounters, FeedHealth};
pub use self::replay::ReplayFault;
use crate::backoff::Jitter;
use crate::{
    Action, FrameHash, Numbered, RecoveryId, ReplayRequest, SequencerConfig, SequencerConfigError, Standing,
    StreamSequencer, Watermark,
};

/// Puts one rank's batches in order, finds out when its engine started again, asks for what is missing, and gets a
/// cold rank warm again as soon as the source allows it. The stream goes on from a [`Watermark`] of its own kind.
///
/// A pure state machine, as [`StreamSequencer`] is, and with its [`Action`]s. What [`Numbered::incarnation`] says is
/// ignored: lives are numbered here.
///
/// # Guarantees
///
/// * What is applied between two [`Action::Forget`]s is a run of batches of one life, in order, without holes
///   or repeats; after [`restored`](Self::restored) it continues the state restored, whose life it is.
/// * Every request ends, by an answer or by a deadline, so no state lasts for ever but live.
/// * Nothing that came over a connection, or behind a state, whose life is not proven yet is applied:
///   [`standing`](Self::standing) is [`Standing::Recovering`] meanwhile.
/// * With a replay source, a batch of another life is applied on top of this one's only until the next connection
///   is made, which an engine that started again cannot avoid.
///
/// Without a replay source a new connection, or a state restored, whose first batch is ahead of the last one is taken
/// for the same life: nothing says otherwise. A hole then makes the rank cold, as it does in any case.
///
/// # Cost
///
/// That of the sequence machine, and while something is asked O(log seen) a batch.
pub struct RankFeed<P> {
    config: FeedConfig,
    sequencer: StreamSequencer<Stamped<P>>,
    actions: Vec<Action<Stamped<P>>>,
    life: u64,
    /// Whether a connection was announced, a state restored, a batch came, or what was published was asked for.
    is_met: bool,
    /// The highest sequence that came live in this life; where nobody can be asked, also that of a state restored.
    newest: Option<u64>,
    /// Whether no batch came yet on a connection that nobody can be asked about.
    first_of_connection: bool,
    /// The last batch applied, or of the state restored, if none was forgotten since.
    last: Option<Anchor>,
    /// Live batches of which it is not known yet whether they continue the life.
    unproven: Option<VecDeque<Live<P>>>,
    /// Batches that came live during this recovery, or that started it: a replay must not show others in their
    /// places.
    seen: BTreeMap<u64, FrameHash>,
    asked: Option<Asked>,
    /// When to ask for the last batch of a state that was restored, should no connection be made until then.
    prove_at: Option<Instant>,
    requests: u64,
    heal_at: Option<Instant>,
    heal_attempt: u32,
    jitter: Jitter,
    counters: FeedCounters,
}

/// A batch that the source must still have as we had it: proof that it is the same life of the same engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    sequence: u64,
    frame: FrameHash,
}

/// A payload with what proves its life.
struct Stamped<P> {
    at: Anchor,
    payload: P,
}

struct Live<P> {
    at: Anchor,
    batch: Numbered<P>,
}

/// The open request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: RecoveryId,
    idle_until: Instant,
    until: Instant,
    what: Purpose,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The sequence machine wants batches.
    Recover(Recovery),
    /// The rank is cold: does the source reach back to the first batch?
    Heal,
}

#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// As the sequence machine put it.
    request: ReplayRequest,
    /// The first batch wanted.
    from: u64,
    /// The batch before `from`: with it the answer has to begin.
    anchor: Option<Anchor>,
    /// Whether the answer has shown it.
    is_anchored: bool,
    /// The batch behind the hole, which the source has still to show.
    behind: Option<Anchor>,
    /// The batch that the answer comes to next.
    next: u64,
    /// Whether the answer left some out: it does not prove what else filled the hole.
    is_partial: bool,
}

impl<P> RankFeed<P> {
    /// A feed of a rank that nothing is known of.
    ///
    /// # Errors
    ///
    /// [`SequencerConfigError`] when a wait or the room for held batches means nothing.
    pub fn new(config: FeedConfig) -> Result<Self, SequencerConfigError> {
        SequencerConfigError::check_wait("heal.first", config.heal.first)?;
        SequencerConfigError::check_wait("heal.longest", config.heal.longest)?;
        let sequencer = StreamSequencer::new(SequencerConfig {
            first_sequence: config.first_sequence,
            replay: config.replay,
            snapshot: None,
            held: config.held,
        })?;
        Ok(Self {
            config,
            sequencer,
            actions: Vec::new(),
            life: 1,
            is_met: false,
            newest: None,
            first_of_connection: false,
            last: None,
            unproven: None,
            seen: BTreeMap::new(),
            asked: None,
            prove_at: None,
            requests: 0,
            heal_at: None,
            heal_attempt: 0,
            jitter: Jitter::new(config.seed),
            counters: FeedCounters::default(),
        })
    }

    /// A connection to the publisher was made, or made anew: what comes live from here on comes over it. A process
    /// that starts again can be reached by a new connection only.
    pub fn connected(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        self.expire(now, out);
        self.on_connection(now, out);
        self.settle(now);
    }

    /// A batch came live.
    pub fn live(&mut self, now: Instant, batch: Numbered<P>, frame: FrameHash, out: &mut Vec<Action<P>>) {
        self.expire(now, out);
        self.is_met = true;
        if self.prove_at.is_some() {
            self.prove(now, out);
        }
        let at = Anchor { sequence: batch.sequence, frame };
        self.on_live(now, Live { at, batch }, out);
        self.settle(now);
    }

    /// A batch came in answer to request `id`. Batches of one answer come in order, as the source sends them.
    pub fn replayed(
        &mut self,
        now: Instant,
        id: RecoveryId,
        batch: Numbered<P>,
        frame: FrameHash,
        out: &mut Vec<Action<P>>,
    ) {
        self.expire(now, out);
        let at = Anchor { sequence: batch.sequence, frame };
        self.on_answer(now, id, Live { at, batch }, out);
        self.settle(now);
    }

    /// The answer to request `id` is complete. Nothing happens when that request is no longer open.
    pub fn replay_ended(&mut self, now: Instant, id: RecoveryId, out: &mut Vec<Action<P>>) {
        self.on_ended(now, id, out);
        self.settle(now);
    }

    /// Request `id` is not answered, or not to its end. Nothing happens when it is no longer open.
    pub fn replay_failed(
        &mut self,
        now: Instant,
        id: RecoveryId,
        fault: ReplayFault,
        out: &mut Vec<Action<P>>,
    ) {
        self.on_failed(now, id, fault, out);
        self.settle(now);
    }

    /// What the rank holds was just replaced by a state that has all batches up to this one, which is a
    /// [watermark](Self::watermark) of another feed of the same engine. Whether the engine is still in the life that
    /// the state is of is asked once it is [connected](Self::connected) or heard of, or else after the first wait of
    /// [`FeedConfig::heal`]: the source has to show that very batch. The state is forgotten otherwise.
    pub fn restored(&mut self, now: Instant, sequence: u64, frame: FrameHash, out: &mut Vec<Action<P>>) {
        self.on_restored(now, Anchor { sequence, frame }, out);
        self.settle(now);
    }

    /// Ends waits whose deadline has come, and looks after a cold rank. Call it at
    /// [`next_deadline`](Self::next_deadline) at the latest.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        self.expire(now, out);
        if self.prove_at.is_some_and(|at| now >= at) {
            self.prove(now, out);
        }
        if self.may_heal() && self.heal_at.take_if(|at| now >= *at).is_some() {
            self.heal(now, out);
        }
        self.settle(now);
    }

    /// What the rank holds was found to be wrong in part: forgets it and rebuilds it from the first batch, if the
    /// source can. Says whether it does.
    pub fn resync(&mut self, now: Instant, out: &mut Vec<Action<P>>) -> bool {
        // What is not proven yet is either proven or forgotten soon.
        let begun = self.unproven.is_none() && self.sequencer.resync(now, &mut self.actions);
        self.drain(now, out);
        self.settle(now);
        begun
    }

    /// Asks for what was published unseen. The loss of the very last batches shows only when another one comes, so a
    /// stream that fell silent is worth asking now and then. The rank is [`Standing::Recovering`] until the answer is
    /// there. Does nothing while something is asked already, or without a source.
    pub fn catch_up(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        if self.asked.is_none() {
            self.is_met = true; // a connection that is made later may be to another life than the answer is of
            self.sequencer.catch_up(now, &mut self.actions);
            self.drain(now, out);
            self.settle(now);
        }
    }

    /// The engine is known to have started again: forgets the rank, and asks for the new life from its first batch on.
    pub fn forget(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        self.begin_life(now, out);
        self.settle(now);
    }

    /// What the rank holds was found to be wrong in part; see [`StreamSequencer::mark_suspect`].
    pub fn mark_suspect(&mut self) {
        self.sequencer.mark_suspect();
    }

    /// Whether what the rank holds is wrong in part: a batch in it was lossy, or it was marked.
    pub fn is_suspect(&self) -> bool {
        self.sequencer.is_suspect()
    }

    /// How far the rank's state can be trusted.
    pub fn standing(&self) -> Standing {
        if self.unproven.is_some() { Standing::Recovering } else { self.sequencer.standing() }
    }

    /// Up to where the state goes, with what proves its life. `None` when the state is not all that the rank holds,
    /// and while it is not proven that all of it is of one life.
    pub fn watermark(&self) -> Option<Watermark> {
        let owes = self.recovery().is_some_and(|open| open.behind.is_some() || open.is_partial);
        let Anchor { sequence, frame } = self.last.filter(|_| !owes)?;
        let mark = self.sequencer.watermark().filter(|mark| mark.sequence == sequence)?;
        Some(Watermark::of_frame(mark.sequence, frame))
    }

    /// When to [`tick`](Self::tick) next; `None` when there is nothing to wait for.
    pub fn next_deadline(&self) -> Option<Instant> {
        let asked_until = self.asked.map(|asked| asked.idle_until.min(asked.until));
        let heal_at = self.heal_at.filter(|_| self.may_heal());
        [self.sequencer.next_deadline(), heal_at, asked_until, self.prove_at].into_iter().flatten().min()
    }

    /// Whether request `id` is still open. A source may stop sending once it is not.
    pub fn wants_replay(&self, id: RecoveryId) -> bool {
        self.asked.is_some_and(|asked| asked.id == id)
    }

    /// Turns the sequence machine's actions into ours.
    fn drain(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            out.push(match action {
                Action::Apply(Stamped { at, payload }) => {
                    self.last = Some(at);
                    Action::Apply(payload)
                }
                Action::Forget(reason) => {
                    self.last = None;
                    Action::Forget(reason)
                }
                Action::RequestReplay(request) => self.ask_for(now, request),
                Action::Skip { sequence, reason } => Action::Skip { sequence, reason },
                // Not configured.
                Action::RequestSnapshot(_) => continue,
            });
        }
        self.actions = actions;
    }
}

impl<P> fmt::Debug for RankFeed<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankFeed")
            .field("asked", &self.asked)
            .field("last", &self.last)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
