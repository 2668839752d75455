//! Which workers there are: entries in JetStream's key-value store that live only as long as they are renewed.

mod liveness;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{Operation, Store, UpdateErrorKind};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use futures_util::StreamExt;
use kv_router_types::WorkerId;
use tokio::sync::{oneshot, watch};

pub use self::liveness::WorkerEvent;
use self::liveness::{Connection, Liveness};
use crate::buckets::{KeyValueBucket, key_value};
use crate::config::{check_count, check_wait};
use crate::error::{Cause, ConfigError, RequestError};
use crate::link::{Link, Shared, Task};

/// Entries that may wait to be polled; the store keeps the rest meanwhile.
const WAITING: usize = 1024;
/// Waits of the tasks between attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// How long workers live, and how many there may be.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RegistryConfig {
    /// How long an entry lives without being renewed, which happens three times as often. At least four times the
    /// link's `ping_interval`. All sides need the same. Default: 15 s.
    pub ttl: Duration,
    /// Largest description of a worker, in bytes. Default: 4 KiB.
    pub about_bytes: usize,
    /// Most workers. Default: 16,384.
    pub workers: usize,
    /// Servers that keep the entries, when the bucket has to be made. Default: 1.
    pub replicas: usize,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(15), about_bytes: 4096, workers: 16_384, replicas: 1 }
    }
}

/// The workers of one fleet. Clones are cheap.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
    config: RegistryConfig,
}

impl Registry {
    /// A registry on this link. The bucket is made when it is not there.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration makes no sense.
    pub fn new(link: &Link, config: RegistryConfig) -> Result<Self, ConfigError> {
        let shared = Arc::clone(link.shared());
        check_wait("ttl", config.ttl)?;
        let least = shared.config.ping_interval * 4;
        if config.ttl < least {
            return Err(ConfigError::TtlTooShort { ttl: config.ttl, least });
        }
        for (field, count) in
            [("about_bytes", config.about_bytes), ("workers", config.workers), ("replicas", config.replicas)]
        {
            check_count(field, count)?;
        }
        Ok(Self { shared, config })
    }

    /// Says that a worker is there, until the announcement is dropped or the process ends.
    ///
    /// Returns when the store has the entry. `about` is what routers have to know of it; its form is the caller's.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when `about` is too large or the store does not take it in time.
    pub fn announce(&self, worker: WorkerId, about: Vec<u8>) -> Result<Announcement, RequestError> {
        let (found, limit) = (about.len() as u64, self.config.about_bytes as u64);
        if found > limit {
            return Err(RequestError::TooLarge { found, limit });
        }
        let entry =
            Announced { registry: self.clone(), key: worker.get().to_string(), about: Bytes::from(about) };
        let first = entry.clone();
        let wait = self.shared.config.request_wait;
        let revision = self.shared.call(wait, async move { first.put().await })?;
        let (leave, leaving) = oneshot::channel();
        let task = self.shared.spawn(entry.renew(revision, leaving));
        Ok(Announcement { shared: Arc::clone(&self.shared), worker, leave, _task: task })
    }

    /// Watches who comes and goes.
    pub fn watch(&self) -> WorkerWatch {
        let (entries, waiting) = bounded(WAITING);
        let registry = self.clone();
        let ups = self.shared.ups();
        let task = self.shared.spawn(async move { registry.follow(&entries, ups).await });
        WorkerWatch {
            shared: Arc::clone(&self.shared),
            liveness: Liveness::new(self.config.ttl, self.config.workers),
            waiting,
            refused: 0,
            _task: task,
        }
    }

    async fn bucket(&self) -> Result<Store, RequestError> {
        let RegistryConfig { ttl, about_bytes: entry_bytes, replicas, .. } = self.config;
        key_value(&self.shared, KeyValueBucket { word: "workers", ttl, entry_bytes, replicas }).await
    }

