//! Whole states in JetStream's object store, so that a fresh replica starts warm.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::object_store::{GetErrorKind, ObjectMetadata, ObjectStore};
use futures_util::StreamExt;
use tokio::io::AsyncReadExt;

use crate::config::{check_count, check_wait};
use crate::duty::{LOOK, broker};
use crate::error::{Cause, ConfigError, RequestError};
use crate::link::{Link, Shared};

/// Bytes of one message of an object: below what a server takes unless it is told otherwise.
const CHUNK_BYTES: usize = 512 << 10;
/// Reads of an object that is being replaced meanwhile, before it is given up.
const READS: usize = 4;

/// What may be kept, and how long it may take.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SnapshotConfig {
    /// Largest snapshot, in bytes, to write and to read. Default: 256 MiB.
    pub most_bytes: usize,
    /// Bytes of the bucket when it has to be made: room for the old and the new of each name. Default: 2 GiB.
    pub bucket_bytes: i64,
    /// Servers that keep it when it has to be made. Default: 1.
    pub replicas: usize,
    /// Longest wait for one write or read. Default: 60 s.
    pub wait: Duration,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self { most_bytes: 256 << 20, bucket_bytes: 2 << 30, replicas: 1, wait: Duration::from_secs(60) }
    }
}

impl SnapshotConfig {
    /// Checks that the parts make sense.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_wait("wait", self.wait)?;
        check_count("most_bytes", self.most_bytes)?;
        check_count("replicas", self.replicas)?;
        check_count("bucket_bytes", usize::try_from(self.bucket_bytes).unwrap_or(0))
    }
}

/// What a snapshot is called: 1 to 64 letters, digits, `-` and `_`. One name has one snapshot, the latest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotName(String);

