//! What may happen amid a walk through those who wait: room that comes up, sessions that move, code that panics.

use std::future::Future;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kv_router::{
    Capacity, Constraints, Decision, Pin as Pinned, QueueConfig, RouteRequest, SessionId, Stickiness, Ticket,
};
use parking_lot::Mutex;

use crate::support::{Fleet, rank, worker};

/// Workers that take 64 prompt tokens at a time, and a queue in front of them.
fn fleet(workers: u64) -> Fleet {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    Fleet::with(workers, capacity, |config| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
    })
}

/// A prompt of 80 tokens that no other shares: more than a worker takes at a time.
fn tokens(number: u32) -> Vec<u32> {
    (0..80).map(|token| number * 1_000 + token).collect()
}

fn admit(fleet: &Fleet, number: u32, to: Option<u64>) -> Ticket {
    let pin = to.map(|to| Pinned::Worker(worker(to)));
    let constraints = Constraints { pin, ..Constraints::default() };
    fleet.router.admit(&RouteRequest::from_tokens(&tokens(number)).constraints(constraints)).unwrap()
}

/// Gives a decision back when it is woken, and may panic then.
struct Wakes {
    gives_back: Mutex<Option<Decision>>,
    panics: bool,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        drop(self.gives_back.lock().take());
        assert!(!self.panics, "a task that cannot be woken");
    }
}

/// Polls a ticket that has to wait, with a waker that does all that.
#[track_caller]
fn poll_pending(ticket: Pin<&mut Ticket>, gives_back: Option<Decision>, panics: bool) {
    let waker = Waker::from(Arc::new(Wakes { gives_back: Mutex::new(gives_back), panics }));
    assert!(ticket.poll(&mut Context::from_waker(&waker)).is_pending());
}

#[track_caller]
fn place(ticket: Pin<&mut Ticket>) -> Decision {
    match ticket.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decision) => decision.unwrap(),
        Poll::Pending => panic!("it still waits"),
    }
}

#[test]
fn section_7_who_is_overdue_gets_the_room_that_comes_up_amid_a_walk() {
    let fleet = fleet(2);
    let [zero, one] = [0, 1].map(|to| admit(&fleet, to, Some(u64::from(to))).wait().unwrap());
    // First the one that waits for worker 0, then two that can go anywhere.
    let overdue = pin!(admit(&fleet, 2, Some(0)));
    let (mut younger, youngest) = (pin!(admit(&fleet, 3, None)), admit(&fleet, 4, None));
    fleet.clock.advance(Duration::from_secs(31));
    // Worker 1 has room. The first is tried in vain, the second goes there, and as it is told, worker 0 has room too.
    poll_pending(younger.as_mut(), Some(zero), false);
    drop(one);
    let (younger, overdue) = (place(younger), place(overdue));
    assert_eq!((younger.worker(), overdue.worker()), (rank(1), rank(0)));
    drop(youngest.try_take().expect_err("there is no room for it"));
}

#[test]
fn section_7_the_load_is_looked_at_when_it_goes() {
    let fleet = fleet(2);
    let light = admit(&fleet, 0, Some(0)).wait().unwrap();
    let heavy: Vec<_> = (1..3)
        .map(|number| {
            let pin = Constraints { pin: Some(Pinned::Worker(worker(1))), ..Constraints::default() };
            let tokens = vec![number; 48];
            fleet.router.route(&RouteRequest::from_tokens(&tokens).constraints(pin)).unwrap()
        })
        .collect();
    let ticket = admit(&fleet, 5, None);
    let ticket = ticket.try_take().expect_err("both are full, worker 1 more so");
    // Now worker 1 has nothing to do, and worker 0 as much as before.
    drop(heavy);
    assert_eq!(ticket.try_take().unwrap().unwrap().worker(), rank(1));
    drop(light);
}

