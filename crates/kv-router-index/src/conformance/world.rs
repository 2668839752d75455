//! The fleet of a history: what each operation means in its present state.

use std::collections::BTreeSet;

use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::engine::{Engine, Gone, REMEMBERED};
use super::history::{Copies, Flaw, Naming, Op, Order, Packing, Part, Pick, Under, Variation};
use super::rng::{Rng, mix};
use crate::Oracle;
use crate::oracle::Place;

/// One thing that an index is told.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Apply(WorkerRank, KvEvent),
    RemoveWorker(WorkerId),
}

/// The oracle, and what is needed to make operations concrete.
#[derive(Debug)]
pub(super) struct World {
    pub(super) oracle: Oracle,
    engines: Vec<Engine>,
    /// Ends of chains that were stored: the queries that tell most.
    pub(super) ends: Vec<Place>,
}

impl World {
    pub(super) fn new(ranks: u16, seed: u64) -> Self {
        let engines = (0..ranks.max(1)).map(|rank| Engine::new(rank, seed)).collect();
        Self { oracle: Oracle::new(), engines, ends: Vec::new() }
    }

    pub(super) fn engines(&self) -> &[Engine] {
        &self.engines
    }

    pub(super) fn engine_mut(&mut self, id: WorkerRank) -> Option<&mut Engine> {
        self.engines.iter_mut().find(|engine| engine.id == id)
    }

    fn index(&self, rank: u16) -> usize {
        usize::from(rank) % self.engines.len()
    }

    /// What the operation means now.
    pub(super) fn steps(&mut self, op: &Op) -> Vec<Step> {
        match op {
            Op::Store { rank, under, blocks, tier, naming } => {
                let at = self.index(*rank);
                let parent = self.parent(at, *under);
                vec![self.store(at, *tier, parent, |world| world.chain(at, parent, blocks, *naming))]
            }
            Op::Share { every, path, tier } => {
                let ranks = (0..self.engines.len()).step_by(usize::from(*every).max(1));
                ranks
                    .map(|at| {
                        let part = &path[..path.len() - (at % 4).min(path.len().saturating_sub(1))];
                        self.store(at, *tier, None, |world| world.chain(at, None, part, Naming::Usual))
                    })
                    .collect()
            }
            Op::Again { rank, pick, tier, naming } => {
                let at = self.index(*rank);
                let again = self.pick(at, *pick).map(|name| self.again(at, name, *tier, *naming));
                again.into_iter().collect()
            }
            Op::Refill { rank, nth, tier } => {
                let at = self.index(*rank);
                match self.choose_gone(at, *nth) {
                    Some(gone) => vec![self.refill(at, self.engines[at].gone[gone], *tier)],
                    None => Vec::new(),
                }
            }
            Op::RefillAll { rank, order } => {
                let at = self.index(*rank);
                let mut gone = std::mem::take(&mut self.engines[at].gone);
                gone.sort_by_key(|gone| gone.place);
                arrange(&mut gone, *order);
                gone.into_iter().map(|refill| self.refill(at, refill, Tier::Device)).collect()
            }
            Op::Remove { rank, picks, copies, stranger } => {
                let at = self.index(*rank);
                let mut names: Vec<_> = picks.iter().filter_map(|&pick| self.pick(at, pick)).collect();
                names.splice(names.len() / 2..names.len() / 2, stranger.map(ExternalSequenceHash::new));
                self.remove(at, &names, *copies, Packing::OneEvent)
            }
            Op::RemoveChain { rank, pick, order, packing } => {
                let at = self.index(*rank);
                let id = self.engines[at].id;
                let end = self.pick(at, *pick).and_then(|name| self.oracle.place(id, name));
                let mut chain: Vec<Place> = end.into_iter().flat_map(|end| self.oracle.up(end)).collect();
                chain.reverse();
                arrange(&mut chain, *order);
                let names: Vec<_> =
                    chain.into_iter().flat_map(|place| self.oracle.names_at(id, place)).collect();
                self.remove(at, &names, Copies::All, *packing)
            }
            Op::Orphan { rank, parent, blocks } => {
                let at = self.index(*rank);
                let parent = Some(ExternalSequenceHash::new(*parent));
                vec![
                    self.store(at, Tier::Device, parent, |world| {
                        world.chain(at, None, blocks, Naming::Usual)
                    }),
                ]
            }
            Op::Malformed { rank, under, blocks, flaw } => {
                let at = self.index(*rank);
                let parent = self.parent(at, *under);
                vec![self.store(at, Tier::Device, parent, |world| {
                    let mut chain = world.chain(at, parent, blocks, Naming::Usual);
                    spoil(&mut chain, parent, *flaw);
                    chain
                })]
            }
            Op::Clear { rank } => vec![Step::Apply(self.engines[self.index(*rank)].id, KvEvent::Cleared)],
            Op::RemoveWorker { rank } => {
                vec![Step::RemoveWorker(self.engines[self.index(*rank)].id.worker)]
            }
            Op::Stranger => stranger(),
            Op::Ask { .. } => Vec::new(),
        }
    }

