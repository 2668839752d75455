//! What ships.

use std::panic::{self, AssertUnwindSafe};

pub(crate) use std::sync::Arc;

pub(crate) use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::Panicked;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

pub(crate) mod channel {
    pub(crate) use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
}

pub(crate) mod thread {
    pub(crate) use std::thread::JoinHandle;

    use std::io;

    /// Starts a named thread.
    pub(crate) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name).spawn(run)
    }
}

/// Runs `act` and stops a panic in it.
///
/// The caller answers for whatever `act` left half done; locks of this module do not poison.
pub(crate) fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    panic::catch_unwind(AssertUnwindSafe(act)).map_err(|_| Panicked)
}
