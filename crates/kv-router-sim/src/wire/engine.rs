//! An engine's publisher thread, turned by hand: a live stream, replays, and faults on both.
//!
//! Written on bare sockets, and not on `kv_router_zmq::Publisher`, which does none of these things wrong.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use kv_router_types::WorkerRank;
use kv_router_zmq::{Endpoint, ReplayFraming, Source};

use super::{Dialect, Fault, FaultCounts, FaultRates, Holdings, WireCache};
use crate::random::SeededRandom;

/// A mock engine on the wire.
pub struct WireEngine {
    rank: WorkerRank,
    dialect: Dialect,
    cache: WireCache,
    /// Makes the cache of each life.
    new_cache: Box<dyn FnMut() -> WireCache + Send>,
    random: SeededRandom,
    rates: FaultRates,
    counts: FaultCounts,
    live_at: Endpoint,
    replay_at: Endpoint,
    sockets: Option<Sockets>,
    /// Everything that this life published.
    log: Vec<Vec<u8>>,
    /// Held back, to be sent after the next.
    late: Option<(u64, Vec<u8>)>,
    /// The fault of the whole engine, and until when it lasts.
    trouble: Option<(Fault, Instant)>,
    next_trouble: Option<Instant>,
    trickles: VecDeque<Trickle>,
}

struct Sockets {
    live: zmq::Socket,
    replay: zmq::Socket,
    /// Last, so that both are closed before it.
    _context: zmq::Context,
}

/// A slow replay.
struct Trickle {
    peer: Vec<u8>,
    next: usize,
    due: Instant,
}

/// Time between two batches of a slow replay.
const TRICKLE_EVERY: Duration = Duration::from_millis(3);

/// Why an engine has no sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireEngineError {
    code: i32,
}

impl fmt::Display for WireEngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no sockets for a mock engine: {}", std::io::Error::from_raw_os_error(self.code))
    }
}

impl Error for WireEngineError {}

impl From<zmq::Error> for WireEngineError {
    fn from(error: zmq::Error) -> Self {
        Self { code: error.to_raw() }
    }
}

impl WireEngine {
    /// An engine on two free ports that only this machine reaches.
    ///
    /// # Errors
    ///
    /// [`WireEngineError`] when there are none.
    pub fn bind(
        rank: WorkerRank,
        dialect: Dialect,
        seed: u64,
        rates: FaultRates,
        mut new_cache: impl FnMut() -> WireCache + Send + 'static,
    ) -> Result<Self, WireEngineError> {
        let any = Endpoint::loopback(0);
        let sockets = Sockets::bind(&any, &any)?;
        Ok(Self {
            rank,
            dialect,
            cache: new_cache(),
            new_cache: Box::new(new_cache),
            random: SeededRandom::new(seed),
            rates,
            counts: FaultCounts::default(),
            live_at: endpoint(&sockets.live, &any),
            replay_at: endpoint(&sockets.replay, &any),
            sockets: Some(sockets),
            log: Vec::new(),
            late: None,
            trouble: None,
            next_trouble: None,
            trickles: VecDeque::new(),
        })
    }

    /// Where a router listens to it.
    pub fn source(&self) -> Source {
        Source::connect(self.live_at.clone()).with_replay(self.replay_at.clone())
    }

    /// Whose cache it is.
    pub fn rank(&self) -> WorkerRank {
        self.rank
    }

    /// How it writes.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// What is in its cache.
    pub fn holdings(&self) -> Holdings {
        self.cache.holdings(self.rank)
    }

    /// What went wrong so far.
    pub fn faults(&self) -> FaultCounts {
        self.counts
    }

    /// Batches of this life.
    pub fn published(&self) -> u64 {
        self.log.len() as u64
    }

