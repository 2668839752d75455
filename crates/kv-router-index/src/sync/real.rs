//! What ships.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

pub(crate) use std::sync::{Arc, OnceLock};

pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Panicked;
use super::rank::ROSTER;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
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

/// Sets a bit that is a lock, once it is clear. Gives the word before; whoever stores one without the bit unlocks.
#[inline]
pub(crate) fn lock_bit(word: &atomic::AtomicU64, bit: u64) -> u64 {
    use atomic::Ordering::{Acquire, Relaxed};
    let mut attempt = 0;
    loop {
        let before = word.load(Relaxed);
        if before & bit == 0 && word.compare_exchange_weak(before, before | bit, Acquire, Relaxed).is_ok() {
            return before;
        }
        // A holder that was preempted needs this CPU more than we do.
        if attempt < 32 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        attempt += 1;
    }
}

/// A lock that this thread holds, by its rank. Checked in debug builds, nothing at all in others.
pub(crate) struct Held(());

impl Held {
    /// The thread is about to take a lock of a rank of which it may hold `most`.
    ///
    /// # Panics
    ///
    /// In debug builds, when it holds a lock of a higher rank, or as many of this one: that can deadlock.
    pub(crate) fn enter(rank: usize, most: usize) -> Self {
        if cfg!(debug_assertions) {
            HELD.with(|held| {
                let mut counts = held.get();
                let higher = counts[rank + 1..].iter().any(|&count| count > 0);
                assert!(
                    !higher && counts[rank] < most,
                    "out of lock order: rank {rank} while {counts:?} are held"
                );
                counts[rank] += 1;
                held.set(counts);
            });
        }
        Self(())
    }

    pub(crate) fn leave(&self, rank: usize) {
        if cfg!(debug_assertions) {
            HELD.with(|held| {
                let mut counts = held.get();
                counts[rank] -= 1;
                held.set(counts);
            });
        }
    }
}

/// How many ranks there are.
const RANKS: usize = ROSTER + 1;

thread_local! {
    /// Locks that this thread holds, by rank.
    static HELD: Cell<[usize; RANKS]> = const { Cell::new([0; RANKS]) };
}

/// Runs `act` and stops a panic in it.
///
/// The caller answers for whatever `act` left half done; locks of this module do not poison.
pub(crate) fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    panic::catch_unwind(AssertUnwindSafe(act)).map_err(|_| Panicked)
}
