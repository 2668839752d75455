//! Writes one rank's part of a trie as events, in runs, parents first, without recursion.

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, TierSet};
use rustc_hash::FxHashMap;

/// The longest event that a dump emits, in blocks: keeps frames and buffers of those who carry a dump small.
const MAX_RUN: usize = 1024;

/// A place in a trie, whatever an index uses to name one.
pub(crate) type PlaceId = u32;

/// One name of the rank: its place, the name, and the tiers that have a copy.
pub(crate) type Held = (PlaceId, ExternalSequenceHash, TierSet);

/// Emits events that rebuild what one rank holds.
///
/// `held` lists its names in any order and is left sorted; `up` gives the place before a place (`None` at the
/// root) and the local hash that leads from there.
///
/// Every place that the rank holds, or that leads to one, is stored once under one name: the rank's own, or
/// one that it does not use where it has a hole. Then come the copies in other tiers and the further names;
/// then the names in the holes are removed.
pub(crate) fn dump_rank(
    held: &mut [Held],
    up: impl Fn(PlaceId) -> (Option<PlaceId>, LocalBlockHash),
    emit: &mut dyn FnMut(KvEvent),
) {
    held.sort_unstable_by_key(|&(place, name, _)| (place, name));
    let mut dump = Dump { up, known: FxHashMap::default(), emit };
    let holes = dump.store_places(held);
    for tier in Tier::ALL {
        dump.store_further_copies(held, tier);
    }
    for (tier, names) in holes {
        for blocks in names.chunks(MAX_RUN) {
            (dump.emit)(KvEvent::Removed { tier, blocks: blocks.to_vec() });
        }
    }
}

struct Dump<'a, Up> {
    up: Up,
    /// The name under which each place has been stored: it serves as parent.
    known: FxHashMap<PlaceId, ExternalSequenceHash>,
    emit: &'a mut dyn FnMut(KvEvent),
}

impl<Up: Fn(PlaceId) -> (Option<PlaceId>, LocalBlockHash)> Dump<'_, Up> {
    /// Stores every place that is needed; gives back the names in the holes, by tier.
    fn store_places(&mut self, held: &[Held]) -> [(Tier, Vec<ExternalSequenceHash>); Tier::COUNT] {
        let mut holes = Tier::ALL.map(|tier| (tier, Vec::new()));
        let mut unused = unused_names(held);
        let mut trail = Vec::new();
        // Backwards, since children tend to have higher ids: the climb from one then passes a whole run.
        for &(place, ..) in held.iter().rev() {
            let mut next = Some(place);
            while let Some(at) = next.filter(|at| !self.known.contains_key(at)) {
                trail.push(at);
                next = (self.up)(at).0;
            }
            let mut run = Run::under(next.map(|at| self.known[&at]));
            while let Some(at) = trail.pop() {
                let (name, tier) = match own_name(held, at) {
                    Some((name, tiers)) => (name, tiers.best().unwrap_or(Tier::Device)),
                    None => {
                        let name = unused.next().unwrap_or_default();
                        holes[run.tier.index()].1.push(name);
                        (name, run.tier)
                    }
                };
                self.known.insert(at, name);
                self.push(&mut run, tier, StoredBlock::new(name, (self.up)(at).1));
            }
            self.flush(&mut run);
        }
        holes
    }

    /// Stores the copies in `tier` that [`store_places`](Self::store_places) has not.
    fn store_further_copies(&mut self, held: &[Held], tier: Tier) {
        let mut missing = FxHashMap::default();
        for &(place, name, tiers) in held.iter().filter(|(.., tiers)| tiers.contains(tier)) {
            if self.known[&place] != name {
                let (parent, local) = (self.up)(place);
                let mut run = Run::under(parent.map(|parent| self.known[&parent]));
                self.push(&mut run, tier, StoredBlock::new(name, local));
                self.flush(&mut run);
            } else if tiers.best() != Some(tier) {
                missing.insert(place, name);
            }
        }
        let mut trail = Vec::new();
        for &(place, ..) in held.iter().rev() {
            let mut next = Some(place);
            while let Some((at, name)) = next.and_then(|at| missing.remove_entry(&at)) {
                trail.push((at, name));
                next = (self.up)(at).0;
            }
            let mut run = Run::under(next.map(|at| self.known[&at]));
            while let Some((at, name)) = trail.pop() {
                self.push(&mut run, tier, StoredBlock::new(name, (self.up)(at).1));
            }
            self.flush(&mut run);
        }
    }

    fn push(&mut self, run: &mut Run, tier: Tier, block: StoredBlock) {
        if run.tier != tier || run.blocks.len() == MAX_RUN {
            self.flush(run);
        }
        run.tier = tier;
        run.blocks.push(block);
    }

    fn flush(&mut self, run: &mut Run) {
        if let Some(last) = run.blocks.last() {
            let parent = run.parent.replace(last.external);
            let blocks = std::mem::take(&mut run.blocks);
            (self.emit)(KvEvent::Stored { tier: run.tier, parent, blocks });
        }
    }
}

/// A store event in the making.
struct Run {
    parent: Option<ExternalSequenceHash>,
    tier: Tier,
    blocks: Vec<StoredBlock>,
}

impl Run {
    fn under(parent: Option<ExternalSequenceHash>) -> Self {
        Self { parent, tier: Tier::Device, blocks: Vec::new() }
    }
}

/// The name that stands for a held place: its lowest.
fn own_name(held: &[Held], place: PlaceId) -> Option<(ExternalSequenceHash, TierSet)> {
    let at = held.partition_point(|&(other, ..)| other < place);
    held.get(at).filter(|&&(other, ..)| other == place).map(|&(_, name, tiers)| (name, tiers))
}

/// Names that the rank does not use, from the highest down: engines that count, count up.
fn unused_names(held: &[Held]) -> impl Iterator<Item = ExternalSequenceHash> {
    let mut used: Vec<_> = held.iter().map(|&(_, name, _)| name).collect();
    used.sort_unstable();
    let mut next = Some(u64::MAX);
    std::iter::from_fn(move || {
        loop {
            let raw = next?;
            let name = ExternalSequenceHash::new(raw);
            next = raw.checked_sub(1);
            while used.pop_if(|used| *used > name).is_some() {}
            if used.last() != Some(&name) {
                return Some(name);
            }
        }
    })
}
