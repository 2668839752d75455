//! Indexes that are wrong on purpose, each in one way that an index in the field was: the suite must reject
//! them all.
//!
//! A mutant is the oracle with one fault planted around it, and as quiet about it as can be: where it can, it
//! reports what a right index would report.

use kv_router_index::conformance::Suite;
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Oracle,
    Overlap, Overlaps, PrefixIndex,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// None: the frame alone must pass.
    None,
    /// A jump over this many blocks takes an equal number of holders for the same holders.
    CountsHolders { jump: usize },
    /// A store whose parent is not known is attached to the root, though it reports the error.
    AttachesOrphans,
    /// A removal in the middle of a chain drops what hangs behind.
    DropsBehindHoles,
    /// A refilled hole counts, but what hangs behind it is passed over until it is stored again.
    StopsAtRefills,
    /// A head that is stored again is not noticed.
    StopsAtRefilledHeads,
    /// A block without its device copy is gone.
    DropsLowerTiers,
    /// Every copy counts as one on the device.
    FilesEverythingUnderDevice,
    /// One of several names of a block takes it along.
    DropsTwins,
    /// The old place of a name that moved is still held.
    KeepsMovedNames,
    /// One unknown name stops a removal.
    StopsAtUnknownNames,
    /// A clear spares the lower tiers.
    ClearsDeviceAlone,
    /// A clear of an unknown rank leaves something behind.
    LeaksOnClear,
    /// A removed worker keeps its second rank.
    RemovesFirstRankAlone,
    /// Early exit says that it is exact.
    HidesEarlyExit,
    /// Early exit stops while two are left.
    ExitsTooEarly,
    /// The dump closes holes.
    DumpsHolesAsHeld,
    /// The dump leaves out all tiers but the best.
    DumpsBestTierAlone,
}

/// The oracle with a fault.
struct Mutant {
    fault: Fault,
    inner: Oracle,
    /// What the fault still counts though it should not, or no longer though it should.
    extra: Vec<(WorkerRank, Vec<LocalBlockHash>)>,
    leaked: usize,
}

impl Mutant {
    fn new(fault: Fault) -> Self {
        Self { fault, inner: Oracle::new(), extra: Vec::new(), leaked: 0 }
    }

    /// An exact overlap, cut to its first `blocks` blocks.
    fn cut(&self, overlap: Overlap, query: &[LocalBlockHash], blocks: u32) -> Overlap {
        let short = self.inner.find(&query[..blocks as usize]);
        short.get(overlap.worker()).unwrap_or(overlap)
    }

    /// Skips `jump` blocks at a time while the number of holders stays what it was.
    fn count_holders(&self, query: &[LocalBlockHash], jump: usize, out: &mut Overlaps) {
        let holders = |len: usize| {
            let holds = |rank: &WorkerRank| !self.inner.tiers_at(*rank, &query[..len]).is_empty();
            self.inner.ranks().filter(holds).collect::<Vec<_>>()
        };
        let exact = self.inner.find(query);
        let mut live: Vec<_> = if query.is_empty() { Vec::new() } else { holders(1) };
        let mut reached = Vec::new();
        let mut at = 1;
        while at < query.len() && !live.is_empty() {
            let next = (at + jump).min(query.len());
            if holders(next).len() != live.len() {
                let (stay, leave): (Vec<_>, Vec<_>) =
                    live.into_iter().partition(|&rank| exact.blocks(rank) as usize >= next);
                reached.extend(leave.into_iter().filter_map(|rank| exact.get(rank)));
                live = stay;
            }
            at = next;
        }
        for rank in live {
            match exact.get(rank) {
                Some(overlap) if overlap.blocks() as usize == query.len() => reached.push(overlap),
                _ => reached.push(Overlap::on_device(rank, query.len() as u32)),
            }
        }
        reached.sort_by_key(|overlap| overlap.blocks());
        reached.into_iter().for_each(|overlap| out.push(overlap));
    }
}

