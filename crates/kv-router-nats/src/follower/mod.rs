//! Beside the router: what the relays publish, in order and whole, with what was lost on the way got back.

mod admission;
mod config;
mod counters;
pub(crate) mod fleet;
mod lane;
mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select};
use kv_router_transport::{
    Action, BatchCodec, EventBatch, FollowSink, Numbered, RecoveryId, ReplayRequest, SequencerCounters,
    Standing, StreamSequencer, Watermark,
};
use kv_router_types::WorkerRank;
use tokio::sync::watch;

pub use self::config::{Followed, FollowerConfig};
pub use self::counters::FollowerCounters;
use self::fleet::{Fleet, Restored};
use self::lane::Lane;
use self::sources::{Answer, Answered, Sources};
use crate::error::RequestError;
use crate::inbox::{Inbox, Message};
use crate::link::{Link, Shared};
use crate::replay::Page;
use crate::snapshots::SnapshotStore;

/// Most messages taken in one [`Follower::poll`].
const MOST_A_POLL: usize = 1024;

/// Follows every rank of the fleet: one sequence machine a rank, fed from one subscription, with replays from the
/// relays and snapshots from the store where batches are missing.
///
/// Nothing happens outside [`warm`](Self::warm) and [`poll`](Self::poll), which call the sink. Not polled, it
/// drops what does not fit its queue, and gets it back later.
pub struct Follower {
    shared: Arc<Shared>,
    config: FollowerConfig,
    inbox: Inbox,
    store: SnapshotStore,
    sources: Sources,
    answers: Receiver<Answered>,
    ranks: BTreeMap<WorkerRank, Lane>,
    /// Lanes there have been.
    births: u64,
    /// What the latest snapshot has of ranks that were not admitted yet.
    staged: BTreeMap<WorkerRank, Restored>,
    codec: BatchCodec,
    ups: watch::Receiver<u64>,
    actions: Vec<Action<EventBatch>>,
    counters: FollowerCounters,
}

impl Follower {
    /// Subscribes. Batches wait from here on, until they are polled.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the configuration makes no sense, or the link is closed or silent.
    pub fn start(link: &Link, store: SnapshotStore, config: FollowerConfig) -> Result<Self, RequestError> {
        config.validate()?;
        let shared = Arc::clone(link.shared());
        let mut ups = shared.ups();
        ups.mark_unchanged();
        let inbox = Inbox::open(&shared, shared.config.prefix.all_batches())?;
        let (sources, answers) = Sources::new(&shared, &config);
        Ok(Self {
            shared,
            config,
            inbox,
            store,
            sources,
            answers,
            ranks: BTreeMap::new(),
            births: 0,
            staged: BTreeMap::new(),
            codec: BatchCodec::default(),
            ups,
            actions: Vec::new(),
            counters: FollowerCounters::default(),
        })
    }

