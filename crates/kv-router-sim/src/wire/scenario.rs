//! One fault at a time, on real sockets, in front of a `Router`: how long until it is exact again, and whether the
//! fault is in its counters.

use std::fmt;
use std::time::{Duration, Instant};

use kv_router::StreamFreshness;

use super::chaos::{ChaosConfig, ChaosError, engine, scheme, subscriber_config};
use super::{FaultRates, Holdings, RouterReport, WireCache, WireEngine, WireRouter};
use crate::random::mix2;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// A router comes up beside engines that have been running.
    FreshRouter,
    /// Every second engine starts again while the router listens, and goes on.
    EngineRestart,
    /// The router starts again from its snapshot; the engines went on meanwhile.
    RouterRestart,
    /// The same, but every second engine started again while the router was down, and has published more since than
    /// it had before.
    EngineRestartWhileDown,
    /// The same, but nothing was published since.
    EngineRestartThenSilence,
}

impl Scenario {
    /// All of them, in declaration order.
    pub const ALL: [Self; 5] = [
        Self::FreshRouter,
        Self::EngineRestart,
        Self::RouterRestart,
        Self::EngineRestartWhileDown,
        Self::EngineRestartThenSilence,
    ];

    /// What happens, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FreshRouter => "fresh router",
            Self::EngineRestart => "engines restart",
            Self::RouterRestart => "router restart",
            Self::EngineRestartWhileDown => "engines restart while the router is down, and go past it",
            Self::EngineRestartThenSilence => "engines restart while the router is down, and are silent",
        }
    }
}

/// How large.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioConfig {
    /// Decides what engines do. Default: 1.
    pub seed: u64,
    /// Ranks. Default: 8.
    pub engines: u32,
    /// Batches of each before something happens. Default: 500; a batch has some ten blocks.
    pub batches: u32,
    /// Blocks a rank, at most. Default: 4,000.
    pub blocks: usize,
    /// Longest time to exact. Default: 60 s.
    pub patience: Duration,
}

impl Default for ScenarioConfig {
    fn default() -> Self {
        Self { seed: 1, engines: 8, batches: 500, blocks: 4_000, patience: Duration::from_secs(60) }
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub struct ScenarioReport {
    /// What happened.
    pub scenario: Scenario,
    /// Blocks in all caches.
    pub blocks: usize,
    /// From the fault, or from the start of the router's process, to exact: every rank fresh, and what it holds is what
    /// its engine holds. `None`: never.
    pub exact: Option<Duration>,
    /// What the router saw since.
    pub saw: RouterReport,
    /// What of the fault its counters do not show.
    pub unseen: Vec<&'static str>,
}

impl ScenarioReport {
    /// Whether it came out exact, and its counters show why.
    pub fn is_well(&self) -> bool {
        self.exact.is_some() && self.unseen.is_empty()
    }
}

impl fmt::Display for ScenarioReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} blocks: ", self.scenario.name(), self.blocks)?;
        match self.exact {
            Some(time) => write!(f, "time to exact {} ms", time.as_millis())?,
            None => f.write_str("NOT EXACT")?,
        }
        for unseen in &self.unseen {
            write!(f, "; NOT SEEN: {unseen}")?;
        }
        let RouterReport { new_lives, same_life, disconnects, replays, forgets, .. } = self.saw;
        write!(
            f,
            "; {new_lives} new lives, {same_life} proven, {disconnects} disconnects, {replays} replays, {forgets} forgets"
        )
    }
}

/// A fleet, turned by hand.
struct Fleet {
    engines: Vec<WireEngine>,
    routers_started: u64,
    config: ScenarioConfig,
    now: fn() -> Instant,
}

/// Batches of each engine that are published before the router has its turn: fewer than its queue holds.
const AT_ONCE: u32 = 50;

/// Runs one. `now` is `Instant::now`.
///
/// # Errors
///
/// [`ChaosError`] when there was nothing to see. That the router is not exact is in the report.
pub fn run(
    scenario: Scenario,
    config: &ScenarioConfig,
    now: fn() -> Instant,
) -> Result<ScenarioReport, ChaosError> {
    let calm = FaultRates { batches_in_10_000: 0, engine_every: Duration::MAX, ..FaultRates::default() };
    let mock =
        ChaosConfig { seed: config.seed, blocks: config.blocks, faults: calm, ..ChaosConfig::default() };
    let engines =
        (0..config.engines).map(|number| engine(&mock, number, scheme(), WireCache::without_clears));
    let engines = engines.collect::<Result<_, _>>().map_err(ChaosError::Engine)?;
    let mut fleet = Fleet { engines, routers_started: 0, config: *config, now };
    if scenario == Scenario::FreshRouter {
        fleet.publish(config.batches, |_| true);
        let began = now();
        let mut router = fleet.router(None)?;
        return fleet.finish(scenario, &mut router, began, RouterReport::default());
    }
    let mut router = fleet.router(None)?;
    for _ in 0..config.batches.div_ceil(AT_ONCE) {
        fleet.publish(AT_ONCE.min(config.batches), |_| true);
        fleet.serve();
        router.turn(now, Duration::from_millis(1)).map_err(ChaosError::Router)?;
    }
    let _ = fleet.until_exact(&mut router, now())?;
    let before = router.report();
    let every_second = |number: usize| number.is_multiple_of(2);
    let more = config.batches / 8 + 1;
    if scenario == Scenario::EngineRestart {
        let began = now();
        fleet.restart(every_second);
        fleet.publish(more, |_| true);
        return fleet.finish(scenario, &mut router, began, before);
    }
    let snapshot = router.snapshot().map_err(ChaosError::Router)?;
    drop(router);
    match scenario {
        Scenario::EngineRestartWhileDown => {
            fleet.restart(every_second);
            fleet.publish(config.batches + more, every_second);
            fleet.publish(more, |number| !every_second(number));
        }
        Scenario::EngineRestartThenSilence => fleet.restart(every_second),
        _ => fleet.publish(more, |_| true),
    }
    let began = now();
    let mut router = fleet.router(Some(&snapshot))?;
    let mut unseen = Vec::new();
    let streams = router.router().streams();
    if streams.iter().any(|status| status.freshness != StreamFreshness::Recovering) {
        unseen.push("that nothing is proven yet");
    }
    let mut report = fleet.finish(scenario, &mut router, began, RouterReport::default())?;
    report.unseen.append(&mut unseen);
    Ok(report)
}