#[test]
fn who_is_stuck_to_a_session_that_moves_goes_along() {
    let fleet = fleet(2);
    let session = SessionId::new(7);
    let tokens = tokens(1);
    let strict = || RouteRequest::from_tokens(&tokens).session(session, Stickiness::Strict);
    let home = fleet.router.route(&strict()).unwrap();
    let waits = fleet.router.admit(&strict()).unwrap().try_take().expect_err("its rank is full");
    // A short one of the same session may go elsewhere, and takes the session along.
    let short = [9; 16];
    let advisory = RouteRequest::from_tokens(&short).session(session, Stickiness::Advisory);
    let moved = fleet.router.route(&advisory).unwrap();
    assert_ne!(moved.worker(), home.worker());
    assert_eq!(waits.try_take().expect("its session has moved").unwrap().worker(), moved.worker());
}

#[test]
fn a_waker_that_panics_costs_nobody_else_the_room() {
    let fleet = fleet(2);
    let [zero, one] = [0, 1].map(|to| admit(&fleet, to, Some(u64::from(to))).wait().unwrap());
    let (mut first, second) = (pin!(admit(&fleet, 2, None)), admit(&fleet, 3, None));
    // Room comes up on worker 1; who goes there makes room on worker 0, and panics.
    poll_pending(first.as_mut(), Some(zero), true);
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(one)));
    assert!(panicked.is_err(), "the panic is nobody's to hide");
    assert_eq!(place(first).worker(), rank(1));
    assert_eq!(second.try_take().expect("worker 0 has room").unwrap().worker(), rank(0));
    assert_eq!(fleet.router.stats().queue.waiting, 0);
}

#[test]
fn a_waker_that_panics_at_a_deadline_does_not_end_the_walk() {
    let fleet = fleet(1);
    let held = admit(&fleet, 0, None).wait().unwrap();
    let deadline = fleet.now() + Duration::from_secs(1);
    let late = tokens(1);
    let late = RouteRequest::from_tokens(&late).deadline(deadline);
    let mut late = pin!(fleet.router.admit(&late).unwrap());
    poll_pending(late.as_mut(), None, true);
    let waits = admit(&fleet, 2, None);
    fleet.clock.advance(Duration::from_secs(1));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_err());
    assert_eq!(waits.try_take().expect("it has room").unwrap().worker(), rank(0));
}

#[test]
fn who_is_not_let_in_because_another_panics_does_not_wait() {
    let fleet = fleet(1);
    let held = admit(&fleet, 0, None).wait().unwrap();
    let late = tokens(1);
    let late = RouteRequest::from_tokens(&late).deadline(fleet.now() + Duration::from_secs(1));
    let mut late = pin!(fleet.router.admit(&late).unwrap());
    poll_pending(late.as_mut(), None, true);
    fleet.clock.advance(Duration::from_secs(1));
    assert!(catch_unwind(AssertUnwindSafe(|| admit(&fleet, 2, None))).is_err());
    assert_eq!(fleet.router.stats().queue.waiting, 0, "nobody has a ticket for it");
    drop(held);
}

#[test]
fn a_waker_that_panics_while_a_panic_unwinds_does_not_abort() {
    let fleet = fleet(1);
    let held = admit(&fleet, 0, None).wait().unwrap();
    let mut waits = pin!(admit(&fleet, 1, None));
    poll_pending(waits.as_mut(), None, true);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _held = held;
        panic!("the gateway's own fault");
    }));
    let message = panicked.unwrap_err();
    assert_eq!(message.downcast_ref(), Some(&"the gateway's own fault"));
    assert_eq!(place(waits).worker(), rank(0));
}

mod cost {
    //! What a walk costs when many wait, each for a place of its own.

    use std::sync::atomic::{AtomicU32, Ordering};

    use kv_router::{
        BlockSize, Candidate, CustomRules, Router, RouterConfig, Scorer, SelectRequest, WorkerSpec,
    };

    use super::*;

    /// Counts the ranks that are scored.
    struct Counts(Arc<AtomicU32>);

    impl Scorer for Counts {
        fn name(&self) -> &'static str {
            "counts"
        }

