//! Requests that wait for a worker with room: on a thread, in a task, cancelled, too late.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kv_router::{
    AdmitError, Capacity, Constraints, Decision, Pin, QueueConfig, QueueFull, QueueOrder, RouteError,
    RouteRequest, SessionGossip, SessionId, StaleRule, Stickiness, Ticket,
};

use kv_router_schedule::BindingVersion;

use crate::support::{Fleet, rank, worker};

const SECOND: Duration = Duration::from_secs(1);

/// Workers that take 64 prompt tokens at a time, and a queue in front of them.
fn fleet(workers: u64, queue: QueueConfig) -> Fleet {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    Fleet::with(workers, capacity, |config| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(queue);
    })
}

/// A prompt of 80 tokens that no other shares: more than a worker takes at a time.
fn tokens(number: u32) -> Vec<u32> {
    (0..80).map(|token| number * 1_000 + token).collect()
}

fn admit(fleet: &Fleet, number: u32) -> Ticket {
    fleet.router.admit(&RouteRequest::from_tokens(&tokens(number))).unwrap()
}

fn admit_pinned(fleet: &Fleet, number: u32, to: u64) -> Ticket {
    let constraints = Constraints { pin: Some(Pin::Worker(worker(to))), ..Constraints::default() };
    fleet.router.admit(&RouteRequest::from_tokens(&tokens(number)).constraints(constraints)).unwrap()
}

/// Requests in flight on each of the first workers.
fn flying<const N: usize>(fleet: &Fleet) -> [u32; N] {
    std::array::from_fn(|id| fleet.router.load(rank(id as u64)).unwrap().requests)
}

fn waiting(fleet: &Fleet) -> u64 {
    fleet.router.stats().queue.waiting
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn while_there_is_room_nobody_waits() {
    let fleet = fleet(2, QueueConfig::default());
    let held: Vec<_> = (0..2).map(|number| admit(&fleet, number).wait().unwrap()).collect();
    assert_eq!((flying(&fleet), waiting(&fleet)), ([1, 1], 0));
    drop(held);
    assert_eq!(flying(&fleet), [0, 0]);
}

#[test]
fn a_task_is_woken_by_whoever_makes_room() {
    let fleet = fleet(1, QueueConfig::default());
    let first = admit(&fleet, 1).wait().unwrap();
    let mut second = pin!(admit(&fleet, 2));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    let _ = first.booking().touch(fleet.now());
    assert_eq!((wakes.0.load(Ordering::Relaxed), waiting(&fleet)), (0, 1));

    // The first one's prefill is done: there is room, though the request goes on.
    let _ = first.booking().prefill_completed(fleet.now());
    assert_eq!((wakes.0.load(Ordering::Relaxed), waiting(&fleet)), (1, 0));
    let Poll::Ready(decision) = second.as_mut().poll(&mut context) else { panic!("it was woken") };
    assert_eq!(flying(&fleet), [2]);
    drop((first, decision));
    assert_eq!(flying(&fleet), [0]);
}

/// A task that was given up keeps a decision until its last waker goes.
struct GivenUp(#[expect(dead_code, reason = "kept to be dropped")] Decision);

impl Wake for GivenUp {
    fn wake(self: Arc<Self>) {}
}

/// The old waker goes while the ticket is polled, makes room, and so has the ticket served amid its own poll.
#[test]
fn a_ticket_that_moves_to_another_task_may_be_served_by_the_end_of_the_first() {
    let fleet = fleet(1, QueueConfig::default());
    let first = admit(&fleet, 1).wait().unwrap();
    let mut ticket = pin!(admit(&fleet, 2));
    let given_up = Waker::from(Arc::new(GivenUp(first)));
    assert!(ticket.as_mut().poll(&mut Context::from_waker(&given_up)).is_pending());
    drop(given_up);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    assert!(ticket.as_mut().poll(&mut context).is_pending());
    assert_eq!((wakes.0.load(Ordering::Relaxed), waiting(&fleet)), (1, 0));
    let Poll::Ready(decision) = ticket.as_mut().poll(&mut context) else { panic!("it was woken") };
    assert_eq!(decision.unwrap().worker(), rank(0));
    assert!(ticket.as_mut().poll(&mut context).is_pending(), "after its end");
}

#[test]
fn a_thread_waits_until_there_is_room() {
    let fleet = fleet(1, QueueConfig::default());
    let first = admit(&fleet, 1).wait().unwrap();
    let second = admit(&fleet, 2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.wait().map(|decision| decision.worker()));
        drop(first);
        assert_eq!(waiter.join().unwrap(), Ok(rank(0)));
    });
    assert_eq!((flying(&fleet), waiting(&fleet)), ([0], 0));
}

