//! Names that an unlucky engine might choose: all in one bucket, all with one tag.

use std::collections::HashMap;

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, WorkerId, WorkerRank};

use super::*;
use crate::conformance::Suite;
use crate::paged::PagedIndex;
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps,
    PrefixIndex,
};

/// The name with that hash.
fn name_with(hash: u64) -> u64 {
    // The inverse of an odd number, by Newton's method: each step doubles the bits that are right.
    let inverse = (0..6).fold(SPREAD, |inverse: u64, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(SPREAD.wrapping_mul(inverse)))
    });
    let folded = hash.wrapping_mul(inverse);
    folded ^ folded >> 32
}

/// Number `number` of the names that differ in no bit of the hash that a table looks at.
fn colliding(number: u32) -> u64 {
    assert!(number < 1 << 18, "more names than there are bits for");
    name_with(0x2bad_0000_9000_0000 | u64::from(number))
}

#[test]
fn colliding_names_have_one_home() {
    let mut names = Names::default();
    for records in [0, 100, 5000, MAX_NAMES] {
        names.reserve(10_000, records, |_| {});
        assert!((0..1000).all(|number| names.home(colliding(number)) == names.home(colliding(7))));
        assert!(names.home(colliding(1)) != names.home(1));
    }
}

/// An index whose events come with colliding names instead of their own.
#[derive(Default)]
struct Colliding {
    index: PagedIndex,
    numbers: HashMap<u64, u32>,
    own: HashMap<u64, u64>,
}

impl Colliding {
    fn rename(&mut self, name: ExternalSequenceHash) -> ExternalSequenceHash {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(name.get()).or_insert(next);
        self.own.insert(colliding(number), name.get());
        ExternalSequenceHash::new(colliding(number))
    }

    /// The name as the suite knows it. A dump makes up names for blocks that are in the way but not held: any will do.
    fn own(&self, name: ExternalSequenceHash) -> ExternalSequenceHash {
        let made_up = name.get() ^ 0x7ab1_e000_dead_0000;
        ExternalSequenceHash::new(self.own.get(&name.get()).copied().unwrap_or(made_up))
    }
}

impl ApplyEvents for Colliding {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let event = match event.clone() {
            KvEvent::Stored { tier, parent, blocks } => KvEvent::Stored {
                tier,
                parent: parent.map(|parent| self.rename(parent)),
                blocks: blocks
                    .into_iter()
                    .map(|block| StoredBlock::new(self.rename(block.external), block.local))
                    .collect(),
            },
            KvEvent::Removed { tier, blocks } => {
                KvEvent::Removed { tier, blocks: blocks.into_iter().map(|name| self.rename(name)).collect() }
            }
            KvEvent::Cleared => KvEvent::Cleared,
        };
        let result = self.index.apply(from, &event);
        assert_eq!(self.index.audit(), vec![]);
        result.map_err(|error| match error {
            ApplyError::UnknownParent { parent } => ApplyError::UnknownParent { parent: self.own(parent) },
            ApplyError::InvalidBlockSequence { block } => {
                ApplyError::InvalidBlockSequence { block: self.own(block) }
            }
            other => other,
        })
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.index.remove_worker(worker)
    }
}

impl PrefixIndex for Colliding {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.index.find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        self.index.certainty()
    }
}

impl DumpEvents for Colliding {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.index.dump(&mut |rank, event| {
            let event = match event {
                KvEvent::Stored { tier, parent, blocks } => KvEvent::Stored {
                    tier,
                    parent: parent.map(|parent| self.own(parent)),
                    blocks: blocks
                        .into_iter()
                        .map(|block| StoredBlock::new(self.own(block.external), block.local))
                        .collect(),
                },
                KvEvent::Removed { tier, blocks } => {
                    KvEvent::Removed { tier, blocks: blocks.into_iter().map(|name| self.own(name)).collect() }
                }
                KvEvent::Cleared => KvEvent::Cleared,
            };
            emit(rank, event);
        });
    }
}

impl Inspect for Colliding {
    fn occupancy(&self) -> Occupancy {
        self.index.occupancy()
    }
}

#[test]
fn colliding_names_are_told_apart() {
    let suite = Suite::new(Colliding::default);
    suite.run_examples();
    suite.search(48).unwrap_or_else(|found| panic!("{found}"));
}

/// A lane with more records than a word has room for offsets: places are neighbourhoods.
#[test]
fn neighbourhoods_are_searched() {
    let mut index = PagedIndex::new();
    let rank: WorkerRank = WorkerId::new(1).into();
    let block = |name: u64| StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(name));
    let store = |blocks: Vec<StoredBlock>| KvEvent::Stored {
        tier: kv_router_types::Tier::Device,
        parent: None,
        blocks,
    };
    let removed = |names: Vec<u64>| KvEvent::Removed {
        tier: kv_router_types::Tier::Device,
        blocks: names.into_iter().map(ExternalSequenceHash::new).collect(),
    };
    // Chains of names 1000 n..1000 n + 9 on pages of their own, and so many that nine bits of a place are left out.
    let chains = 20_000u64;
    for chain in 1..=chains {
        index.apply(rank, &store((0..9).map(|at| block(chain * 1000 + at)).collect())).unwrap();
    }
    assert_eq!(index.occupancy().names, chains as usize * 9);
    // Inner blocks, alone and in both directions, twice; unknown ones between them.
    for chain in (1..=chains).step_by(97) {
        let at = |offset: u64| chain * 1000 + offset;
        let applied =
            index.apply(rank, &removed(vec![at(4), at(9), at(2), at(3), at(2), at(7), at(6)])).unwrap();
        assert_eq!((applied.removed, applied.unknown), (5, 2));
        // One comes back elsewhere, while its old neighbours still have what was there.
        index.apply(rank, &store(vec![block(at(500)), block(at(3))])).unwrap();
        let applied = index.apply(rank, &removed(vec![at(3), at(4), at(5)])).unwrap();
        assert_eq!((applied.removed, applied.unknown), (2, 1));
    }
    assert_eq!(index.audit(), vec![]);
    for chain in (1..=chains).rev() {
        index.apply(rank, &removed((0..9).map(|at| chain * 1000 + at).collect())).unwrap();
        index.apply(rank, &removed(vec![chain * 1000 + 500])).unwrap();
    }
    assert_eq!(index.occupancy(), Occupancy::default());
    assert_eq!(index.audit(), vec![]);
}