        fn cost(&self, _: &SelectRequest<'_>, _: &Candidate<'_>) -> f64 {
            self.0.fetch_add(1, Ordering::Relaxed);
            0.0
        }
    }

    #[test]
    fn room_on_one_worker_costs_a_decision_for_each_who_can_go_there() {
        const WORKERS: u64 = 100;
        let block_size = BlockSize::new(16).unwrap();
        let scored = Arc::new(AtomicU32::new(0));
        let mut config = RouterConfig::new(block_size);
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
        let rules = CustomRules::new().scorer(1.0, Counts(Arc::clone(&scored)));
        let router = Router::builder(config).custom(rules).build().unwrap();
        let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
        for id in 0..WORKERS {
            router.join(worker(id), WorkerSpec::new(block_size).with_capacity(capacity)).unwrap();
        }
        let ask = |number: u32, to: u64| {
            let constraints = Constraints { pin: Some(Pinned::Worker(worker(to))), ..Constraints::default() };
            router.admit(&RouteRequest::from_tokens(&tokens(number)).constraints(constraints)).unwrap()
        };
        let mut held: Vec<_> = (0..WORKERS).map(|to| ask(to as u32, to).wait().unwrap()).collect();
        let mut waiting = Vec::new();
        for to in 0..WORKERS {
            scored.store(0, Ordering::Relaxed);
            waiting.push(ask(500 + to as u32, to));
            // One decision when it comes, and not one more for each who waits already.
            assert!(scored.load(Ordering::Relaxed) <= 4, "{scored:?} with {to} waiting");
        }
        scored.store(0, Ordering::Relaxed);
        drop(held.swap_remove(7));
        assert_eq!(router.stats().queue.waiting, WORKERS - 1);
        assert!(scored.load(Ordering::Relaxed) <= 4, "{scored:?}");
        let served = waiting.swap_remove(7).try_take().unwrap().unwrap();
        assert_eq!(served.worker(), rank(7));
        // What concerns everybody has everybody tried.
        scored.store(0, Ordering::Relaxed);
        router.expire_idle(Duration::from_secs(3_600));
        assert!(scored.load(Ordering::Relaxed) >= WORKERS as u32 - 1);
    }
}

#[test]
fn who_came_behind_a_head_that_is_blocked_is_tried_all_the_same() {
    let fleet = fleet(2);
    let held: Vec<_> = (0..2).map(|to| admit(&fleet, to, Some(u64::from(to))).wait().unwrap()).collect();
    let head = admit(&fleet, 2, None);
    // Nobody will ever be able to take this one. It is told as soon as it is looked at.
    let lost = admit(&fleet, 3, Some(99));
    let lost = lost.try_take().expect_err("the head is blocked, so nobody behind it is looked at");
    drop(head);
    let later = admit(&fleet, 4, None);
    assert!(lost.try_take().is_ok(), "the next walk gets there");
    drop((later, held));
}

mod faulty {
    //! A clock that panics once, and custom rules that panic for one request.

    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use kv_router::{
        AdmitError, BlockSize, Candidate, Clock, CustomRules, Filter, RequestId, Router, RouterConfig,
        Scorer, SelectRequest, WorkerSpec,
    };

    use super::*;

    struct Panics;

