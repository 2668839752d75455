//! The pool.

use std::fmt;
use std::time::Instant;

use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use super::lane::{self, Message, Shared};
use super::routes::{Route, Routes};
use super::{EnqueueError, PoolClosed, PoolConfig, PoolHost, PoolStats, StartError};
use crate::ApplyEvents;
use crate::sync::channel::{Sender, TrySendError, bounded};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Mutex, Ordered, rank};

/// A few threads that apply the events of many workers to one concurrent index.
/// See the [module documentation](super) for order, locks and panics.
///
/// ```
/// use kv_router_index::{ConcurrentRadixTree, PoolConfig, PrefixIndex, WriterPool};
/// use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier};
/// use kv_router_types::{WorkerId, WorkerRank};
///
/// let now = std::time::Instant::now;
/// let pool = WriterPool::new(ConcurrentRadixTree::new(), &PoolConfig::default(), now)?;
/// let worker = WorkerRank::from(WorkerId::new(1));
/// let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
/// let event = KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block(1), block(2)] };
/// pool.try_enqueue(worker, event)?;
/// pool.flush();
/// assert_eq!(pool.index().find(&[1, 2, 3].map(LocalBlockHash::new)).blocks(worker), 2);
///
/// pool.remove_worker(worker.worker)?;
/// let (index, stats) = pool.shutdown();
/// assert!(index.find(&[1, 2, 3].map(LocalBlockHash::new)).is_empty());
/// assert_eq!(stats.total().events, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// An event costs its sender two shared locks, one probe of the table of routes and a channel slot, and the
/// time twice from the host.
///
/// Dropping the pool closes it, applies what is queued, and waits for its threads; so do not drop it on one
/// of them.
pub struct WriterPool<I> {
    shared: Arc<Shared<I>>,
    gate: Ordered<{ rank::GATE }, Gate>,
    threads: Threads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

/// The threads and their queues. Dropping this lets them finish and waits for them.
struct Threads {
    queues: Vec<Sender<Message>>,
    handles: Vec<JoinHandle<()>>,
}

impl<I: Send + Sync + 'static> WriterPool<I>
where
    for<'a> &'a I: ApplyEvents,
{
    /// Starts the threads. Under a host that is a function, the function tells the time.
    ///
    /// # Errors
    ///
    /// When the system refuses a thread; those that were started have ended then.
    pub fn new(index: I, config: &PoolConfig, host: impl PoolHost) -> Result<Self, StartError> {
        let count = config.threads.get();
        let shared = Arc::new(Shared {
            index,
            host: Box::new(host),
            routes: Routes::new(count),
            meters: (0..count).map(|_| Mutex::new(Default::default())).collect(),
        });
        let mut threads = Threads { queues: Vec::with_capacity(count), handles: Vec::with_capacity(count) };
        for number in 0..count {
            let (sender, receiver) = bounded(config.queue.get());
            threads.queues.push(sender);
            let shared = Arc::clone(&shared);
            let handle =
                thread::spawn(format!("kv-index-{number}"), move || lane::run(&shared, number, &receiver))
                    .map_err(|source| StartError::Thread { started: number, source })?;
            threads.handles.push(handle);
        }
        Ok(Self { shared, gate: Ordered::new(Gate::Open), threads })
    }
}

impl<I> WriterPool<I> {
    /// The index, for lookups.
    pub fn index(&self) -> &I {
        &self.shared.index
    }

    /// Enqueues an event unless its queue is full. Never waits for the index.
    ///
    /// # Errors
    ///
    /// [`Full`](EnqueueError::Full) or [`Closed`](EnqueueError::Closed), with the event.
    pub fn try_enqueue(&self, from: WorkerRank, event: KvEvent) -> Result<(), EnqueueError> {
        let gate = self.gate.read();
        if *gate == Gate::Closed {
            return Err(EnqueueError::Closed { from, event });
        }
        let route = self.shared.routes.claim(from.worker);
        let sent = self.queue(&route).try_send(self.event(from, event, &route));
        let (message, full) = match sent {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(message)) => (message, true),
            Err(TrySendError::Disconnected(message)) => (message, false),
        };
        self.shared.routes.settle(&route);
        let Message::Event { from, event, .. } = message else { return Ok(()) };
        Err(if full { EnqueueError::Full { from, event } } else { EnqueueError::Closed { from, event } })
    }