#[test]
fn section_7_a_pinned_busy_head_lets_the_others_pass() {
    let fleet = fleet(2, QueueConfig::default());
    let busy = admit_pinned(&fleet, 1, 0).wait().unwrap();
    let other = admit_pinned(&fleet, 2, 1).wait().unwrap();
    let head = admit_pinned(&fleet, 3, 0);
    let later = [admit(&fleet, 4), admit_pinned(&fleet, 5, 1)];
    drop(other);
    let [free, pinned] = later;
    let free = free.try_take().expect("the head is pinned elsewhere").unwrap();
    assert_eq!(free.worker(), rank(1));
    let pinned = pinned.try_take().expect_err("worker 1 is full again");
    let head = head.try_take().expect_err("worker 0 is still busy");
    drop(free);
    assert_eq!(pinned.wait().unwrap().worker(), rank(1));
    drop(busy);
    assert_eq!(head.wait().unwrap().worker(), rank(0));
    assert_eq!((flying(&fleet), waiting(&fleet)), ([0, 0], 0));
}

#[test]
fn a_session_that_is_stuck_to_a_busy_worker_lets_the_others_pass() {
    let fleet = fleet(2, QueueConfig::default());
    let stuck = |number: u32| {
        let tokens = tokens(number);
        let request = RouteRequest::from_tokens(&tokens).session(SessionId::new(1), Stickiness::Strict);
        fleet.router.admit(&request).unwrap()
    };
    let first = stuck(1).wait().unwrap();
    let home = first.worker().worker.get();
    let other = admit_pinned(&fleet, 2, 1 - home).wait().unwrap();
    let (head, free) = (stuck(3), admit(&fleet, 4));
    drop(other);
    let free = free.try_take().expect("the head waits for another worker").unwrap();
    assert_eq!(free.worker(), rank(1 - home));
    drop(first);
    assert_eq!(head.wait().unwrap().worker(), rank(home));
}

#[test]
fn section_7_cancelled_while_waiting_is_never_booked() {
    let fleet = fleet(1, QueueConfig::default());
    let first = admit(&fleet, 1).wait().unwrap();
    let second = admit(&fleet, 2);
    let third = admit(&fleet, 3);
    drop(second);
    assert_eq!((waiting(&fleet), fleet.router.stats().queue.cancelled), (1, 1));
    drop(first);
    assert_eq!(flying(&fleet), [1]);
    // Decided, and dropped before anybody looked.
    drop(third);
    assert_eq!((flying(&fleet), waiting(&fleet)), ([0], 0));
    assert_eq!(fleet.router.stats().queue.dispatched, 1);
}

#[test]
fn section_7_the_caches_are_looked_at_when_it_goes() {
    let fleet = fleet(2, QueueConfig::default());
    let [_zero, one] = [0, 1].map(|to| admit_pinned(&fleet, 10 + to as u32, to).wait().unwrap());
    let second = admit(&fleet, 2);
    fleet.store(1, &tokens(2), 4);
    drop(one);
    let decision = second.wait().unwrap();
    assert_eq!((decision.worker(), decision.overlap_blocks()), (rank(1), 4));
}

#[test]
fn section_7_bounds_refuse_and_nothing_is_left() {
    let fleet = fleet(1, QueueConfig { max_requests: 1, ..QueueConfig::default() });
    let _first = admit(&fleet, 1).wait().unwrap();
    let _second = admit(&fleet, 2);
    let third = fleet.router.admit(&RouteRequest::from_tokens(&tokens(3))).unwrap_err();
    assert_eq!(third, AdmitError::Queue(QueueFull::Requests { limit: 1 }));
    assert_eq!((fleet.router.stats().queue.refused, waiting(&fleet)), (1, 1));
    let empty = fleet.router.admit(&RouteRequest::from_tokens(&[])).unwrap_err();
    assert_eq!(empty, AdmitError::Route(RouteError::EmptyPrompt));
}

