//! Replays of many publishers, a few at a time, each on a socket of its own that lives for one try.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use kv_router_transport::{Jitter, RecoveryId, ReplayRequest};

use super::answer::{Answer, Next, Verdict};
use super::sockets::{Shelf, Sockets, configure};
use super::{Output, PublisherState, RECEIVES_PER_TURN};
use crate::frames::Frames;
use crate::{Endpoint, Incoming, PublisherId, ReplayFailure, SocketError, SocketOperation, SubscriberConfig};

/// Replays by their state. A publisher has one at most.
#[derive(Default)]
pub(super) struct Replays {
    waiting: VecDeque<Replay>,
    running: Vec<Replay>,
}

pub(super) struct Replay {
    publisher: PublisherId,
    endpoint: Endpoint,
    shelf: Shelf,
    state: Arc<PublisherState>,
    answer: Answer,
    phase: Phase,
}

enum Phase {
    /// To be asked then.
    Due(Instant),
    Asked(zmq::Socket),
    /// Over; to be said as soon as there is room.
    Over(Result<(), ReplayFailure>),
}

/// Whose replay it is and where it is asked for.
pub(super) struct Target {
    pub(super) publisher: PublisherId,
    pub(super) endpoint: Endpoint,
    pub(super) shelf: Shelf,
    pub(super) state: Arc<PublisherState>,
}

impl Replays {
    /// Queues a request in place of the one that its publisher has.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        target: Target,
        ask: ReplayRequest,
        config: &SubscriberConfig,
    ) {
        self.cancel(target.publisher, None);
        let Target { publisher, endpoint, shelf, state } = target;
        state.health.lock().replays.asked += 1;
        let answer = Answer::new(ask, config.replay, now);
        self.waiting.push_back(Replay { publisher, endpoint, shelf, state, answer, phase: Phase::Due(now) });
    }

    /// Forgets a publisher's replay: any, or this one.
    pub(super) fn cancel(&mut self, publisher: PublisherId, id: Option<RecoveryId>) {
        let keep = |replay: &mut Replay| {
            let hit = replay.publisher == publisher && id.is_none_or(|id| id == replay.answer.ask().id);
            if hit && !matches!(replay.phase, Phase::Over(_)) {
                replay.state.health.lock().replays.cancelled += 1;
            }
            !hit
        };
        self.waiting.retain_mut(keep);
        self.running.retain_mut(keep);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// The sockets to wait for, with the place of each for [`Replays::receive`].
    pub(super) fn sockets(&self) -> impl Iterator<Item = (usize, &zmq::Socket)> {
        self.running.iter().enumerate().filter_map(|(place, replay)| match &replay.phase {
            Phase::Asked(socket) => Some((place, socket)),
            Phase::Due(_) | Phase::Over(_) => None,
        })
    }

    /// The queue is full, and nothing was read: nobody is late because of that.
    pub(super) fn excuse(&mut self, now: Instant) {
        for replay in &mut self.running {
            replay.answer.excuse(now);
        }
    }

    /// Starts what is due, ends what is overdue, says what is over.
    pub(super) fn tend(
        &mut self,
        now: Instant,
        config: &SubscriberConfig,
        sockets: &Sockets,
        jitter: &mut Jitter,
        output: &mut Output,
    ) {
        for replay in &mut self.waiting {
            if now >= replay.answer.deadline() {
                replay.over(Err(ReplayFailure::Deadline));
            }
        }
        // What is over while it waits only needs to be said: it moves past the others.
        while let Some(place) = self.waiting.iter().position(|replay| matches!(replay.phase, Phase::Over(_)))
        {
            self.running.extend(self.waiting.remove(place));
        }
        let busy = self.running.iter().filter(|replay| !matches!(replay.phase, Phase::Over(_))).count();
        for _ in busy..config.replay.at_once {
            self.running.extend(self.waiting.pop_front());
        }
        for replay in &mut self.running {
            replay.tend(now, config, sockets, jitter);
        }
        self.running.retain(|replay| !replay.said(output));
    }

    /// Reads from the replay at this place, for a turn.
    pub(super) fn receive(
        &mut self,
        place: usize,
        now: Instant,
        frames: &mut Frames,
        jitter: &mut Jitter,
        output: &mut Output,
        limit: usize,
    ) {
        let Some(replay) = self.running.get_mut(place) else { return };
        replay.receive(now, frames, jitter, output, limit);
        if replay.said(output) {
            self.running.remove(place);
        }
    }
}

