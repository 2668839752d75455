//! loom's types under the names and signatures of those that ship.
//!
//! A lock that is poisoned here means that a model has failed already, so the poison is passed over.

use std::fmt;
use std::sync::PoisonError;

use loom::sync::atomic::{AtomicBool, Ordering};
pub(crate) use loom::sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use super::Panicked;

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

    /// loom's, with every access in a place of its own in the order of things.
    ///
    /// loom remembers only the last access to an atomic. A thread that loads a word before it stores to it thereby
    /// hides from loom that others have loaded it before, and the interleavings in which they load it afterwards are
    /// never tried. So each access first touches a second atomic by an exchange that must fail: loom takes it for a
    /// conflict with every other, and it has no effect on what threads see.
    #[derive(Debug, Default)]
    pub(crate) struct AtomicU64 {
        value: loom::sync::atomic::AtomicU64,
        turn: AtomicBool,
    }

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self { value: loom::sync::atomic::AtomicU64::new(value), turn: AtomicBool::new(false) }
        }

        fn turn(&self) {
            let taken = self.turn.compare_exchange(true, true, Ordering::Relaxed, Ordering::Relaxed);
            assert!(taken.is_err(), "nobody sets it");
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.turn();
            self.value.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.turn();
            self.value.store(value, order);
        }

        pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.value.fetch_add(value, order)
        }

        /// The newest value: an exchange that fails reads no other.
        fn newest(&self) -> u64 {
            self.turn();
            let impossible = u64::MAX;
            self.value
                .compare_exchange(impossible, impossible, Ordering::Relaxed, Ordering::Relaxed)
                .unwrap_or_else(|newest| newest)
        }

        fn exchange(&self, before: u64, after: u64) -> bool {
            self.turn();
            self.value.compare_exchange(before, after, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }

        /// Sets a bit that is a lock, once it is clear. An old value would only have us try again, so none is read.
        pub(super) fn lock_bit(&self, bit: u64) -> u64 {
            loop {
                let before = self.newest();
                if before & bit == 0 && self.exchange(before, before | bit) {
                    return before;
                }
                loom::thread::yield_now();
            }
        }
    }
}

pub(crate) mod thread {
    pub(crate) use loom::thread::JoinHandle;

    use std::io;

    /// Starts a thread of the model. loom refuses names.
    pub(crate) fn spawn(_: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        Ok(loom::thread::spawn(run))
    }
}

/// A lock that this thread holds. loom finds deadlocks itself, so ranks are not checked here.
pub(crate) struct Held(());

impl Held {
    pub(crate) fn enter(_: usize, _: usize) -> Self {
        Self(())
    }

    pub(crate) fn leave(&self, _: usize) {}
}

/// Runs `act`. A panic ends the model: it may be the very failure that the model looks for.
pub(crate) fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    Ok(act())
}

/// `parking_lot::Mutex`, modelled.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// `parking_lot::RwLock`, modelled.
pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

/// `std::sync::OnceLock`, modelled: who finds the value sees all that was done to make it.
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
    making: Mutex<()>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false), making: Mutex::new(()) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _making = self.making.lock();
        let value = self.value.get_or_init(make);
        self.is_set.store(true, Ordering::Release);
        value
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// See the one that ships.
pub(crate) fn lock_bit(word: &atomic::AtomicU64, bit: u64) -> u64 {
    word.lock_bit(bit)
}

/// A bounded channel of many senders and one receiver, from a lock and two conditions.
pub(crate) mod channel {
    use std::collections::VecDeque;
    use std::fmt;
    use std::sync::PoisonError;

    use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

    struct Shared<T> {
        state: Mutex<State<T>>,
        changed: Condvar,
    }

    struct State<T> {
        queue: VecDeque<T>,
        capacity: usize,
        senders: usize,
        receives: bool,
    }

    impl<T> Shared<T> {
        fn lock(&self) -> MutexGuard<'_, State<T>> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
            self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
        }
    }

    pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let state = State { queue: VecDeque::new(), capacity, senders: 1, receives: true };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        (Sender(Arc::clone(&shared)), Receiver(shared))
    }

    pub(crate) enum TrySendError<T> {
        Full(T),
        Disconnected(T),
    }

    pub(crate) struct SendError<T>(pub(crate) T);

    pub(crate) struct Sender<T>(Arc<Shared<T>>);

    impl<T> Sender<T> {
        pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
            let mut state = self.0.lock();
            if !state.receives {
                return Err(TrySendError::Disconnected(message));
            }
            if state.queue.len() == state.capacity {
                return Err(TrySendError::Full(message));
            }
            state.queue.push_back(message);
            self.0.changed.notify_all();
            Ok(())
        }

        pub(crate) fn send(&self, message: T) -> Result<(), SendError<T>> {
            let mut state = self.0.lock();
            while state.receives && state.queue.len() == state.capacity {
                state = self.0.wait(state);
            }
            if !state.receives {
                return Err(SendError(message));
            }
            state.queue.push_back(message);
            self.0.changed.notify_all();
            Ok(())
        }

        pub(crate) fn len(&self) -> usize {
            self.0.lock().queue.len()
        }
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            self.0.lock().senders += 1;
            Self(Arc::clone(&self.0))
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.0.lock().senders -= 1;
            self.0.changed.notify_all();
        }
    }

    impl<T> fmt::Debug for Sender<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Sender").finish_non_exhaustive()
        }
    }

    pub(crate) struct RecvError;

    pub(crate) struct Receiver<T>(Arc<Shared<T>>);

    impl<T> Receiver<T> {
        pub(crate) fn recv(&self) -> Result<T, RecvError> {
            let mut state = self.0.lock();
            loop {
                if let Some(message) = state.queue.pop_front() {
                    self.0.changed.notify_all();
                    return Ok(message);
                }
                if state.senders == 0 {
                    return Err(RecvError);
                }
                state = self.0.wait(state);
            }
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            let left = {
                let mut state = self.0.lock();
                state.receives = false;
                std::mem::take(&mut state.queue)
            };
            drop(left);
            self.0.changed.notify_all();
        }
    }
}
