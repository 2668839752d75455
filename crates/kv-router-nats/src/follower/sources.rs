//! Where missing batches come from: the relays, a page at a time, and the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use kv_router_transport::{Incarnation, RecoveryId, ReplayRequest};
use kv_router_types::WorkerRank;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config::FollowerConfig;
use crate::SnapshotName;
use crate::link::Shared;
use crate::replay::{Ask, Page};
use crate::snapshots::SnapshotStore;

/// Ranks that wait for a snapshot, each with the birth of its lane and the request of its machine.
pub(super) type Waiting = Vec<(WorkerRank, u64, RecoveryId)>;

/// What came of a question.
pub(super) enum Answer {
    /// `None` when no page came, or one that makes no sense.
    Page { rank: WorkerRank, birth: u64, request: ReplayRequest, page: Option<Page> },
    /// `None` when there is no snapshot.
    Snapshot { bytes: Option<Vec<u8>>, waiting: Waiting },
}

/// An answer, and the permission to keep its bytes until it is dropped: so that no more pages wait than allowed.
pub(super) struct Answered {
    pub(super) answer: Answer,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Asks, on the link's thread. One question a rank is open, because its machine waits for one thing at a time, and
/// questions that it gave up end by themselves.
pub(super) struct Sources {
    shared: Arc<Shared>,
    answers: Sender<Answered>,
    pages: Arc<Semaphore>,
    asked: Arc<AtomicU64>,
    config: FollowerConfig,
    /// Who waits for the snapshot that is being loaded; `None` when none is.
    waiting: Arc<Mutex<Option<Waiting>>>,
}

impl Sources {
    pub(super) fn new(shared: &Arc<Shared>, config: &FollowerConfig) -> (Self, Receiver<Answered>) {
        let (answers, receiver) = unbounded();
        let sources = Self {
            shared: Arc::clone(shared),
            answers,
            pages: Arc::new(Semaphore::new(config.pages.min(Semaphore::MAX_PERMITS))),
            asked: Arc::default(),
            config: config.clone(),
            waiting: Arc::default(),
        };
        (sources, receiver)
    }

    /// Pages asked for.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks the relay of `rank` for a page, on behalf of its lane of this birth.
    pub(super) fn ask(&self, rank: WorkerRank, birth: u64, request: ReplayRequest) {
        let (client, answers) = (self.shared.client.clone(), self.answers.clone());
        let (pages, asked, wait) =
            (Arc::clone(&self.pages), Arc::clone(&self.asked), self.config.replay.idle);
        let subject = self.shared.config.prefix.replays(rank);
        let incarnation = request.incarnation.unwrap_or(Incarnation::new(0));
        let ask = Ask { incarnation, from: request.from, to: request.to.unwrap_or(u64::MAX) };
        let question = async move {
            // The wait for a permit counts: the machine's own deadline goes on meanwhile.
            let asking = async {
                let permit = pages.acquire_owned().await.ok();
                asked.fetch_add(1, Ordering::Relaxed);
                let reply = client.request(subject, ask.encode().into()).await.ok();
                (reply.and_then(|reply| Page::decode(&reply.payload)), permit)
            };
            let (page, permit) = tokio::time::timeout(wait, asking).await.unwrap_or((None, None));
            let answer = Answer::Page { rank, birth, request, page };
            drop(answers.send(Answered { answer, _permit: permit }));
        };
        self.shared.run(question);
    }

    /// Loads the snapshot, once for all that wait for it at a time.
    pub(super) fn load(&self, store: &SnapshotStore, rank: WorkerRank, birth: u64, id: RecoveryId) {
        let mut loading = self.waiting.lock();
        if let Some(waiting) = loading.as_mut() {
            return waiting.push((rank, birth, id));
        }
        *loading = Some(vec![(rank, birth, id)]);
        drop(loading);
        let (store, answers, waiting) = (store.clone(), self.answers.clone(), Arc::clone(&self.waiting));
        let (name, wait): (SnapshotName, _) =
            (self.config.name.clone(), self.config.snapshot.unwrap_or_default());
        let mut ups = self.shared.ups();
        self.shared.run(async move {
            let loading = async {
                loop {
                    ups.mark_unchanged();
                    tokio::select! {
                        loaded = store.fetch(&name) => return loaded.ok().flatten(),
                        // What was under way over the connection before may never come.
                        changed = ups.changed() => if changed.is_err() { return None },
                    }
                }
            };
            let bytes = tokio::time::timeout(wait, loading).await.ok().flatten();
            let waiting = waiting.lock().take().unwrap_or_default();
            drop(answers.send(Answered { answer: Answer::Snapshot { bytes, waiting }, _permit: None }));
        });
    }
}
