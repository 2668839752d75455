//! One rank's stream: from what its sockets bring to what its index is to do.
//!
//! The sequence machine of `kv-router-transport` knows numbers and lives. Engines send numbers alone, so the feed
//! finds out about lives: over one connection a life goes on; over a new one it goes on exactly if the replay
//! source still has the last batch that was applied here, byte for byte. A live stream and a replay may also come
//! from two lives, while the connection to the older one is still open. So a replay shows both banks of the hole that
//! it fills, and a batch that comes both ways must be the same. No I/O here, and no clock.

mod config;
mod life;
mod replay;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use kv_router_transport::{
    Action, ForgetReason, Incarnation, Lives, Numbered, ReplayRequest, SequencerConfig, SequencerConfigError,
    SequencerCounters, Standing, StreamSequencer,
};

pub use self::config::FeedConfig;
use crate::backoff::Jitter;
use crate::{Anchor, Connection, Fingerprint, Incoming, Payload, ReplayAsk, ReplayFailure, ReplayId};

/// A payload as far as the sequence machine needs to know it.
#[derive(Debug)]
pub struct Decoded<P> {
    /// Whether the rank holds nothing older once this is applied: a clear is in it.
    pub clears: bool,
    /// Whether something of it was lost, for instance an event that could not be decoded.
    pub lossy: bool,
    /// What comes back to be applied, now or later.
    pub payload: P,
}

/// What to do now, in this order.
///
/// Not `#[non_exhaustive]` on purpose: code that forgets a kind of action must not compile.
#[derive(Debug, PartialEq, Eq)]
pub enum FeedAction<P> {
    /// Apply this payload to the rank.
    Apply {
        /// The number of the batch.
        sequence: u64,
        /// As it was decoded.
        payload: P,
    },
    /// Forget everything that the rank holds, in every tier.
    Forget(ForgetReason),
    /// Ask the publisher: [`Subscriber::request_replay`](crate::Subscriber::request_replay).
    Ask(ReplayAsk),
}

/// How one stream does. Numbers only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedHealth {
    /// How far the rank's state can be trusted.
    pub standing: Standing,
    /// Whether a batch lost something before it came to the sequence machine.
    pub suspect: bool,
    /// The last batch applied.
    pub applied: Option<u64>,
    /// Live batches held: by the sequence machine, and until it is known whose life they belong to.
    pub held: usize,
    /// What the sequence machine did.
    pub sequencer: SequencerCounters,
    /// Reconnections over which the life went on.
    pub same_life: u64,
    /// Times a new life began: proven, or not to be disproved.
    pub new_life: u64,
    /// Times a cold rank asked whether the source reaches back to the first batch.
    pub heal_tries: u64,
    /// Times it did.
    pub healed: u64,
}

/// Puts one rank's batches in order, finds out when its engine started again, asks for what is missing, and gets a
/// cold rank warm again as soon as the source allows it.
///
/// # Guarantees
///
/// * What is applied between two [`FeedAction::Forget`]s is a run of batches of one life, in order, without holes
///   or repeats.
/// * Every request ends, by an answer of the subscriber or by a deadline, so no state lasts for ever but live.
/// * With a replay source, a batch of another life is applied on top of this one's only until the next connection
///   is made, which an engine that started again cannot avoid.
///
/// Without a replay source a new connection whose first batch is ahead of the last one is taken for the same life:
/// nothing says otherwise. A hole then makes the rank cold, as it does in any case.
pub struct RankFeed<P> {
    config: FeedConfig,
    sequencer: StreamSequencer<Stamped<P>>,
    actions: Vec<Action<Stamped<P>>>,
    life: u64,
    connection: Option<Connection>,
    /// The highest sequence that came live on this connection.
    newest: Option<u64>,
    /// Whether no batch came yet on a connection that nobody can be asked about.
    first_of_connection: bool,
    /// The last batch applied, if none was forgotten since.
    last: Option<Anchor>,
    /// Live batches of a connection of which it is not known yet whether it continues the life.
    unproven: Option<VecDeque<Live<P>>>,
    /// Batches that came live during this recovery, or that started it: a replay must not show others in their
    /// places.
    seen: BTreeMap<u64, Fingerprint>,
    asked: Option<Asked>,
    /// When the open request is given up, should nobody ever answer it.
    asked_until: Option<(ReplayId, Instant)>,
    requests: u64,
    heal_at: Option<Instant>,
    heal_attempt: u32,
    jitter: Jitter,
    same_life: u64,
    new_life: u64,
    heal_tries: u64,
    healed: u64,
}

