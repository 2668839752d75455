//! Requests that wait for a worker with room.
//!
//! Nothing here has a thread. Whoever opens a way (by dropping a booking, reporting progress, sweeping, adding a worker,
//! ending a session, catching up with events) rings the bell, and one of those who ring goes through the queue: it
//! decides without any lock, takes the request out and books it under the lock of the queue, and leaves the decision in
//! the slot of its ticket.

mod bell;
mod doorbell;
mod news;
mod owned;
mod serve;
mod slot;
mod ticket;

#[cfg(all(test, kv_router_loom))]
mod models;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kv_router_index::{FindOptions, Overlaps};
use kv_router_schedule::{
    CustomRules, Queue, QueueConfig, QueueConfigError, QueueKey, QueueStats, SelectError, Shortage, Waiting,
};
use parking_lot::Mutex;

use crate::core::Core;
use crate::{AdmitError, Decision, RouteError, RouteRequest};
use bell::Bell;
pub(crate) use doorbell::Doorbell;
use news::News;
use owned::{Company, OwnedConstraints, OwnedRequest};
pub(crate) use serve::{ring, ring_all, ring_for_news, ring_for_sessions};
use slot::Slot;
pub use ticket::Ticket;

/// What comes of a request that was admitted.
type Outcome = Result<Decision, AdmitError>;

/// A request that waits, shared by its ticket and whoever decides on it.
#[derive(Debug)]
struct Pending {
    request: OwnedRequest,
    slot: Slot<Outcome>,
}

/// Those who wait.
#[derive(Debug)]
pub(crate) struct Lobby {
    queue: Mutex<Queue<Arc<OwnedConstraints>, Arc<Pending>>>,
    bell: Bell,
    /// What the next walk has to look at. A leaf: no other lock is taken under it.
    news: Mutex<News>,
    /// Numbers those who come, for those of them who are of a class of their own.
    next_number: AtomicU64,
}

impl Lobby {
    pub(crate) fn new(config: QueueConfig) -> Result<Self, QueueConfigError> {
        let queue = Mutex::new(Queue::new(config)?);
        Ok(Self { queue, bell: Bell::new(), news: Mutex::default(), next_number: AtomicU64::new(0) })
    }

    pub(crate) fn stats(&self) -> QueueStats {
        self.queue.lock().stats()
    }

    fn is_empty(&self) -> bool {
        self.stats().waiting == 0
    }

    /// Takes a request out that nobody waits for any more. `false` when it was served first.
    fn cancel(&self, key: QueueKey) -> bool {
        let cancelled = self.queue.lock().cancel(key);
        cancelled.is_some()
    }
}

/// Admits a request: decides at once while nobody waits, and lets it wait otherwise.
pub(crate) fn admit(core: &Arc<Core>, request: &RouteRequest<'_>) -> Result<Ticket, AdmitError> {
    let Some(lobby) = &core.lobby else { return Ok(Ticket::ready(core.route(request)?)) };
    if lobby.is_empty() {
        match core.route(request) {
            Err(error) if is_load(&error) => {}
            outcome => return Ok(Ticket::ready(outcome?)),
        }
    }
    let (owned, uncached_tokens) = core.with_room(|room| -> Result<_, RouteError> {
        core.hash(request, room)?;
        core.index.find_into(&room.prompt, FindOptions::new(), &mut room.overlaps);
        core.predictor.find_into(room.prompt.locals(), core.clock.now(), &mut room.guesses);
        let best = |found: &Overlaps| found.best().map_or(0, |overlap| u64::from(overlap.blocks()));
        let cached = best(&room.overlaps).max(best(&room.guesses));
        let cached = cached * u64::from(core.config.scheme.block_size().get());
        let uncached = (request.prompt_tokens() as u64).saturating_sub(cached);
        let has_filters = core.selector.custom().is_some_and(CustomRules::has_filters);
        let company = if has_filters { Company::Alone } else { Company::WithItsLike };
        let number = lobby.next_number.fetch_add(1, Ordering::Relaxed);
        Ok((OwnedRequest::new(request, room.locals(), number, company), uncached))
    })?;
    let class = owned.class();
    let pending = Arc::new(Pending { request: owned, slot: Slot::new() });
    let ask = Waiting { class, uncached_tokens, priority: request.priority, deadline: request.deadline };
    let now = core.clock.now();
    let pushed = lobby.queue.lock().push(Arc::clone(&pending), ask, now);
    let key = pushed.map_err(|refused| AdmitError::Queue(refused.reason))?;
    // Room may have come up between the decision and here, or this one is the first that fits.
    lobby.news.lock().arrived(key);
    // Before the ring: should code of others panic in the walk, the request must not wait without anybody.
    let ticket = Ticket::waiting(Arc::clone(core), key, pending);
    ring_for_news(core);
    Ok(ticket)
}

/// Whether custom rules had a part in that a request cannot go: what keeps it back need not keep back those who can go
/// to the same places.
fn is_its_own(error: &RouteError) -> bool {
    match error {
        RouteError::Select(
            SelectError::MustWait { excluded, .. } | SelectError::NoEligibleWorker { excluded, .. },
        ) => excluded.bad_score > 0 || excluded.refused > 0,
        _ => false,
    }
}

/// Whether an error goes away when load falls.
fn is_load(error: &RouteError) -> bool {
    matches!(
        error,
        RouteError::Select(
            SelectError::MustWait { .. } | SelectError::NoEligibleWorker { shortage: Shortage::AllBusy, .. }
        )
    )
}