    /// One step of the engine: a batch, with whatever goes wrong with it.
    pub fn step(&mut self, now: Instant) {
        self.turn_of_events(now);
        if matches!(self.trouble, Some((Fault::Stall, _))) {
            return;
        }
        let struck = self.random.below(10_000) < self.rates.batches_in_10_000 as usize;
        let faults = Fault::OF_BATCHES;
        let fault = struck.then(|| faults[self.random.below(faults.len())]);
        // Any moment will do, but no two batches of two lives may have the same.
        let time = 1.7e9 + self.random.next_word() as f64 / u64::MAX as f64 * 1e6;
        let payload = self.cache.step(time, Some(self.rank.rank));
        let sequence = self.log.len() as u64;
        self.log.push(payload.clone());
        if let Some(fault) = fault {
            self.counts.add(fault);
        }
        match fault {
            Some(Fault::Drop) => {}
            Some(Fault::RankCollision) => {
                let mut theirs = payload;
                if let Some(named) = theirs.last_mut() {
                    *named += 1; // a small rank is the last byte
                }
                self.send(sequence, &theirs);
            }
            Some(Fault::Truncate) => self.send(sequence, &payload[..payload.len() - payload.len() / 3]),
            Some(Fault::Reorder) if self.late.is_none() => return self.late = Some((sequence, payload)),
            Some(Fault::Duplicate) => {
                self.send(sequence, &payload);
                self.send(sequence, &payload);
            }
            _ => self.send(sequence, &payload),
        }
        self.send_late();
    }

    /// The process dies, and comes back on the same ports with an empty cache.
    pub fn restart(&mut self) {
        self.sockets = None;
        self.cache = (self.new_cache)();
        self.log.clear();
        self.late = None;
        self.trickles.clear();
    }

    /// Whether it has its ports.
    pub fn is_listening(&self) -> bool {
        self.sockets.is_some()
    }

    /// Nothing goes wrong from now on. What is held back is sent.
    pub fn calm_down(&mut self) {
        self.rates = FaultRates { batches_in_10_000: 0, engine_every: Duration::MAX, ..self.rates };
        self.trouble = None;
        self.next_trouble = None;
        self.send_late();
    }

    /// Answers replay requests. Also listens again after a restart, once the ports are free.
    pub fn serve(&mut self, now: Instant) {
        if self.trouble.is_some_and(|(_, until)| now >= until) {
            self.trouble = None;
        }
        if self.sockets.is_none() {
            // The ports are free once ZeroMQ's own thread has closed them.
            self.sockets = Sockets::bind(&self.live_at, &self.replay_at).ok();
        }
        if matches!(self.trouble, Some((Fault::Stall, _))) {
            return;
        }
        self.trickle(now);
        while let Some((peer, start)) = self.sockets.as_ref().and_then(Sockets::request) {
            self.answer(now, peer, start);
        }
    }

    fn answer(&mut self, now: Instant, peer: Vec<u8>, start: u64) {
        let end = self.log.len();
        let start = usize::try_from(start).unwrap_or(end).min(end);
        let half = start + (end - start) / 2;
        match self.trouble.map(|(fault, _)| fault) {
            Some(Fault::SilentReplay) => return,
            Some(Fault::SlowReplay) => {
                return self.trickles.push_back(Trickle { peer, next: start, due: now });
            }
            Some(Fault::EmptyReplay) => {}
            Some(Fault::LateReplay) => self.replay(&peer, half..end),
            Some(Fault::StoppedReplay) => return self.replay(&peer, start..half),
            Some(Fault::HoledReplay) => {
                self.replay(&peer, start..half);
                self.replay(&peer, (half + 1).min(end)..end);
            }
            _ => self.replay(&peer, start..end),
        }
        self.reply(&peer, u64::MAX, &[]);
    }

    fn replay(&self, peer: &[u8], range: std::ops::Range<usize>) {
        for (payload, sequence) in self.log[range.clone()].iter().zip(range) {
            self.reply(peer, sequence as u64, payload);
        }
    }

