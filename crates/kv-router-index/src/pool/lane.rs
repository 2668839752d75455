//! One writer thread: its queue, and what it does with a message.

use std::time::Instant;

use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use super::host::PoolHost;
use super::routes::{Route, Routes};
use super::stats::{Outcome, ThreadStats};
use crate::ApplyEvents;
use crate::sync::channel::{Receiver, Sender};
use crate::sync::{Arc, Mutex, Panicked, catch_panic};

/// What the pool and its threads share.
pub(super) struct Shared<I> {
    pub(super) index: I,
    pub(super) host: Box<dyn PoolHost>,
    pub(super) routes: Routes,
    /// One for each thread, which writes it; its `depth` and `workers` stay 0.
    pub(super) meters: Vec<Mutex<ThreadStats>>,
}

/// What goes through a queue.
pub(super) enum Message {
    Event {
        from: WorkerRank,
        event: KvEvent,
        route: Arc<Route>,
        at: Instant,
    },
    RemoveWorker {
        worker: WorkerId,
        route: Arc<Route>,
        at: Instant,
    },
    /// Everything before it is done once this sender is dropped.
    Flush {
        done: Sender<()>,
    },
}

/// Applies messages until all senders are gone and the queue is empty.
pub(super) fn run<I>(shared: &Shared<I>, thread: usize, queue: &Receiver<Message>)
where
    for<'a> &'a I: ApplyEvents,
{
    while let Ok(message) = queue.recv() {
        match message {
            Message::Event { from, event, route, at } => {
                let stores = matches!(event, KvEvent::Stored { .. });
                let outcome = shared.apply(from, event);
                if stores && matches!(outcome, Outcome::Applied(_) | Outcome::Panicked) {
                    route.set_holds(true);
                }
                shared.conclude(thread, &route, at, outcome);
            }
            Message::RemoveWorker { worker, route, at } => {
                let outcome = shared.remove_worker(worker);
                route.set_holds(matches!(outcome, Outcome::Panicked));
                shared.conclude(thread, &route, at, outcome);
            }
            Message::Flush { done } => drop(done),
        }
    }
}

impl<I> Shared<I>
where
    for<'a> &'a I: ApplyEvents,
{
    fn apply(&self, from: WorkerRank, event: KvEvent) -> Outcome {
        let outcome = catch_panic(|| match (&self.index).apply(from, &event) {
            Ok(applied) => Outcome::Applied(applied),
            Err(error) => {
                self.host.refused(from, event, error);
                Outcome::Refused(error)
            }
        });
        self.or_panicked(outcome, from.worker)
    }

    fn remove_worker(&self, worker: WorkerId) -> Outcome {
        let outcome = catch_panic(|| Outcome::Applied((&self.index).remove_worker(worker)));
        self.or_panicked(outcome, worker)
    }

    fn or_panicked(&self, outcome: Result<Outcome, Panicked>, worker: WorkerId) -> Outcome {
        outcome.unwrap_or_else(|Panicked| {
            // A host that panics too must not end the thread either.
            let _ = catch_panic(|| self.host.panicked(worker));
            Outcome::Panicked
        })
    }

    fn conclude(&self, thread: usize, route: &Arc<Route>, at: Instant, outcome: Outcome) {
        let lag = self.host.now().saturating_duration_since(at);
        self.meters[thread].lock().count(outcome, lag);
        self.routes.settle(route);
    }
}