impl SnapshotName {
    /// Checks and keeps a name.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Name`] when it is none.
    pub fn new(name: &str) -> Result<Self, ConfigError> {
        check_name(name).map(|()| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where all replicas of one fleet find the state of its indexes.
    pub fn fleet() -> Self {
        Self(String::from("fleet"))
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), ConfigError> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(good) {
        Err(ConfigError::Name)
    } else {
        Ok(())
    }
}

/// The store of one fleet: opaque bytes by name. Clones are cheap.
///
/// The store cuts the bytes into messages and keeps a SHA-256 of them: what comes back is what was put, whole, or
/// an error. Two that put under one name at a time both succeed, and the later end wins.
#[derive(Clone)]
pub struct SnapshotStore {
    shared: Arc<Shared>,
    config: SnapshotConfig,
}

impl SnapshotStore {
    /// A store on this link. The bucket is made with the first write.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration makes no sense.
    pub fn new(link: &Link, config: SnapshotConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { shared: Arc::clone(link.shared()), config })
    }

    /// Puts a snapshot in the place of the one of this name.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; the snapshot before it is then still there, or, after a timeout, may be.
    pub fn put(&self, name: &SnapshotName, bytes: Vec<u8>) -> Result<(), RequestError> {
        self.check(&bytes)?;
        let (store, name) = (self.clone(), name.clone());
        self.shared.call(self.config.wait, async move { store.store(&name, &bytes).await })
    }

    /// The same on the link's thread, for as long as [`longest_write`](Self::longest_write).
    pub(crate) async fn write(&self, name: &SnapshotName, bytes: &[u8]) -> Result<(), RequestError> {
        self.check(bytes)?;
        let wait = self.config.wait;
        let timeout = tokio::time::timeout(wait, self.store(name, bytes)).await;
        timeout.unwrap_or(Err(RequestError::Timeout { wait }))
    }

    /// No write takes longer, by whichever replica with the same configuration.
    pub(crate) fn longest_write(&self) -> Duration {
        self.config.wait * 2
    }

    fn check(&self, bytes: &[u8]) -> Result<(), RequestError> {
        let (found, limit) = (bytes.len() as u64, self.config.most_bytes as u64);
        if found > limit { Err(RequestError::TooLarge { found, limit }) } else { Ok(()) }
    }

    async fn store(&self, name: &SnapshotName, mut bytes: &[u8]) -> Result<(), RequestError> {
        let bucket = self.bucket_or_new().await?;
        let (name, chunk_size) = (name.0.clone(), Some(CHUNK_BYTES));
        let metadata = ObjectMetadata { name, chunk_size, ..ObjectMetadata::default() };
        bucket.put(metadata, &mut bytes).await.map_err(broker)?;
        Ok(())
    }

    /// Pieces in the store that belong to no object, by the name of their write: of one that is under way, or that died.
    pub(crate) async fn nobodys(&self) -> Result<BTreeSet<String>, RequestError> {
        let look = async {
            let Some(bucket) = self.bucket().await? else { return Ok(BTreeSet::new()) };
            let (context, name) = self.context();
            let stream = context.get_stream(format!("OBJ_{name}")).await.map_err(broker)?;
            let pieces = format!("$O.{name}.C.");
            let mut subjects = stream.info_with_subjects(format!("{pieces}>")).await.map_err(broker)?;
            let mut found = BTreeSet::new();
            while let Some(subject) = subjects.next().await {
                let (subject, _count) = subject.map_err(broker)?;
                found.extend(subject.strip_prefix(&pieces).map(str::to_owned));
            }
            // After the pieces, so that one whose write ended meanwhile is somebody's.
            let mut objects = bucket.list().await.map_err(broker)?;
            while let Some(object) = objects.next().await {
                found.remove(&object.map_err(broker)?.nuid);
            }
            Ok(found)
        };
        tokio::time::timeout(LOOK, look).await.unwrap_or(Err(RequestError::Timeout { wait: LOOK }))
    }

    /// Takes the pieces of a dead write away.
    pub(crate) async fn purge(&self, piece: &str) -> Result<(), RequestError> {
        let (context, name) = self.context();
        let purge = async {
            let stream = context.get_stream(format!("OBJ_{name}")).await.map_err(broker)?;
            stream.purge().filter(format!("$O.{name}.C.{piece}")).await.map_err(broker)?;
            Ok(())
        };
        tokio::time::timeout(LOOK, purge).await.unwrap_or(Err(RequestError::Timeout { wait: LOOK }))
    }

    /// The latest snapshot of this name, if there is one.
    ///
    /// # Errors
    ///
    /// [`RequestError`], also when it is above `most_bytes`.
    pub fn get(&self, name: &SnapshotName) -> Result<Option<Vec<u8>>, RequestError> {
        let (store, name) = (self.clone(), name.clone());
        self.shared.call(self.config.wait, async move { store.fetch(&name).await })
    }

    /// The same on the link's thread. Only the deadline of the caller ends it.
    pub(crate) async fn fetch(&self, name: &SnapshotName) -> Result<Option<Vec<u8>>, RequestError> {
        let Some(bucket) = self.bucket().await? else { return Ok(None) };
        let mut outcome = Err(RequestError::Torn);
        for _ in 0..READS {
            outcome = self.read(&bucket, name).await;
            if !matches!(outcome, Err(RequestError::Torn)) {
                break;
            }
        }
        outcome
    }

    async fn read(&self, bucket: &ObjectStore, name: &SnapshotName) -> Result<Option<Vec<u8>>, RequestError> {
        let mut object = match bucket.get(&name.0).await {
            Ok(object) => object,
            Err(error) if error.kind() == GetErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RequestError::Broker(Cause::new(error))),
        };
        let (size, limit) = (object.info().size, self.config.most_bytes);
        if size > limit {
            return Err(RequestError::TooLarge { found: size as u64, limit: limit as u64 });
        }
        // Grows with what comes, not with what was announced. A digest that does not fit is an error of the read.
        let mut bytes = Vec::new();
        let read = (&mut object).take(limit as u64 + 1).read_to_end(&mut bytes).await;
        if read.is_err() || bytes.len() != size { Err(RequestError::Torn) } else { Ok(Some(bytes)) }
    }

    fn context(&self) -> (jetstream::Context, String) {
        let mut context = jetstream::new(self.shared.client.clone());
        context.set_timeout(self.shared.config.request_wait);
        (context, self.shared.config.prefix.bucket("snapshots"))
    }

    async fn bucket(&self) -> Result<Option<ObjectStore>, RequestError> {
        let (context, bucket) = self.context();
        match context.get_object_store(&bucket).await {
            Ok(store) => Ok(Some(store)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(RequestError::Broker(Cause::new(error))),
        }
    }

    async fn bucket_or_new(&self) -> Result<ObjectStore, RequestError> {
        let existing = self.bucket().await?;
        if let Some(bucket) = existing {
            return Ok(bucket);
        }
        let (context, bucket) = self.context();
        let config = jetstream::object_store::Config {
            bucket,
            max_bytes: self.config.bucket_bytes,
            num_replicas: self.config.replicas,
            ..jetstream::object_store::Config::default()
        };
        context.create_object_store(config).await.map_err(|e| RequestError::Broker(Cause::new(e)))
    }
}

impl fmt::Debug for SnapshotStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotStore").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Whether the server said that there is no such stream, somewhere below what the client made of it.
pub(crate) fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        error.downcast_ref::<GetStreamError>().is_some_and(|error| match error.kind() {
            GetStreamErrorKind::JetStream(error) => {
                error.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND
            }
            _ => false,
        })
    })
}