    /// The path to a block, changed.
    pub(super) fn query(&self, rank: u16, pick: Pick, variation: &Variation) -> Vec<LocalBlockHash> {
        let at = self.index(rank);
        let place = self.pick(at, pick).and_then(|name| self.oracle.place(self.engines[at].id, name));
        let mut path = place.map(|place| self.oracle.path_of(place)).unwrap_or_default();
        match variation {
            Variation::Whole => {}
            Variation::Prefix(len) => path.truncate(usize::from(*len) % path.len().max(1)),
            Variation::Longer(more) => path.extend(more.iter().copied().map(local)),
            Variation::Altered(index) => {
                let index = usize::from(*index) % path.len().max(1);
                path.iter_mut().skip(index).take(1).for_each(|hash| *hash = local(250));
            }
            Variation::Other(blocks) => path = blocks.iter().copied().map(local).collect(),
        }
        path
    }

    fn store(
        &mut self,
        at: usize,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: impl FnOnce(&mut Self) -> Vec<StoredBlock>,
    ) -> Step {
        let blocks = blocks(self);
        Step::Apply(self.engines[at].id, KvEvent::Stored { tier, parent, blocks })
    }

    fn again(&mut self, at: usize, name: ExternalSequenceHash, tier: Tier, naming: Naming) -> Step {
        let new_name = match naming {
            Naming::Usual => name,
            Naming::Twin(n) => ExternalSequenceHash::new(mix(name.get() ^ mix(2000 + u64::from(n)))),
            Naming::Taken(pick) => self.pick(at, pick).unwrap_or(name),
        };
        let engine = &self.engines[at];
        let place = self.oracle.place(engine.id, name).expect("a picked name is held");
        let (parent, local) = self.oracle.step(place);
        let parent = parent.map(|parent| {
            let held = self.oracle.names_at(engine.id, parent).next();
            held.unwrap_or_else(|| engine.called[&parent])
        });
        self.store(at, tier, parent, |_| vec![StoredBlock::new(new_name, local)])
    }

    /// Among what a rank has removed: the n-th latest that fills a hole, or else of all.
    fn choose_gone(&self, at: usize, nth: u16) -> Option<usize> {
        let engine = &self.engines[at];
        let continued: BTreeSet<Place> =
            self.oracle.places_of(engine.id).filter_map(|place| self.oracle.step(place).0).collect();
        let fills_hole = |gone: &Gone| {
            let before = gone.parent.and_then(|parent| self.oracle.place(engine.id, parent));
            continued.contains(&gone.place)
                && self.oracle.names_at(engine.id, gone.place).next().is_none()
                && self.oracle.step(gone.place).0 == before
        };
        let mut choice: Vec<usize> =
            (0..engine.gone.len()).filter(|&at| fills_hole(&engine.gone[at])).collect();
        if choice.is_empty() {
            choice = (0..engine.gone.len()).collect();
        }
        let last = choice.len().checked_sub(1)?;
        Some(choice[last - usize::from(nth) % choice.len()])
    }

    fn refill(&mut self, at: usize, gone: Gone, tier: Tier) -> Step {
        self.store(at, tier, gone.parent, |_| vec![gone.block])
    }

    fn remove(
        &self,
        at: usize,
        names: &[ExternalSequenceHash],
        copies: Copies,
        packing: Packing,
    ) -> Vec<Step> {
        let id = self.engines[at].id;
        let event = |tier, blocks: &[_]| Step::Apply(id, KvEvent::Removed { tier, blocks: blocks.to_vec() });
        let held = |name: &ExternalSequenceHash, tier| {
            self.oracle.names(id).any(|(held, tiers)| held == *name && tiers.contains(tier))
        };
        let by_tier = match copies {
            Copies::In(tier) => vec![(tier, names.to_vec())],
            Copies::All => Tier::ALL
                .into_iter()
                .map(|tier| (tier, names.iter().copied().filter(|name| held(name, tier)).collect()))
                .collect(),
        };
        let by_tier = by_tier.iter().filter(|(_, names)| !names.is_empty());
        match packing {
            Packing::OneEvent => by_tier.map(|(tier, names)| event(*tier, names)).collect(),
            Packing::OneEach => {
                by_tier.flat_map(|(tier, names)| names.chunks(1).map(|name| event(*tier, name))).collect()
            }
        }
    }

    fn parent(&self, at: usize, under: Under) -> Option<ExternalSequenceHash> {
        let engine = &self.engines[at];
        match under {
            Under::Root => None,
            Under::Tip => engine.tip.filter(|&tip| self.oracle.place(engine.id, tip).is_some()),
            Under::Block(pick) => self.pick(at, pick),
        }
    }

