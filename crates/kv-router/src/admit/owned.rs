//! Requests that outlive the call that brought them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use kv_router_schedule::{Constraints, Pin, SessionId, Stickiness, Taint, WorkerSet};
use kv_router_types::{LocalBlockHash, RequestId, WorkerRank};

use crate::RouteRequest;
use crate::core::Core;
use crate::request::Content;

/// [`Constraints`] that borrow nothing. Ordered, so that those who can go to the same places are of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedConstraints {
    allow: Option<WorkerSet>,
    pin: Option<Pin>,
    required: Vec<Taint>,
    preferred: Vec<Taint>,
    adapter: Option<Arc<str>>,
    /// A session that is stuck to its rank constrains like a pin.
    strict_session: Option<SessionId>,
    /// The number of a request that is of a class of its own. Under custom filters everybody is: what they make of a
    /// request is theirs to know. Under custom scorers whoever they would not let go somewhere is.
    alone: Option<u64>,
}

/// Whom a request waits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// With those who can go to the same places.
    WithItsLike,
    /// With nobody.
    Alone,
}

impl OwnedConstraints {
    /// `None` when they do not constrain.
    fn new(request: &RouteRequest<'_>, alone: Option<u64>) -> Option<Self> {
        let constraints = &request.constraints;
        let strict = request.session.filter(|&(_, stickiness)| stickiness == Stickiness::Strict);
        let Constraints { allow, pin, required_taints, preferred_taints, adapter } = *constraints;
        let owned = Self {
            allow: allow.cloned(),
            pin,
            required: required_taints.to_vec(),
            preferred: preferred_taints.to_vec(),
            adapter: adapter.map(Arc::from),
            strict_session: strict.map(|(session, _)| session),
            alone,
        };
        (*constraints != Constraints::default() || strict.is_some() || alone.is_some()).then_some(owned)
    }

    fn borrow(&self) -> Constraints<'_> {
        Constraints {
            allow: self.allow.as_ref(),
            pin: self.pin,
            required_taints: &self.required,
            preferred_taints: &self.preferred,
            adapter: self.adapter.as_deref(),
        }
    }
}

/// A [`RouteRequest`] that borrows nothing. Its prompt is hashed.
#[derive(Debug)]
pub(super) struct OwnedRequest {
    /// No other request that waits has it.
    number: u64,
    locals: Box<[LocalBlockHash]>,
    tokens: usize,
    id: Option<RequestId>,
    constraints: Option<Arc<OwnedConstraints>>,
    explain: bool,
    pub(super) deadline: Option<Instant>,
    attempt: u32,
    session: Option<(SessionId, Stickiness)>,
}

impl OwnedRequest {
    /// `number` is one that no other request has.
    pub(super) fn new(
        request: &RouteRequest<'_>,
        locals: &[LocalBlockHash],
        number: u64,
        company: Company,
    ) -> Self {
        let alone = (company == Company::Alone).then_some(number);
        Self {
            number,
            locals: locals.into(),
            tokens: request.prompt_tokens(),
            id: request.id,
            constraints: OwnedConstraints::new(request, alone).map(Arc::new),
            explain: request.explain,
            deadline: request.deadline,
            attempt: request.attempt,
            session: request.session,
        }
    }

    /// Where it can go, for the queue.
    pub(super) fn class(&self) -> Option<Arc<OwnedConstraints>> {
        self.constraints.clone()
    }

    /// The class of those who can go where it can, and are none but itself.
    pub(super) fn class_alone(&self) -> Option<Arc<OwnedConstraints>> {
        let constraints = self.constraints.as_deref().cloned().unwrap_or_default();
        Some(Arc::new(OwnedConstraints { alone: Some(self.number), ..constraints }))
    }

    /// Whether it is stuck to one of these sessions.
    pub(super) fn is_stuck_to(&self, sessions: &BTreeSet<SessionId>) -> bool {
        let session = self.constraints.as_ref().and_then(|constraints| constraints.strict_session);
        session.is_some_and(|session| sessions.contains(&session))
    }

    /// Whether a rank may be one that it can go to. Errs on the side of yes: taints, adapters and load are left to the
    /// decision, which looks at thousands of ranks where this looks at one.
    pub(super) fn may_go(&self, rank: WorkerRank, core: &Core) -> bool {
        let Some(constraints) = &self.constraints else { return true };
        let bound = || {
            let session = constraints.strict_session?;
            let bound = core.sessions.get(session, core.clock.now())?;
            // As in a decision: a rank that is gone, of which gossip may still tell, binds nobody.
            core.fleet().get(bound).map(|rank| rank.id)
        };
        constraints.allow.as_ref().is_none_or(|allow| allow.contains(rank.worker))
            && constraints.pin.is_none_or(|pin| pin.admits(rank))
            && bound().is_none_or(|bound| bound == rank)
    }

    pub(super) fn borrow(&self) -> RouteRequest<'_> {
        let content = Content::Hashed { locals: &self.locals, tokens: self.tokens };
        let constraints = self.constraints.as_deref().map(OwnedConstraints::borrow).unwrap_or_default();
        RouteRequest {
            id: self.id,
            constraints,
            explain: self.explain,
            attempt: self.attempt,
            session: self.session,
            ..RouteRequest::new(content)
        }
    }
}
