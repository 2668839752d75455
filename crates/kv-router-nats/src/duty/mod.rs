//! Snapshots of the fleet: one replica at a time has the duty to write them, by an entry in the key-value store that
//! expires.

mod orphans;
mod schedule;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{CreateErrorKind, Store, UpdateErrorKind};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use kv_router_transport::ReplicaSink;

use self::orphans::Orphans;
pub use self::schedule::SnapshotSchedule;
use self::schedule::{Denial, Order, Schedule, Written};
use crate::SnapshotName;
use crate::buckets::{KeyValueBucket, key_value};
use crate::error::{Cause, RequestError};
use crate::link::{Link, Shared};
use crate::snapshots::SnapshotStore;

/// Largest entry: the number of a replica.
const ENTRY_BYTES: usize = 64;

/// Writes snapshots when it is this replica's turn, and takes away what dead writes left behind. Nothing here waits.
pub(crate) struct SnapshotDuty {
    shared: Arc<Shared>,
    store: SnapshotStore,
    name: SnapshotName,
    bucket: KeyValueBucket,
    replica: u64,
    schedule: Schedule,
    orphans: Orphans,
    answers: Receiver<Answer>,
    answer: Sender<Answer>,
    counters: DutyCounters,
    pruned: Arc<AtomicU64>,
}

/// What a replica did for the snapshots of its fleet. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DutyCounters {
    /// Times it got the duty.
    pub terms: u64,
    /// Snapshots written.
    pub written: u64,
    /// Snapshots put off, because ranks would have been left out.
    pub put_off: u64,
    /// Snapshots that the store did not take, or that could not be made.
    pub failed: u64,
    /// Dead writes whose pieces were taken away.
    pub pruned: u64,
}

/// What a task came back with.
enum Answer {
    Granted(u64),
    Denied(Denial),
    Written(Written),
    /// Pieces of nobody's.
    Orphans(std::collections::BTreeSet<String>),
}

impl SnapshotDuty {
    pub(crate) fn new(
        link: &Link,
        store: SnapshotStore,
        name: SnapshotName,
        replica: u64,
        (config, now): (SnapshotSchedule, Instant),
    ) -> Result<Self, RequestError> {
        config.validate()?;
        let (answer, answers) = unbounded(); // one question and one write are open at most
        let bucket = KeyValueBucket {
            word: "duties",
            ttl: config.lease,
            entry_bytes: ENTRY_BYTES,
            replicas: config.replicas,
        };
        Ok(Self {
            shared: Arc::clone(link.shared()),
            store,
            name,
            bucket,
            replica,
            schedule: Schedule::new(now, config),
            orphans: Orphans::default(),
            answers,
            answer,
            counters: DutyCounters::default(),
            pruned: Arc::default(),
        })
    }

    pub(crate) fn counters(&self) -> DutyCounters {
        DutyCounters { pruned: self.pruned.load(Ordering::Relaxed), ..self.counters }
    }

    pub(crate) fn is_ours(&self, now: Instant) -> bool {
        self.schedule.is_ours(now)
    }

    /// Does what is due.
    pub(crate) fn poll(&mut self, now: Instant, sink: &mut dyn ReplicaSink) {
        while let Ok(answer) = self.answers.try_recv() {
            match answer {
                Answer::Granted(grant) => {
                    self.counters.terms += u64::from(!self.schedule.is_ours(now));
                    self.schedule.granted(now, grant);
                }
                Answer::Denied(why) => self.schedule.denied(now, why),
                Answer::Written(outcome) => self.written(now, outcome),
                Answer::Orphans(found) => {
                    let dead = self.orphans.look(now, found, self.store.longest_write());
                    self.prune(dead);
                }
            }
        }
        while let Some(order) = self.schedule.next(now) {
            match order {
                Order::Acquire | Order::Renew(_) => self.ask(order),
                Order::WriteWhole | Order::WriteAny => self.write(now, order, sink),
            }
        }
    }

    fn written(&mut self, now: Instant, outcome: Written) {
        match outcome {
            Written::Done => self.counters.written += 1,
            Written::NotWhole => self.counters.put_off += 1,
            Written::Failed => self.counters.failed += 1,
        }
        self.schedule.written(now, outcome);
    }

    /// Asks the store for the duty.
    fn ask(&self, order: Order) {
        let (shared, bucket, answer) = (Arc::clone(&self.shared), self.bucket, self.answer.clone());
        let (key, about) = (self.name.as_str().to_owned(), Bytes::from(self.replica.to_string()));
        let wait = self.shared.config.request_wait.min(self.bucket.ttl / 3);
        self.shared.run(async move {
            let asking = async {
                let bucket = key_value(&shared, bucket).await.map_err(|_| Denial::Unknown)?;
                let outcome = match order {
                    Order::Renew(grant) => renew(&bucket, &key, about.clone(), grant).await,
                    _ => bucket.create(&key, about.clone()).await.map_err(|error| match error.kind() {
                        CreateErrorKind::AlreadyExists => Denial::Taken,
                        _ => Denial::Unknown,
                    }),
                };
                if outcome != Err(Denial::Taken) {
                    return outcome;
                }
                // It may be ours: of a question whose answer was lost, or of the process before this one.
                match bucket.entry(&key).await {
                    Ok(Some(entry)) if entry.value == about => {
                        renew(&bucket, &key, about, entry.revision).await
                    }
                    Ok(_) => outcome,
                    Err(_) => Err(Denial::Unknown),
                }
            };
            let outcome = tokio::time::timeout(wait, asking).await.unwrap_or(Err(Denial::Unknown));
            drop(answer.send(outcome.map_or_else(Answer::Denied, Answer::Granted)));
        });
    }

    /// Has a snapshot made, and written in the background. Behind it, looks for what dead writes left.
    fn write(&mut self, now: Instant, order: Order, sink: &mut dyn ReplicaSink) {
        let outcome = match sink.snapshot() {
            // A replica that knows of no rank must not take away what others wrote.
            None => Written::Failed,
            Some(snapshot) if snapshot.ranks == 0 => Written::NotWhole,
            Some(snapshot) if snapshot.left_out > 0 && order == Order::WriteWhole => Written::NotWhole,
            Some(snapshot) => {
                let (store, name, answer) = (self.store.clone(), self.name.clone(), self.answer.clone());
                self.shared.run(async move {
                    let outcome = match store.write(&name, &snapshot.bytes).await {
                        Ok(()) => Written::Done,
                        Err(_) => Written::Failed,
                    };
                    drop(answer.send(Answer::Written(outcome)));
                    if let Ok(found) = store.nobodys().await {
                        drop(answer.send(Answer::Orphans(found)));
                    }
                });
                return;
            }
        };
        self.written(now, outcome);
    }

    fn prune(&self, dead: Vec<String>) {
        if dead.is_empty() {
            return;
        }
        let (store, pruned) = (self.store.clone(), Arc::clone(&self.pruned));
        self.shared.run(async move {
            for piece in dead {
                if store.purge(&piece).await.is_ok() {
                    pruned.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
}

async fn renew(bucket: &Store, key: &str, about: Bytes, grant: u64) -> Result<u64, Denial> {
    bucket.update(key, about, grant).await.map_err(|error| match error.kind() {
        UpdateErrorKind::WrongLastRevision => Denial::Taken,
        _ => Denial::Unknown,
    })
}

/// Longest wait for one of the small questions about the store.
pub(crate) const LOOK: Duration = Duration::from_secs(10);

/// What the client said, as an error of ours.
pub(crate) fn broker(error: impl std::error::Error + Send + Sync + 'static) -> RequestError {
    RequestError::Broker(Cause::new(error))
}
