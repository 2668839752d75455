//! One router over a fleet, with all that it needs of the broker: who is there, what they cache, what other routers
//! say, and snapshots to start from.

mod config;

use std::fmt;
use std::time::{Duration, Instant};

use kv_router_transport::{Audience, ReplicaSink, Standing};
use kv_router_types::{DpRank, WorkerId, WorkerRank};

pub use self::config::ReplicaConfig;
use crate::duty::{DutyCounters, SnapshotDuty};
use crate::error::RequestError;
use crate::link::Link;
use crate::{
    Followed, Follower, FollowerCounters, GossipReceiver, GossipSender, Registry, SnapshotStore, Topic,
    WorkerEvent, WorkerWatch,
};

/// Most messages of other routers taken in one poll, of each topic.
const MOST_MESSAGES: usize = 1024;

/// Connects a router, or whatever else is a [`ReplicaSink`], with its fleet.
///
/// Everything happens in [`poll`](Self::poll), on the thread that calls it in a loop: events are applied there, workers
/// join and leave, messages go in and out. Making a snapshot happens there too, and holds up events for as long as the
/// sink takes to write it down; storing it does not.
///
/// A worker is followed from when the registry has it until it leaves or expires. What it cached before, the snapshot
/// of the start and its relay tell.
pub struct Replica {
    config: ReplicaConfig,
    watch: WorkerWatch,
    follower: Follower,
    sender: GossipSender,
    receivers: [GossipReceiver; 2],
    duty: Option<SnapshotDuty>,
    events: Vec<WorkerEvent>,
    tell_at: Instant,
    unstage_at: Option<Instant>,
    counters: ReplicaLinkCounters,
}

/// What a replica did so far. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaLinkCounters {
    /// Workers that joined, changed or came back.
    pub joins: u64,
    /// Workers that left or expired.
    pub leaves: u64,
    /// Messages sent to other routers.
    pub told: u64,
    /// Messages to other routers that were not sent: too large, also for the server, or too much waited.
    pub untold: u64,
    /// Messages of routers that came in, this one's own included.
    pub heard: u64,
    /// Messages of routers that were dropped: too many waited, or they were too large.
    pub unheard: u64,
    /// What the follower did.
    pub follower: FollowerCounters,
    /// What was done for snapshots.
    pub duty: DutyCounters,
}

impl Replica {
    /// Subscribes to everything, and loads the latest snapshot for workers that join.
    ///
    /// A snapshot that cannot be read is as good as none: the relays are asked instead. It is waited for as long as
    /// `snapshots.wait` says.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the configuration makes no sense, or the link is closed or silent.
    pub fn start(link: &Link, mut config: ReplicaConfig, now: Instant) -> Result<Self, RequestError> {
        config.validate()?;
        config.follower.followed = Followed::Admitted;
        let store = SnapshotStore::new(link, config.snapshots)?;
        // Before the snapshot is read: what is published meanwhile waits.
        let mut follower = Follower::start(link, store.clone(), config.follower.clone())?;
        let watch = Registry::new(link, config.registry)?.watch();
        let listen = |topic| GossipReceiver::open(link, &topic, config.gossip);
        let receivers = [listen(Topic::Peers)?, listen(Topic::Peer(config.replica))?];
        let sender = GossipSender::new(link, config.gossip)?;
        let duty = match config.schedule {
            Some(mut schedule) => {
                schedule.spread ^= config.replica.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let (name, replica) = (config.follower.name.clone(), config.replica);
                Some(SnapshotDuty::new(link, store, name, replica, (schedule, now))?)
            }
            None => None,
        };
        let staged = config.follower.snapshot.is_some() && follower.stage().is_ok_and(|ranks| ranks > 0);
        Ok(Self {
            watch,
            follower,
            sender,
            receivers,
            duty,
            events: Vec::new(),
            tell_at: now,
            unstage_at: staged.then(|| now + config.keep_snapshot),
            counters: ReplicaLinkCounters::default(),
            config,
        })
    }

