//! dynamo-kv-router 1.6.1, `ConcurrentRadixTreeCompressed`.
//!
//! Lookups call `find_matches`, as its thread pool does on the caller's thread. Events have one public way in: the loop
//! `SyncIndexer::worker`, which takes a queue, keeps the thread and owns the workers' maps. Its authors run it on threads
//! of a pool; a hop between threads for every event would charge the index for two context switches.
//!
//! So the loop runs on the measuring thread, and the script runs inside it. Behind every batch goes a flush. Its reply
//! wakes a waker, and the waker is ours: it plays the script up to the next batch, queues that with the next flush and
//! returns to the loop. One thread, no hop, only public calls. What a batch spends in the queue and on the reply is
//! measured with removals that name nothing, and taken off.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::{LocalBlockHash as TheirLocalHash, OverlapScores, RouterEvent};
use kv_router_types::LocalBlockHash;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Concurrent, Find, Owner, Script, Subject, dynamo};
use crate::clock::{Clock, Times};
use crate::corpus::{Change, Corpus, Held};

/// Batches that the detour is measured with.
const BATCHES: usize = 20_000;

/// The tree.
pub struct CompressedTree {
    finder: CompressedFinder,
    workers: u32,
}

impl fmt::Debug for CompressedTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompressedTree").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Its reading side.
#[derive(Clone)]
pub struct CompressedFinder(Arc<ConcurrentRadixTreeCompressed>);

impl fmt::Debug for CompressedFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompressedFinder").finish_non_exhaustive()
    }
}

/// Its event.
#[derive(Debug)]
pub enum Event {
    /// What its event stream carries; `None` once applied.
    Event(Option<RouterEvent>),
    /// A worker goes away.
    Replace(u32),
}

impl Event {
    fn task(&mut self) -> Option<WorkerTask> {
        match self {
            Self::Event(event) => event.take().map(WorkerTask::Event),
            Self::Replace(worker) => {
                let (resp, _nobody_waits) = oneshot::channel();
                Some(WorkerTask::RemoveWorker { worker_id: u64::from(*worker), sweep_tree: true, resp })
            }
        }
    }
}

impl Find for CompressedFinder {
    type Query = Vec<TheirLocalHash>;
    type Answer = OverlapScores;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        dynamo::prepare(locals, query);
    }

    #[inline]
    fn find(&self, query: &mut Self::Query, answer: &mut OverlapScores) {
        *answer = self.0.find_matches(query, false);
    }

    fn read(&self, answer: &OverlapScores, out: &mut Vec<Held>) {
        dynamo::read(answer, out);
    }
}

impl Subject for CompressedTree {
    const NAME: &'static str = "dynamo compressed";
    const OWNER: Owner = Owner::Peer;
    type Event = Event;
    type Builder = ();
    type Finder = CompressedFinder;

    fn open(workers: u32) -> Self {
        let finder = CompressedFinder(Arc::new(ConcurrentRadixTreeCompressed::new()));
        Self { finder, workers }
    }

    fn finder(&self) -> &CompressedFinder {
        &self.finder
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Event {
        match change {
            Change::Replace { worker } => Event::Replace(worker),
            other => Event::Event(Some(dynamo::event(other))),
        }
    }

    fn apply(&mut self, _event: &mut Event) {
        unreachable!("its loop applies events: see `drive`");
    }

    fn drive<S: Script<Self>>(self, script: S) -> (Self, S) {
        let (tasks, queue) = flume::unbounded();
        // A store of nothing makes the loop know a worker, as its first real event would.
        for worker in 0..self.workers {
            let store = Change::Store { worker, parent: None, blocks: &[] };
            queue_task(&tasks, WorkerTask::Event(dynamo::event(store)));
        }
        let state = State { script, batch: Vec::new(), awaited: None };
        let driver = Arc::new(Driver { finder: self.finder.clone(), tasks, state: Mutex::new(state) });
        let (flush, awaited) = driver.flush();
        driver.state.lock().awaited = Some(awaited);
        queue_task(&driver.tasks, flush);
        // Metrics are off, so nothing in the loop fails; it ends with the script.
        let _ = self.finder.0.worker(queue, None);
        driver.state.lock().awaited = None;
        let Some(driver) = Arc::into_inner(driver) else { unreachable!("the loop and its wakers are gone") };
        (self, driver.state.into_inner().script)
    }

    fn detour_ns(events: usize) -> u64 {
        let clock = Clock::calibrated();
        let script = Nothing { clock, events, left: BATCHES, started: None, times: Times::default() };
        let (_, script) = Self::open(1).drive(script);
        script.times.percentiles([0.5])[0] as u64
    }
}

impl Concurrent for CompressedTree {}

/// What the loop wakes.
struct Driver<S> {
    finder: CompressedFinder,
    tasks: flume::Sender<WorkerTask>,
    state: Mutex<State<S>>,
}

struct State<S> {
    script: S,
    batch: Vec<Event>,
    /// The reply under way: its waker is ours.
    awaited: Option<oneshot::Receiver<()>>,
}

impl<S: Script<CompressedTree>> Driver<S> {
    /// A flush whose reply wakes us.
    fn flush(self: &Arc<Self>) -> (WorkerTask, oneshot::Receiver<()>) {
        let (reply, mut awaited) = oneshot::channel();
        let waker = Waker::from(Arc::clone(self));
        let pending = Pin::new(&mut awaited).poll(&mut Context::from_waker(&waker));
        debug_assert!(pending.is_pending(), "nobody replied yet");
        (WorkerTask::Flush(reply), awaited)
    }
}

impl<S: Script<CompressedTree>> Wake for Driver<S> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let (flush, awaited) = self.flush();
        let mut state = self.state.lock();
        let State { script, batch, .. } = &mut *state;
        if !script.next(&self.finder, batch) {
            queue_task(&self.tasks, WorkerTask::Terminate);
            return;
        }
        for task in batch.iter_mut().filter_map(Event::task) {
            queue_task(&self.tasks, task);
            // Its thread pool asks this after every event; a sweep is due every few minutes.
            if self.finder.0.try_schedule_cleanup() {
                queue_task(&self.tasks, WorkerTask::CleanupStaleChildren);
            }
        }
        state.awaited = Some(awaited);
        queue_task(&self.tasks, flush);
    }
}

/// The loop holds the other end for as long as it runs.
fn queue_task(tasks: &flume::Sender<WorkerTask>, task: WorkerTask) {
    let _ = tasks.send(task);
}

/// Batches of removals that name nothing.
struct Nothing {
    clock: Clock,
    events: usize,
    left: usize,
    started: Option<Instant>,
    times: Times,
}

impl Script<CompressedTree> for Nothing {
    fn next(&mut self, _finder: &CompressedFinder, batch: &mut Vec<Event>) -> bool {
        if let Some(started) = self.started.take() {
            self.times.add(self.clock.stop(started));
        }
        batch.clear();
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        batch.extend(
            (0..self.events)
                .map(|_| CompressedTree::event(&mut (), Change::Remove { worker: 0, names: &[] })),
        );
        self.started = Some(self.clock.start());
        true
    }
}