    impl Filter for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }

        fn admits(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> bool {
            // Not while it is admitted, when the worker is full.
            assert!(request.id != Some(RequestId::new(13)) || candidate.prefill_tokens > 0, "thirteen");
            true
        }
    }

    /// One worker that takes 64 prompt tokens at a time, and a queue in front of it.
    fn router(rules: CustomRules) -> Router {
        let block_size = BlockSize::new(16).unwrap();
        let mut config = RouterConfig::new(block_size);
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
        let router = Router::builder(config).custom(rules).build().unwrap();
        let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
        router.join(worker(0), WorkerSpec::new(block_size).with_capacity(capacity)).unwrap();
        router
    }

    fn ask(router: &Router, id: u32) -> Ticket {
        router.admit(&RouteRequest::from_tokens(&tokens(id)).id(RequestId::new(id.into()))).unwrap()
    }

    #[test]
    fn a_custom_rule_that_panics_for_one_who_waits_costs_the_others_nothing() {
        let router = router(CustomRules::new().filter(Panics));
        let held = ask(&router, 1).wait().unwrap();
        let (bad, good) = (ask(&router, 13), ask(&router, 2));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_err());
        let good = good.try_take().expect("nothing is wrong with it").unwrap();
        assert_eq!(good.worker(), rank(0));
        assert_eq!(bad.try_take().expect("it is told").unwrap_err(), AdmitError::Panicked);
        drop(good);
        assert_eq!((router.stats().queue.waiting, router.stats().load.requests), (0, 0));
    }

    impl Scorer for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }

        fn cost(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
            f64::from(u8::from(Filter::admits(self, request, candidate)))
        }
    }

    /// Under scorers alone, those who can go to the same places stand in one line.
    #[test]
    fn a_scorer_that_panics_for_the_head_does_not_block_those_behind_it() {
        let router = router(CustomRules::new().scorer(1.0, Panics));
        let held = ask(&router, 1).wait().unwrap();
        let (bad, good) = (ask(&router, 13), ask(&router, 2));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_err());
        assert!(good.try_take().is_ok(), "nothing is wrong with it");
        assert_eq!(bad.try_take().expect("it is told").unwrap_err(), AdmitError::Panicked);
        assert_eq!((router.stats().queue.waiting, router.stats().load.requests), (0, 0));
    }

    /// Has no cost for request 13 on an idle worker.
    struct NoCost;

    impl Scorer for NoCost {
        fn name(&self) -> &'static str {
            "no cost"
        }

        fn cost(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
            let is_bad = request.id == Some(RequestId::new(13)) && candidate.prefill_tokens == 0;
            if is_bad { f64::NAN } else { 0.0 }
        }
    }

    #[test]
    fn a_scorer_that_has_no_cost_for_the_head_does_not_block_those_behind_it() {
        let router = router(CustomRules::new().scorer(1.0, NoCost));
        let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
        let spec = WorkerSpec::new(router.scheme().block_size()).with_capacity(capacity);
        router.join(worker(1), spec).unwrap();
        let [one, two] = [1, 2].map(|id| ask(&router, id).wait().unwrap());
        let (bad, good, last) = (ask(&router, 13), ask(&router, 3), ask(&router, 4));
        drop(one);
        let good = good.try_take().expect("nothing is wrong with it, and a worker is idle").unwrap();
        // One worker would have no cost for it and the other is full, so it waits, until both are idle.
        let bad = bad.try_take().expect_err("a worker is full");
        let last = last.try_take().expect_err("both are full");
        drop(two);
        let last = last.try_take().expect("a worker is idle").unwrap();
        drop(last);
        let bad = bad.try_take().expect_err("a worker is full");
        drop(good);
        let error = bad.try_take().expect("nobody is left who would take it").unwrap_err();
        assert!(error.to_string().contains("bad score"), "{error}");
        assert_eq!((router.stats().queue.waiting, router.stats().load.requests), (0, 0));
    }

    #[derive(Debug)]
    struct Stops(Arc<AtomicBool>, Instant);

    impl Clock for Stops {
        fn now(&self) -> Instant {
            assert!(!self.0.swap(false, Ordering::Relaxed), "the clock stopped");
            self.1
        }
    }

    #[test]
    fn a_clock_that_panics_amid_a_walk_costs_nobody_the_room() {
        let block_size = BlockSize::new(16).unwrap();
        let mut config = RouterConfig::new(block_size);
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
        let stops = Arc::new(AtomicBool::new(false));
        #[expect(clippy::disallowed_methods, reason = "virtual time needs some origin")]
        let clock = Stops(Arc::clone(&stops), Instant::now());
        let router = Router::builder(config).clock(clock).build().unwrap();
        let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
        for id in 0..2 {
            router.join(worker(id), WorkerSpec::new(block_size).with_capacity(capacity)).unwrap();
        }
        let ask = |number: u32, to: u64| {
            let constraints = Constraints { pin: Some(Pinned::Worker(worker(to))), ..Constraints::default() };
            router.admit(&RouteRequest::from_tokens(&tokens(number)).constraints(constraints)).unwrap()
        };
        let [zero, one] = [0, 1].map(|to| ask(to, to.into()).wait().unwrap());
        let waits = ask(2, 0).try_take().expect_err("its worker is full");
        stops.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(zero))).is_err());
        // What the walk knew is not lost, although the next ring is about another worker.
        drop(one);
        assert!(waits.try_take().is_ok(), "its worker is idle");
    }
}
