//! The predicted index against a literal model, and the faults seen in the field.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kv_router_hash::next_sequence_hash;
use kv_router_index::{Certainty, Inspect, Occupancy, Overlaps, PrefixIndex};
use kv_router_types::{DpRank, LocalBlockHash, WorkerId, WorkerRank};
use proptest::prelude::*;

use super::{PredictedConfig, PredictedConfigError, PredictedIndex, Recorded};

fn origin() -> Instant {
    // Any instant will do. A point far from the machine's start would not exist on every platform.
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    *ORIGIN.get_or_init(Instant::now)
}

fn at(seconds: f64) -> Instant {
    origin() + Duration::from_secs_f64(seconds)
}

fn at_millis(millis: u64) -> Instant {
    origin() + Duration::from_millis(millis)
}

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

fn locals(blocks: &[u64]) -> Vec<LocalBlockHash> {
    blocks.iter().copied().map(LocalBlockHash::new).collect()
}

fn index(ttl: u64, max_blocks: usize) -> PredictedIndex {
    let config = PredictedConfig { ttl: Duration::from_secs(ttl), max_blocks, ..PredictedConfig::default() };
    PredictedIndex::new(config, origin()).unwrap()
}

/// What `index` predicts at `seconds`, for the workers 0 to 3.
fn depths(index: &PredictedIndex, query: &[u64], seconds: f64) -> [u32; 4] {
    let mut out = Overlaps::new();
    index.find_at(&locals(query), at(seconds), &mut out);
    assert_eq!(out.certainty(), Certainty::Guess);
    [0, 1, 2, 3].map(|worker| out.blocks(rank(worker)))
}

/// The most literal statement of what the index does: every block of a rank under its whole path.
#[derive(Default)]
struct Model {
    /// Deadline and last use. Uses are numbered; of one decision, the deepest block has the lowest number.
    blocks: BTreeMap<(WorkerRank, Vec<u64>), (u64, u64)>,
    uses: u64,
    now: u64,
}

impl Model {
    fn record(&mut self, rank: WorkerRank, path: &[u64], deadline: u64, cap: usize) -> Recorded {
        let mut recorded = Recorded::default();
        let kept = path.len().min(cap);
        recorded.unplaced = path.len() - kept;
        self.uses += kept as u64;
        for len in 1..=kept {
            let last_use = self.uses - len as u64;
            let key = (rank, path[..len].to_vec());
            if let Some(block) = self.blocks.get_mut(&key) {
                *block = (block.0.max(deadline), last_use);
                recorded.renewed += 1;
            } else {
                self.blocks.insert(key, (deadline, last_use));
                recorded.added += 1;
            }
        }
        while self.blocks.len() > cap {
            let oldest_leaf =
                self.blocks.iter().filter(|(key, _)| self.is_leaf(key)).min_by_key(|(_, block)| block.1);
            let key = oldest_leaf.expect("a tree has leaves").0.clone();
            self.blocks.remove(&key);
            recorded.pruned += 1;
        }
        recorded
    }

    fn is_leaf(&self, (rank, path): &(WorkerRank, Vec<u64>)) -> bool {
        !self.blocks.keys().any(|(other, longer)| {
            other == rank && longer.len() == path.len() + 1 && longer.starts_with(path)
        })
    }

    fn expire(&mut self, now: u64) -> usize {
        let before = self.blocks.len();
        self.now = self.now.max(now);
        self.blocks.retain(|_, (deadline, _)| *deadline > self.now);
        before - self.blocks.len()
    }

    fn remove(&mut self, gone: impl Fn(WorkerRank) -> bool) -> usize {
        let before = self.blocks.len();
        self.blocks.retain(|(rank, _), _| !gone(*rank));
        before - self.blocks.len()
    }

