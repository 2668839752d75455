//! The queue: orders, bounds, deadlines, no head that blocks the others, nobody forgotten.

use std::time::{Duration, Instant};

use kv_router_schedule::{
    Pass, Queue, QueueConfig, QueueConfigError, QueueFull, QueueKey, QueueOrder, Waiting,
};
use proptest::prelude::*;
use proptest::sample::Index;

type TestQueue = Queue<u8, &'static str>;

#[expect(clippy::disallowed_methods, reason = "virtual time needs some origin")]
fn origin() -> Instant {
    Instant::now()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn queue<T>(order: QueueOrder) -> Queue<u8, T> {
    Queue::new(QueueConfig { order, ..QueueConfig::default() }).unwrap()
}

fn ask(uncached_tokens: u64, priority: u32) -> Waiting<u8> {
    Waiting { class: None, uncached_tokens, priority, deadline: None }
}

fn pinned(worker: u8) -> Waiting<u8> {
    Waiting { class: Some(worker), ..ask(10, 0) }
}

/// Serves all that wait, and says in which order.
fn drain<T: Copy>(queue: &mut Queue<u8, T>, now: Instant) -> Vec<T> {
    let mut pass = Pass::new();
    let mut served = Vec::new();
    while let Some((key, _)) = queue.next(&mut pass, now) {
        served.push(queue.take(key).unwrap());
    }
    served
}

#[track_caller]
fn check_order(order: QueueOrder, asks: &[(&'static str, u64, u32)], expected: &[&str]) {
    let now = origin();
    let mut queue: TestQueue = queue(order);
    for &(name, tokens, priority) in asks {
        queue.push(name, ask(tokens, priority), now).unwrap();
    }
    assert_eq!(drain(&mut queue, now), expected);
    assert_eq!((queue.stats().waiting, queue.stats().tokens), (0, 0));
}

#[test]
fn who_is_put_into_a_class_of_its_own_keeps_its_place_and_blocks_nobody() {
    let now = origin();
    for (aging, order) in [(secs(30), QueueOrder::Fcfs), (secs(0), QueueOrder::Lcfs)] {
        let mut queue: TestQueue =
            Queue::new(QueueConfig { aging, order, ..QueueConfig::default() }).unwrap();
        let keys = ["a", "b", "c"].map(|name| queue.push(name, ask(10, 0), now).unwrap());
        let mut pass = Pass::new();
        let (first, &name) = queue.next(&mut pass, now).unwrap();
        assert_eq!(name, "a"); // by place, or because all are overdue
        assert!(queue.set_class(first, Some(1)));
        queue.block(&mut pass, first);
        assert_eq!(queue.next(&mut pass, now).map(|(_, name)| *name), Some("b"));
        // Its place is the one that it had.
        assert_eq!(queue.next(&mut Pass::new(), now).map(|(_, name)| *name), Some("a"));
        assert!(queue.set_class(first, None));
        assert_eq!(drain(&mut queue, now), ["a", "b", "c"]);
        assert!(!queue.set_class(keys[1], Some(1)));
    }
}

#[test]
fn section_7_each_order() {
    let asks = [("a", 900, 0), ("b", 100, 0), ("c", 400, 9), ("d", 100, 0), ("e", 0, 0)];
    check_order(QueueOrder::Fcfs, &asks, &["c", "a", "b", "d", "e"]);
    check_order(QueueOrder::Lcfs, &asks, &["c", "e", "d", "b", "a"]);
    // 1 / 900, 1 / 100, 10 / 400, 1 / 100, 1 / 1.
    check_order(QueueOrder::Wspt, &asks, &["e", "c", "b", "d", "a"]);
}

#[test]
fn worth_is_compared_without_rounding() {
    let long = u64::MAX / 4;
    let config = QueueConfig { order: QueueOrder::Wspt, max_tokens: u64::MAX, ..QueueConfig::default() };
    let mut queue: TestQueue = Queue::new(config).unwrap();
    let now = origin();
    queue.push("longer by one", ask(long + 1, 0), now).unwrap();
    queue.push("long", ask(long, 0), now).unwrap();
    assert_eq!(drain(&mut queue, now), ["long", "longer by one"]);
}

#[test]
fn section_7_a_pinned_head_does_not_block_those_behind_it() {
    let now = origin();
    let mut queue: TestQueue = queue(QueueOrder::Fcfs);
    let head = queue.push("pinned to a busy worker", pinned(7), now).unwrap();
    for (name, ask) in [("free", ask(1, 0)), ("same pin", pinned(7)), ("other pin", pinned(8))] {
        queue.push(name, ask, now).unwrap();
    }
    let mut pass = Pass::new();
    let mut served = Vec::new();
    while let Some((key, _)) = queue.next(&mut pass, now) {
        if key == head {
            queue.block(&mut pass, key);
        } else {
            served.push(queue.take(key).unwrap());
        }
    }
    assert_eq!(served, ["free", "other pin"], "one of the blocked class is enough to know");
    assert_eq!(drain(&mut queue, now), ["pinned to a busy worker", "same pin"]);
}

#[test]
fn while_one_that_can_go_anywhere_is_blocked_so_is_everybody() {
    let now = origin();
    let mut queue: TestQueue = queue(QueueOrder::Fcfs);
    let first = queue.push("anywhere", ask(1, 0), now).unwrap();
    queue.push("pinned", pinned(1), now).unwrap();
    let mut pass = Pass::new();
    assert_eq!(queue.next(&mut pass, now).map(|(key, _)| key), Some(first));
    queue.block(&mut pass, first);
    assert_eq!(queue.next(&mut pass, now), None);
}

#[test]
fn a_thorough_pass_offers_the_first_of_every_class() {
    let now = origin();
    let mut queue: TestQueue = queue(QueueOrder::Fcfs);
    let asks = [
        ("free", ask(1, 0)),
        ("one", pinned(1)),
        ("also free", ask(1, 0)),
        ("also one", pinned(1)),
        ("two", pinned(2)),
    ];
    for (name, ask) in asks {
        queue.push(name, ask, now).unwrap();
    }
    for later in [secs(0), secs(60)] {
        let (mut pass, mut offered) = (Pass::thorough(), Vec::new());
        while let Some((key, name)) = queue.next(&mut pass, now + later) {
            offered.push(*name);
            queue.block(&mut pass, key);
        }
        assert_eq!(offered, ["free", "one", "two"], "overdue or not");
    }
}

#[test]
fn section_7_cancelled_while_waiting_is_never_offered() {
    let now = origin();
    let mut queue: TestQueue = queue(QueueOrder::Fcfs);
    let first = queue.push("first", ask(1, 0), now).unwrap();
    let second = queue.push("second", ask(1, 0), now).unwrap();
    let mut pass = Pass::new();
    assert_eq!(queue.next(&mut pass, now), Some((first, &"first")));
    // Cancelled amid the decision: what was decided finds nothing to be booked for.
    assert_eq!(queue.cancel(first), Some("first"));
    assert_eq!((queue.take(first), queue.contains(first)), (None, false));
    assert_eq!(queue.cancel(second), Some("second"));
    assert_eq!(queue.next(&mut pass, now), None);
    assert_eq!((queue.stats().cancelled, queue.stats().dispatched), (2, 0));
    assert_eq!(queue.cancel(second), None);
}

#[test]
fn section_7_bounds_hand_the_request_back() {
    let now = origin();
    let config = QueueConfig { max_requests: 2, max_tokens: 100, ..QueueConfig::default() };
    let mut queue: TestQueue = Queue::new(config.clone()).unwrap();
    let mut push = |name, tokens| queue.push(name, ask(tokens, 0), now);
    push("a", 60).unwrap();
    let refused = push("b", 41).unwrap_err();
    assert_eq!(
        (refused.item, refused.reason),
        ("b", QueueFull::Tokens { waiting: 60, asked: 41, limit: 100 })
    );
    assert!(push("c", u64::MAX).is_err());
    push("d", 40).unwrap();
    let refused = push("e", 0).unwrap_err();
    assert_eq!((refused.item, refused.reason), ("e", QueueFull::Requests { limit: 2 }));
    assert!(refused.to_string().contains("max_requests"));
    assert_eq!((queue.stats().refused, queue.stats().waiting, queue.stats().tokens), (3, 2, 100));

    let none = QueueConfig { max_requests: 0, ..config.clone() };
    assert_eq!(TestQueue::new(none).unwrap_err(), QueueConfigError::MaxRequests);
    assert_eq!(
        TestQueue::new(QueueConfig { max_tokens: 0, ..config }).unwrap_err(),
        QueueConfigError::MaxTokens
    );
}

#[test]
fn deadlines_take_requests_out_in_their_order() {
    let start = origin();
    let mut queue: TestQueue = queue(QueueOrder::Fcfs);
    let until = |seconds| Waiting { deadline: Some(start + secs(seconds)), ..ask(5, 0) };
    queue.push("late", until(9), start).unwrap();
    queue.push("soon", until(3), start).unwrap();
    queue.push("patient", ask(5, 0), start).unwrap();
    assert_eq!(queue.next_deadline(), Some(start + secs(3)));
    assert_eq!(queue.expire(start + secs(2)), None);
    assert_eq!(queue.expire(start + secs(3)).map(|(_, name)| name), Some("soon"));
    assert_eq!(queue.expire(start + secs(3)), None);
    assert_eq!(queue.longest_wait(start + secs(8)), Some(secs(8)));
    assert_eq!(queue.expire(start + secs(30)).map(|(_, name)| name), Some("late"));
    assert_eq!((queue.next_deadline(), queue.stats().expired, queue.stats().waiting), (None, 2, 1));
    let over = queue.push("over", until(9), start + secs(9)).unwrap_err();
    assert_eq!(over.reason, QueueFull::DeadlinePassed);
}

/// Short requests keep coming, one is served every second, and a long one waits.
#[test]
fn nobody_is_overtaken_for_longer_than_the_aging_bound() {
    for order in [QueueOrder::Wspt, QueueOrder::Lcfs, QueueOrder::Fcfs] {
        let start = origin();
        let aging = secs(20);
        let mut queue: Queue<u8, u64> =
            Queue::new(QueueConfig { order, aging, ..QueueConfig::default() }).unwrap();
        queue.push(0, ask(100_000, 0), start).unwrap();
        let mut served_at = None;
        for second in 1..60 {
            let now = start + secs(second);
            queue.push(second, ask(10, 5), now).unwrap();
            queue.push(1_000 + second, ask(10, 5), now).unwrap();
            let (key, _) = queue.next(&mut Pass::new(), now).unwrap();
            if queue.take(key) == Some(0) {
                served_at = Some(second);
                break;
            }
        }
        assert_eq!(served_at, Some(20), "{order:?}");
    }
}

#[test]
fn an_overdue_request_that_cannot_run_does_not_block_either() {
    let start = origin();
    let mut queue: TestQueue = queue(QueueOrder::Wspt);
    let stuck = queue.push("stuck", pinned(1), start).unwrap();
    let now = start + secs(100);
    queue.push("also stuck", Waiting { uncached_tokens: 1, ..pinned(1) }, now).unwrap();
    queue.push("free", ask(1_000, 0), now).unwrap();
    let mut pass = Pass::new();
    assert_eq!(queue.next(&mut pass, now).map(|(key, _)| key), Some(stuck));
    queue.block(&mut pass, stuck);
    assert_eq!(queue.next(&mut pass, now).map(|(_, name)| *name), Some("free"));
    assert_eq!(queue.next(&mut pass, now), None);
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        class: Option<u8>,
        tokens: u64,
        priority: u32,
        deadline: Option<u64>,
    },
    Cancel(Index),
    Expire,
    Wait(u64),
    /// Everything may be served but what can only go to these places.
    Serve {
        busy: Vec<u8>,
        most: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let class = || prop::option::weighted(0.6, 0..4u8);
    prop_oneof![
        6 => (class(), 0..50u64, 0..3u32, prop::option::weighted(0.3, 1..60u64)).prop_map(
            |(class, tokens, priority, deadline)| Step::Push { class, tokens, priority, deadline }
        ),
        1 => any::<Index>().prop_map(Step::Cancel),
        1 => Just(Step::Expire),
        2 => (0..30u64).prop_map(Step::Wait),
        2 => (prop::collection::vec(0..4u8, 0..3), 0..6usize)
            .prop_map(|(busy, most)| Step::Serve { busy, most }),
    ]
}

/// One waiting request, as plainly as possible.
#[derive(Clone, Debug)]
struct Entry {
    key: QueueKey,
    class: Option<u8>,
    tokens: u64,
    priority: u32,
    arrived: u64,
    deadline: Option<u64>,
}

const AGING: u64 = 40;

fn first<'m>(model: &'m [Entry], order: QueueOrder, now: u64, blocked: &[u8]) -> Option<&'m Entry> {
    let can = |entry: &&Entry| entry.class.is_none_or(|class| !blocked.contains(&class));
    let overdue = model.iter().filter(can).find(|entry| now - entry.arrived >= AGING);
    let worth = |entry: &Entry| {
        let work = if order == QueueOrder::Wspt { entry.tokens.max(1) } else { 1 };
        f64::from(1 + entry.priority) / work as f64
    };
    let better = |a: &'m Entry, b: &'m Entry| {
        let wins = worth(b) > worth(a) || worth(b) == worth(a) && order == QueueOrder::Lcfs;
        if wins { b } else { a }
    };
    overdue.or_else(|| model.iter().filter(can).reduce(better))
}

proptest! {
    #[test]
    fn random_traffic_follows_the_model(
        order in prop_oneof![Just(QueueOrder::Fcfs), Just(QueueOrder::Wspt), Just(QueueOrder::Lcfs)],
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let start = origin();
        let config = QueueConfig { order, max_requests: 12, max_tokens: 300, aging: secs(AGING) };
        let mut queue: Queue<u8, u64> = Queue::new(config).unwrap();
        let (mut model, mut now, mut number): (Vec<Entry>, u64, u64) = (Vec::new(), 0, 0);
        for step in steps {
            let at = start + secs(now);
            match step {
                Step::Push { class, tokens, priority, deadline } => {
                    let until = deadline.map(|deadline| start + secs(now + deadline));
                    let ask = Waiting { class, uncached_tokens: tokens, priority, deadline: until };
                    number += 1;
                    let sum: u64 = model.iter().map(|entry| entry.tokens).sum();
                    match queue.push(number, ask, at) {
                        Ok(key) => {
                            prop_assert!(model.len() < 12 && sum + tokens <= 300);
                            let deadline = deadline.map(|deadline| now + deadline);
                            model.push(Entry { key, class, tokens, priority, arrived: now, deadline });
                        }
                        Err(refused) => {
                            prop_assert!(model.len() == 12 || sum + tokens > 300);
                            prop_assert_eq!(refused.item, number);
                        }
                    }
                }
                Step::Cancel(index) if !model.is_empty() => {
                    let entry = model.remove(index.index(model.len()));
                    prop_assert!(queue.cancel(entry.key).is_some());
                }
                Step::Cancel(_) => {}
                Step::Expire => {
                    while let Some((key, _)) = queue.expire(at) {
                        let found = model.iter().position(|entry| entry.key == key);
                        let entry = model.remove(found.expect("it waits"));
                        prop_assert!(entry.deadline.is_some_and(|deadline| deadline <= now));
                    }
                    prop_assert!(model.iter().all(|entry| entry.deadline.is_none_or(|until| until > now)));
                }
                Step::Wait(seconds) => now += seconds,
                Step::Serve { busy, most } => {
                    let (mut pass, mut blocked, mut served) = (Pass::new(), Vec::new(), 0);
                    while served < most {
                        let expected = first(&model, order, now, &blocked).cloned();
                        let offered = queue.next(&mut pass, at).map(|(key, _)| key);
                        prop_assert_eq!(offered, expected.as_ref().map(|entry| entry.key));
                        let Some(entry) = expected else { break };
                        match entry.class {
                            Some(class) if busy.contains(&class) => {
                                queue.block(&mut pass, entry.key);
                                blocked.push(class);
                            }
                            _ => {
                                prop_assert!(queue.take(entry.key).is_some());
                                model.retain(|other| other.key != entry.key);
                                served += 1;
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(queue.stats().waiting as usize, model.len());
            prop_assert_eq!(queue.stats().tokens, model.iter().map(|entry| entry.tokens).sum::<u64>());
            let due = model.iter().filter_map(|entry| entry.deadline).min();
            prop_assert_eq!(queue.next_deadline(), due.map(|due| start + secs(due)));
        }
        let left = drain(&mut queue, start + secs(now));
        prop_assert_eq!(left.len(), model.len());
        prop_assert_eq!((queue.stats().waiting, queue.stats().tokens), (0, 0));
        prop_assert_eq!(queue.next_deadline(), None);
    }
}

#[test]
fn a_clock_that_leapt_ahead_and_back_makes_nobody_wait_for_it() {
    for order in [QueueOrder::Fcfs, QueueOrder::Lcfs] {
        let now = origin() + secs(100_000);
        let mut queue: TestQueue =
            Queue::new(QueueConfig { order, aging: secs(30), ..QueueConfig::default() }).unwrap();
        queue.push("before", ask(1, 0), now).unwrap();
        // One reading of another machine's clock.
        queue.push("amid", ask(1, 0), now + secs(90_000)).unwrap();
        queue.push("after", ask(1, 0), now + secs(1)).unwrap();
        queue.push("last", ask(1, 0), now + secs(29)).unwrap();
        assert_eq!(queue.longest_wait(now + secs(1)), Some(secs(1)));
        // At 31 s the first three have waited for the bound since they came, or since the clock was right again.
        let mut pass = Pass::new();
        let mut served = Vec::new();
        while served.len() < 3 {
            let (key, _) = queue.next(&mut pass, now + secs(31)).unwrap();
            served.push(queue.take(key).unwrap());
        }
        assert_eq!(served, ["before", "amid", "after"], "{order:?}");
    }
}

#[test]
fn two_threads_that_push_in_the_wrong_order_do_no_harm() {
    let now = origin() + secs(100);
    let mut queue: TestQueue = queue(QueueOrder::Lcfs);
    queue.push("first in, later clock", ask(1, 0), now + Duration::from_micros(5)).unwrap();
    queue.push("second in, earlier clock", ask(1, 0), now).unwrap();
    assert_eq!(drain(&mut queue, now + secs(31)), ["first in, later clock", "second in, earlier clock"]);
}