    /// Waits up to `wait` for something to come, then does what there is to do. Returns how many messages it took;
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
        sink: &mut dyn FollowSink,
    ) -> Result<usize, RequestError> {
        self.caught_up(now, sink);
        self.tick(now, sink);
        self.wait(wait);
        let mut taken = 0;
        while taken < MOST_A_POLL {
            // Answers first: they close gaps, behind which live batches only pile up.
            if let Ok(answered) = self.answers.try_recv() {
                self.answered(now, answered, sink);
            } else {
                match self.inbox.waiting().try_recv() {
                    Ok(message) => {
                        self.inbox.taken(&message);
                        self.heard(now, &message, sink);
                    }
                    Err(crossbeam_channel::TryRecvError::Empty) => break,
                    Err(crossbeam_channel::TryRecvError::Disconnected) if taken == 0 => {
                        return Err(RequestError::Closed);
                    }
                    Err(crossbeam_channel::TryRecvError::Disconnected) => break,
                }
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// How far the state of a rank can be trusted.
    pub fn standing(&self, rank: WorkerRank) -> Standing {
        self.ranks.get(&rank).map_or(Standing::Cold, |lane| lane.sequencer.standing())
    }

    /// The ranks heard of, each with its watermark if it has one: what a snapshot is written with.
    pub fn ranks(&self) -> impl Iterator<Item = (WorkerRank, Option<Watermark>)> {
        self.ranks.iter().map(|(rank, lane)| (*rank, lane.sequencer.watermark()))
    }

    /// What the sequence machine of a rank counted.
    pub fn sequencer_counters(&self, rank: WorkerRank) -> Option<SequencerCounters> {
        self.ranks.get(&rank).map(|lane| lane.sequencer.counters())
    }

    /// What happened so far.
    pub fn counters(&self) -> FollowerCounters {
        FollowerCounters { dropped: self.inbox.dropped(), pages: self.sources.asked(), ..self.counters }
    }

    fn wait(&self, wait: Duration) {
        let mut select = Select::new();
        select.recv(&self.answers);
        select.recv(self.inbox.waiting());
        // Whatever it is, it is looked for afterwards.
        let _ready = select.ready_timeout(wait);
    }

    /// After the connection came back, asks every rank for what it said meanwhile.
    fn caught_up(&mut self, now: Instant, sink: &mut dyn FollowSink) {
        if !self.ups.has_changed().unwrap_or(false) {
            return;
        }
        self.ups.mark_unchanged();
        self.counters.catch_ups += 1;
        self.each(sink, |_, sequencer, out| sequencer.catch_up(now, out));
    }

    fn tick(&mut self, now: Instant, sink: &mut dyn FollowSink) {
        let mut healed = 0;
        let heal_after = self.config.heal_after;
        self.each_lane(sink, |_, lane, out| {
            if lane.sequencer.next_deadline().is_some_and(|deadline| deadline <= now) {
                lane.sequencer.tick(now, out);
            }
            if heal_after.is_some_and(|first| lane.is_to_be_healed(now, first)) {
                healed += 1;
                // One that was never heard of has nothing to forget.
                if !lane.sequencer.resync(now, out) {
                    lane.sequencer.catch_up(now, out);
                }
            }
        });
        self.counters.healings += healed;
    }

    fn each(
        &mut self,
        sink: &mut dyn FollowSink,
        mut touch: impl FnMut(WorkerRank, &mut StreamSequencer<EventBatch>, &mut Vec<Action<EventBatch>>),
    ) {
        self.each_lane(sink, |rank, lane, out| touch(rank, &mut lane.sequencer, out));
    }

    fn each_lane(
        &mut self,
        sink: &mut dyn FollowSink,
        mut touch: impl FnMut(WorkerRank, &mut Lane, &mut Vec<Action<EventBatch>>),
    ) {
        let mut ranks = std::mem::take(&mut self.ranks);
        for (&rank, lane) in &mut ranks {
            touch(rank, lane, &mut self.actions);
            self.execute(rank, lane, sink);
        }
        self.ranks = ranks;
    }

    fn heard(&mut self, now: Instant, message: &Message, sink: &mut dyn FollowSink) {
        let named = self.shared.config.prefix.rank_of(&message.subject);
        let batch = match self.codec.decode(&message.payload) {
            Ok(batch) if named == Some(batch.from) => batch,
            // What is lost with it is a gap in its stream.
            _ => return self.counters.malformed += 1,
        };
        self.counters.live += 1;
        let rank = batch.from;
        let lane = match self.ranks.remove(&rank) {
            Some(lane) => Some(lane),
            None if self.config.followed == Followed::Heard => self.born(),
            None => return self.counters.strangers += 1,
        };
        let Some(mut lane) = lane else { return };
        lane.sequencer.live(now, Numbered::from(batch), &mut self.actions);
        self.put_back(rank, lane, sink);
    }

    fn answered(&mut self, now: Instant, answered: Answered, sink: &mut dyn FollowSink) {
        match answered.answer {
            Answer::Page { rank, birth, request, page } => {
                let Some(mut lane) = self.ranks.remove(&rank) else { return };
                match page {
                    _ if lane.birth != birth => {}
                    Some(page) => self.replay(now, rank, request, &page, &mut lane),
                    None => {
                        self.counters.failed_pages += 1;
                        lane.sequencer.replay_failed(now, request.id, &mut self.actions);
                    }
                }
                self.put_back(rank, lane, sink);
            }
            Answer::Snapshot { bytes, waiting } => {
                let fleet = bytes.and_then(|bytes| Fleet::read(&bytes).ok());
                let fleet = fleet.filter(|fleet| fleet.fingerprint == self.config.fingerprint);
                match fleet {
                    Some(_) => self.counters.snapshots += 1,
                    None => self.counters.failed_snapshots += 1,
                }
                let fleet = fleet.unwrap_or_default();
                for (rank, birth, id) in waiting {
                    let Some(mut lane) = self.ranks.remove(&rank) else { continue };
                    if lane.birth == birth {
                        self.restore(now, rank, id, &fleet, &mut lane, sink);
                    }
                    self.put_back(rank, lane, sink);
                }
            }
        }
    }

    /// Puts one page in, and asks for the next or ends the replay.
    fn replay(
        &mut self,
        now: Instant,
        rank: WorkerRank,
        request: ReplayRequest,
        page: &Page,
        lane: &mut Lane,
    ) {
        let sequencer = &mut lane.sequencer;
        let mut from = request.from;
        for frame in &page.frames {
            let Ok(batch) = self.codec.decode(frame) else {
                self.counters.failed_pages += 1;
                return sequencer.replay_failed(now, request.id, &mut self.actions);
            };
            if batch.from != rank {
                self.counters.malformed += 1;
                continue;
            }
            self.counters.replayed += 1;
            from = batch.sequence.saturating_add(1);
            sequencer.replayed(now, request.id, Numbered::from(batch), &mut self.actions);
        }
        if !sequencer.wants_replay(request.id) {
            return;
        }
        let wanted = request.to.map_or(page.next, |to| to.saturating_add(1).min(page.next));
        if page.frames.is_empty() || from >= wanted {
            return sequencer.replay_ended(now, request.id, &mut self.actions);
        }
        let request = ReplayRequest { incarnation: Some(page.incarnation), from, ..request };
        self.sources.ask(rank, lane.birth, request);
    }

    fn restore(
        &mut self,
        now: Instant,
        rank: WorkerRank,
        id: RecoveryId,
        fleet: &Fleet,
        lane: &mut Lane,
        sink: &mut dyn FollowSink,
    ) {
        // One that comes too late would put an old state in the place of a newer one.
        if lane.sequencer.recovers_by_snapshot() {
            match fleet.ranks.get(&rank) {
                Some(state) => {
                    sink.restore(rank, state.watermark, &state.events);
                    self.counters.restored += 1;
                    lane.sequencer.restored(now, state.watermark, &mut self.actions);
                }
                None => lane.sequencer.snapshot_failed(now, id, &mut self.actions),
            }
        }
    }

    /// A lane for a new rank, unless there are too many. One that retired makes room: what is still under way from it is
    /// as old as it is by then.
    fn born(&mut self) -> Option<Lane> {
        if self.ranks.len() >= self.config.ranks {
            let retired = self.ranks.iter().filter(|(_, lane)| lane.sequencer.is_retired());
            let Some(oldest) = retired.min_by_key(|(_, lane)| lane.birth).map(|(rank, _)| *rank) else {
                self.counters.refused_ranks += 1;
                return None;
            };
            self.ranks.remove(&oldest);
        }
        self.births += 1;
        let sequencer = StreamSequencer::new(self.config.sequencer()).ok()?;
        Some(Lane::new(sequencer, self.births))
    }

    fn put_back(&mut self, rank: WorkerRank, mut lane: Lane, sink: &mut dyn FollowSink) {
        self.execute(rank, &mut lane, sink);
        self.ranks.insert(rank, lane);
    }

    fn execute(&mut self, rank: WorkerRank, lane: &mut Lane, sink: &mut dyn FollowSink) {
        for action in self.actions.drain(..) {
            match action {
                Action::Apply(batch) => sink.apply(batch),
                Action::Forget(reason) => sink.forget(rank, reason),
                Action::RequestReplay(request) => self.sources.ask(rank, lane.birth, request),
                Action::RequestSnapshot(request) => {
                    self.sources.load(&self.store, rank, lane.birth, request.id)
                }
                // Counted by the machine.
                Action::Skip { .. } => {}
            }
        }
        if let Some(standing) = lane.news() {
            sink.standing(rank, standing);
        }
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("ranks", &self.ranks.len())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