#[test]
fn a_deadline_ends_the_wait() {
    let fleet = fleet(1, QueueConfig::default());
    let first = admit(&fleet, 1).wait().unwrap();
    let soon = |number| {
        let deadline = fleet.now() + SECOND;
        fleet.router.admit(&RouteRequest::from_tokens(&tokens(number)).deadline(deadline)).unwrap()
    };
    // By the timer, for a task.
    let task = soon(2);
    fleet.clock.advance(SECOND);
    fleet.router.expire_idle(Duration::from_secs(60));
    assert_eq!(task.try_take().unwrap().unwrap_err(), AdmitError::DeadlinePassed);
    // By itself, for a thread.
    let thread = soon(3);
    fleet.clock.advance(SECOND);
    assert_eq!(thread.wait().unwrap_err(), AdmitError::DeadlinePassed);
    assert_eq!(waiting(&fleet), 0);
    drop(first);
    assert_eq!(flying(&fleet), [0]);
}

#[test]
fn who_waits_for_a_worker_that_leaves_is_told() {
    let fleet = fleet(2, QueueConfig::default());
    let _held = [0, 1].map(|to| admit_pinned(&fleet, to as u32, to).wait().unwrap());
    let gone = admit_pinned(&fleet, 2, 1);
    let free = admit(&fleet, 3);
    fleet.router.leave(worker(1)).unwrap();
    let error = gone.wait().unwrap_err();
    assert!(matches!(error, AdmitError::Route(RouteError::Select(_))), "{error}");
    // A worker that joins has room.
    let free = free.try_take().expect_err("worker 0 is full");
    let spec = kv_router::WorkerSpec::new(fleet.router.scheme().block_size());
    fleet.router.join(worker(5), spec).unwrap();
    assert_eq!(free.wait().unwrap().worker(), rank(5));
}

#[test]
fn short_work_first_and_urgent_work_before_it() {
    let fleet = fleet(1, QueueConfig { order: QueueOrder::Wspt, ..QueueConfig::default() });
    let first = admit(&fleet, 1).wait().unwrap();
    let prompt =
        |number: u32, length: u32| (0..length).map(|token| number * 1_000 + token).collect::<Vec<_>>();
    let ask = |number, length, priority| {
        fleet.router.admit(&RouteRequest::from_tokens(&prompt(number, length)).priority(priority)).unwrap()
    };
    let (long, short, urgent) = (ask(2, 900, 0), ask(3, 100, 0), ask(4, 500, 9));
    drop(first);
    let urgent = urgent.try_take().expect("10 / 500 is the highest").unwrap();
    drop(urgent);
    let short = short.try_take().expect("1 / 100 is next").unwrap();
    drop(short);
    assert!(long.try_take().is_ok());
}

#[test]
fn section_7_off_by_default() {
    let config = kv_router::RouterConfig::new(kv_router::BlockSize::new(16).unwrap());
    assert_eq!((config.queue, config.filters.wait_prefill), (None, None));
    let fleet = Fleet::new(1);
    let ticket = admit(&fleet, 1);
    assert_eq!(flying(&fleet), [1]);
    drop(ticket);
    assert_eq!(flying(&fleet), [0]);
}

#[test]
fn tickets_and_decisions_may_cross_threads() {
    fn check<T: Send + 'static>() {}
    check::<Ticket>();
}

#[test]
fn many_threads_wait_cancel_and_finish_and_nothing_is_left() {
    let fleet = fleet(3, QueueConfig { order: QueueOrder::Wspt, ..QueueConfig::default() });
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let fleet = &fleet;
            scope.spawn(move || {
                for number in 0..300u32 {
                    let ticket = admit(fleet, thread * 300 + number);
                    match number % 4 {
                        0 => drop(ticket),
                        1 => drop(ticket.try_take()),
                        _ => {
                            let decision = ticket.wait().unwrap();
                            let _ = decision.booking().prefill_completed(fleet.now());
                        }
                    }
                }
            });
        }
    });
    assert_eq!((flying(&fleet), waiting(&fleet)), ([0, 0, 0], 0));
}

