//! What a store calls its blocks: the two ways behind one walk.

use kv_router_types::StoredBlock;

use super::Lane;
use crate::paged::id::{BlockId, BlockRun};
use crate::paged::names::Place;

/// The names of a store, one a block.
pub(super) trait Calls {
    /// All of them, in order.
    fn names(&self) -> impl Iterator<Item = u64>;

    /// What to remember by that the chain ends in the last one.
    fn tail(&self) -> Option<u64>;

    /// Names `count` blocks from `place` on, none of which has a name; `done` blocks of the store come before them. All
    /// are on the device, and every name of the store is new.
    fn name_plain(&self, lane: &mut Lane, place: Place, done: usize, count: usize);
}

/// By the engine's names.
pub(super) struct ByName<'a>(pub(super) &'a [StoredBlock]);

impl Calls for ByName<'_> {
    fn names(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|block| block.external.get())
    }

    #[inline]
    fn tail(&self) -> Option<u64> {
        self.0.last().map(|block| block.external.get())
    }

    #[inline(always)]
    fn name_plain(&self, lane: &mut Lane, mut place: Place, done: usize, count: usize) {
        lane.records[place.record()].name_plain(place.offset(), &self.0[done..done + count]);
        for &seat in &lane.seats[done..done + count] {
            lane.names.settle(seat, place);
            place = place.after(1);
        }
    }
}

/// What to remember by that a chain ends in a block. Its next block has the same most of the time, so that looking there
/// and noting what is there now take one line of memory.
#[inline]
pub(super) fn tail(id: BlockId) -> u64 {
    u64::from(id.get() / 16)
}

/// By numbers.
pub(super) struct ById<'a>(pub(super) &'a [BlockRun]);

impl Calls for ById<'_> {
    fn names(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|run| run.ids()).map(|id| u64::from(id.get()))
    }

    #[inline]
    fn tail(&self) -> Option<u64> {
        let last = self.0.iter().rfind(|run| !run.is_empty())?;
        Some(tail(BlockId::new((last.end() - 1) as u32)))
    }

    #[inline(always)]
    fn name_plain(&self, lane: &mut Lane, place: Place, done: usize, count: usize) {
        let Some(ids) = &mut lane.ids else { return };
        // Before the first block, then of those that are named now.
        let (mut skip, mut named) = (done, 0);
        for run in self.0 {
            let len = run.len() as usize;
            if skip >= len {
                skip -= len;
                continue;
            }
            let here = (len - skip).min(count - named);
            ids.set_run(run.first().get() + skip as u32, place.after(named), here);
            (skip, named) = (0, named + here);
            if named == count {
                break;
            }
        }
    }
}