    fn depth(&self, rank: WorkerRank, query: &[u64], now: u64) -> u32 {
        let held = |len: usize| self.blocks.get(&(rank, query[..len].to_vec())).is_some_and(|b| b.0 > now);
        (1..=query.len()).take_while(|&len| held(len)).count() as u32
    }
}

#[derive(Clone, Debug)]
enum Step {
    Record {
        rank: WorkerRank,
        path: Vec<u64>,
        ttl: Option<u64>,
    },
    /// In milliseconds; a negative one is a clock that runs backwards.
    Wait {
        by: i64,
    },
    RemoveRank {
        rank: WorkerRank,
    },
    RemoveWorker {
        worker: u64,
    },
}

fn ranks() -> impl Strategy<Value = WorkerRank> {
    (0u64..3, 0u32..2).prop_map(|(worker, rank)| WorkerRank::new(WorkerId::new(worker), DpRank::new(rank)))
}

fn paths() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..3, 0..7)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (ranks(), paths(), prop::option::weighted(0.3, 0u64..2_000))
            .prop_map(|(rank, path, ttl)| Step::Record { rank, path, ttl }),
        6 => prop_oneof![0i64..3_000, -2_000i64..0, 0i64..400_000].prop_map(|by| Step::Wait { by }),
        1 => ranks().prop_map(|rank| Step::RemoveRank { rank }),
        1 => (0u64..3).prop_map(|worker| Step::RemoveWorker { worker }),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn is_the_model(steps in steps(), cap in 1usize..40, ttl in 1u64..300, queries in prop::collection::vec(paths(), 4)) {
        let mut index = index(ttl, cap);
        let mut model = Model::default();
        let mut clock = 0i64;
        let mut latest = 0i64;
        for step in steps {
            let now = at_millis(clock as u64);
            match step {
                Step::Record { rank, path, ttl: own } => {
                    latest = latest.max(clock);
                    let ttl = own.unwrap_or(ttl);
                    let expired = model.expire(latest as u64 / 1_000);
                    let deadline = (latest as u64 + ttl * 1_000).div_ceil(1_000).max(model.now + 1);
                    let expected = Recorded { expired, ..model.record(rank, &path, deadline, cap) };
                    let found = match own {
                        Some(ttl) => index.record_for(rank, &locals(&path), Duration::from_secs(ttl), now),
                        None => index.record(rank, &locals(&path), now),
                    };
                    prop_assert_eq!(found, expected);
                }
                Step::Wait { by } => {
                    clock = (clock + by).max(0);
                    latest = latest.max(clock);
                    let expired = index.expire(at_millis(clock as u64));
                    prop_assert_eq!(expired, model.expire(latest as u64 / 1_000));
                }
                Step::RemoveRank { rank } => prop_assert_eq!(index.remove_rank(rank), model.remove(|other| other == rank)),
                Step::RemoveWorker { worker } => {
                    let worker = WorkerId::new(worker);
                    prop_assert_eq!(index.remove_worker(worker), model.remove(|rank| rank.worker == worker));
                }
            }
            index.check();
            prop_assert_eq!(index.len(), model.blocks.len());
            for (query, later) in queries.iter().zip([0, 1, 50, 200]) {
                let now = model.now + later;
                let mut out = Overlaps::new();
                index.find_at(&locals(query), at_millis(now * 1_000), &mut out);
                for worker in 0..3 {
                    for dp in 0..2 {
                        let rank = WorkerRank::new(WorkerId::new(worker), DpRank::new(dp));
                        prop_assert_eq!(out.blocks(rank), model.depth(rank, query, now), "{:?} {:?}", rank, query);
                    }
                }
                prop_assert_eq!(index.find(&locals(query)).len(), model_holders(&model, query));
            }
        }
        let left = model.blocks.len();
        prop_assert_eq!(index.expire(at(1e7)), left);
        prop_assert_eq!(index.occupancy(), Occupancy::default());
        prop_assert_eq!(index.capacity(), 0, "empty, yet there is memory for entries");
    }
}

