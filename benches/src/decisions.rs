//! How long one decision takes, by the size of the fleet and by how many of its ranks hold a part of the prompt.
//!
//! Prompts come in families that share their first half. A family's prefix is cached on a share of the ranks, and the
//! router sends most of a family there, so about as many ranks have it in flight as hold it. The hash of the prompt is
//! given: what is timed is the lookup, the load, the choice and the booking.

use std::collections::VecDeque;
use std::error::Error;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use kv_router::{
    BlockSize, Booking, Capacity, EventBatch, ExternalSequenceHash, Incarnation, KvEvent, LocalBlockHash,
    QueueConfig, RouteRequest, Router, RouterConfig, StoredBlock, Tier, WorkerId, WorkerSpec,
};

const BLOCK_TOKENS: u32 = 16;
const PROMPT_BLOCKS: u64 = 64;
const PREFIX_BLOCKS: u64 = 32;
const FAMILIES: u64 = 100;

/// One cell of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Worker ranks in the fleet.
    pub ranks: u32,
    /// Share of the ranks that holds the prefix of a request, in percent.
    pub held_percent: u64,
    /// Whether requests come in by [`Router::admit`], past a queue in which nobody waits, or by [`Router::route`].
    pub queue: Queueing,
    /// Threads that decide.
    pub threads: usize,
    /// Decisions to time on each thread.
    pub decisions: usize,
}

/// How requests come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Without a queue.
    Off,
    /// With one.
    On,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Decisions per second, all threads together, with the release of an older request for each.
    pub per_second: f64,
    /// Half of the decisions took no longer.
    pub p50: Duration,
    /// 99 of 100 decisions took no longer.
    pub p99: Duration,
}

/// Builds a fleet, fills it with two requests a rank, and times decisions against it.
///
/// # Errors
///
/// What the router refuses, which is nothing it should.
pub fn measure(setup: Setup) -> Result<Figures, Box<dyn Error>> {
    let router = fleet(setup)?;
    let barrier = Barrier::new(setup.threads);
    let runs: Vec<(Vec<Duration>, Duration)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..setup.threads as u64)
            .map(|thread| {
                scope.spawn({
                    let (router, barrier) = (&router, &barrier);
                    move || run(router, setup, thread, barrier)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked"))
            .collect::<Result<_, _>>()
    })?;
    let longest = runs.iter().map(|(_, took)| *took).max().unwrap_or_default();
    let mut all: Vec<Duration> = runs.into_iter().flat_map(|(times, _)| times).collect();
    all.sort_unstable();
    let at = |share: f64| all.get((all.len() as f64 * share) as usize).copied().unwrap_or_default();
    Ok(Figures { per_second: all.len() as f64 / longest.as_secs_f64(), p50: at(0.5), p99: at(0.99) })
}

/// Decides as fast as it can, each time giving back the oldest of its requests.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn run(router: &Router, setup: Setup, thread: u64, barrier: &Barrier) -> (Vec<Duration>, Duration) {
    let held = 2 * setup.ranks as usize / setup.threads;
    let mut flying: VecDeque<Booking> = VecDeque::with_capacity(held + 1);
    let mut times = Vec::with_capacity(setup.decisions);
    let mut started = None;
    for number in 0..(held + setup.decisions) as u64 {
        if number as usize == held {
            barrier.wait();
            started = Some(Instant::now());
        }
        let prompt = prompt(number * setup.threads as u64 + thread);
        let request = RouteRequest::from_hashes(&prompt, (PROMPT_BLOCKS * u64::from(BLOCK_TOKENS)) as usize);
        let before = Instant::now();
        let decision = match setup.queue {
            Queueing::Off => router.route(&request).ok(),
            Queueing::On => {
                let ticket = router.admit(&request).ok();
                ticket.and_then(|ticket| ticket.try_take().ok()).and_then(Result::ok)
            }
        };
        if started.is_some() {
            times.push(before.elapsed());
        }
        flying.extend(decision.map(kv_router::Decision::into_booking));
        if flying.len() > held {
            flying.pop_front();
        }
    }
    (times, started.map(|started| started.elapsed()).unwrap_or_default())
}

/// The prompt of one request: the prefix of its family, and a tail of its own.
fn prompt(number: u64) -> Vec<LocalBlockHash> {
    let family = number % FAMILIES;
    let shared = (0..PREFIX_BLOCKS).map(|block| prefix_block(family, block));
    let own = (0..PROMPT_BLOCKS - PREFIX_BLOCKS)
        .map(|block| LocalBlockHash::new((1 << 63) | (number << 16) | block));
    shared.chain(own).collect()
}

fn prefix_block(family: u64, block: u64) -> LocalBlockHash {
    LocalBlockHash::new((family << 16) | block)
}

fn fleet(setup: Setup) -> Result<Router, Box<dyn Error>> {
    let block_size = BlockSize::new(BLOCK_TOKENS)?;
    let mut config = RouterConfig::new(block_size);
    if setup.queue == Queueing::On {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
    }
    let capacity = Capacity { batched_tokens: NonZeroU32::new(1 << 20), total_blocks: None };
    let router = Router::builder(config).seed(1).build()?;
    for worker in 0..u64::from(setup.ranks) {
        let id = WorkerId::new(worker);
        router.join(id, WorkerSpec::new(block_size).with_capacity(capacity))?;
        let events =
            (0..FAMILIES).filter(|family| holds(worker, *family, setup.held_percent)).map(stored).collect();
        router.apply(&EventBatch {
            from: id.into(),
            incarnation: Incarnation::new(1),
            sequence: 0,
            events,
        })?;
    }
    Ok(router)
}

/// Spreads a family over the given share of the workers.
fn holds(worker: u64, family: u64, percent: u64) -> bool {
    (worker + family) % 100 < percent
}

fn stored(family: u64) -> KvEvent {
    let block = |position| {
        let local = prefix_block(family, position);
        StoredBlock::new(ExternalSequenceHash::new(local.get()), local)
    };
    KvEvent::Stored { tier: Tier::Device, parent: None, blocks: (0..PREFIX_BLOCKS).map(block).collect() }
}