impl PrefixIndex for Mutant {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        let exact = self.inner.find(query);
        out.begin(query.len(), Certainty::Exact);
        let mut overlaps: Vec<Overlap> = exact.iter().collect();
        overlaps.reverse();
        match self.fault {
            Fault::CountsHolders { jump } => return self.count_holders(query, jump, out),
            Fault::StopsAtRefills | Fault::StopsAtRefilledHeads => {
                for overlap in &mut overlaps {
                    let cut = self
                        .extra
                        .iter()
                        .filter(|(rank, path)| *rank == overlap.worker() && query.starts_with(path));
                    if let Some(cut) = cut.map(|(_, path)| path.len() as u32).min()
                        && cut < overlap.blocks()
                    {
                        *overlap = self.cut(*overlap, query, cut);
                    }
                }
            }
            Fault::KeepsMovedNames => {
                for overlap in &mut overlaps {
                    let next = overlap.blocks() as usize + 1;
                    let stays = |(rank, path): &(WorkerRank, Vec<LocalBlockHash>)| {
                        *rank == overlap.worker() && query.get(..next) == Some(path)
                    };
                    if self.extra.iter().any(stays) {
                        let mut by_tier = overlap.by_tier();
                        by_tier[Tier::Device.index()] += 1;
                        *overlap = Overlap::new(overlap.worker(), by_tier);
                    }
                }
            }
            Fault::FilesEverythingUnderDevice => {
                overlaps =
                    overlaps.iter().map(|each| Overlap::on_device(each.worker(), each.blocks())).collect();
            }
            Fault::HidesEarlyExit | Fault::ExitsTooEarly if options.early_exit => {
                let [.., second, deepest] = overlaps.as_mut_slice() else {
                    overlaps.into_iter().for_each(|overlap| out.push(overlap));
                    return;
                };
                let stop = match self.fault {
                    Fault::HidesEarlyExit => second.blocks() + 1,
                    _ => {
                        out.mark_lower_bound();
                        second.blocks()
                    }
                };
                if stop < deepest.blocks() {
                    *deepest = self.cut(*deepest, query, stop);
                }
            }
            _ => {}
        }
        overlaps.sort_by_key(|overlap| overlap.blocks());
        overlaps.into_iter().for_each(|overlap| out.push(overlap));
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ApplyEvents for Mutant {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let before = self.inner.clone();
        let result = self.inner.apply(from, event);
        match event {
            KvEvent::Stored { tier, blocks, .. } => self.after_store(from, &before, *tier, blocks, &result),
            KvEvent::Removed { tier, blocks } => self.after_removal(from, &before, *tier, blocks),
            KvEvent::Cleared => self.after_clear(from, &before),
        }
        result
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let before = self.inner.clone();
        let applied = self.inner.remove_worker(worker);
        if self.fault == Fault::RemovesFirstRankAlone {
            self.inner = before;
            let first = self.inner.ranks().find(|rank| rank.worker == worker);
            first.into_iter().for_each(|first| self.apply_silently(first, &KvEvent::Cleared));
        }
        applied
    }
}

/// Plants the fault once the oracle has done the right thing.
impl Mutant {
    fn after_store(
        &mut self,
        from: WorkerRank,
        before: &Oracle,
        tier: Tier,
        blocks: &[StoredBlock],
        result: &Result<Applied, ApplyError>,
    ) {
        match (self.fault, result) {
            (Fault::AttachesOrphans, Err(ApplyError::UnknownParent { .. })) => {
                let orphan = KvEvent::Stored { tier, parent: None, blocks: blocks.to_vec() };
                self.apply_silently(from, &orphan);
            }
            (Fault::StopsAtRefills | Fault::StopsAtRefilledHeads, Ok(_)) => {
                for block in blocks {
                    let path = path(&self.inner, from, block.external);
                    let is_hole = before.tiers_at(from, &path).is_empty()
                        && before
                            .names(from)
                            .any(|(name, _)| is_behind(&self::path(before, from, name), &path));
                    if is_hole && (self.fault == Fault::StopsAtRefills || path.len() == 1) {
                        self.extra.push((from, path));
                    }
                }
            }
            (Fault::KeepsMovedNames, Ok(_)) => {
                for block in blocks {
                    let old = path(before, from, block.external);
                    let moved = !old.is_empty() && old != path(&self.inner, from, block.external);
                    if moved && self.inner.tiers_at(from, &old).is_empty() {
                        self.extra.push((from, old));
                    }
                }
            }
            _ => {}
        }
    }

    fn after_removal(
        &mut self,
        from: WorkerRank,
        before: &Oracle,
        tier: Tier,
        names: &[ExternalSequenceHash],
    ) {
        let places = names.iter().map(|&name| path(before, from, name)).filter(|place| !place.is_empty());
        match self.fault {
            Fault::DropsBehindHoles => {
                for place in places {
                    if self.inner.tiers_at(from, &place).is_empty() {
                        self.drop_names(from, |path| is_behind(path, &place));
                    }
                }
            }
            Fault::DropsLowerTiers if tier == Tier::Device => {
                places.for_each(|place| self.drop_names(from, |path| path == place));
            }
            Fault::DropsTwins => {
                for place in places {
                    let has = |&(name, _): &(_, _)| path(before, from, name) == place;
                    if before.names(from).filter(has).count() > 1 {
                        self.drop_names(from, |path| path == place);
                    }
                }
            }
            Fault::StopsAtUnknownNames => {
                let is_known = |name: &&ExternalSequenceHash| {
                    before.names(from).any(|(held, tiers)| held == **name && tiers.contains(tier))
                };
                let blocks = names.iter().take_while(is_known).copied().collect();
                self.inner = before.clone();
                self.apply_silently(from, &KvEvent::Removed { tier, blocks });
            }
            _ => {}
        }
    }

