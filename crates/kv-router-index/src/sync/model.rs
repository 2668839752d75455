//! loom's types under the names and signatures of those that ship.
//!
//! A lock that is poisoned here means that a model has failed already, so the poison is passed over.

use std::fmt;
use std::sync::PoisonError;

use loom::sync::MutexGuard;
pub(crate) use loom::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

use super::Panicked;

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
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

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
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
