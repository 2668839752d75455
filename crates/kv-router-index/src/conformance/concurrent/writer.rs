//! A thread that writes the events of its own workers, and knows what they make of them.

use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, TierSet, WorkerId, WorkerRank,
};

use super::board::{Answers, Board, QUERIES, content};
use super::{Clock, FailedRun};
use crate::conformance::rng::{Rng, mix};
use crate::{Applied, ApplyError, ApplyEvents, Oracle, Overlap, PrefixIndex};

/// Workers of one writer.
const WORKERS: u64 = 2;
/// Ranks of one worker.
const RANKS: u32 = 2;
/// Names that a rank has before it rather removes.
const FULL: usize = 24;

pub(super) struct Writer {
    first_worker: u64,
    rng: Rng,
    /// What this writer's ranks hold.
    oracle: Oracle,
    events: u64,
}

impl Writer {
    pub(super) fn new(number: usize, seed: u64) -> Self {
        let number = number as u64;
        Self {
            first_worker: number * WORKERS,
            rng: Rng::new(seed ^ mix(number)),
            oracle: Oracle::new(),
            events: 0,
        }
    }

    pub(super) fn ranks(&self) -> impl Iterator<Item = WorkerRank> + use<> {
        let workers = self.first_worker..self.first_worker + WORKERS;
        workers.flat_map(|worker| {
            (0..RANKS).map(move |rank| WorkerRank::new(WorkerId::new(worker), DpRank::new(rank)))
        })
    }

    /// Gives back the oracle and the number of events.
    pub(super) fn run<T>(
        mut self,
        index: &T,
        board: &Board,
        clock: &Clock,
    ) -> Result<(Oracle, u64), Box<FailedRun>>
    where
        for<'a> &'a T: ApplyEvents,
    {
        let ranks: Vec<_> = self.ranks().collect();
        while clock.goes_on() {
            let rank = ranks[self.rng.below(ranks.len())];
            if self.rng.below(100) == 0 {
                self.remove_worker(index, board, rank.worker, &ranks)?;
            } else {
                let event = self.event(board, rank);
                self.apply(index, board, rank, event)?;
            }
            self.events += 1;
        }
        Ok((self.oracle, self.events))
    }

    fn apply<T>(
        &mut self,
        mut index: &T,
        board: &Board,
        from: WorkerRank,
        event: KvEvent,
    ) -> Result<(), Box<FailedRun>>
    where
        for<'a> &'a T: ApplyEvents,
    {
        let expected = self.oracle.apply(from, &event);
        self.begin(board, from);
        let found = index.apply(from, &event);
        board.log(from).expect("every rank is on the board").end();
        check(from, Some(event), expected, found)
    }

    fn remove_worker<T>(
        &mut self,
        mut index: &T,
        board: &Board,
        worker: WorkerId,
        ranks: &[WorkerRank],
    ) -> Result<(), Box<FailedRun>>
    where
        for<'a> &'a T: ApplyEvents,
    {
        let expected = self.oracle.remove_worker(worker);
        let gone = ranks.iter().filter(|rank| rank.worker == worker);
        gone.clone().for_each(|&rank| self.begin(board, rank));
        let found = index.remove_worker(worker);
        gone.for_each(|&rank| board.log(rank).expect("every rank is on the board").end());
        check(worker.into(), None, Ok(expected), Ok(found))
    }

    /// Logs what the oracle, which is one event ahead, answers for a rank.
    fn begin(&self, board: &Board, rank: WorkerRank) {
        let mut answers = Answers::default();
        for (answer, query) in answers.iter_mut().zip(&board.queries) {
            *answer = self.oracle.find(query).get(rank).map_or([0; Tier::COUNT], Overlap::by_tier);
        }
        board.log(rank).expect("every rank is on the board").begin(answers);
    }

    fn event(&mut self, board: &Board, rank: WorkerRank) -> KvEvent {
        let held: Vec<_> = self.oracle.names(rank).collect();
        let rng = &mut self.rng;
        match rng.below(20) {
            0 if rng.below(8) == 0 => KvEvent::Cleared,
            0..=6 => remove(rng, &held),
            _ if held.len() >= FULL => remove(rng, &held),
            _ => self.store(board, rank, &held),
        }
    }

    /// A chain at the root or under a held block, mostly along a query.
    fn store(
        &mut self,
        board: &Board,
        rank: WorkerRank,
        held: &[(ExternalSequenceHash, TierSet)],
    ) -> KvEvent {
        let rng = &mut self.rng;
        let parent = match rng.below(3) {
            0 => None,
            _ => held.get(rng.below(held.len().max(1))).map(|&(name, _)| name),
        };
        let mut path = parent.and_then(|parent| self.oracle.path(rank, parent)).unwrap_or_default();
        let along = &board.queries[rng.below(QUERIES)];
        let mut blocks = Vec::new();
        for _ in 0..=rng.below(4) {
            let next = match along.get(path.len()) {
                Some(&next) if along.starts_with(&path) => next,
                _ => content(rng),
            };
            path.push(next);
            let name = match rng.below(24) {
                // A name that denotes another block moves here.
                0 if !held.is_empty() => held[rng.below(held.len())].0,
                1 => usual_name(rank, &path, 1),
                _ => usual_name(rank, &path, 0),
            };
            blocks.push(StoredBlock::new(name, next));
        }
        KvEvent::Stored { tier: tier(rng), parent, blocks }
    }
}

/// Some held blocks, and now and then one that is not.
fn remove(rng: &mut Rng, held: &[(ExternalSequenceHash, TierSet)]) -> KvEvent {
    let mut in_tier = Tier::Device;
    let mut blocks = Vec::new();
    for _ in 0..=rng.below(3) {
        if let Some(&(name, tiers)) = held.get(rng.below(held.len().max(1))) {
            in_tier = tiers.best().unwrap_or(in_tier);
            blocks.push(name);
        }
    }
    if rng.below(16) == 0 {
        blocks.push(ExternalSequenceHash::new(1));
    }
    KvEvent::Removed { tier: in_tier, blocks }
}

fn tier(rng: &mut Rng) -> Tier {
    match rng.below(6) {
        0 => Tier::Host,
        1 => Tier::Disk,
        _ => Tier::Device,
    }
}

/// What an engine calls a block, or one of its other names for it.
fn usual_name(rank: WorkerRank, path: &[LocalBlockHash], other: u64) -> ExternalSequenceHash {
    let salt = mix(1 + rank.worker.get() * 8 + u64::from(rank.rank.get()) + other * 1_000_000);
    let name = path.iter().fold(salt, |before, local| mix(before.wrapping_add(3) ^ mix(local.get() + 1)));
    ExternalSequenceHash::new(name)
}

fn check(
    from: WorkerRank,
    event: Option<KvEvent>,
    expected: Result<Applied, ApplyError>,
    found: Result<Applied, ApplyError>,
) -> Result<(), Box<FailedRun>> {
    if expected == found { Ok(()) } else { Err(Box::new(FailedRun::Event { from, event, expected, found })) }
}