    fn after_clear(&mut self, from: WorkerRank, before: &Oracle) {
        match self.fault {
            Fault::ClearsDeviceAlone => {
                self.inner = before.clone();
                let blocks = before.names(from).map(|(name, _)| name).collect();
                self.apply_silently(from, &KvEvent::Removed { tier: Tier::Device, blocks });
            }
            Fault::LeaksOnClear => self.leaked += usize::from(before.names(from).next().is_none()),
            _ => {}
        }
    }

    /// What the index reports stays what the right one reported.
    fn apply_silently(&mut self, from: WorkerRank, event: &KvEvent) {
        let _ = self.inner.apply(from, event);
    }

    fn drop_names(&mut self, rank: WorkerRank, is_unwanted: impl Fn(&[LocalBlockHash]) -> bool) {
        let names: Vec<_> = self.inner.names(rank).collect();
        for (name, tiers) in names {
            if is_unwanted(&path(&self.inner, rank, name)) {
                for tier in tiers.iter() {
                    self.apply_silently(rank, &KvEvent::Removed { tier, blocks: vec![name] });
                }
            }
        }
    }
}

/// Where a name is; empty when it is not held.
fn path(oracle: &Oracle, rank: WorkerRank, name: ExternalSequenceHash) -> Vec<LocalBlockHash> {
    oracle.path(rank, name).unwrap_or_default()
}

fn is_behind(path: &[LocalBlockHash], place: &[LocalBlockHash]) -> bool {
    path.len() > place.len() && path.starts_with(place)
}

impl DumpEvents for Mutant {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.inner.dump(&mut |rank, event| match (self.fault, &event) {
            (Fault::DumpsHolesAsHeld, KvEvent::Removed { .. }) => {}
            (Fault::DumpsBestTierAlone, KvEvent::Stored { tier, blocks, .. })
                if self
                    .inner
                    .names(rank)
                    .any(|(name, tiers)| name == blocks[0].external && tiers.best() != Some(*tier)) => {}
            _ => emit(rank, event),
        });
    }
}

impl Inspect for Mutant {
    fn occupancy(&self) -> Occupancy {
        let mut occupancy = self.inner.occupancy();
        occupancy.side_entries += self.leaked;
        occupancy
    }
}

#[track_caller]
fn is_rejected(fault: Fault) {
    let suite = Suite::new(|| Mutant::new(fault));
    let found = suite.search(1000).expect_err("the suite must reject this index");
    let history = found.history.as_ref().expect("a history that it gets wrong");
    assert!(history.ops.len() <= 6, "{fault:?} is not shrunk to what matters: {found}");
}

macro_rules! rejects {
    ($($name:ident: $fault:expr,)*) => {
        $(
            #[test]
            fn $name() {
                is_rejected($fault);
            }
        )*
    };
}

rejects! {
    counting_holders_one_by_one: Fault::CountsHolders { jump: 1 },
    counting_holders_over_a_jump: Fault::CountsHolders { jump: 4 },
    attaching_orphans: Fault::AttachesOrphans,
    dropping_what_is_behind_a_hole: Fault::DropsBehindHoles,
    stopping_at_a_refilled_hole: Fault::StopsAtRefills,
    stopping_at_a_refilled_head: Fault::StopsAtRefilledHeads,
    dropping_lower_tiers: Fault::DropsLowerTiers,
    filing_everything_under_device: Fault::FilesEverythingUnderDevice,
    dropping_twins: Fault::DropsTwins,
    keeping_moved_names: Fault::KeepsMovedNames,
    stopping_at_unknown_names: Fault::StopsAtUnknownNames,
    clearing_the_device_alone: Fault::ClearsDeviceAlone,
    leaking_on_clear: Fault::LeaksOnClear,
    removing_one_rank_of_a_worker: Fault::RemovesFirstRankAlone,
    hiding_an_early_exit: Fault::HidesEarlyExit,
    exiting_while_two_are_left: Fault::ExitsTooEarly,
    dumping_holes_as_held: Fault::DumpsHolesAsHeld,
    dumping_the_best_tier_alone: Fault::DumpsBestTierAlone,
}

#[test]
fn the_frame_without_a_fault_passes() {
    let suite = Suite::new(|| Mutant::new(Fault::None)).with_a_node_per_place();
    suite.run_examples();
    suite.search(100).unwrap();
}

#[test]
fn the_examples_alone_reject_the_classic_faults() {
    for fault in [
        Fault::CountsHolders { jump: 4 },
        Fault::AttachesOrphans,
        Fault::DropsBehindHoles,
        Fault::StopsAtRefills,
        Fault::StopsAtRefilledHeads,
        Fault::DropsLowerTiers,
        Fault::DropsTwins,
        Fault::KeepsMovedNames,
        Fault::StopsAtUnknownNames,
        Fault::ClearsDeviceAlone,
        Fault::LeaksOnClear,
    ] {
        let suite = Suite::new(|| Mutant::new(fault));
        assert!(suite.check_examples().is_err(), "{fault:?}");
    }
}
