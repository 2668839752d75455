//! The caller's side of a request that waits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kv_router_schedule::QueueKey;

use super::{Outcome, Pending};
use crate::core::Core;
use crate::{AdmitError, Decision};

/// A request that was admitted by [`Router::admit`](crate::Router::admit), and its [`Decision`] as soon as there is one.
///
/// A plain thread calls [`wait`](Self::wait). A task awaits it, under any runtime: it is woken by the thread that made
/// the decision. Dropping it cancels the request: one that waits is never booked, one that was just decided gives its
/// booking back.
///
/// A deadline ends the wait of a thread on time. A task learns of it when load falls next, or at the next
/// [`Router::expire_idle`](crate::Router::expire_idle), because nothing here has a timer.
#[must_use = "dropping a ticket cancels the request"]
pub struct Ticket(Option<State>);

enum State {
    Ready(Box<Decision>),
    Waiting { core: Arc<Core>, key: QueueKey, pending: Arc<Pending> },
}

impl Ticket {
    pub(super) fn ready(decision: Decision) -> Self {
        Self(Some(State::Ready(Box::new(decision))))
    }

    pub(super) fn waiting(core: Arc<Core>, key: QueueKey, pending: Arc<Pending>) -> Self {
        Self(Some(State::Waiting { core, key, pending }))
    }

    /// The decision, if there is one by now.
    ///
    /// # Errors
    ///
    /// The ticket itself, to wait on, while there is none.
    pub fn try_take(mut self) -> Result<Result<Decision, AdmitError>, Self> {
        match self.0.take() {
            Some(State::Ready(decision)) => Ok(Ok(*decision)),
            Some(State::Waiting { core, key, pending }) => match pending.slot.try_take() {
                Some(outcome) => Ok(outcome),
                None => Err(Self::waiting(core, key, pending)),
            },
            None => Err(self),
        }
    }

    /// Blocks this thread until there is a decision, or the deadline of the request has passed.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]; nothing is booked then.
    pub fn wait(mut self) -> Result<Decision, AdmitError> {
        match self.0.take() {
            Some(State::Ready(decision)) => Ok(*decision),
            Some(State::Waiting { core, key, pending }) => wait(&core, key, &pending),
            // Only a future that has been polled to its end is empty, and that cannot be waited for by value.
            None => Err(AdmitError::DeadlinePassed),
        }
    }
}

fn wait(core: &Core, key: QueueKey, pending: &Pending) -> Outcome {
    loop {
        let deadline = pending.request.deadline;
        let patience = deadline.map(|deadline| deadline.saturating_duration_since(core.clock.now()));
        if let Some(outcome) = pending.slot.wait_take(patience) {
            return outcome;
        }
        let is_over = deadline.is_some_and(|deadline| deadline <= core.clock.now());
        // Whoever cannot cancel any more has been served: the decision is on its way.
        if is_over && core.lobby.as_ref().is_some_and(|lobby| lobby.cancel(key)) {
            return Err(AdmitError::DeadlinePassed);
        }
        if is_over && let Some(outcome) = pending.slot.wait_take(None) {
            return outcome;
        }
    }
}

impl Future for Ticket {
    type Output = Result<Decision, AdmitError>;

    /// # Panics
    ///
    /// Never; polled again after it was ready, it stays pending.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.take() {
            Some(State::Ready(decision)) => Poll::Ready(Ok(*decision)),
            Some(State::Waiting { core, key, pending }) => match pending.slot.poll_take(context) {
                Poll::Ready(outcome) => Poll::Ready(outcome),
                Poll::Pending => {
                    self.0 = Some(State::Waiting { core, key, pending });
                    Poll::Pending
                }
            },
            None => Poll::Pending,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // What was decided already goes with the slot.
        if let Some(State::Waiting { core, key, .. }) = &self.0
            && let Some(lobby) = &core.lobby
        {
            lobby.cancel(*key);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.0 {
            Some(State::Ready(_)) => "ready",
            Some(State::Waiting { .. }) => "waiting",
            None => "taken",
        };
        f.debug_tuple("Ticket").field(&state).finish()
    }
}
