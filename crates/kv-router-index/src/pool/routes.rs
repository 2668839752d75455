//! Which thread a worker belongs to.

use std::collections::hash_map::Entry;

use kv_router_types::WorkerId;
use rustc_hash::FxHashMap;

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Ordered, rank};

/// The workers that hold something or have messages pending, each with its thread.
pub(super) struct Routes(Ordered<{ rank::ROUTES }, Table>);

struct Table {
    routes: FxHashMap<WorkerId, Arc<Route>>,
    /// Workers by thread.
    workers: Vec<usize>,
}

/// Where the messages of one worker go.
pub(super) struct Route {
    worker: WorkerId,
    pub(super) thread: usize,
    /// Messages that were claimed and are not settled. Raised under the lock of the table.
    pending: AtomicUsize,
    /// Whether the worker may hold something. Written by its thread alone, before it settles the message.
    holds: AtomicBool,
}

impl Route {
    /// Notes whether the worker may hold something once the present message has been settled.
    pub(super) fn set_holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0 && !self.holds.load(Ordering::Relaxed)
    }
}

impl Routes {
    pub(super) fn new(threads: usize) -> Self {
        Self(Ordered::new(Table { routes: FxHashMap::default(), workers: vec![0; threads] }))
    }

    /// Workers by thread.
    pub(super) fn workers(&self) -> Vec<usize> {
        self.0.read().workers.clone()
    }

    /// The route of a worker, for one message that is to be settled. A new worker goes to the thread with the
    /// fewest.
    pub(super) fn claim(&self, worker: WorkerId) -> Arc<Route> {
        {
            let table = self.0.read();
            if let Some(route) = table.routes.get(&worker) {
                route.pending.fetch_add(1, Ordering::Relaxed);
                return Arc::clone(route);
            }
        }
        let mut table = self.0.write();
        let Table { routes, workers } = &mut *table;
        let route = match routes.entry(worker) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let fewest = workers.iter().enumerate().min_by_key(|&(_, count)| count);
                let thread = fewest.map_or(0, |(thread, _)| thread);
                workers[thread] += 1;
                let (pending, holds) = (AtomicUsize::new(0), AtomicBool::new(false));
                entry.insert(Arc::new(Route { worker, thread, pending, holds }))
            }
        };
        route.pending.fetch_add(1, Ordering::Relaxed);
        Arc::clone(route)
    }

    /// A message has been applied, or was never sent. Forgets a worker that holds nothing and has none left.
    pub(super) fn settle(&self, route: &Arc<Route>) {
        // Whoever settles last sees what the worker's thread noted before it settled.
        if route.pending.fetch_sub(1, Ordering::AcqRel) > 1 || route.holds.load(Ordering::Relaxed) {
            return;
        }
        let mut table = self.0.write();
        // Looked at again: before the lock, another message may have been claimed.
        if route.is_idle() && table.routes.get(&route.worker).is_some_and(|known| Arc::ptr_eq(known, route)) {
            table.routes.remove(&route.worker);
            table.workers[route.thread] -= 1;
            if table.routes.capacity() > 64 && table.routes.len() * 8 < table.routes.capacity() {
                let keep = table.routes.len() * 2;
                table.routes.shrink_to(keep);
            }
        }
    }
}
