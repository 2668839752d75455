//! Wide fleets beside the oracle: more ranks than a word, pages of every length that matters, names and numbers mixed,
//! slots that change hands, one answer used again and again.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use kv_router_hash::KeyedHashes;
use kv_router_index::paged::{BlockIds, IdError, IdWriter, PagedConfig, PagedIndex, RankWriter};
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, FindOptions, Inspect, Occupancy, Oracle, Overlap, Overlaps, PrefixIndex,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

/// Steele, Lea and Flood 2014.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

/// How a rank is written to.
enum Way {
    Shared,
    Names(RankWriter),
    Numbers(Box<(BlockIds, IdWriter)>),
}

impl Way {
    fn new(index: &PagedIndex, rank: WorkerRank, rng: &mut Rng) -> Self {
        match rng.below(3) {
            0 => Self::Shared,
            1 => Self::Names(index.writer(rank).unwrap()),
            _ => Self::Numbers(Box::new((BlockIds::new(), index.id_writer(rank).unwrap()))),
        }
    }

    fn apply(
        &mut self,
        index: &PagedIndex,
        rank: WorkerRank,
        event: &KvEvent,
    ) -> Result<Applied, ApplyError> {
        match self {
            Self::Shared => {
                let mut writer = index;
                writer.apply(rank, event)
            }
            Self::Names(writer) => writer.apply(event),
            Self::Numbers(both) => {
                let (ids, writer) = &mut **both;
                let translated = ids.translate(event)?;
                let mut applied = writer.apply(&translated.event).map_err(|error| match error {
                    IdError::UnknownParent { parent } => {
                        ApplyError::UnknownParent { parent: ids.name(parent).unwrap() }
                    }
                    error => panic!("a relay sends nothing that is {error}"),
                })?;
                applied.unknown += translated.unknown;
                Ok(applied)
            }
        }
    }
}

