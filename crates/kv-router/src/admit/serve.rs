//! The walks through those who wait.
//!
//! A walk runs code of others: wakers, custom rules, the clock. A panic of theirs comes out of the call that began the
//! walk, after the walk: it must cost nobody else the room that has come up, nor the rings of other threads.

use std::any::Any;
use std::ops::ControlFlow::{self, Break, Continue};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use kv_router_load::BookError;
use kv_router_schedule::{Pass, QueueKey, SessionId};
use kv_router_types::WorkerRank;

use super::news::News;
use super::owned::OwnedConstraints;
use super::{Lobby, Outcome, Pending, is_its_own, is_load};
use crate::core::Core;
use crate::{AdmitError, Decision, RouteError};

/// Says that anybody who waits may be able to go. Must not be called with a lock held.
pub(crate) fn ring(core: &Core) {
    if let Some(lobby) = &core.lobby {
        lobby.news.lock().is_general = true;
        ring_for_news(core);
    }
}

/// Says that sessions are no longer bound where they were: who is stuck to them may have another way. Must not be called
/// with a lock held.
pub(crate) fn ring_for_sessions(core: &Core, loosened: impl IntoIterator<Item = Option<SessionId>>) {
    let mut loosened = loosened.into_iter().flatten().peekable();
    if loosened.peek().is_some()
        && let Some(lobby) = core.lobby.as_ref().filter(|lobby| !Lobby::is_empty(lobby))
    {
        lobby.news.lock().loosened(loosened);
        ring_for_news(core);
    }
}

/// The same as [`ring`], where somebody may wait for what has gone: everybody is looked at, not only those who can go on.
pub(crate) fn ring_all(core: &Core) {
    if let Some(lobby) = &core.lobby {
        lobby.news.lock().is_thorough = true;
        ring_for_news(core);
    }
}

/// Has those tried whom the news concern that were noted before. Must not be called with a lock held.
pub(crate) fn ring_for_news(core: &Core) {
    let Some(lobby) = &core.lobby else { return };
    let mut panics = Panics(None);
    lobby.bell.ring(|| {
        let mut walk = Walk {
            core,
            lobby,
            pass: Pass::new(),
            news: News::default(),
            may_restart: true,
            panics: &mut panics,
        };
        // What is left to panic here is the clock: whoever rings next begins anew, with the news that this walk took.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| walk.run())) {
            lobby.news.lock().merge(walk.news);
            panics.keep(panic);
        }
    });
    panics.resume();
}

/// The first panic of others, kept until it can do no harm.
struct Panics(Option<Box<dyn Any + Send>>);

impl Panics {
    fn keep(&mut self, panic: Box<dyn Any + Send>) {
        self.0.get_or_insert(panic);
    }

    /// Runs code of others. `None` when it panicked.
    fn catch<R>(&mut self, work: impl FnOnce() -> R) -> Option<R> {
        // No state of ours is left half changed: such code runs between our steps, not amid them.
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| self.keep(panic)).ok()
    }

    /// Lets it go on, unless this thread unwinds already: a booking that a panic drops rings too, and a second panic
    /// would abort the process.
    fn resume(self) {
        if let Some(panic) = self.0
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

/// One walk through the queue.
struct Walk<'a> {
    core: &'a Core,
    lobby: &'a Lobby,
    pass: Pass<Arc<OwnedConstraints>>,
    news: News,
    /// Whether somebody was served since the walk began anew. Without that, those who ring could keep a walk among its
    /// first for ever.
    may_restart: bool,
    panics: &'a mut Panics,
}