impl Replay {
    fn tend(&mut self, now: Instant, config: &SubscriberConfig, sockets: &Sockets, jitter: &mut Jitter) {
        match &self.phase {
            Phase::Over(_) => {}
            _ if now >= self.answer.deadline() => self.over(Err(ReplayFailure::Deadline)),
            Phase::Due(at) if now >= *at => {
                let from = self.answer.start(now);
                self.state.health.lock().replays.tries += 1;
                match self.send(from, config, sockets) {
                    Ok(socket) => self.phase = Phase::Asked(socket),
                    Err(_) => self.over(Err(ReplayFailure::NoSocket)),
                }
            }
            Phase::Asked(_) if self.answer.overdue(now) => self.try_again(now, jitter),
            Phase::Due(_) | Phase::Asked(_) => {}
        }
    }

    /// A request needs the empty delimiter: without it engines log it and stay silent.
    fn send(
        &self,
        from: u64,
        config: &SubscriberConfig,
        sockets: &Sockets,
    ) -> Result<zmq::Socket, SocketError> {
        let socket = sockets.create(self.shelf, zmq::DEALER)?;
        configure(&socket, config).map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
        // The engine sends its whole buffer at once, and what does not fit is lost without a word. Our own end of
        // the connection must not be what it does not fit into.
        socket
            .set_rcvhwm(REPLAY_BACKLOG)
            .map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
        socket
            .connect(self.endpoint.as_str())
            .and_then(|()| socket.send_multipart([&[][..], &from.to_be_bytes()[..]], zmq::DONTWAIT))
            .map_err(|error| SocketError::new(SocketOperation::Connect, error))?;
        Ok(socket)
    }

    fn receive(
        &mut self,
        now: Instant,
        frames: &mut Frames,
        jitter: &mut Jitter,
        output: &mut Output,
        limit: usize,
    ) {
        for _ in 0..RECEIVES_PER_TURN {
            let Phase::Asked(socket) = &self.phase else { return };
            if frames.receive(socket, limit).is_err() {
                return;
            }
            let message = match frames.replayed() {
                Ok(message) => message,
                Err(fault) => {
                    self.state.health.lock().replays.faults.add(fault);
                    continue;
                }
            };
            let (publisher, replay) = (self.publisher, self.answer.ask().id);
            match self.answer.message(now, message) {
                Verdict::Ignore => {}
                Verdict::Deliver { sequence, payload } => {
                    self.state.health.lock().replays.batches += 1;
                    output.replayed(Incoming::Replayed { publisher, replay, sequence, payload });
                    if output.is_half_full() {
                        return;
                    }
                }
                Verdict::DeliverLast { sequence, payload } => {
                    self.state.health.lock().replays.batches += 1;
                    output.replayed(Incoming::Replayed { publisher, replay, sequence, payload });
                    self.over(Ok(()));
                }
                Verdict::Ended => self.over(Ok(())),
                Verdict::TryAgain => self.try_again(now, jitter),
                Verdict::Failed(reason) => self.over(Err(reason)),
            }
        }
    }

    fn try_again(&mut self, now: Instant, jitter: &mut Jitter) {
        match self.answer.after_try(now, jitter) {
            Next::Wait(wait) => self.phase = Phase::Due(now + wait),
            Next::Fail(reason) => self.over(Err(reason)),
        }
    }

    fn over(&mut self, result: Result<(), ReplayFailure>) {
        let mut health = self.state.health.lock();
        match result {
            Ok(()) => health.replays.ended += 1,
            Err(_) => health.replays.failed += 1,
        }
        drop(health);
        self.phase = Phase::Over(result);
    }

    /// Says how it ended, if it did and there is room to say so.
    fn said(&self, output: &mut Output) -> bool {
        let (publisher, replay) = (self.publisher, self.answer.ask().id);
        match self.phase {
            Phase::Over(Ok(())) => output.control(Incoming::ReplayEnded { publisher, replay }),
            Phase::Over(Err(reason)) => output.control(Incoming::ReplayFailed { publisher, replay, reason }),
            Phase::Due(_) | Phase::Asked(_) => false,
        }
    }
}

/// Batches of a replay that wait in ZeroMQ. Ten times the buffer that engines have by default.
const REPLAY_BACKLOG: i32 = 100_000;