    fn pick(&self, at: usize, pick: Pick) -> Option<ExternalSequenceHash> {
        let id = self.engines[at].id;
        let names: Vec<_> = self.oracle.names(id).map(|(name, _)| name).collect();
        let name = *names.get(usize::from(pick.nth) % names.len().max(1))?;
        let place = self.oracle.place(id, name)?;
        let depth = self.oracle.up(place).count();
        let wanted = match pick.part {
            Part::Itself => return Some(name),
            Part::Head => self.oracle.up(place).last(),
            Part::Middle => self.oracle.up(place).nth(depth / 2),
            Part::Tail => self
                .oracle
                .places_of(id)
                .filter(|&tail| self.oracle.up(tail).any(|up| up == place))
                .max_by_key(|&tail| self.oracle.up(tail).count()),
        };
        Some(wanted.and_then(|place| self.oracle.names_at(id, place).next()).unwrap_or(name))
    }

    /// Blocks with names, as the engine would store them under a parent that it knows.
    fn chain(
        &mut self,
        at: usize,
        parent: Option<ExternalSequenceHash>,
        blocks: &[u8],
        naming: Naming,
    ) -> Vec<StoredBlock> {
        let id = self.engines[at].id;
        let taken = match naming {
            Naming::Taken(pick) => self.pick(at, pick),
            _ => None,
        };
        let parent = parent.and_then(|name| self.oracle.place(id, name));
        let before = parent.map(|place| self.oracle.path_of(place)).unwrap_or_default();
        let mut signature = before.iter().fold(0, |signature, &local| sign(signature, local));
        // Once a place is not known, nothing below it is.
        let mut known = Some(parent);
        let mut chain = Vec::with_capacity(blocks.len());
        for (index, local) in blocks.iter().copied().map(local).enumerate() {
            signature = sign(signature, local);
            let place = known.and_then(|place| self.oracle.child(place, local));
            known = place.map(Some);
            let name = match (naming, taken) {
                (Naming::Taken(_), Some(taken)) if index == 0 => taken,
                (Naming::Twin(n), _) => ExternalSequenceHash::new(mix(signature ^ mix(1000 + u64::from(n)))),
                _ => {
                    let held = place.and_then(|place| self.oracle.names_at(id, place).next());
                    self.engines[at].usual_name(signature, held)
                }
            };
            chain.push(StoredBlock::new(name, local));
        }
        chain
    }

    /// Remembers the end of a chain, in place of any end on the way to it that it continues directly: asking
    /// for the end asks for all before it.
    pub(super) fn remember_end(&mut self, end: Place) {
        let before = self.oracle.step(end).0;
        self.ends.retain(|&other| other != end && Some(other) != before);
        if self.ends.len() == REMEMBERED {
            self.ends.remove(0);
        }
        self.ends.push(end);
    }
}

/// Content as a hash; 0 stays 0, which an index must not mistake for nothing.
fn local(content: u8) -> LocalBlockHash {
    LocalBlockHash::new(u64::from(content).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A hash of a path, from that of the path before its last block.
fn sign(before: u64, local: LocalBlockHash) -> u64 {
    mix(before.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ local.get())
}

fn spoil(chain: &mut Vec<StoredBlock>, parent: Option<ExternalSequenceHash>, flaw: Flaw) {
    let repeat = match (flaw, parent, chain.first()) {
        (Flaw::OwnParent, Some(parent), _) => parent,
        (_, _, Some(first)) => first.external,
        (_, _, None) => return,
    };
    match chain.last_mut() {
        Some(last) if last.external != repeat => last.external = repeat,
        _ => chain.push(StoredBlock::new(repeat, local(7))),
    }
}

/// A rank that holds nothing must leave nothing behind, whatever it says.
fn stranger() -> Vec<Step> {
    let id = WorkerRank::new(WorkerId::new(u64::MAX), DpRank::new(u32::MAX));
    let name = ExternalSequenceHash::new(1);
    let store = |parent, blocks| KvEvent::Stored { tier: Tier::Device, parent, blocks };
    vec![
        Step::Apply(id, KvEvent::Cleared),
        Step::Apply(id, KvEvent::Removed { tier: Tier::Device, blocks: vec![name] }),
        Step::Apply(id, store(None, Vec::new())),
        Step::Apply(id, store(Some(name), Vec::new())),
        Step::Apply(id, store(Some(name), vec![StoredBlock::new(ExternalSequenceHash::new(2), local(1))])),
        Step::RemoveWorker(id.worker),
    ]
}

/// Puts what is sorted from the root into another order.
fn arrange<T>(sorted: &mut [T], order: Order) {
    match order {
        Order::HeadFirst => {}
        Order::TailFirst => sorted.reverse(),
        Order::Shuffled(seed) => Rng::new(seed).shuffle(sorted),
    }
}
