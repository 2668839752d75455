//! A rank whose batches are put in order by somebody else, who says when to forget it and what it holds instead.
//!
//! The rank's own sequence machine stays: it knows the place in the stream, for snapshots, and whether the state is
//! whole. It has no source of its own, so it never waits; that somebody else does is told it.

use std::sync::Arc;

use kv_router_transport::{Action, Standing, Watermark};
use kv_router_types::{KvEvent, WorkerRank};
use parking_lot::MutexGuard;

use crate::fleet::Rank;
use crate::ingest::{EventCounters, Heard, Stream, settle};
use crate::{EventSource, Router};

impl Router {
    /// Forgets what a rank holds. The next batch of it is the first that is heard of it.
    pub(super) fn forget_rank(&self, id: WorkerRank) {
        let now = self.core.clock.now(); // the caller's code, so not under a lock of ours
        self.with_lane(id, |rank, mut stream| {
            let lane = &mut *stream;
            lane.actions.clear();
            lane.order.forget(now, &mut lane.actions);
            lane.actions.clear(); // to forget, which is done here
            // A clear is never refused.
            let _ = self.core.index.apply(id, &KvEvent::Cleared);
            settle(&self.core, rank, stream, Heard::Nothing);
        });
    }

    /// Puts a state in the place of what a rank holds. `false` when the rank does not take it from here.
    pub(super) fn replace_rank(&self, id: WorkerRank, watermark: Watermark, events: &[KvEvent]) -> bool {
        let now = self.core.clock.now(); // the caller's code, so not under a lock of ours
        self.with_lane(id, |rank, mut stream| {
            if stream.is_stale(watermark.incarnation) || !stream.order.takes(watermark) {
                return false;
            }
            let mut counters = EventCounters::default();
            let _ = self.core.index.apply(id, &KvEvent::Cleared);
            let lane = &mut *stream;
            lane.actions.clear();
            // The state may be older than what it replaces: what came since comes again, and is no repetition.
            lane.order.forget(now, &mut lane.actions);
            lane.actions.clear();
            lane.order.restored(now, watermark, &mut lane.actions);
            let is_newer = !lane.actions.iter().any(|action| matches!(action, Action::Forget(_)));
            lane.actions.clear();
            if is_newer {
                for event in events {
                    counters.record(self.core.index.apply(id, event));
                }
            }
            if counters.refused() > 0 {
                lane.order.mark_suspect();
            }
            lane.counters.add(&counters);
            settle(&self.core, rank, stream, Heard::Nothing);
            is_newer
        })
        .unwrap_or(false)
    }

    /// Takes over how a rank stands with whoever orders its batches. That it is recovering is known to nobody else.
    pub(super) fn set_standing(&self, id: WorkerRank, standing: Standing) {
        self.with_lane(id, |rank, mut stream| {
            stream.is_awaiting = standing == Standing::Recovering;
            settle(&self.core, rank, stream, Heard::Nothing);
        });
    }

    /// `None` for a rank that is not there, that is guessed, or that an engine's stream feeds.
    fn with_lane<R>(
        &self,
        id: WorkerRank,
        work: impl FnOnce(&Arc<Rank>, MutexGuard<'_, Stream>) -> R,
    ) -> Option<R> {
        let fleet = self.core.fleet();
        let rank = fleet.get(id).filter(|rank| rank.events == EventSource::On)?;
        let stream = rank.stream.lock();
        (!stream.is_closed() && stream.engine.is_none()).then(|| work(rank, stream))
    }
}
