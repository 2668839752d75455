//! What a lookup must check once it has walked.

use kv_router_types::{Tier, WorkerRank};

use crate::Overlap;

/// Buffers of a concurrent lookup. Emptied by each; kept, so that it allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Who had each slot when the walk began, and the stamp of then. Only entries of this walk's candidates
    /// count.
    pub(super) began: Vec<Option<(WorkerRank, u64)>>,
    /// What the walk found: slots with their blocks by tier, shallowest first.
    pub(super) found: Vec<(u32, [u32; Tier::COUNT])>,
    /// Ranks that changed while they were looked at, so that what was found of them means nothing.
    pub(super) unsettled: Vec<(u32, WorkerRank)>,
    /// Results that stand.
    pub(super) settled: Vec<Overlap>,
}

impl Watch {
    /// Notes who had a slot when the walk began. `began` is the field: the walk has the others in use.
    #[inline]
    pub(super) fn note(began: &mut Vec<Option<(WorkerRank, u64)>>, slot: u32, id: WorkerRank, stamp: u64) {
        let slot = slot as usize;
        if slot >= began.len() {
            began.resize(slot + 1, None);
        }
        began[slot] = Some((id, stamp));
    }

    /// Takes a result back, so that the rank is looked at again.
    pub(super) fn unsettle(&mut self, slot: u32) {
        let Some((id, _)) = self.began[slot as usize] else { return };
        if let Some(at) = self.settled.iter().rposition(|overlap| overlap.worker() == id) {
            self.settled.remove(at);
            self.unsettled.push((slot, id));
        }
    }
}
