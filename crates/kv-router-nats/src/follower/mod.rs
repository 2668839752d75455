//! Beside the router: what the relays publish, in order and whole, with what was lost on the way got back.

mod config;
mod fleet;
mod sink;
mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select};
use kv_router_transport::{
    Action, BatchCodec, EventBatch, Numbered, RecoveryId, ReplayRequest, SequencerCounters, Standing,
    StreamSequencer, Watermark,
};
use kv_router_types::{WorkerId, WorkerRank};
use tokio::sync::watch;

pub use self::config::FollowerConfig;
use self::fleet::Fleet;
pub use self::sink::{FollowSink, FollowerCounters};
use self::sources::{Answer, Answered, Sources};
use crate::error::RequestError;
use crate::inbox::{Inbox, Message};
use crate::link::{Link, Shared};
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
    ranks: BTreeMap<WorkerRank, StreamSequencer<EventBatch>>,
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
            codec: BatchCodec::default(),
            ups,
            actions: Vec::new(),
            counters: FollowerCounters::default(),
        })
    }

    /// Starts from the latest snapshot, and asks the relays for what came after it. Returns how many ranks it had.
    ///
    /// Call it once, before the first poll. Without a snapshot it does nothing, and ranks are learned by replay.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the store cannot be read or what is in it is damaged; going on without is sound.
    pub fn warm(&mut self, now: Instant, sink: &mut dyn FollowSink) -> Result<usize, RequestError> {
        let Some(bytes) = self.store.get(&self.config.name)? else { return Ok(0) };
        let fleet = Fleet::read(&bytes).inspect_err(|_| self.counters.failed_snapshots += 1)?;
        if fleet.fingerprint != self.config.fingerprint {
            self.counters.failed_snapshots += 1;
            return Ok(0);
        }
        self.counters.snapshots += 1;
        let mut restored = 0;
        for (rank, state) in fleet.ranks {
            let Some(mut sequencer) = self.take(rank) else { continue };
            sink.restore(rank, state.watermark, &state.events);
            restored += 1;
            sequencer.restored(now, state.watermark, &mut self.actions);
            sequencer.catch_up(now, &mut self.actions);
            self.put_back(rank, sequencer, sink);
        }
        self.counters.restored += restored as u64;
        Ok(restored)
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
        self.ranks.get(&rank).map_or(Standing::Cold, StreamSequencer::standing)
    }

    /// The ranks heard of, each with its watermark if it has one: what a snapshot is written with.
    pub fn ranks(&self) -> impl Iterator<Item = (WorkerRank, Option<Watermark>)> {
        self.ranks.iter().map(|(rank, sequencer)| (*rank, sequencer.watermark()))
    }

    /// What the sequence machine of a rank counted.
    pub fn sequencer_counters(&self, rank: WorkerRank) -> Option<SequencerCounters> {
        self.ranks.get(&rank).map(StreamSequencer::counters)
    }

    /// The worker is gone ([`WorkerEvent::Left`](crate::WorkerEvent::Left) or `Expired`): forgets its ranks, and what is
    /// still under way from this life of them.
    pub fn retire(&mut self, worker: WorkerId, sink: &mut dyn FollowSink) {
        self.each(sink, |rank, sequencer, out| {
            if rank.worker == worker {
                sequencer.retire(out);
            }
        });
    }

    /// The worker is there ([`WorkerEvent::Joined`](crate::WorkerEvent::Joined)): if it was retired, though its engine
    /// went on in the same life, its ranks are learned anew. Others are asked for what they may have said unheard.
    pub fn revive(&mut self, now: Instant, worker: WorkerId, sink: &mut dyn FollowSink) {
        self.each(sink, |rank, sequencer, out| {
            if rank.worker == worker {
                sequencer.revive();
                sequencer.catch_up(now, out);
            }
        });
    }

    /// What the sink holds of the rank is found to be wrong: forgets it and builds it anew, from the relay or else from
    /// the snapshot. `false` when there is nothing to build it from, or it is being built already.
    pub fn resync(&mut self, now: Instant, rank: WorkerRank, sink: &mut dyn FollowSink) -> bool {
        let Some(mut sequencer) = self.ranks.remove(&rank) else { return false };
        let begun = sequencer.resync(now, &mut self.actions);
        self.put_back(rank, sequencer, sink);
        begun
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
        self.each(sink, |_, sequencer, out| {
            if sequencer.next_deadline().is_some_and(|deadline| deadline <= now) {
                sequencer.tick(now, out);
            }
        });
    }

    fn each(
        &mut self,
        sink: &mut dyn FollowSink,
        mut touch: impl FnMut(WorkerRank, &mut StreamSequencer<EventBatch>, &mut Vec<Action<EventBatch>>),
    ) {
        let mut ranks = std::mem::take(&mut self.ranks);
        for (&rank, sequencer) in &mut ranks {
            touch(rank, sequencer, &mut self.actions);
            self.execute(rank, sink);
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
        let Some(mut sequencer) = self.take(rank) else { return };
        sequencer.live(now, Numbered::from(batch), &mut self.actions);
        self.put_back(rank, sequencer, sink);
    }

    fn answered(&mut self, now: Instant, answered: Answered, sink: &mut dyn FollowSink) {
        match answered.answer {
            Answer::Page { rank, request, page } => {
                let Some(mut sequencer) = self.ranks.remove(&rank) else { return };
                match page {
                    Some(page) => self.replay(now, rank, request, &page, &mut sequencer),
                    None => {
                        self.counters.failed_pages += 1;
                        sequencer.replay_failed(now, request.id, &mut self.actions);
                    }
                }
                self.put_back(rank, sequencer, sink);
            }
            Answer::Snapshot { bytes, waiting } => {
                let fleet = bytes.and_then(|bytes| Fleet::read(&bytes).ok());
                let fleet = fleet.filter(|fleet| fleet.fingerprint == self.config.fingerprint);
                match fleet {
                    Some(_) => self.counters.snapshots += 1,
                    None => self.counters.failed_snapshots += 1,
                }
                let fleet = fleet.unwrap_or_default();
                for (rank, id) in waiting {
                    self.restore(now, rank, id, &fleet, sink);
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
        page: &crate::replay::Page,
        sequencer: &mut StreamSequencer<EventBatch>,
    ) {
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
        self.sources.ask(rank, ReplayRequest { incarnation: Some(page.incarnation), from, ..request });
    }

    fn restore(
        &mut self,
        now: Instant,
        rank: WorkerRank,
        id: RecoveryId,
        fleet: &Fleet,
        sink: &mut dyn FollowSink,
    ) {
        let Some(mut sequencer) = self.ranks.remove(&rank) else { return };
        // One that comes too late would put an old state in the place of a newer one.
        if sequencer.recovers_by_snapshot() {
            match fleet.ranks.get(&rank) {
                Some(state) => {
                    sink.restore(rank, state.watermark, &state.events);
                    self.counters.restored += 1;
                    sequencer.restored(now, state.watermark, &mut self.actions);
                }
                None => sequencer.snapshot_failed(now, id, &mut self.actions),
            }
        }
        self.put_back(rank, sequencer, sink);
    }

    /// The machine of a rank, out of the map; a new one for a new rank, unless there are too many.
    fn take(&mut self, rank: WorkerRank) -> Option<StreamSequencer<EventBatch>> {
        if let Some(sequencer) = self.ranks.remove(&rank) {
            return Some(sequencer);
        }
        if self.ranks.len() >= self.config.ranks {
            self.counters.refused_ranks += 1;
            return None;
        }
        StreamSequencer::new(self.config.sequencer()).ok()
    }

    fn put_back(
        &mut self,
        rank: WorkerRank,
        sequencer: StreamSequencer<EventBatch>,
        sink: &mut dyn FollowSink,
    ) {
        self.execute(rank, sink);
        self.ranks.insert(rank, sequencer);
    }

    fn execute(&mut self, rank: WorkerRank, sink: &mut dyn FollowSink) {
        for action in self.actions.drain(..) {
            match action {
                Action::Apply(batch) => sink.apply(batch),
                Action::Forget(reason) => sink.forget(rank, reason),
                Action::RequestReplay(request) => self.sources.ask(rank, request),
                Action::RequestSnapshot(request) => self.sources.load(&self.store, rank, request.id),
                // Counted by the machine.
                Action::Skip { .. } => {}
            }
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