    /// Passes on every entry, for ever. From the start again when the connection came back, because what happened
    /// meanwhile may not come.
    async fn follow(&self, to: &Sender<Entry>, mut ups: watch::Receiver<u64>) {
        loop {
            ups.mark_unchanged();
            tokio::select! {
                ended = self.pass_on(to) => match ended {
                    Ended::Unwanted => return,
                    Ended::Broken => tokio::time::sleep(PAUSE).await,
                },
                changed = ups.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn pass_on(&self, to: &Sender<Entry>) -> Ended {
        let Ok(bucket) = self.bucket().await else { return Ended::Broken };
        let Ok(mut entries) = bucket.watch_with_history(">").await else { return Ended::Broken };
        while let Some(Ok(entry)) = entries.next().await {
            let Some(worker) = worker_of(&entry.key) else { continue };
            let about = (entry.operation == Operation::Put).then(|| entry.value.to_vec());
            let mut entry = Entry { worker, revision: entry.revision, about };
            while let Err(error) = to.try_send(entry) {
                match error {
                    TrySendError::Disconnected(_) => return Ended::Unwanted,
                    TrySendError::Full(back) => entry = back,
                }
                tokio::time::sleep(PAUSE / 20).await;
            }
        }
        Ended::Broken
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Whose entry it is, going by the key.
pub(crate) fn worker_of(key: &str) -> Option<WorkerId> {
    crate::subject::number(key).map(WorkerId::new)
}

/// Why entries are no longer passed on.
enum Ended {
    Unwanted,
    Broken,
}

struct Entry {
    worker: WorkerId,
    revision: u64,
    /// `None` when it was deleted.
    about: Option<Vec<u8>>,
}

/// What is put into the store again and again.
#[derive(Clone)]
struct Announced {
    registry: Registry,
    key: String,
    about: Bytes,
}

impl Announced {
    /// Returns the revision that it got.
    async fn put(&self) -> Result<u64, RequestError> {
        let bucket = self.registry.bucket().await?;
        bucket.put(&self.key, self.about.clone()).await.map_err(|e| RequestError::Broker(Cause::new(e)))
    }

    /// Renews the entry until it is to leave, at once when the connection came back: the store may have lost it. Nobody
    /// else writes it, so what is deleted in the end is what was written last.
    async fn renew(self, mut revision: u64, mut leaving: oneshot::Receiver<Left>) {
        let ttl = self.registry.config.ttl;
        let mut ups = self.registry.shared.ups();
        ups.mark_unchanged();
        let left = loop {
            tokio::select! {
                left = &mut leaving => break left,
                () = tokio::time::sleep(ttl / 3) => {}
                changed = ups.changed() => if changed.is_err() { return },
            }
            // Not broken off by whoever leaves: the revision would be unknown.
            revision = loop {
                match tokio::time::timeout(ttl / 3, self.put()).await {
                    Ok(Ok(revision)) => break revision,
                    _ => tokio::time::sleep(PAUSE).await,
                }
            };
        };
        if let Ok(left) = left {
            drop(left.send(self.delete(revision).await));
        }
    }

    /// Deletes the entry, if it is still of this revision: a worker that starts anew is announced by its next process
    /// while the one before still says good-bye.
    async fn delete(&self, revision: u64) -> Result<(), RequestError> {
        let bucket = self.registry.bucket().await?;
        let deleted = bucket.delete_expect_revision(&self.key, Some(revision)).await;
        deleted.map_err(|error| match error.kind() {
            UpdateErrorKind::WrongLastRevision => RequestError::Superseded,
            _ => RequestError::Broker(Cause::new(error)),
        })
    }
}

/// Who waits to hear that an entry is gone.
type Left = oneshot::Sender<Result<(), RequestError>>;

/// A worker is there as long as this is. Dropped, it is no longer renewed, and expires.
pub struct Announcement {
    shared: Arc<Shared>,
    worker: WorkerId,
    leave: oneshot::Sender<Left>,
    _task: Task,
}

impl Announcement {
    /// Takes leave: routers learn at once that the worker goes. The entry of a process that announced the same worker
    /// later stays.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the store does not know of it in time; the worker then expires.
    /// [`RequestError::Superseded`] when the entry is another one by now.
    pub fn leave(self) -> Result<(), RequestError> {
        let Self { shared, leave, _task, .. } = self;
        shared.call(shared.config.request_wait, async move {
            let (done, left) = oneshot::channel();
            drop(leave.send(done));
            left.await.unwrap_or(Err(RequestError::Closed))
        })
    }
}

impl fmt::Debug for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcement").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// Who comes and goes, from when the watch began; the workers that were there before join first.
pub struct WorkerWatch {
    shared: Arc<Shared>,
    liveness: Liveness,
    waiting: Receiver<Entry>,
    refused: u64,
    _task: Task,
}

impl WorkerWatch {
    /// Waits up to `wait` for news, and appends what happened to `out`. `now` is when the call begins.
    ///
    /// # Errors
    ///
    /// [`RequestError::Closed`] when the link is.
    pub fn poll(
        &mut self,
        now: Instant,
        wait: Duration,
        out: &mut Vec<WorkerEvent>,
    ) -> Result<(), RequestError> {
        let up = if self.shared.is_up() { Connection::Up } else { Connection::Down };
        self.liveness.connection(now, up);
        let first = match self.waiting.recv_timeout(wait) {
            Ok(entry) => Some(entry),
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => None,
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => return Err(RequestError::Closed),
        };
        // What waits is at most a queue: a fleet that changes without end does not keep the caller here.
        let (liveness, refused) = (&mut self.liveness, &mut self.refused);
        for entry in first.into_iter().chain(self.waiting.try_iter().take(WAITING)) {
            match entry.about {
                Some(about) => {
                    *refused += u64::from(!liveness.put(now, entry.worker, entry.revision, about, out));
                }
                None => liveness.delete(entry.worker, out),
            }
        }
        // Last, so that nobody expires whose sign of life was waiting.
        liveness.tick(now, out);
        Ok(())
    }

    /// The workers there are, with what they say of themselves.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &[u8])> {
        self.liveness.workers()
    }

    /// Entries of workers above the limit.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl fmt::Debug for WorkerWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerWatch").field("refused", &self.refused).finish_non_exhaustive()
    }
}