fn model_holders(model: &Model, query: &[u64]) -> usize {
    let Some(root) = query.first() else { return 0 };
    model.blocks.keys().filter(|(_, path)| path[..] == [*root]).count()
}

#[test]
fn a_decision_lives_for_its_time_and_a_tick_at_most() {
    let mut index = index(120, 100);
    index.record(rank(0), &locals(&[1, 2, 3]), at(0.5));
    assert_eq!(depths(&index, &[1, 2, 9], 120.4), [2, 0, 0, 0]);
    assert_eq!(depths(&index, &[1, 2, 3], 120.999), [3, 0, 0, 0]);
    assert_eq!(depths(&index, &[1, 2, 3], 121.0), [0; 4], "due, even before anybody expires it");
    assert_eq!(index.len(), 3);
    assert_eq!(index.expire(at(121.0)), 3);
}

#[test]
fn routing_again_renews() {
    let mut index = index(120, 100);
    index.record(rank(0), &locals(&[1, 2, 3]), at(0.0));
    let again = index.record(rank(0), &locals(&[1, 2]), at(100.0));
    assert_eq!((again.added, again.renewed), (0, 2));
    assert_eq!(depths(&index, &[1, 2, 3], 119.0), [3, 0, 0, 0]);
    assert_eq!(depths(&index, &[1, 2, 3], 150.0), [2, 0, 0, 0], "the tail was not renewed");
    assert_eq!(depths(&index, &[1, 2, 3], 220.0), [0; 4]);
}

/// Recording one prompt again inflated counts, and evicted early (smg#2126).
#[test]
fn a_prompt_recorded_ten_times_is_held_once() {
    let mut index = index(120, 4);
    for _ in 0..10 {
        let recorded = index.record(rank(0), &locals(&[1, 2, 3]), at(0.0));
        assert_eq!(recorded.pruned, 0);
    }
    assert_eq!(index.len(), 3);
}

/// A cap for each tenant multiplied with the tenants (smg#2137).
#[test]
fn the_cap_counts_all_ranks_together() {
    let mut index = index(120, 10);
    for worker in 0..1_000 {
        index.record(rank(worker), &locals(&[1, 2, 3]), at(0.0));
        assert!(index.len() <= 10);
        index.check();
    }
    assert_eq!(depths(&index, &[1, 2, 3], 0.0), [0; 4], "the oldest went");
    let found = index.find(&locals(&[1, 2, 3]));
    assert_eq!((found.len(), found.best().unwrap().blocks()), (4, 3));
    assert_eq!(found.blocks(rank(996)), 1, "of the oldest, the leaves went first");
}

/// Pruning left children behind that nobody could reach (dynamo#8127).
#[test]
fn the_oldest_leaf_goes_first_and_never_a_parent_before_its_child() {
    let mut index = index(120, 5);
    index.record(rank(0), &locals(&[1, 2, 3]), at(0.0));
    index.record(rank(0), &locals(&[1, 8]), at(1.0));
    // 3 and 2 are the oldest leaves by now; 1 is a parent still.
    let recorded = index.record(rank(1), &locals(&[5, 6]), at(2.0));
    assert_eq!((recorded.added, recorded.pruned), (2, 1));
    assert_eq!(depths(&index, &[1, 2, 3], 2.0), [2, 0, 0, 0]);
    index.record(rank(1), &locals(&[5, 6, 7, 8]), at(3.0));
    assert_eq!(depths(&index, &[1, 2], 3.0), [1, 0, 0, 0]);
    assert_eq!(depths(&index, &[1, 8], 3.0), [1, 0, 0, 0], "8 is older than its parent");
    assert_eq!(depths(&index, &[5, 6, 7, 8], 3.0), [0, 4, 0, 0]);
}