/// The prompts that there are: they share beginnings of lengths around the borders of everything.
fn prompts() -> Vec<Vec<LocalBlockHash>> {
    let fresh = |salt: u64, from: usize, len: usize| {
        (from..from + len)
            .map(move |at| LocalBlockHash::new((salt << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    };
    let mut all: Vec<Vec<LocalBlockHash>> = Vec::new();
    for (root, &len) in [3usize, 8, 72, 520, 1100].iter().enumerate() {
        let trunk: Vec<_> = fresh(root as u64 + 1, 0, len).collect();
        for (branch, &cut) in
            [1usize, 7, 8, 9, 55, 56, 57, 63, 64, 65, 71, 72, 73, 128, 511, 512, 513, 576, 1024]
                .iter()
                .enumerate()
        {
            if cut < len {
                let mut other = trunk[..cut].to_vec();
                let salt = (root * 100 + branch + 10) as u64;
                other.extend(fresh(salt, cut, [1, 8, 57, 64, 130][(branch + root) % 5]));
                all.push(other);
            }
        }
        all.push(trunk);
    }
    all
}

const LENGTHS: [usize; 21] =
    [1, 2, 3, 7, 8, 9, 16, 55, 56, 57, 63, 64, 65, 71, 72, 73, 128, 448, 511, 512, 513];

struct World {
    rng: Rng,
    prompts: Vec<Vec<LocalBlockHash>>,
    index: PagedIndex,
    oracle: Oracle,
    ways: BTreeMap<WorkerRank, Way>,
    /// What each rank was told of, in no order.
    told: BTreeMap<WorkerRank, Vec<ExternalSequenceHash>>,
    ranks: u64,
    tiers: u64,
}

/// Names depend on the rank's taste, the prompt's prefix and, seldom, on chance: so that twins and moves happen.
fn name(locals: &[LocalBlockHash], taste: u64) -> ExternalSequenceHash {
    let mixed = locals
        .iter()
        .fold(taste, |hash, local| (hash ^ local.get()).rotate_left(23).wrapping_mul(0x2545_f491_4f6c_dd1d));
    ExternalSequenceHash::new(mixed)
}

impl World {
    fn new(seed: u64, ranks: u64, tiers: u64) -> Self {
        let mut config = PagedConfig::default();
        config.hash_seed = seed;
        Self {
            rng: Rng(seed),
            prompts: prompts(),
            index: PagedIndex::with_config(config).unwrap(),
            oracle: Oracle::new(),
            ways: BTreeMap::new(),
            told: BTreeMap::new(),
            ranks,
            tiers,
        }
    }

    fn rank(&mut self) -> WorkerRank {
        WorkerId::new(self.rng.below(self.ranks)).into()
    }

    fn event(&mut self, rank: WorkerRank) -> KvEvent {
        let rng = &mut self.rng;
        let tier = if self.tiers > 0 && rng.one_in(self.tiers) {
            Tier::ALL[rng.below(4) as usize]
        } else {
            Tier::Device
        };
        let told = self.told.entry(rank).or_default();
        let what = rng.below(20);
        if what == 0 && rng.one_in(4) {
            told.clear();
            return KvEvent::Cleared;
        }
        if what < 8 && !told.is_empty() {
            let count = LENGTHS[rng.below(12) as usize].min(told.len());
            let at = rng.below((told.len() - count + 1) as u64) as usize;
            let mut blocks = if rng.one_in(5) {
                (0..count).map(|_| told[rng.below(told.len() as u64) as usize]).collect()
            } else {
                told[at..at + count].to_vec()
            };
            if rng.one_in(2) {
                blocks.reverse();
            }
            if tier == Tier::Device && rng.one_in(3) {
                told.truncate(at);
            }
            return KvEvent::Removed { tier, blocks };
        }
        let prompt = &self.prompts[rng.below(self.prompts.len() as u64) as usize];
        let to = LENGTHS[rng.below(LENGTHS.len() as u64) as usize].min(prompt.len());
        let to = if rng.one_in(3) { prompt.len() } else { to };
        let from = if rng.one_in(3) { rng.below(to as u64) as usize } else { 0 };
        let taste = if rng.one_in(40) { rng.below(3) } else { 0 };
        let mut blocks: Vec<_> =
            (from..to).map(|at| StoredBlock::new(name(&prompt[..=at], taste), prompt[at])).collect();
        if rng.one_in(30) && !told.is_empty() && blocks.len() > 1 {
            let at = rng.below(blocks.len() as u64) as usize;
            blocks[at] = StoredBlock::new(told[rng.below(told.len() as u64) as usize], blocks[at].local);
        }
        told.extend(blocks.iter().map(|block| block.external));
        let excess = told.len().saturating_sub(3000);
        told.drain(..excess);
        let parent = (from > 0).then(|| name(&prompt[..from], taste));
        KvEvent::Stored { tier, parent, blocks }
    }

    fn step(&mut self) {
        let rank = self.rank();
        if self.rng.one_in(60) {
            // Another way to write to it: a rank that holds something keeps its kind.
            if self.rng.one_in(2) {
                let mut writer = &self.index;
                assert_eq!(writer.remove_worker(rank.worker), self.oracle.remove_worker(rank.worker));
                self.told.remove(&rank);
            }
            if self.oracle.names(rank).next().is_none() {
                self.ways.remove(&rank);
            }
        }
        let event = self.event(rank);
        let Self { index, rng, ways, oracle, .. } = self;
        let way = ways.entry(rank).or_insert_with(|| Way::new(index, rank, rng));
        let (found, expected) = (way.apply(index, rank, &event), oracle.apply(rank, &event));
        if matches!(way, Way::Numbers(_)) {
            // A relay keeps what the router forgets of copies in several tiers when a name moves.
            assert_eq!(found.is_ok(), expected.is_ok(), "{found:?} {expected:?}");
        } else {
            assert_eq!(found, expected);
        }
    }

    fn check(&mut self, out: &mut Overlaps, keyed: &mut KeyedHashes, foreign: &mut KeyedHashes) {
        let rng = &mut self.rng;
        let mut query = self.prompts[rng.below(self.prompts.len() as u64) as usize].clone();
        match rng.below(4) {
            0 => query.truncate(LENGTHS[rng.below(21) as usize]),
            1 => query.extend((0..rng.below(140)).map(LocalBlockHash::new)),
            2 => {
                let at = rng.below(query.len() as u64) as usize;
                query[at] = LocalBlockHash::new(77);
            }
            _ => {}
        }
        let all = |found: &Overlaps| {
            assert!(found.iter().map(Overlap::blocks).is_sorted_by(|one, other| one >= other));
            assert_eq!(found.iter().count(), found.len());
            let mut all: Vec<_> = found.iter().collect();
            all.sort_unstable();
            all
        };
        let expected = all(&self.oracle.find(&query));
        self.index.find_into(&query, FindOptions::new(), out);
        assert_eq!(all(out), expected);
        keyed.set_locals(&query);
        self.index.find_keyed_into(keyed, FindOptions::new(), out);
        assert_eq!(all(out), expected, "with keys");
        foreign.set_locals(&query);
        self.index.find_keyed_into(foreign, FindOptions::new(), out);
        assert_eq!(all(out), expected, "with keys of another");
        self.index.find_keyed_into(keyed, FindOptions::new().early_exit(), out);
        let early = all(out);
        if out.is_lower_bound() {
            let best = out.best().unwrap();
            let true_best = expected.iter().find(|o| o.worker() == best.worker()).unwrap();
            assert!(best.blocks() <= true_best.blocks());
            assert!(expected.iter().all(|o| o.worker() == best.worker() || o.blocks() < best.blocks() + 1));
            let rest = |all: &[Overlap]| {
                all.iter().filter(|o| o.worker() != best.worker()).copied().collect::<Vec<_>>()
            };
            assert_eq!(rest(&early), rest(&expected));
        } else {
            assert_eq!(early, expected, "early");
        }
    }

    fn finish(mut self) {
        assert_eq!(self.index.audit(), vec![]);
        for rank in self.oracle.ranks().collect::<Vec<_>>() {
            let all: Vec<_> = self.oracle.names(rank).collect();
            for tier in Tier::ALL {
                let mut blocks: Vec<_> =
                    all.iter().filter(|(_, tiers)| tiers.contains(tier)).map(|pair| pair.0).collect();
                if self.rng.one_in(2) {
                    blocks.reverse();
                }
                let event = KvEvent::Removed { tier, blocks };
                self.ways.get_mut(&rank).unwrap().apply(&self.index, rank, &event).unwrap();
            }
        }
        while self.index.reclaim(1000) > 0 {}
        assert_eq!(self.index.occupancy(), Occupancy::default());
        assert_eq!(self.index.audit(), vec![]);
        self.ways.clear();
        let memory = self.index.memory();
        assert_eq!((memory.lines_used, memory.pages, memory.lanes), (0, 0, 0));
    }
}

#[test]
fn wide_fleets_answer_as_the_oracle() {
    let mut out = Overlaps::new();
    for seed in 0..4 {
        // Two indexes share one answer.
        let mut one =
            World::new(seed * 2, [70, 200, 33, 130][seed as usize % 4], [0, 12, 3][seed as usize % 3]);
        let mut two =
            World::new(seed * 2 + 1, [130, 64, 200, 7][seed as usize % 4], [12, 0, 0][seed as usize % 3]);
        let mut keys = [&one, &two].map(|world| KeyedHashes::new(world.index.keyer()));
        for step in 0..1000u32 {
            one.step();
            two.step();
            if step % 4 == 0 {
                let [first, second] = &mut keys;
                one.check(&mut out, first, second);
                two.check(&mut out, second, first);
            }
            if step % 500 == 499 {
                assert_eq!(
                    (one.index.audit(), two.index.audit()),
                    (vec![], vec![]),
                    "seed {seed} step {step}"
                );
            }
        }
        one.finish();
        two.finish();
    }
}
