//! loom's types under the names and signatures of those that ship.
//!
//! A lock that is poisoned here means that a model has failed already, so the poison is passed over.

use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use loom::sync::MutexGuard;
pub(crate) use loom::sync::atomic;

/// `parking_lot::Mutex`, modelled.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// Its guard. In an option, because loom's condition takes a guard by value and gives it back.
pub(crate) struct Guard<'a, T>(Option<MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> std::ops::Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("taken only while waiting")
    }
}

impl<T> std::ops::DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("taken only while waiting")
    }
}

/// `parking_lot::Condvar`, modelled. loom has no time: a wait with a limit never reaches it.
#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar);

/// How a wait with a limit ended.
pub(crate) struct Waited;

impl Waited {
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        if let Some(inner) = guard.0.take() {
            guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, _: Duration) -> Waited {
        self.wait(guard);
        Waited
    }
}
