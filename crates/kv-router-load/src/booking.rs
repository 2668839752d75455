//! The guard of one request.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kv_router_types::{RequestId, WorkerRank};

use crate::WorkerLoad;
use crate::requests::{Request, RequestKey};
use crate::shard::Trend;
use crate::shared::Shared;

/// Whether a booking still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookingState {
    /// The request is part of its rank's load.
    Held,
    /// The request is no longer counted: it expired, was released by its id, or its rank was removed. Reports
    /// about it change nothing. If it is still running somewhere, book it again.
    Gone,
}

/// Keeps one request in the load of its worker rank. Dropping it gives the load back, whatever happened to the
/// request; so does [`release`](Self::release), by name.
///
/// Keep it until the response is complete, cancelled or failed. It may be moved or shared between threads, and it
/// may outlive its rank and the [`LoadTracker`](crate::LoadTracker) handle that made it.
///
/// Every report counts as activity and costs one lock, held for a few additions. Reports with a time before that
/// of an earlier one are fine: the latest counts.
#[must_use = "dropping a booking takes the request out of the load at once"]
pub struct Booking {
    shared: Arc<Shared>,
    worker: WorkerRank,
    request: Option<RequestId>,
    key: RequestKey,
}

impl Booking {
    pub(crate) fn new(
        shared: Arc<Shared>,
        worker: WorkerRank,
        request: Option<RequestId>,
        key: RequestKey,
    ) -> Self {
        Self { shared, worker, request, key }
    }

    /// The rank that carries the request.
    pub fn worker(&self) -> WorkerRank {
        self.worker
    }

    /// The id under which it was booked.
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// The prompt has been computed: its tokens no longer count, its blocks do until release. Again is harmless.
    pub fn prefill_completed(&self, now: Instant) -> BookingState {
        self.report(now, end_prefill)
    }

    /// The output fills `total` blocks by now. Output never shrinks: a smaller number, from a report that was
    /// overtaken, is activity and nothing else.
    ///
    /// Output means that the prefill is over, also when nobody said so.
    pub fn set_output_blocks(&self, total: u32, now: Instant) -> BookingState {
        self.report(now, |request, load| raise_output(request, load, total))
    }

    /// The output fills `blocks` more blocks than before. See [`set_output_blocks`](Self::set_output_blocks),
    /// which is the better choice when a report may arrive twice.
    pub fn grow_output(&self, blocks: u32, now: Instant) -> BookingState {
        self.report(now, |request, load| {
            raise_output(request, load, request.output_blocks.saturating_add(blocks));
        })
    }

    /// The request is alive: a token came, or a heartbeat.
    pub fn touch(&self, now: Instant) -> BookingState {
        self.report(now, |_, _| ())
    }

    /// How far another replica says that its request has come. What it said before may arrive later: prefill only
    /// falls, output only grows.
    pub(crate) fn set_progress(&self, prefill_tokens: u64, output_blocks: u32, now: Instant) -> BookingState {
        self.report(now, |request, load| {
            let fewer = prefill_tokens.min(request.prefill_tokens);
            load.prefill_tokens -= request.prefill_tokens - fewer;
            request.prefill_tokens = fewer;
            raise_output(request, load, output_blocks);
        })
    }

    /// Gives the load back now. Same as dropping, for code that wants to say so.
    pub fn release(self) {}

    fn report(&self, now: Instant, change: impl FnOnce(&mut Request, &mut WorkerLoad)) -> BookingState {
        let mut shard = self.shared.shard(self.worker).write();
        let trend = shard.progress(self.key, now, change);
        if let (Some(Trend::Fell | Trend::Rose), Some(request)) = (trend, shard.request(self.key)) {
            self.shared.note_progress(self.worker, self.key, request);
        }
        drop(shard);
        if trend == Some(Trend::Fell) {
            self.shared.tell(self.worker);
        }
        if trend.is_some() { BookingState::Held } else { BookingState::Gone }
    }
}

fn end_prefill(request: &mut Request, load: &mut WorkerLoad) {
    load.prefill_tokens -= std::mem::take(&mut request.prefill_tokens);
}

fn raise_output(request: &mut Request, load: &mut WorkerLoad, total: u32) {
    if total > request.output_blocks {
        load.blocks += u64::from(total - request.output_blocks);
        request.output_blocks = total;
        end_prefill(request, load);
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        self.shared.free(self.worker, self.key);
    }
}

impl fmt::Debug for Booking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Booking")
            .field("worker", &self.worker)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
