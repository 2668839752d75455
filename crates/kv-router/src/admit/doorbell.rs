//! From the load tracker, which knows that load fell, to the bell.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use kv_router_load::LoadListener;
use kv_router_types::WorkerRank;

use super::{Lobby, ring_for_news};
use crate::core::Core;

/// Rings when load falls. Made before the router that it rings for.
#[derive(Default)]
pub(crate) struct Doorbell {
    core: OnceLock<Weak<Core>>,
    /// How many keep it from ringing now. They ring for it afterwards.
    hushed: AtomicUsize,
    /// Somebody rang meanwhile.
    rang: AtomicBool,
}

/// Keeps a doorbell from ringing: for whoever makes load fall under a lock, where nobody may be served.
pub(crate) struct Hush<'a>(&'a Doorbell);

impl Doorbell {
    pub(crate) fn connect(&self, core: &Arc<Core>) {
        let _ = self.core.set(Arc::downgrade(core));
    }

    pub(crate) fn hush(&self) -> Hush<'_> {
        self.hushed.fetch_add(1, Ordering::SeqCst);
        Hush(self)
    }
}

impl Hush<'_> {
    /// Lets it ring again. Tells whether the caller has to ring now, with no lock held.
    #[must_use]
    pub(crate) fn end(self) -> bool {
        let doorbell = self.0;
        drop(self);
        doorbell.rang.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Hush<'_> {
    fn drop(&mut self) {
        self.0.hushed.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LoadListener for Doorbell {
    fn load_fell(&self, rank: WorkerRank) {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
        let Some(lobby) = core.lobby.as_ref().filter(|lobby| !Lobby::is_empty(lobby)) else { return };
        lobby.news.lock().load_fell(rank);
        // First that it rang, then whether it may: sequentially consistent, as in `Hush::end`. So either this thread sees
        // that nobody hushes any more, or the last who did sees that it rang.
        if self.hushed.load(Ordering::SeqCst) > 0 {
            self.rang.store(true, Ordering::SeqCst);
            if self.hushed.load(Ordering::SeqCst) > 0 || !self.rang.swap(false, Ordering::SeqCst) {
                return;
            }
        }
        ring_for_news(&core);
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").finish_non_exhaustive()
    }
}
