//! A worker that restarts while a decision is under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kv_router::{BlockSize, Clock, RouteRequest, Router, RouterConfig, WorkerSpec};

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
