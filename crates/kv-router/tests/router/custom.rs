//! Filters, scorers and pickers of the caller's own, through the router.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kv_router::{
    BlockSize, Candidate, Capacity, Contender, CustomRules, Entropy, Filter, Picker, QueueConfig, RequestId,
    RouteError, RouteRequest, Router, RouterConfig, Scorer, SelectRequest, WorkerSpec,
};
use kv_router_schedule::SelectError;

use crate::support::{rank, worker};

/// Lets a request go to the worker of its last digit alone.
struct ById;

impl Filter for ById {
    fn name(&self) -> &'static str {
        "by id"
    }

    fn admits(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> bool {
        request.id.is_some_and(|id| id.get() % 10 == u128::from(candidate.worker.worker.get()))
    }
}

/// Makes one worker dear, which one can be changed.
struct Dear(Arc<AtomicU64>);

impl Scorer for Dear {
    fn name(&self) -> &'static str {
        "dear"
    }

    fn cost(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
        f64::from(u8::from(candidate.worker.worker.get() == self.0.load(Ordering::Relaxed)))
    }
}

struct Beyond;

impl Picker for Beyond {
    fn name(&self) -> &'static str {
        "beyond"
    }

    fn pick(&self, _: &SelectRequest<'_>, found: &[Contender], _: &mut dyn Entropy) -> Option<usize> {
        Some(found.len())
    }
}

fn router(rules: CustomRules, change: impl FnOnce(&mut RouterConfig)) -> Router {
    let block_size = BlockSize::new(16).unwrap();
    let mut config = RouterConfig::new(block_size);
    change(&mut config);
    let router = Router::builder(config).custom(rules).build().unwrap();
    for id in 0..2 {
        let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
        router.join(worker(id), WorkerSpec::new(block_size).with_capacity(capacity)).unwrap();
    }
    router
}

fn tokens(number: u32) -> Vec<u32> {
    (0..80).map(|token| number * 1_000 + token).collect()
}

#[test]
fn a_scorer_is_asked_at_each_decision_and_explained() {
    let dear = Arc::new(AtomicU64::new(0));
    let router = router(CustomRules::new().scorer(3.0, Dear(Arc::clone(&dear))), |_| ());
    for id in [0, 1, 0] {
        dear.store(id, Ordering::Relaxed);
        let tokens = tokens(1);
        let decision = router.route(&RouteRequest::from_tokens(&tokens).explained()).unwrap();
        assert_eq!((decision.worker(), decision.cost().custom_term), (rank(1 - id), 0.0));
        let told = decision.explain().unwrap().to_string();
        assert!(told.contains("+ dear 3.00") && told.contains("+ dear 0.00"), "{told}");
    }
}

#[test]
fn a_bad_pick_books_nothing() {
    let router = router(CustomRules::new().picker(Beyond), |_| ());
    let error = router.route(&RouteRequest::from_tokens(&tokens(1))).unwrap_err();
    assert!(matches!(error, RouteError::Select(SelectError::BadPick { index: 2, .. })), "{error}");
    assert_eq!(router.stats().load.requests, 0);
}

#[test]
fn under_a_custom_filter_one_who_waits_blocks_nobody_else() {
    let router = router(CustomRules::new().filter(ById), |config| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
    });
    let admit = |number: u32, to: u128| {
        router.admit(&RouteRequest::from_tokens(&tokens(number)).id(RequestId::new(to))).unwrap()
    };
    let [hog, other] = [10, 11].map(|id| admit(id, u128::from(id)).wait().unwrap());
    assert_eq!([hog.worker(), other.worker()], [rank(0), rank(1)]);
    let [first, second] = [20, 21].map(|id| admit(id, u128::from(id)));
    assert_eq!(router.stats().queue.waiting, 2);
    drop(other);
    // The head still waits for its worker.
    assert_eq!(second.try_take().unwrap().unwrap().worker(), rank(1));
    let first = first.try_take().unwrap_err();
    drop(hog);
    assert_eq!(first.try_take().unwrap().unwrap().worker(), rank(0));
}

#[test]
fn a_filter_that_admits_nobody_refuses_at_once() {
    let router = router(CustomRules::new().filter(ById), |config| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
    });
    let nowhere = router.admit(&RouteRequest::from_tokens(&tokens(1)).id(RequestId::new(7)));
    let error = nowhere.unwrap_err().to_string();
    assert!(error.contains("custom rules leave out"), "{error}");
}
