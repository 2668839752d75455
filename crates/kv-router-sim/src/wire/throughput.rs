//! How many blocks a second come from publishers through ZeroMQ, decoder, sequence machine and ingest into an index.

use std::fmt;
use std::time::{Duration, Instant};

use kv_router_engines::{BatchEncoder, Presence, StoreFields, WireHash, WireTokens};
use kv_router_types::{DpRank, WorkerId, WorkerRank};
use kv_router_zmq::{Publisher, PublisherConfig, Source, StartError, SubscriberConfig};

use super::chaos::scheme;
use super::{DIALECTS, Dialect, WireRouter, WireRouterError};
use crate::random::{SeededRandom, mix2};

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct ThroughputConfig {
    /// Publishers. Default: 4.
    pub publishers: u32,
    /// Batches of each. Default: 2,000. Fewer than the subscriber's queue takes, in all.
    pub batches: u32,
    /// Blocks of 16 tokens in a batch: a prompt that one step of an engine computed. Default: 64.
    pub blocks: u32,
    /// Longest time that it may take. Default: 60 s.
    pub patience: Duration,
}

impl Default for ThroughputConfig {
    fn default() -> Self {
        Self { publishers: 4, batches: 2_000, blocks: 64, patience: Duration::from_secs(60) }
    }
}

/// What came through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Blocks in the index.
    pub blocks: u64,
    /// Batches.
    pub batches: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// From the first batch published to the last one applied.
    pub took: Duration,
}

impl fmt::Display for Throughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { blocks, batches, bytes, took } = *self;
        let seconds = took.as_secs_f64();
        write!(
            f,
            "{blocks} blocks in {batches} batches ({:.1} MB) in {:.0} ms: {:.2} million blocks/s, {:.0} batches/s",
            bytes as f64 / 1e6,
            seconds * 1e3,
            blocks as f64 / 1e6 / seconds,
            batches as f64 / seconds
        )
    }
}

/// Why there is no measurement.
#[derive(Debug)]
pub enum ThroughputError {
    /// A publisher did not start.
    Publisher(StartError),
    /// The router does not work.
    Router(WireRouterError),
    /// Not everything came in time: more was sent than queues hold, or the machine is busy.
    Incomplete {
        /// Blocks that came.
        blocks: u64,
        /// Blocks sent.
        sent: u64,
    },
}

impl fmt::Display for ThroughputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publisher(error) => error.fmt(f),
            Self::Router(error) => error.fmt(f),
            Self::Incomplete { blocks, sent } => {
                write!(f, "{blocks} of {sent} blocks came in time: send less, or wait longer")
            }
        }
    }
}

impl std::error::Error for ThroughputError {}

/// Measures it. `now` is `Instant::now`.
///
/// # Errors
///
/// [`ThroughputError`] when not everything came through.
pub fn measure(config: &ThroughputConfig, now: fn() -> Instant) -> Result<Throughput, ThroughputError> {
    let dialect = Dialect { presence: Presence::Copies, ..DIALECTS[5] };
    let mut publishers = Vec::new();
    let mut listed = Vec::new();
    for number in 0..config.publishers {
        let publisher = Publisher::start(PublisherConfig::default()).map_err(ThroughputError::Publisher)?;
        let mut source = Source::connect(publisher.live_endpoint().clone());
        source.replay = publisher.replay_endpoint().cloned();
        listed.push((WorkerRank::new(WorkerId::new(u64::from(number)), DpRank::new(0)), dialect, source));
        publishers.push((publisher, payloads(config, number)));
    }
    let mut router = WireRouter::start(SubscriberConfig::default(), scheme(), &listed, None, now)
        .map_err(ThroughputError::Router)?;
    let until = now() + config.patience;
    // A first batch each, so that every connection and subscription stands.
    for (publisher, payloads) in &mut publishers {
        payloads.pop().map(|payload| publisher.publish(payload));
    }
    let first = u64::from(config.publishers);
    turn_until(&mut router, first, until, config, now)?;

    let started = now();
    let mut bytes = 0;
    for _ in 1..config.batches {
        for (publisher, payloads) in &mut publishers {
            if let Some(payload) = payloads.pop() {
                bytes += payload.len() as u64;
                // Queues are larger than what is sent.
                let _ = publisher.publish(payload);
            }
        }
    }
    let batches = first * u64::from(config.batches - 1);
    turn_until(&mut router, first + batches, until, config, now)?;
    Ok(Throughput { blocks: batches * u64::from(config.blocks), batches, bytes, took: now() - started })
}

fn turn_until(
    router: &mut WireRouter,
    batches: u64,
    until: Instant,
    config: &ThroughputConfig,
    now: fn() -> Instant,
) -> Result<(), ThroughputError> {
    let sent = batches * u64::from(config.blocks);
    while router.report().blocks < sent {
        if now() >= until {
            return Err(ThroughputError::Incomplete { blocks: router.report().blocks, sent });
        }
        router.turn(now, Duration::from_millis(5)).map_err(ThroughputError::Router)?;
    }
    Ok(())
}

/// The batches of one publisher, to be taken from the end: chains of new blocks that start at the root.
fn payloads(config: &ThroughputConfig, publisher: u32) -> Vec<Vec<u8>> {
    let mut random = SeededRandom::new(u64::from(publisher));
    let mut encoder = BatchEncoder::new(DIALECTS[5].form);
    let tokens = 16 * config.blocks as usize;
    (0..config.batches)
        .map(|batch| {
            let names: Vec<_> = (0..config.blocks)
                .map(|block| mix2(u64::from(publisher) << 32 | u64::from(batch), u64::from(block)))
                .map(WireHash::Unsigned)
                .collect();
            let tokens: Vec<u32> = (0..tokens).map(|_| random.next_word() as u32 & 0x1_ffff).collect();
            encoder.stored(&StoreFields {
                hashes: &names,
                tokens: WireTokens::Flat(&tokens),
                block_size: Some(16),
                medium: Some("GPU"),
                ..StoreFields::default()
            });
            let mut payload = Vec::new();
            encoder.finish(1.7e9, Some(DpRank::new(0)), &mut payload);
            payload
        })
        .collect()
}
