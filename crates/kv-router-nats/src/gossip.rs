//! What routers tell each other, on core subjects: opaque, bounded, and lost when nobody listens.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use tokio::sync::mpsc;

use crate::config::check_count;
use crate::error::{ConfigError, RequestError};
use crate::inbox::Inbox;
use crate::link::{Link, Shared, Task};
use crate::snapshots::check_name;

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// All router replicas: load deltas, session gossip.
    Peers,
    /// One router replica, by its number: what it asked for.
    Peer(u64),
    /// Whoever routes over deployment groups: changes of one group's cuckoo summary. The whole summary goes into
    /// the [`SnapshotStore`](crate::SnapshotStore) under a name of the group's.
    Summary(GroupName),
    /// The summaries of all groups, to listen to.
    Summaries,
}

/// A deployment group: 1 to 64 letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(String);

impl GroupName {
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
}

impl Topic {
    fn subject(&self, shared: &Shared) -> String {
        let prefix = &shared.config.prefix;
        match self {
            Self::Peers => prefix.gossip("peers"),
            Self::Peer(replica) => prefix.gossip(&format!("peer.{replica}")),
            Self::Summary(group) => prefix.gossip(&format!("summary.{}", group.0)),
            Self::Summaries => prefix.gossip("summary.*"),
        }
    }

    fn group(shared: &Shared, subject: &str) -> Option<GroupName> {
        let name = subject.strip_prefix(&shared.config.prefix.gossip("summary."))?;
        GroupName::new(name).ok()
    }
}

/// What may be said.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GossipConfig {
    /// Largest message, in bytes; what is above is refused by who sends and dropped by who listens. No more than
    /// the server takes as one message, which is 1 MiB unless it is told otherwise. Default: 1 MiB.
    pub most_bytes: usize,
}

impl Default for GossipConfig {
    fn default() -> Self {
        Self { most_bytes: 1 << 20 }
    }
}

/// Says things. Nothing waits for an answer, and a message may be lost, come twice or late: what it carries must
/// bear that, as load deltas, session gossip and summary deltas do.
pub struct GossipSender {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<(String, Vec<u8>)>,
    most_bytes: usize,
    full: AtomicU64,
    sent: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    _task: Task,
}

impl GossipSender {
    /// A sender on this link.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration makes no sense.
    pub fn new(link: &Link, config: GossipConfig) -> Result<Self, ConfigError> {
        check_count("most_bytes", config.most_bytes)?;
        let shared = Arc::clone(link.shared());
        let (outgoing, mut waiting) = mpsc::channel::<(String, Vec<u8>)>(shared.config.outgoing_messages);
        let (client, [sent, refused]) =
            (shared.client.clone(), [(); 2].map(|()| Arc::new(AtomicU64::new(0))));
        let counters = [&sent, &refused].map(Arc::clone);
        let task = shared.spawn(async move {
            let [sent, refused] = counters;
            while let Some((subject, bytes)) = waiting.recv().await {
                let outcome = client.publish(subject, bytes.into()).await;
                let counter = if outcome.is_ok() { &sent } else { &refused };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (most_bytes, full) = (config.most_bytes, AtomicU64::new(0));
        Ok(Self { shared, outgoing, most_bytes, full, sent, refused, _task: task })
    }

    /// Says something, without waiting.
    ///
    /// # Errors
    ///
    /// [`RequestError::TooLarge`], [`RequestError::Full`] or [`RequestError::Closed`]; with
    /// [`Topic::Summaries`], which is no group's, [`ConfigError::Name`].
    pub fn send(&self, topic: &Topic, bytes: Vec<u8>) -> Result<(), RequestError> {
        if *topic == Topic::Summaries {
            return Err(ConfigError::Name.into());
        }
        let (found, limit) = (bytes.len() as u64, self.most_bytes as u64);
        if found > limit {
            return Err(RequestError::TooLarge { found, limit });
        }
        self.outgoing.try_send((topic.subject(&self.shared), bytes)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.full.fetch_add(1, Ordering::Relaxed);
                RequestError::Full
            }
            mpsc::error::TrySendError::Closed(_) => RequestError::Closed,
        })
    }

    /// Messages that were not sent: too much waited, or the client refused.
    pub fn lost(&self) -> u64 {
        self.full.load(Ordering::Relaxed) + self.refused()
    }

    /// Messages that the client took.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages that the client refused after they were queued: larger than the server takes, as a rule.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for GossipSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GossipSender").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// Listens to one topic. What one says oneself comes too.
pub struct GossipReceiver {
    shared: Arc<Shared>,
    inbox: Inbox,
    most_bytes: usize,
    too_large: u64,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heard {
    /// Whose summary it is about, on the topics of summaries.
    pub group: Option<GroupName>,
    /// What was said.
    pub bytes: Vec<u8>,
}

impl GossipReceiver {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the configuration makes no sense, or the link is closed or silent.
    pub fn open(link: &Link, topic: &Topic, config: GossipConfig) -> Result<Self, RequestError> {
        check_count("most_bytes", config.most_bytes)?;
        let shared = Arc::clone(link.shared());
        let inbox = Inbox::open(&shared, topic.subject(&shared))?;
        Ok(Self { shared, inbox, most_bytes: config.most_bytes, too_large: 0 })
    }

    /// The next message, waited for up to `wait`; `None` when none came.
    ///
    /// # Errors
    ///
    /// [`RequestError::Closed`] when the link is.
    pub fn recv(&mut self, wait: Duration) -> Result<Option<Heard>, RequestError> {
        let mut waited = self.inbox.waiting().recv_timeout(wait);
        let message = loop {
            let message = match waited {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(RequestError::Closed),
            };
            self.inbox.taken(&message);
            if message.payload.len() <= self.most_bytes {
                break message;
            }
            // What came behind it is there already, or is worth another call.
            self.too_large += 1;
            waited = self.inbox.waiting().recv_timeout(Duration::ZERO);
        };
        let group = Topic::group(&self.shared, &message.subject);
        Ok(Some(Heard { group, bytes: message.payload.to_vec() }))
    }

    /// Messages that were dropped: too many waited, or they were too large.
    pub fn dropped(&self) -> u64 {
        self.inbox.dropped() + self.too_large
    }
}

impl fmt::Debug for GossipReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GossipReceiver").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}