#[test]
fn a_rank_that_has_caught_up_takes_who_waits() {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    let fleet = Fleet::with(2, capacity, |config| {
        config.filters.wait_prefill = Some(1.0);
        config.filters.cold = StaleRule::Exclude;
        config.queue = Some(QueueConfig::default());
    });
    fleet.apply(0, vec![]);
    let busy = admit(&fleet, 1).wait().unwrap();
    assert_eq!(busy.worker(), rank(0));
    let ticket = admit(&fleet, 2).try_take().expect_err("worker 0 is full, worker 1 is cold");
    fleet.apply(1, vec![]);
    let decision = ticket.try_take().expect("worker 1 has caught up and is idle").unwrap();
    assert_eq!(decision.worker(), rank(1));
}

#[test]
fn a_session_that_ends_or_moves_lets_go_who_waits_for_its_rank() {
    let session = SessionId::new(1);
    let ends: [fn(&Fleet); 2] = [
        |fleet| assert!(fleet.router.end_session(SessionId::new(1))),
        |fleet| {
            let version = BindingVersion { count: 99, replica: 9 };
            let gossip =
                SessionGossip { session: SessionId::new(1), worker: None, version, idle: Duration::ZERO };
            assert!(fleet.router.merge_session(gossip));
        },
    ];
    for end in ends {
        let fleet = fleet(2, QueueConfig::default());
        let stuck = |number: u32| {
            let tokens = tokens(number);
            let request = RouteRequest::from_tokens(&tokens).session(session, Stickiness::Strict);
            fleet.router.admit(&request).unwrap()
        };
        let first = stuck(1).wait().unwrap();
        let second = stuck(2).try_take().expect_err("its rank is full");
        end(&fleet);
        let second = second.try_take().expect("the other worker is idle").unwrap();
        assert_ne!(second.worker(), first.worker());
    }
}

#[test]
fn workers_and_sessions_come_and_go_beside_those_who_wait_and_nothing_is_left() {
    let fleet = fleet(3, QueueConfig { order: QueueOrder::Lcfs, ..QueueConfig::default() });
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    let spec = kv_router::WorkerSpec::new(fleet.router.scheme().block_size()).with_capacity(capacity);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (fleet, spec) = (&fleet, &spec);
            scope.spawn(move || {
                for number in 0..200u32 {
                    let tokens = tokens(thread * 200 + number);
                    let mut request = RouteRequest::from_tokens(&tokens);
                    match (number + thread) % 7 {
                        0 => {
                            let pin = Some(Pin::Worker(worker(u64::from(number % 4))));
                            request = request.constraints(Constraints { pin, ..Constraints::default() });
                        }
                        1 => request = request.session(SessionId::new(1), Stickiness::Strict),
                        2 => request = request.session(SessionId::new(1), Stickiness::Advisory),
                        3 => drop(fleet.router.end_session(SessionId::new(1)).then_some(())),
                        4 if thread == 0 => {
                            let _ = fleet.router.join(worker(3), spec.clone());
                        }
                        5 if thread == 0 => {
                            let _ = fleet.router.leave(worker(3));
                        }
                        _ => {}
                    }
                    // A pin to the worker that is not always there may be refused.
                    let Ok(ticket) = fleet.router.admit(&request) else { continue };
                    match number % 3 {
                        0 => {
                            let mut ticket = pin!(ticket);
                            let _ = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        }
                        _ => drop(ticket.wait()),
                    }
                }
            });
        }
    });
    let _ = fleet.router.leave(worker(3));
    assert_eq!((flying(&fleet), waiting(&fleet)), ([0, 0, 0], 0));
    let stats = fleet.router.stats();
    assert_eq!((stats.load.requests, stats.load.prompt_blocks, stats.load.prompt_runs), (0, 0, 0));
}

#[test]
fn who_waits_for_a_worker_that_leaves_is_told_behind_a_free_head_too() {
    let fleet = fleet(2, QueueConfig::default());
    let _held = [0, 1].map(|to| admit_pinned(&fleet, to as u32, to).wait().unwrap());
    let _free = admit(&fleet, 3);
    let gone = admit_pinned(&fleet, 2, 1);
    fleet.router.leave(worker(1)).unwrap();
    assert!(gone.try_take().is_ok(), "nobody else can take it");
}