impl Walk<'_> {
    fn begin(&mut self) {
        let later = std::mem::take(&mut *self.lobby.news.lock());
        self.news.merge(later);
        self.pass = if self.news.is_thorough { Pass::thorough() } else { Pass::new() };
    }

    fn run(&mut self) {
        let (core, lobby) = (self.core, self.lobby);
        self.begin();
        loop {
            let now = core.clock.now(); // the caller's code, so not under a lock
            let mut queue = lobby.queue.lock();
            if let Some((_, late)) = queue.expire(now) {
                drop(queue);
                self.fill(&late, Err(AdmitError::DeadlinePassed));
                continue;
            }
            let next = queue.next(&mut self.pass, now).map(|(key, next)| (key, Arc::clone(next)));
            drop(queue);
            let Some((key, pending)) = next else { break };
            // Room may have come up for somebody overdue who was tried in vain. He must have it before a younger one.
            if self.may_restart && self.pass.has_passed_over_overdue() && lobby.bell.take_ring() {
                self.may_restart = false;
                self.begin();
                continue;
            }
            if !self.concerns(key, &pending) {
                lobby.queue.lock().block(&mut self.pass, key);
                continue;
            }
            self.news.arrivals.remove(&key);
            match self.panics.catch(|| dispatch(core, lobby, key, &pending)) {
                Some(Ok(Continue(decision))) => {
                    self.may_restart = true;
                    self.fill(&pending, Ok(decision));
                }
                Some(Ok(Break(Cancelled))) => {}
                Some(Err(error)) if !is_load(&error) || !lobby.queue.lock().contains(key) => {
                    let taken = lobby.queue.lock().take(key);
                    drop(taken);
                    self.fill(&pending, Err(AdmitError::Route(error)));
                }
                Some(Err(error)) => {
                    let mut queue = lobby.queue.lock();
                    if is_its_own(&error) {
                        queue.set_class(key, pending.request.class_alone());
                    }
                    queue.block(&mut self.pass, key);
                }
                // It would most likely panic again, in every walk, before whoever is behind it is tried.
                None => {
                    let taken = lobby.queue.lock().take(key);
                    drop(taken);
                    self.fill(&pending, Err(AdmitError::Panicked));
                }
            }
        }
        self.keep_untried();
    }

    /// Whether anything has happened that may let a request go which could not go before.
    fn concerns(&self, key: QueueKey, pending: &Pending) -> bool {
        let News { is_general, is_thorough, ranks, sessions, arrivals } = &self.news;
        let may_go = |rank: &WorkerRank| pending.request.may_go(*rank, self.core);
        *is_general
            || *is_thorough
            || arrivals.contains(&key)
            || pending.request.is_stuck_to(sessions)
            || ranks.iter().any(may_go)
    }

    /// Those who came, and stand behind somebody who is blocked, have still to be tried once.
    fn keep_untried(&mut self) {
        let mut arrivals = std::mem::take(&mut self.news.arrivals);
        if !arrivals.is_empty() {
            let queue = self.lobby.queue.lock();
            arrivals.retain(|&key| queue.contains(key));
            drop(queue);
            self.lobby.news.lock().merge(News { arrivals, ..News::default() });
        }
    }

    /// Wakes who waits.
    fn fill(&mut self, pending: &Pending, outcome: Outcome) {
        self.panics.catch(|| pending.slot.fill(outcome));
    }
}

/// Amid the decision, by who waited for it.
struct Cancelled;

/// Decides on a request that waits. It is booked, and does not wait any more, or it is as it was.
fn dispatch(
    core: &Core,
    lobby: &Lobby,
    key: QueueKey,
    pending: &Pending,
) -> Result<ControlFlow<Cancelled, Decision>, RouteError> {
    core.place(&pending.request.borrow(), |worker, demand, now, is_current| {
        let mut queue = lobby.queue.lock();
        if !queue.contains(key) {
            return Ok(Break(Cancelled));
        }
        let booking = core.load.book(worker, demand, now)?;
        if !is_current() {
            // Giving the booking back rings, and whoever rings looks into the queue.
            drop(queue);
            drop(booking);
            return Err(BookError::UnknownRank { worker });
        }
        queue.take(key);
        Ok(Continue(booking))
    })
}