    /// Waits up to `wait` for batches, then does all there is to do. Returns how many messages of the streams it took;
    /// when that is not 0, poll again at once.
    ///
    /// `now` is when the call begins: keep `wait` well below the waits of the configuration.
    ///
    /// # Errors
    ///
    /// [`RequestError::Closed`] when the link is.
    pub fn poll(
        &mut self,
        now: Instant,
        wait: Duration,
        sink: &mut dyn ReplicaSink,
    ) -> Result<usize, RequestError> {
        self.members(now, sink)?;
        let taken = self.follower.poll(now, wait.min(self.config.gossip_every), sink)?;
        self.hear(sink)?;
        if now >= self.tell_at {
            self.tell_at = now + self.config.gossip_every;
            self.tell(sink);
        }
        if let Some(duty) = &mut self.duty {
            duty.poll(now, sink);
        }
        if self.unstage_at.is_some_and(|at| now >= at) {
            self.unstage_at = None;
            self.follower.unstage();
        }
        Ok(taken)
    }

    /// How far the state of a rank can be trusted.
    pub fn standing(&self, rank: WorkerRank) -> Standing {
        self.follower.standing(rank)
    }

    /// Whether it is this replica's turn to write snapshots.
    pub fn has_duty(&self, now: Instant) -> bool {
        self.duty.as_ref().is_some_and(|duty| duty.is_ours(now))
    }

    /// What the sink holds of the rank is found to be wrong: forgets it and builds it anew. `false` when there is
    /// nothing to build it from, or it is being built already.
    pub fn resync(&mut self, now: Instant, rank: WorkerRank, sink: &mut dyn ReplicaSink) -> bool {
        self.follower.resync(now, rank, sink)
    }

    /// What happened so far.
    pub fn counters(&self) -> ReplicaLinkCounters {
        ReplicaLinkCounters {
            told: self.sender.sent(),
            untold: self.counters.untold + self.sender.refused(),
            unheard: self.receivers.iter().map(GossipReceiver::dropped).sum(),
            follower: self.follower.counters(),
            duty: self.duty.as_ref().map(SnapshotDuty::counters).unwrap_or_default(),
            ..self.counters
        }
    }

    /// Who came and went.
    fn members(&mut self, now: Instant, sink: &mut dyn ReplicaSink) -> Result<(), RequestError> {
        let mut events = std::mem::take(&mut self.events);
        let watched = self.watch.poll(now, Duration::ZERO, &mut events);
        for event in events.drain(..) {
            match event {
                WorkerEvent::Joined { worker, about } | WorkerEvent::Changed { worker, about } => {
                    self.counters.joins += 1;
                    self.follower.dismiss(worker, sink);
                    for rank in 0..sink.join(worker, &about) {
                        self.follower.admit(now, WorkerRank::new(worker, DpRank::new(rank)), sink);
                    }
                }
                WorkerEvent::Left { worker } | WorkerEvent::Expired { worker } => self.gone(worker, sink),
            }
        }
        self.events = events;
        watched
    }

    fn gone(&mut self, worker: WorkerId, sink: &mut dyn ReplicaSink) {
        self.counters.leaves += 1;
        self.follower.dismiss(worker, sink);
        sink.leave(worker);
    }

    fn hear(&mut self, sink: &mut dyn ReplicaSink) -> Result<(), RequestError> {
        for receiver in &mut self.receivers {
            for _ in 0..MOST_MESSAGES {
                let Some(heard) = receiver.recv(Duration::ZERO)? else { break };
                self.counters.heard += 1;
                sink.hear_peer(&heard.bytes);
            }
        }
        Ok(())
    }

    fn tell(&mut self, sink: &mut dyn ReplicaSink) {
        let (sender, counters) = (&self.sender, &mut self.counters);
        sink.tell_peers(&mut |audience, bytes| {
            let topic = match audience {
                Audience::Everyone => Topic::Peers,
                Audience::Replica(replica) => Topic::Peer(replica),
            };
            // A message that is lost here is as one that is lost on the way: peers bear that.
            counters.untold += u64::from(sender.send(&topic, bytes).is_err());
        });
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