/// A payload with what proves its life.
struct Stamped<P> {
    sequence: u64,
    fingerprint: Fingerprint,
    payload: P,
}

struct Live<P> {
    sequence: u64,
    fingerprint: Fingerprint,
    decoded: Decoded<P>,
}

/// The open request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: ReplayId,
    what: Purpose,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The sequence machine wants batches.
    Recover {
        request: ReplayRequest,
        /// What was asked for.
        ask: ReplayAsk,
        /// The batch behind the hole, which the source has still to show.
        behind: Option<Anchor>,
        /// The batch that the answer comes to next.
        next: u64,
        /// Whether the answer left some out: it does not prove what else filled the hole.
        partial: bool,
    },
    /// The rank is cold: does the source reach back to the first batch?
    Heal,
}

impl<P> RankFeed<P> {
    /// A feed of a rank that nothing is known of.
    ///
    /// # Errors
    ///
    /// [`SequencerConfigError`] when a wait or the room for held batches means nothing.
    pub fn new(config: FeedConfig) -> Result<Self, SequencerConfigError> {
        let sequencer = StreamSequencer::new(SequencerConfig {
            lives: Lives::Explicit,
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
            connection: None,
            newest: None,
            first_of_connection: false,
            last: None,
            unproven: None,
            seen: BTreeMap::new(),
            asked: None,
            asked_until: None,
            requests: 0,
            heal_at: None,
            heal_attempt: 0,
            jitter: Jitter::new(config.seed),
            same_life: 0,
            new_life: 0,
            heal_tries: 0,
            healed: 0,
        })
    }

    /// Something happened on the publisher's sockets. `decode` is called for each payload that may be applied.
    pub fn handle(
        &mut self,
        now: Instant,
        incoming: Incoming,
        decode: impl FnOnce(Payload) -> Decoded<P>,
        out: &mut Vec<FeedAction<P>>,
    ) {
        match incoming {
            Incoming::Connected { connection, .. } => self.on_connection(now, connection, out),
            Incoming::Live { connection, sequence, payload, .. } => {
                self.on_connection(now, connection, out);
                let fingerprint = payload.fingerprint();
                self.on_live(now, Live { sequence, fingerprint, decoded: decode(payload) }, out);
            }
            Incoming::Replayed { replay, sequence, payload, .. } => {
                if let Some(asked) = self.asked.filter(|asked| asked.id == replay) {
                    let fingerprint = payload.fingerprint();
                    match asked.what {
                        Purpose::Heal => self.on_reach(now, sequence, out),
                        Purpose::Recover { request, .. } => {
                            let live = Live { sequence, fingerprint, decoded: decode(payload) };
                            self.on_replayed(now, request.id, live, out);
                        }
                    }
                }
            }
            Incoming::ReplayEnded { replay, .. } => self.on_ended(now, replay, out),
            Incoming::ReplayFailed { replay, reason, .. } => self.on_failed(now, replay, reason, out),
        }
        self.settle(now);
    }

