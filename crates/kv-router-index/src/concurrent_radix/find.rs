//! The tree: overlaps out.

use std::mem;

use kv_router_types::{LocalBlockHash, Tier, WorkerRank};

use super::ConcurrentRadixTree;
use super::stamps::is_changing;
use super::watch::Watch;
use crate::candidates::Candidates;
use crate::rank_set::Word;
use crate::{Certainty, FindOptions, Overlap, Overlaps, PrefixIndex};

/// Walks that hope for the best: one for all ranks, one for those that changed meanwhile.
const WALKS: usize = 2;

/// When a walk ends before its query does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    NobodyIsLeft,
    OneIsLeft,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// All found is complete.
    Complete,
    /// One rank was left, and the walk did not look how much deeper it goes. It was found last.
    Early,
}

/// Lookups track no uses.
impl PrefixIndex for ConcurrentRadixTree {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        out.begin(query.len(), Certainty::Exact);
        let mut scratch = mem::take(&mut out.scratch);
        let mut watch = mem::take(&mut out.watch);
        let until = if options.early_exit { Until::OneIsLeft } else { Until::NobodyIsLeft };
        if self.look_up(query, until, &mut scratch.candidates, &mut watch) == End::Early {
            out.mark_lower_bound();
        }
        watch.settled.drain(..).for_each(|overlap| out.push(overlap));
        (out.scratch, out.watch) = (scratch, watch);
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ConcurrentRadixTree {
    /// Leaves the results in `watch.settled`, shallowest first.
    fn look_up(
        &self,
        query: &[LocalBlockHash],
        until: Until,
        candidates: &mut Candidates,
        watch: &mut Watch,
    ) -> End {
        watch.settled.clear();
        watch.unsettled.clear();
        let end = self.walk_all(query, until, candidates, watch);
        if watch.unsettled.is_empty() {
            return end;
        }
        if end == End::Early
            && let Some(deepest) = watch.found.last().map(|&(slot, _)| slot)
        {
            // Among those that changed there may be a deeper one, and a lower bound must be the deepest.
            watch.unsettle(deepest);
        }
        for _ in 1..WALKS {
            if !watch.unsettled.is_empty() {
                self.walk_unsettled(query, candidates, watch);
            }
        }
        for (_, id) in mem::take(&mut watch.unsettled) {
            self.walk_locked(query, id, candidates, watch);
        }
        watch.settled.sort_unstable_by_key(|overlap| overlap.blocks());
        End::Complete
    }

    /// Looks at every rank.
    fn walk_all(
        &self,
        query: &[LocalBlockHash],
        until: Until,
        candidates: &mut Candidates,
        watch: &mut Watch,
    ) -> End {
        self.walk_watched(query, until, candidates, watch, |_, _| true)
    }

    /// Looks again at the ranks that changed last time, in full.
    fn walk_unsettled(&self, query: &[LocalBlockHash], candidates: &mut Candidates, watch: &mut Watch) {
        let mut again = mem::take(&mut watch.unsettled);
        again.sort_unstable();
        // A rank that is no longer where it was has left meanwhile, even if it came back: 0 is right for it.
        let wanted = |slot, id| again.binary_search(&(slot, id)).is_ok();
        self.walk_watched(query, Until::NobodyIsLeft, candidates, watch, wanted);
    }

    /// Looks at one rank while none of its events can be under way.
    fn walk_locked(
        &self,
        query: &[LocalBlockHash],
        id: WorkerRank,
        candidates: &mut Candidates,
        watch: &mut Watch,
    ) {
        // A rank that is not there, or that has retired since, holds nothing.
        let Some(rank) = self.rank(id) else { return };
        let names = rank.names.read();
        if names.retired {
            return;
        }
        let only = Word::of(rank.slot);
        let keep = |word: &mut Word| {
            word.bits &= if word.index == only.index { only.bits } else { 0 };
        };
        watch.found.clear();
        // With the names still locked: this walk is not checked afterwards.
        self.walk(query, Until::NobodyIsLeft, candidates, &mut watch.found, keep);
        watch.settled.extend(watch.found.iter().map(|&(_, by_tier)| Overlap::new(id, by_tier)));
    }

    /// Walks with the ranks that are wanted, and sorts what it found into settled and unsettled.
    fn walk_watched(
        &self,
        query: &[LocalBlockHash],
        until: Until,
        candidates: &mut Candidates,
        watch: &mut Watch,
        wanted: impl Fn(u32, WorkerRank) -> bool,
    ) -> End {
        let Watch { began, found, unsettled, settled } = watch;
        found.clear();
        let keep = |word: &mut Word| {
            let roster = self.roster.read();
            for slot in Word::slots(word.index, word.bits) {
                // A slot in use has an owner and a stamp.
                let (Some(id), Some(stamp)) = (roster.id(slot), roster.stamp(slot)) else { continue };
                if !wanted(slot, id) {
                    word.bits &= !Word::of(slot).bits;
                } else if is_changing(stamp) {
                    word.bits &= !Word::of(slot).bits;
                    unsettled.push((slot, id));
                } else {
                    Watch::note(began, slot, id, stamp);
                }
            }
        };
        let end = self.walk(query, until, candidates, found, keep);

        let roster = self.roster.read();
        for &(slot, by_tier) in &*found {
            let Some((id, stamp)) = began[slot as usize] else { continue };
            if roster.stamp(slot) == Some(stamp) {
                settled.push(Overlap::new(id, by_tier));
            } else {
                unsettled.push((slot, id));
            }
        }
        end
    }

    /// Walks down the query while somebody is left, of those holders of the first block whose bits `keep`
    /// leaves on.
    ///
    /// `keep` runs under the lock of the first node.
    fn walk(
        &self,
        query: &[LocalBlockHash],
        until: Until,
        candidates: &mut Candidates,
        found: &mut Vec<(u32, [u32; Tier::COUNT])>,
        mut keep: impl FnMut(&mut Word),
    ) -> End {
        let mut end = End::Complete;
        let mut next = query.first().and_then(|&first| self.root.child(first));
        let mut depth = 0;
        while let Some(node) = next {
            // One node at a time: the lock goes before the next is taken. Should the next be freed in
            // between, it is empty when we come, which is what it was at that time.
            let state = node.read();
            if depth == 0 {
                candidates.begin_with(&state.holders, &mut keep);
            } else {
                candidates.narrow(&state.holders, depth, |slot, by_tier| found.push((slot, by_tier)));
            }
            if candidates.is_empty() {
                break;
            }
            depth += 1;
            next = query.get(depth as usize).and_then(|&local| state.child(local)).cloned();
            if until == Until::OneIsLeft && next.is_some() && candidates.is_single() {
                end = End::Early;
                break;
            }
        }
        candidates.finish(depth, |slot, by_tier| found.push((slot, by_tier)));
        end
    }
}