    /// Enqueues an event and waits for room if need be.
    ///
    /// # Errors
    ///
    /// [`Closed`](EnqueueError::Closed), with the event.
    pub fn enqueue(&self, from: WorkerRank, event: KvEvent) -> Result<(), EnqueueError> {
        let gate = self.gate.read();
        if *gate == Gate::Closed {
            return Err(EnqueueError::Closed { from, event });
        }
        let route = self.shared.routes.claim(from.worker);
        let Err(back) = self.queue(&route).send(self.event(from, event, &route)) else { return Ok(()) };
        self.shared.routes.settle(&route);
        let Message::Event { from, event, .. } = back.0 else { return Ok(()) };
        Err(EnqueueError::Closed { from, event })
    }

    /// Forgets a worker with all its ranks once everything enqueued for it before has been applied. Waits for
    /// room in the queue if need be.
    ///
    /// # Errors
    ///
    /// When the pool is closed.
    pub fn remove_worker(&self, worker: WorkerId) -> Result<(), PoolClosed> {
        let gate = self.gate.read();
        if *gate == Gate::Closed {
            return Err(PoolClosed);
        }
        let route = self.shared.routes.claim(worker);
        let message = Message::RemoveWorker { worker, route: Arc::clone(&route), at: self.now() };
        self.queue(&route).send(message).map_err(|_| {
            self.shared.routes.settle(&route);
            PoolClosed
        })
    }

    /// Waits until everything that was enqueued before this call has been applied.
    pub fn flush(&self) {
        let (done, all_done) = bounded(1);
        for queue in &self.threads.queues {
            // A thread that is gone has nothing left to apply.
            let _ = queue.send(Message::Flush { done: done.clone() });
        }
        drop(done);
        // Nothing is ever sent: this ends when the last thread has dropped its end.
        let _ = all_done.recv();
    }

    /// Closes the pool to new events, then waits until everything that it took has been applied. Lookups go
    /// on.
    pub fn drain(&self) {
        *self.gate.write() = Gate::Closed;
        self.flush();
    }

    /// Closes the pool, applies what is queued, ends the threads, and hands over the index with the final
    /// counts.
    pub fn shutdown(self) -> (I, PoolStats) {
        self.drain();
        let stats = self.stats();
        let Self { shared, threads, .. } = self;
        drop(threads);
        match Arc::try_unwrap(shared) {
            Ok(shared) => (shared.index, stats),
            Err(_) => unreachable!("the threads had the only other pointers, and they have been joined"),
        }
    }

    /// What was done, and what waits.
    pub fn stats(&self) -> PoolStats {
        let workers = self.shared.routes.workers();
        let threads = self.shared.meters.iter().zip(&self.threads.queues).zip(workers);
        let threads = threads.map(|((meter, queue), workers)| {
            let mut stats = *meter.lock();
            (stats.depth, stats.workers) = (queue.len(), workers);
            stats
        });
        PoolStats { threads: threads.collect() }
    }

    fn queue(&self, route: &Route) -> &Sender<Message> {
        &self.threads.queues[route.thread]
    }

    fn event(&self, from: WorkerRank, event: KvEvent, route: &Arc<Route>) -> Message {
        Message::Event { from, event, route: Arc::clone(route), at: self.now() }
    }

    fn now(&self) -> Instant {
        self.shared.host.now()
    }
}

impl<I> fmt::Debug for WriterPool<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterPool").field("total", &self.stats().total()).finish_non_exhaustive()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The end of the last sender ends the loop of a thread, after what is queued.
        self.queues.clear();
        for handle in self.handles.drain(..) {
            // Panics of the index end within its event; should a thread have ended otherwise, its message is
            // on stderr.
            let _ = handle.join();
        }
    }
}
