//! Engines that fail at random, routers that listen, then quiet: the routers must hold what the engines hold.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kv_router_hash::{HashScheme, Window};
use kv_router_types::{BlockSize, DpRank, WorkerId, WorkerRank};
use kv_router_zmq::{Backoff, Heartbeat, ReplayPolicy, SubscriberConfig};

use super::{
    DIALECTS, Dialect, FaultCounts, FaultRates, Holdings, RouterReport, WireCache, WireEngine,
    WireEngineError, WireRouter, WireRouterError,
};
use crate::random::mix2;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct ChaosConfig {
    /// Decides what engines do. Default: 1.
    pub seed: u64,
    /// Ranks, each with a dialect of its own as far as there are any. Default: 8.
    pub engines: u32,
    /// Routers. Default: 2.
    pub routers: u32,
    /// How long faults strike. Default: 5 s.
    pub lasts: Duration,
    /// Batches a second and rank. Default: 400.
    pub rate: u32,
    /// Blocks a rank, at most. Default: 4,000.
    pub blocks: usize,
    /// What goes wrong, how often.
    pub faults: FaultRates,
    /// Longest time from quiet to exact. Default: 60 s.
    pub patience: Duration,
}

impl Default for ChaosConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            engines: 8,
            routers: 2,
            lasts: Duration::from_secs(5),
            rate: 400,
            blocks: 4_000,
            faults: FaultRates::default(),
            patience: Duration::from_secs(60),
        }
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub struct ChaosReport {
    /// What went wrong, over all engines.
    pub faults: FaultCounts,
    /// Batches that the last lives of the engines published.
    pub published: u64,
    /// Blocks in all caches in the end.
    pub blocks: usize,
    /// Each router: what it saw, and how long after the last fault it was exact; `None`: never.
    pub routers: Vec<(RouterReport, Option<Duration>)>,
}

impl ChaosReport {
    /// Whether every router came out exact.
    pub fn is_exact(&self) -> bool {
        self.routers.iter().all(|(_, exact)| exact.is_some())
    }
}

impl fmt::Display for ChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults: {} in all: {}", self.faults.total(), self.faults)?;
        writeln!(f, "in the end: {} blocks, {} batches in the last lives", self.blocks, self.published)?;
        for (number, (report, exact)) in self.routers.iter().enumerate() {
            match exact {
                Some(time) => {
                    write!(f, "router {number}: exact {} ms after the last fault", time.as_millis())?
                }
                None => write!(f, "router {number}: NOT EXACT")?,
            }
            writeln!(f, "; {report:?}")?;
        }
        Ok(())
    }
}

/// Why there was no run.
#[derive(Debug)]
pub enum ChaosError {
    /// An engine has no sockets.
    Engine(WireEngineError),
    /// A router does not work.
    Router(WireRouterError),
    /// A router's thread panicked.
    Panicked,
}

impl fmt::Display for ChaosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Router(error) => error.fmt(f),
            Self::Panicked => f.write_str("a router panicked: its message is above"),
        }
    }
}

impl Error for ChaosError {}

/// Tokens a block.
const BLOCK_SIZE: u32 = 16;

/// Runs it. Takes the time that faults last, and what it then takes to be exact. `now` is `Instant::now`.
///
/// # Errors
///
/// [`ChaosError`] when there was nothing to see. That a router is not exact is in the report.
pub fn run(config: &ChaosConfig, now: fn() -> Instant) -> Result<ChaosReport, ChaosError> {
    let scheme = scheme();
    let mut engines = Vec::new();
    for number in 0..config.engines {
        engines.push(engine(config, number, scheme, |cache| cache).map_err(ChaosError::Engine)?);
    }
    let listed: Vec<_> =
        engines.iter().map(|engine| (engine.rank(), engine.dialect(), engine.source())).collect();

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (finished, results) = mpsc::channel();
        let mut truths = Vec::new();
        for number in 0..config.routers {
            let (tell, truth) = mpsc::channel::<Holdings>();
            truths.push(tell);
            let subscriber = subscriber_config(mix2(config.seed, u64::from(number)));
            let (listed, stop, finished) = (&listed, &stop, finished.clone());
            scope.spawn(move || {
                let result = WireRouter::start(subscriber, scheme, listed, None, now)
                    .and_then(|router| follow(router, &truth, stop, now));
                let _ = finished.send((number, result));
            });
        }
        drop(finished);

        let result = fail(config, &mut engines, &truths, &results, now);
        stop.store(true, Ordering::Release);
        let (faults, mut routers) = result?;
        routers.sort_by_key(|&(number, ..)| number);
        Ok(ChaosReport {
            faults,
            published: engines.iter().map(WireEngine::published).sum(),
            blocks: engines.iter().map(|engine| engine.holdings().len()).sum(),
            routers: routers.into_iter().map(|(_, report, exact)| (report, exact)).collect(),
        })
    })
}

