//! A worker that restarts while a decision is under way.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kv_router::{
    BlockSize, Capacity, Clock, EngineReport, QueueConfig, RouteRequest, Router, RouterConfig, SessionId,
    Stickiness, WorkerLoad, WorkerSpec,
};
use parking_lot::Mutex;

use crate::support::{Fleet, rank, worker};

/// The time is asked for between the choice and the booking: a good moment to restart the fleet.
#[derive(Clone, Debug)]
struct Restarter {
    now: Instant,
    router: Arc<OnceLock<Arc<Router>>>,
    done: Arc<AtomicBool>,
}

impl Clock for Restarter {
    fn now(&self) -> Instant {
        if let Some(router) = self.router.get()
            && !self.done.swap(true, Ordering::Relaxed)
        {
            router.leave(worker(0)).unwrap();
            router.join(worker(0), WorkerSpec::new(router.scheme().block_size())).unwrap();
        }
        self.now
    }
}

#[test]
fn a_worker_that_restarts_amid_a_decision_is_looked_at_again() {
    let source = Fleet::new(1);
    let tokens: Vec<u32> = (0..320).collect();
    let batch = source.batch(0, vec![source.stored(0, &tokens, 20)]);
    let clock = Restarter { now: source.now(), router: Arc::default(), done: Arc::default() };
    let config = RouterConfig::new(BlockSize::new(16).unwrap());
    let router = Arc::new(Router::builder(config).clock(clock.clone()).build().unwrap());
    router.join(worker(0), WorkerSpec::new(router.scheme().block_size())).unwrap();
    let _ = router.apply(&batch).unwrap();
    let seen = router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert_eq!(seen.blocks(rank(0)), 20);

    clock.router.set(Arc::clone(&router)).unwrap();
    let decision = router.route(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert!(clock.done.load(Ordering::Relaxed));
    // The new life holds nothing, so all of the prompt is to be computed, and it is booked once.
    assert_eq!(decision.overlap_blocks(), 0);
    let load = router.load(rank(0)).unwrap();
    assert_eq!((load.prefill_tokens, load.requests), (320, 1));
}

/// Does something when the time is asked for, once it has been asked for a number of times.
#[derive(Clone)]
struct Meddler {
    now: Instant,
    plan: Arc<Mutex<Option<(u32, Deed)>>>,
}

type Deed = Box<dyn FnOnce() + Send>;

impl Meddler {
    fn plan(&self, after: u32, deed: impl FnOnce() + Send + 'static) {
        *self.plan.lock() = Some((after, Box::new(deed)));
    }
}

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meddler").finish_non_exhaustive()
    }
}

impl Clock for Meddler {
    fn now(&self) -> Instant {
        let mut plan = self.plan.lock();
        let deed = match plan.take() {
            Some((0, deed)) => Some(deed),
            Some((after, deed)) => {
                *plan = Some((after - 1, deed));
                None
            }
            None => None,
        };
        drop(plan);
        deed.into_iter().for_each(|deed| deed());
        self.now
    }
}

fn spec(router: &Router) -> WorkerSpec {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    WorkerSpec::new(router.scheme().block_size()).with_capacity(capacity)
}

/// One worker that takes 64 prompt tokens at a time, with a queue in front of it.
fn queued() -> (Arc<Router>, Meddler) {
    let clock = Meddler { now: Fleet::new(1).now(), plan: Arc::default() };
    let mut config = RouterConfig::new(BlockSize::new(16).unwrap());
    config.filters.wait_prefill = Some(1.0);
    config.queue = Some(QueueConfig::default());
    let router = Arc::new(Router::builder(config).clock(clock.clone()).build().unwrap());
    router.join(worker(0), spec(&router)).unwrap();
    (router, clock)
}

#[test]
fn who_waits_for_a_worker_that_restarts_amid_the_decision_goes_on_waiting() {
    let (router, clock) = queued();
    let tokens: Vec<u32> = (0..80).collect();
    let request = RouteRequest::from_tokens(&tokens);
    let first = router.admit(&request).unwrap().wait().unwrap();
    let second = router.admit(&request).unwrap().try_take().expect_err("the worker is full");
    let busy = |prefill| EngineReport { prefill_tokens: Some(prefill), ..EngineReport::default() };
    let amid = Arc::clone(&router);
    // After the start of the pass: when it is to be booked.
    clock.plan(1, move || {
        amid.leave(worker(0)).unwrap();
        amid.join(worker(0), spec(&amid)).unwrap();
        assert!(amid.report_load(rank(0), &busy(1_000)));
    });
    drop(first);
    assert!(clock.plan.lock().is_none());
    let second = second.try_take().expect_err("the new life is full too");
    let stats = router.stats().queue;
    assert_eq!((stats.waiting, stats.dispatched, router.load(rank(0)).unwrap().requests), (1, 0, 0));
    assert!(router.report_load(rank(0), &busy(0)));
    let second = second.try_take().expect("there is room now").unwrap();
    assert_eq!(second.worker(), rank(0));
}

#[test]
fn a_request_cancelled_amid_its_decision_is_not_booked_and_moves_no_session() {
    let (router, clock) = queued();
    let tokens: Vec<u32> = (0..80).collect();
    let request = RouteRequest::from_tokens(&tokens);
    let first = router.admit(&request).unwrap().wait().unwrap();
    let second = router.admit(&request.session(SessionId::new(1), Stickiness::Advisory)).unwrap();
    let second = second.try_take().expect_err("the worker is full");
    // After the start of the pass, and the look at the session.
    clock.plan(2, move || drop(second));
    drop(first);
    assert!(clock.plan.lock().is_none());
    let stats = router.stats();
    assert_eq!((stats.queue.waiting, stats.queue.cancelled, stats.queue.dispatched), (0, 1, 0));
    assert_eq!(router.load(rank(0)), Some(WorkerLoad::default()));
    assert_eq!(stats.sessions.bound, 0);
}