    fn trickle(&mut self, now: Instant) {
        for _ in 0..self.trickles.len() {
            let Some(mut trickle) = self.trickles.pop_front() else { return };
            if now < trickle.due {
                self.trickles.push_back(trickle);
                continue;
            }
            // Nobody waits for ever: once the trouble is over the rest comes at once.
            let slow = matches!(self.trouble, Some((Fault::SlowReplay, _)));
            let end = if slow { (trickle.next + 1).min(self.log.len()) } else { self.log.len() };
            self.replay(&trickle.peer, trickle.next.min(end)..end);
            if end == self.log.len() {
                self.reply(&trickle.peer, u64::MAX, &[]);
            } else {
                (trickle.next, trickle.due) = (end, now + TRICKLE_EVERY);
                self.trickles.push_back(trickle);
            }
        }
    }

    /// Whether something happens to the whole engine.
    fn turn_of_events(&mut self, now: Instant) {
        let mean = self.rates.engine_every;
        if mean == Duration::MAX || self.trouble.is_some() {
            return;
        }
        let due = *self.next_trouble.get_or_insert_with(|| now + mean);
        if now < due {
            return;
        }
        let part =
            |random: &mut SeededRandom, whole: Duration| whole.mul_f64(random.below(1_000) as f64 / 1e3);
        let kinds = self.rates.of_engines;
        let Some(&fault) = kinds.get(self.random.below(kinds.len())) else { return };
        let until = now + part(&mut self.random, self.rates.lasts);
        self.next_trouble = Some(until + part(&mut self.random, mean * 2));
        self.trouble = Some((fault, until));
        self.counts.add(fault);
        match fault {
            Fault::Restart => self.restart(),
            Fault::Disconnect => {
                self.sockets = None;
                self.trickles.clear();
            }
            _ => {}
        }
    }

    fn send_late(&mut self) {
        if let Some((sequence, payload)) = self.late.take() {
            self.send(sequence, &payload);
        }
    }

    fn send(&self, sequence: u64, payload: &[u8]) {
        if let Some(Sockets { live, .. }) = &self.sockets {
            // A publishing socket never waits.
            let _ = live.send_multipart([&[][..], &sequence.to_be_bytes(), payload], zmq::DONTWAIT);
        }
    }

    fn reply(&self, peer: &[u8], sequence: u64, payload: &[u8]) {
        let Some(Sockets { replay, .. }) = &self.sockets else { return };
        let sequence = sequence.to_be_bytes();
        // Whoever asked may be gone: engines do not care.
        let _ = match self.dialect.framing {
            ReplayFraming::WithoutTopic => {
                replay.send_multipart([peer, &[], &sequence, payload], zmq::DONTWAIT)
            }
            ReplayFraming::WithTopic => {
                replay.send_multipart([peer, &[], &[], &sequence, payload], zmq::DONTWAIT)
            }
        };
    }
}

impl Sockets {
    fn bind(live: &Endpoint, replay: &Endpoint) -> Result<Self, zmq::Error> {
        let context = zmq::Context::new();
        let socket = |kind, endpoint: &Endpoint| {
            let socket = context.socket(kind)?;
            socket.set_linger(0)?;
            socket.set_sndhwm(0)?;
            socket.bind(endpoint.as_str())?;
            Ok::<_, zmq::Error>(socket)
        };
        Ok(Self { live: socket(zmq::PUB, live)?, replay: socket(zmq::ROUTER, replay)?, _context: context })
    }

    /// Whom a request is from, and from which number on.
    fn request(&self) -> Option<(Vec<u8>, u64)> {
        let frames = self.replay.recv_multipart(zmq::DONTWAIT).ok()?;
        let [peer, delimiter, start] = <[Vec<u8>; 3]>::try_from(frames).ok()?;
        let start = <[u8; 8]>::try_from(start).ok()?;
        delimiter.is_empty().then(|| (peer, u64::from_be_bytes(start)))
    }
}

fn endpoint(socket: &zmq::Socket, otherwise: &Endpoint) -> Endpoint {
    let bound = socket.get_last_endpoint().ok().and_then(Result::ok);
    bound.and_then(|bound| Endpoint::new(&bound).ok()).unwrap_or_else(|| otherwise.clone())
}

impl fmt::Debug for WireEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireEngine")
            .field("rank", &self.rank)
            .field("dialect", &self.dialect.name)
            .finish_non_exhaustive()
    }
}