    /// Ends waits whose deadline has come, and looks after a cold rank. Call it at
    /// [`next_deadline`](Self::next_deadline) at the latest.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<FeedAction<P>>) {
        self.sequencer.tick(now, &mut self.actions);
        self.drain(out);
        if let Some((id, _)) = self.asked_until.filter(|&(_, until)| now >= until) {
            self.on_failed(now, id, ReplayFailure::Deadline, out);
        }
        if self.may_heal() && self.heal_at.take_if(|at| now >= *at).is_some() {
            self.heal(out);
        }
        self.settle(now);
    }

    /// When to [`tick`](Self::tick) next; `None` when there is nothing to wait for.
    pub fn next_deadline(&self) -> Option<Instant> {
        let asked_until = self.asked_until.map(|(_, until)| until);
        let heal_at = self.heal_at.filter(|_| self.may_heal());
        [self.sequencer.next_deadline(), heal_at, asked_until].into_iter().flatten().min()
    }

    /// How the stream does.
    pub fn health(&self) -> FeedHealth {
        FeedHealth {
            standing: self.sequencer.standing(),
            suspect: self.sequencer.is_suspect(),
            applied: self.last.map(|last| last.sequence),
            held: self.sequencer.held() + self.unproven.as_ref().map_or(0, VecDeque::len),
            sequencer: self.sequencer.counters(),
            same_life: self.same_life,
            new_life: self.new_life,
            heal_tries: self.heal_tries,
            healed: self.healed,
        }
    }

    /// What the rank holds was found to be wrong in part: forgets it and rebuilds it from the first batch, if the
    /// source can. Says whether it does.
    pub fn resync(&mut self, now: Instant, out: &mut Vec<FeedAction<P>>) -> bool {
        let begun = self.sequencer.resync(now, &mut self.actions);
        self.drain(out);
        self.settle(now);
        begun
    }

    /// Asks for what was published unseen. The loss of the very last batches shows only when another one comes, so a
    /// stream that fell silent is worth asking now and then. The rank is [`Standing::Recovering`] until the answer is
    /// there. Does nothing while something is asked already, or without a source.
    pub fn catch_up(&mut self, now: Instant, out: &mut Vec<FeedAction<P>>) {
        if self.asked.is_none() {
            self.sequencer.catch_up(now, &mut self.actions);
            self.drain(out);
            self.settle(now);
        }
    }

    /// Decides whether the rank needs looking after.
    fn settle(&mut self, now: Instant) {
        debug_assert!(self.actions.is_empty(), "nothing to do is left behind");
        if self.sequencer.standing() != Standing::Recovering && self.asked.is_none() {
            self.seen.clear();
        }
        self.asked_until = self.asked.map(|asked| match self.asked_until {
            Some((id, until)) if id == asked.id => (id, until),
            _ => (asked.id, now + self.config.replay.unwrap_or_default().total),
        });
        match self.sequencer.standing() {
            Standing::Fresh => (self.heal_at, self.heal_attempt) = (None, 0),
            Standing::Recovering => {}
            Standing::Cold => {
                if self.may_heal() && self.heal_at.is_none() {
                    let wait = self.config.heal.wait(self.heal_attempt, &mut self.jitter);
                    self.heal_attempt = self.heal_attempt.saturating_add(1);
                    self.heal_at = Some(now + wait);
                }
            }
        }
    }

    /// Whether the rank is cold, there is a source, and nothing is asked of it.
    fn may_heal(&self) -> bool {
        self.config.replay.is_some()
            && self.connection.is_some()
            && self.asked.is_none()
            && self.sequencer.standing() == Standing::Cold
    }

    fn numbered(&self, sequence: u64, fingerprint: Fingerprint, decoded: Decoded<P>) -> Numbered<Stamped<P>> {
        let Decoded { clears, lossy, payload } = decoded;
        Numbered {
            incarnation: Incarnation::new(self.life),
            sequence,
            clears,
            lossy,
            payload: Stamped { sequence, fingerprint, payload },
        }
    }

    /// Turns the sequence machine's actions into ours.
    fn drain(&mut self, out: &mut Vec<FeedAction<P>>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Apply(Stamped { sequence, fingerprint, payload }) => {
                    self.last = Some(Anchor { sequence, fingerprint });
                    out.push(FeedAction::Apply { sequence, payload });
                }
                Action::Forget(reason) => {
                    self.last = None;
                    out.push(FeedAction::Forget(reason));
                }
                Action::RequestReplay(request) => self.ask_for(request, out),
                // Snapshots are not configured; skips are counted by the sequence machine.
                Action::RequestSnapshot(_) | Action::Skip { .. } => {}
            }
        }
        self.actions = actions;
    }
}

impl<P> std::fmt::Debug for RankFeed<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RankFeed")
            .field("connection", &self.connection)
            .field("asked", &self.asked)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
