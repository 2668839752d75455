//! Atomics, locks and shared pointers of this index come from here, so that a model checker can stand in for them.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Arc, OnceLock};

pub(super) use parking_lot::{Mutex, MutexGuard, RwLock};

/// Waits a little for a lock bit. A holder that was preempted needs this CPU more than we do.
pub(super) fn relax(attempt: u32) {
    if attempt < 32 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
