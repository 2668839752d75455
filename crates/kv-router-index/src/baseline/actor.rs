//! The second generation: an index that one thread owns, behind a channel.

use std::fmt;
use std::io;
use std::mem;

use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::channel::{Sender, bounded};
use crate::sync::thread::{JoinHandle, spawn};
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps,
    PrefixIndex,
};

/// Requests that wait at most; who comes then waits for room.
const QUEUE: usize = 1024;

type Request<I> = Box<dyn FnOnce(&mut I) + Send>;

/// Any index, owned by one thread that serves lookups and events in the order in which they arrive.
///
/// ```
/// use kv_router_index::baseline::Actor;
/// use kv_router_index::{ApplyEvents, PrefixIndex, RadixTree};
/// use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank};
///
/// let rank = WorkerRank::from(WorkerId::new(1));
/// let blocks = vec![StoredBlock::new(ExternalSequenceHash::new(1), LocalBlockHash::new(1))];
/// let actor = Actor::spawn(RadixTree::new())?;
/// (&actor).apply(rank, &KvEvent::Stored { tier: Tier::Device, parent: None, blocks })?;
/// assert_eq!(actor.find(&[LocalBlockHash::new(1)]).blocks(rank), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Exact if what it wraps is. Dropping it serves what waits, then ends the thread.
///
/// # Cost
///
/// That of the index, a copy of the query or event, two allocations, and two switches between threads; and
/// all callers wait for each other.
///
/// # Panics
///
/// Each call does once the index has panicked: there is nothing left that could answer.
pub struct Actor<I> {
    /// `None` only while it is dropped.
    requests: Option<Sender<Request<I>>>,
    thread: Option<JoinHandle<()>>,
    certainty: Certainty,
    refused: Arc<AtomicU64>,
}

impl<I: PrefixIndex + Send + 'static> Actor<I> {
    /// Moves an index to a thread of its own.
    ///
    /// # Errors
    ///
    /// When the system has no thread to give.
    pub fn spawn(mut index: I) -> io::Result<Self> {
        let certainty = index.certainty();
        let (requests, queue) = bounded::<Request<I>>(QUEUE);
        let serve = move || {
            while let Ok(request) = queue.recv() {
                request(&mut index);
            }
        };
        let thread = spawn("kv-index-actor".to_owned(), serve)?;
        let refused = Arc::new(AtomicU64::new(0));
        Ok(Self { requests: Some(requests), thread: Some(thread), certainty, refused })
    }
}

impl<I: 'static> Actor<I> {
    fn send(&self, request: impl FnOnce(&mut I) + Send + 'static) {
        let sent = self.requests.as_ref().map(|requests| requests.send(Box::new(request)));
        assert!(matches!(sent, Some(Ok(()))), "the index of this actor has panicked");
    }

    /// Has something done to the index, and waits for it.
    fn call<R: Send + 'static>(&self, act: impl FnOnce(&mut I) -> R + Send + 'static) -> R {
        let (reply, answer) = bounded(1);
        // Nobody waits for the answer any more only if this thread is gone.
        self.send(move |index| drop(reply.send(act(index))));
        match answer.recv() {
            Ok(answer) => answer,
            Err(_) => panic!("the index of this actor has panicked"),
        }
    }

    /// Waits until all that came before has been served.
    pub fn flush(&self) {
        self.call(|_| ());
    }

    /// How many stores of [`apply_later`](Self::apply_later) were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl<I: ApplyEvents + 'static> Actor<I> {
    /// Queues an event and does not wait for its result. Waits only while the queue is full.
    pub fn apply_later(&self, from: WorkerRank, event: KvEvent) {
        let refused = Arc::clone(&self.refused);
        self.send(move |index| {
            if index.apply(from, &event).is_err() {
                refused.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

impl<I> Drop for Actor<I> {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the index has been reported by its thread, and to each caller.
            drop(thread.join());
        }
    }
}

impl<I> fmt::Debug for Actor<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl<I: PrefixIndex + 'static> PrefixIndex for Actor<I> {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        let (query, mut answer) = (query.to_vec(), mem::take(out));
        *out = self.call(move |index| {
            index.find_into(&query, options, &mut answer);
            answer
        });
    }

    fn certainty(&self) -> Certainty {
        self.certainty
    }
}

impl<I: ApplyEvents + 'static> ApplyEvents for &Actor<I> {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let event = event.clone();
        self.call(move |index| index.apply(from, &event))
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.call(move |index| index.remove_worker(worker))
    }
}

/// Needs memory for the whole dump.
impl<I: DumpEvents + 'static> DumpEvents for Actor<I> {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        let events = self.call(|index| {
            let mut events = Vec::new();
            index.dump(&mut |from, event| events.push((from, event)));
            events
        });
        events.into_iter().for_each(|(from, event)| emit(from, event));
    }
}

impl<I: Inspect + 'static> Inspect for Actor<I> {
    fn occupancy(&self) -> Occupancy {
        self.call(|index| index.occupancy())
    }
}