#[test]
fn a_prompt_beyond_the_cap_is_kept_as_far_as_it_fits() {
    let mut index = index(120, 3);
    index.record(rank(1), &locals(&[9]), at(0.0));
    let recorded = index.record(rank(0), &locals(&[1, 2, 3, 4, 5]), at(0.0));
    assert_eq!((recorded.added, recorded.unplaced, recorded.pruned), (3, 2, 1));
    assert_eq!(depths(&index, &[1, 2, 3, 4, 5], 0.0), [3, 0, 0, 0]);
    index.check();
}

/// Content that is made to collide must not tie the tree into a knot.
#[test]
fn colliding_places_end_the_path() {
    let mut index = index(120, 10);
    let [a, b] = [LocalBlockHash::new(1), LocalBlockHash::new(2)];
    let second = next_sequence_hash(Some(next_sequence_hash(None, a)), b);
    let as_root = LocalBlockHash::new(second.get());
    index.record(rank(0), &[a, b], at(0.0));
    let recorded = index.record(rank(0), &[as_root, a], at(0.0));
    assert_eq!((recorded.added, recorded.renewed, recorded.unplaced), (0, 0, 2));
    index.check();
    index.record(rank(1), &[as_root], at(0.0));
    let recorded = index.record(rank(1), &[a, b], at(0.0));
    assert_eq!((recorded.added, recorded.unplaced), (1, 1));
    index.check();
    assert_eq!(index.expire(at(500.0)), 4);
}

/// Tenants of removed workers stayed (smg#2132), and an empty one polluted matches (smg#268).
#[test]
fn a_removed_worker_leaves_nothing() {
    let mut index = index(120, 1_000);
    for dp in 0..3 {
        let rank = WorkerRank::new(WorkerId::new(7), DpRank::new(dp));
        index.record(rank, &locals(&[1, 2, 3]), at(0.0));
        index.record(rank, &[], at(0.0));
    }
    index.record(rank(8), &[], at(0.0));
    assert_eq!(index.occupancy().ranks, 3);
    assert_eq!(index.find(&locals(&[1])).len(), 3);
    assert_eq!(index.remove_worker(WorkerId::new(8)), 0);
    assert_eq!(index.remove_worker(WorkerId::new(7)), 9);
    assert_eq!(index.occupancy(), Occupancy::default());
    assert!(index.find(&locals(&[1])).is_empty());
}

#[test]
fn years_of_silence_cost_one_turn_of_the_wheel() {
    let mut index = index(120, 1_000);
    index.record(rank(0), &locals(&[1, 2, 3]), at(0.0));
    assert_eq!(index.expire(at(3e9)), 3);
    index.record(rank(0), &locals(&[1]), at(3e9));
    assert_eq!(index.expire(at(3e9 + 119.0)), 0);
    assert_eq!(index.expire(at(3e9 + 120.0)), 1);
}

#[test]
fn many_short_lives_leave_no_memory() {
    let mut index = index(10, 500);
    for n in 0..50_000u64 {
        index.record(rank(n), &locals(&[n, 1, 2]), at(n as f64 * 0.01));
    }
    assert!(index.capacity() <= 10_000, "{} for 500 blocks", index.capacity());
    index.expire(at(1e6));
    assert_eq!((index.occupancy(), index.capacity()), (Occupancy::default(), 0));
}

#[test]
fn values_out_of_range_are_named() {
    let check = |config: PredictedConfig, expected| {
        assert_eq!(PredictedIndex::new(config, origin()).map(|_| ()), Err(expected));
    };
    let sound = PredictedConfig::default();
    let (ttl, tick) = (Duration::ZERO, Duration::from_micros(1));
    check(PredictedConfig { ttl, ..sound }, PredictedConfigError::Ttl { ttl });
    check(PredictedConfig { tick, ..sound }, PredictedConfigError::Tick { tick });
    check(PredictedConfig { max_blocks: 0, ..sound }, PredictedConfigError::MaxBlocks { max_blocks: 0 });
}