impl Fleet {
    fn router(&mut self, snapshot: Option<&[u8]>) -> Result<WireRouter, ChaosError> {
        self.routers_started += 1;
        let listed: Vec<_> =
            self.engines.iter().map(|engine| (engine.rank(), engine.dialect(), engine.source())).collect();
        let mut subscriber = subscriber_config(mix2(self.config.seed, self.routers_started));
        subscriber.replay.total = self.config.patience; // what was published in minutes comes at once
        WireRouter::start(subscriber, scheme(), &listed, snapshot, self.now).map_err(ChaosError::Router)
    }

    fn publish(&mut self, batches: u32, who: impl Fn(usize) -> bool) {
        for _ in 0..batches {
            for (_, engine) in self.engines.iter_mut().enumerate().filter(|&(number, _)| who(number)) {
                engine.step((self.now)());
            }
        }
    }

    fn restart(&mut self, who: impl Fn(usize) -> bool) {
        for (_, engine) in self.engines.iter_mut().enumerate().filter(|&(number, _)| who(number)) {
            engine.restart();
        }
        // Their ports are free a moment later.
        while self.engines.iter().any(|engine| !engine.is_listening()) {
            self.serve();
        }
    }

    fn serve(&mut self) {
        for engine in &mut self.engines {
            engine.serve((self.now)());
        }
    }

    fn truth(&self) -> Holdings {
        self.engines.iter().flat_map(WireEngine::holdings).collect()
    }

    /// Until the router holds what the engines hold; when it did.
    fn until_exact(
        &mut self,
        router: &mut WireRouter,
        began: Instant,
    ) -> Result<Option<Instant>, ChaosError> {
        let truth = self.truth();
        // Of an engine that has published nothing nobody knows anything.
        let silent: Vec<_> =
            self.engines.iter().filter(|engine| engine.published() == 0).map(WireEngine::rank).collect();
        loop {
            self.serve();
            router.turn(self.now, Duration::from_millis(1)).map_err(ChaosError::Router)?;
            let at = (self.now)();
            if at > began + self.config.patience {
                return Ok(None);
            }
            let streams = router.router().streams();
            let settled = streams.iter().all(|status| match status.freshness {
                StreamFreshness::Fresh => true,
                freshness => freshness == StreamFreshness::Cold && silent.contains(&status.worker),
            });
            let held = router.router().stats().index.names;
            if settled && held >= truth.len() && router.holdings() == truth {
                return Ok(Some(at));
            }
        }
    }

    fn finish(
        &mut self,
        scenario: Scenario,
        router: &mut WireRouter,
        began: Instant,
        before: RouterReport,
    ) -> Result<ScenarioReport, ChaosError> {
        let exact = self.until_exact(router, began)?.map(|at| at - began);
        let saw = router.report();
        let saw = RouterReport {
            new_lives: saw.new_lives - before.new_lives,
            same_life: saw.same_life - before.same_life,
            disconnects: saw.disconnects - before.disconnects,
            replays: saw.replays - before.replays,
            forgets: saw.forgets - before.forgets,
            ..saw
        };
        let all = self.engines.len() as u64;
        let restarted = all.div_ceil(2);
        // New lives, lives proven, at least; connections lost, at least.
        let (new, same, lost) = match scenario {
            Scenario::FreshRouter => (0, 0, 0),
            Scenario::EngineRestart => (restarted, 0, restarted),
            Scenario::RouterRestart => (0, all, 0),
            Scenario::EngineRestartWhileDown | Scenario::EngineRestartThenSilence => {
                (restarted, all - restarted, 0)
            }
        };
        let expected = [
            (saw.new_lives == new, "each engine that started again"),
            (saw.same_life >= same, "each engine that did not"),
            (saw.disconnects >= lost, "each connection that was lost"),
            (saw.replays >= all.min(new + same), "each replay"),
            (saw.forgets >= new, "each rank that was forgotten"),
            (saw.refused == 0 && saw.dropped == 0 && saw.undecodable == 0, "that nothing else went wrong"),
        ];
        let unseen = expected.into_iter().filter(|(seen, _)| !seen).map(|(_, what)| what).collect();
        let blocks = self.engines.iter().map(|engine| engine.holdings().len()).sum();
        Ok(ScenarioReport { scenario, blocks, exact, saw, unseen })
    }
}