type Finished = (u32, Result<(RouterReport, Option<Instant>), WireRouterError>);
type Outcome = (FaultCounts, Vec<(u32, RouterReport, Option<Duration>)>);

/// Turns the engines: with faults, then without until every router has finished.
fn fail(
    config: &ChaosConfig,
    engines: &mut [WireEngine],
    truths: &[mpsc::Sender<Holdings>],
    results: &mpsc::Receiver<Finished>,
    now: fn() -> Instant,
) -> Result<Outcome, ChaosError> {
    let started = now();
    let pause = Duration::from_secs(1) / config.rate;
    let mut next = started;
    while now() < started + config.lasts {
        for engine in &mut *engines {
            engine.step(now());
            engine.serve(now());
        }
        next += pause;
        while now() < next {
            for engine in &mut *engines {
                engine.serve(now());
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
    let mut faults = FaultCounts::default();
    let mut truth = Holdings::new();
    for engine in &mut *engines {
        faults += engine.faults();
        engine.calm_down();
        truth.extend(engine.holdings());
    }
    let quiet = now();
    for tell in truths {
        let _ = tell.send(truth.clone());
    }
    let mut routers = Vec::new();
    while routers.len() < truths.len() {
        for engine in &mut *engines {
            engine.serve(now());
        }
        match results.recv_timeout(Duration::from_millis(1)) {
            Ok((number, result)) => {
                let (report, exact) = result.map_err(ChaosError::Router)?;
                routers.push((number, report, exact.map(|exact| exact - quiet)));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if now() < quiet + config.patience => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // They see that nobody waits any more, and say how far they came.
                for tell in truths {
                    let _ = tell.send(Holdings::new());
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(ChaosError::Panicked),
        }
    }
    Ok((faults, routers))
}

/// One router, until it holds the truth, a second truth says that time is up, or everything stops.
fn follow(
    mut router: WireRouter,
    truth: &mpsc::Receiver<Holdings>,
    stop: &AtomicBool,
    now: fn() -> Instant,
) -> Result<(RouterReport, Option<Instant>), WireRouterError> {
    let mut wanted = None;
    let mut compare_at = now();
    loop {
        router.turn(now, Duration::from_millis(5))?;
        if stop.load(Ordering::Acquire) {
            return Ok((router.report(), None));
        }
        match truth.try_recv() {
            Ok(_) if wanted.is_some() => return Ok((router.report(), None)),
            Ok(truth) => wanted = Some(truth),
            Err(_) => {}
        }
        let Some(wanted) = wanted.as_ref().filter(|_| now() >= compare_at) else { continue };
        let at = now();
        if router.holdings() == *wanted {
            return Ok((router.report(), Some(at)));
        }
        compare_at = now() + Duration::from_millis(20);
    }
}

pub(super) fn engine(
    config: &ChaosConfig,
    number: u32,
    scheme: HashScheme,
    change: fn(WireCache) -> WireCache,
) -> Result<WireEngine, WireEngineError> {
    let seed = mix2(config.seed, 1_000 + u64::from(number));
    let dialect: Dialect = DIALECTS[(number as usize + config.seed as usize) % DIALECTS.len()];
    // Ranks of workers with two ranks each, so that a rank alone says nothing.
    let rank = WorkerRank::new(WorkerId::new(u64::from(number / 2)), DpRank::new(number % 2));
    let blocks = config.blocks;
    let mut lives = 0;
    WireEngine::bind(rank, dialect, seed, config.faults, move || {
        lives += 1;
        change(WireCache::new(dialect, scheme, blocks, mix2(seed, lives)))
    })
}

pub(super) fn scheme() -> HashScheme {
    const SIZE: BlockSize = match BlockSize::new(BLOCK_SIZE) {
        Ok(size) => size,
        Err(_) => unreachable!(),
    };
    HashScheme::new(SIZE, Window::Plain)
}

/// Waits short enough to see every deadline in seconds.
pub(super) fn subscriber_config(seed: u64) -> SubscriberConfig {
    SubscriberConfig {
        heartbeat: Heartbeat { interval: Duration::from_millis(500), timeout: Duration::from_secs(3) },
        reconnect: Backoff { first: Duration::from_millis(20), longest: Duration::from_millis(300) },
        replay: ReplayPolicy {
            idle: Duration::from_millis(300),
            total: Duration::from_secs(5),
            tries: 2,
            backoff: Backoff { first: Duration::from_millis(20), longest: Duration::from_millis(200) },
            at_once: 8,
        },
        seed,
        ..SubscriberConfig::default()
    }
}
