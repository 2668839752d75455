//! Where one thread leaves a value for another that waits, on the spot or in a future.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// A value that comes later, once.
///
/// Whoever fills it does not care how it is waited for, and whoever waits may change its mind: a future that is polled
/// from another task is woken there.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { value: None, waker: None }), filled: Condvar::new() }
    }

    /// Leaves the value and wakes who waits. The caller's code that wakes a task runs after the lock.
    pub(crate) fn fill(&self, value: T) {
        let mut state = self.state.lock();
        state.value = Some(value);
        let waker = state.waker.take();
        drop(state);
        self.filled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the value if it is there.
    pub(crate) fn try_take(&self) -> Option<T> {
        self.state.lock().value.take()
    }

    /// Takes the value, or leaves word whom to wake.
    ///
    /// The caller's code that copies or drops a waker runs without the lock: the last waker of a task that was given up
    /// drops all that the task had, and that may fill this very slot.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<T> {
        let mut state = self.state.lock();
        if let Some(value) = state.value.take() {
            return Poll::Ready(value);
        }
        if state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        drop(state);
        let waker = context.waker().clone();
        let mut state = self.state.lock();
        if let Some(value) = state.value.take() {
            drop(state); // before the waker
            return Poll::Ready(value);
        }
        let stale = state.waker.replace(waker);
        drop(state);
        drop(stale);
        Poll::Pending
    }

    /// Takes the value, waiting for it as long as `patience` says. `None` when it did not come.
    pub(crate) fn wait_take(&self, patience: Option<Duration>) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(value) = state.value.take() {
                return Some(value);
            }
            match patience {
                None => self.filled.wait(&mut state),
                Some(patience) => {
                    if self.filled.wait_for(&mut state, patience).timed_out() {
                        return state.value.take();
                    }
                }
            }
        }
    }
}
