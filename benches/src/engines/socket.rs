//! The same payloads through real sockets: publishers, ZeroMQ on loopback, a router that asks for what is missing.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kv_router_hash::HashScheme;
use kv_router_index::paged::PagedIndex;
use kv_router_sim::holdings::holdings;
use kv_router_sim::wire::{DIALECTS, Dialect, WireRouter};
use kv_router_zmq::{Publisher, PublisherConfig, Source, SubscriberConfig};

use super::stages::{Lanes, worker};
use super::traffic::Recording;

/// Frames on their way at most. Fewer than the queues hold: what is measured is how fast they come, not how many are
/// lost by a publisher that does not care.
const WINDOW: u64 = 1024;

/// Longest time for all of it.
const PATIENCE: Duration = Duration::from_secs(300);

/// What came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// From the first steady frame sent to the last one applied.
    pub took: Duration,
    /// Batches that were missing meanwhile, or dropped at a full queue, or events that were refused: none should be.
    pub lost: u64,
    /// Whether the index then held exactly what it holds when it is fed without sockets.
    pub is_same: bool,
}

/// Publishes a recording, a publisher and a thread of its own a rank, and applies it on this thread.
///
/// # Errors
///
/// When there are no sockets, or not everything comes in time.
pub fn run(recording: &Recording, scheme: HashScheme) -> Result<Arrived, Box<dyn Error>> {
    let dialect = Dialect { presence: recording.dialect.presence(), ..DIALECTS[5] };
    let (mut publishers, mut listed) = (Vec::new(), Vec::new());
    for rank in 0..recording.ranks {
        let publisher = Publisher::start(PublisherConfig::default())?;
        let mut source = Source::connect(publisher.live_endpoint().clone());
        source.replay = publisher.replay_endpoint().cloned();
        listed.push((worker(rank), dialect, source));
        publishers.push(publisher);
    }
    let mut router = WireRouter::start(SubscriberConfig::default(), scheme, &listed, None, now)?;
    let (filling, all) =
        (recording.filling.len() as u64, (recording.filling.len() + recording.steady.len()) as u64);
    // How many frames may have been sent. Past the end: the sender is to stop, whatever it has sent.
    let allowed = AtomicU64::new(0);
    let arrived = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let frames = recording.filling.iter().chain(&recording.steady);
            for (sent, frame) in (0..).zip(frames) {
                while sent >= allowed.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // A rank without a publisher is a gap that shows.
                let publisher = publishers.get(frame.rank as usize);
                publisher.map(|publisher| publisher.publish(frame.payload.clone())).transpose()?;
            }
            Ok::<_, kv_router_zmq::PublishError>(())
        });
        let arrived = receive(&mut router, filling, all, &allowed);
        allowed.store(u64::MAX, Ordering::Release);
        sender.join().map_err(|_| "the sender panicked")??;
        arrived
    });
    let (took, lost) = arrived?;

    let index = PagedIndex::new();
    let mut lanes = Lanes::new(recording, scheme, Some(&index))?;
    for frame in recording.filling.iter().chain(&recording.steady) {
        lanes.feed(frame.rank, &frame.payload)?;
    }
    Ok(Arrived { took, lost, is_same: router.holdings() == holdings(&index) })
}

/// Applies all frames; the time that those after the first `filling` took, and what was lost of them.
fn receive(
    router: &mut WireRouter,
    filling: u64,
    all: u64,
    allowed: &AtomicU64,
) -> Result<(Duration, u64), Box<dyn Error>> {
    let until = now() + PATIENCE;
    let losses = |router: &WireRouter| {
        let report = router.report();
        report.gaps + report.dropped + report.refused + report.undecodable
    };
    let reach = |router: &mut WireRouter, frames: u64| -> Result<(), Box<dyn Error>> {
        loop {
            let applied = router.report().applied;
            if applied >= frames {
                return Ok(());
            }
            if now() >= until {
                return Err(format!("{applied} of {frames} batches came in time").into());
            }
            allowed.store((applied + WINDOW).min(frames), Ordering::Release);
            router.turn(now, Duration::from_millis(5))?;
        }
    };
    // A subscription that comes after the first frames is made good by replays.
    reach(router, filling)?;
    let before = losses(router);
    let start = now();
    reach(router, all)?;
    Ok((start.elapsed(), losses(router) - before))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}
