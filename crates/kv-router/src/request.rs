//! What a gateway asks.

use std::time::Instant;

use kv_router_hash::Prompt;
use kv_router_schedule::{Constraints, SessionId, Stickiness};
use kv_router_types::{LocalBlockHash, RequestId};

/// One request to be routed. Borrows its prompt; nothing is copied.
///
/// ```
/// use kv_router::{RequestId, RouteRequest};
///
/// let tokens: Vec<u32> = (0..64).collect();
/// let request = RouteRequest::from_tokens(&tokens).id(RequestId::new(42)).explained();
/// assert_eq!(request.prompt_tokens(), 64);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RouteRequest<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) id: Option<RequestId>,
    pub(crate) constraints: Constraints<'a>,
    pub(crate) explain: bool,
    pub(crate) priority: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) attempt: u32,
    pub(crate) session: Option<(SessionId, Stickiness)>,
}

/// What is known of the prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// Tokens, to be hashed.
    Prompt(Prompt<'a>),
    /// Hashed already, by the router's own scheme.
    Hashed { locals: &'a [LocalBlockHash], tokens: usize },
}

impl<'a> RouteRequest<'a> {
    /// A text prompt for the base model.
    pub fn from_tokens(tokens: &'a [u32]) -> Self {
        Self::from_prompt(Prompt::new(tokens))
    }

    /// A prompt with everything that its hash depends on: adapter, salt, images.
    ///
    /// The prompt's adapter also restricts the request to workers that serve it.
    pub fn from_prompt(prompt: Prompt<'a>) -> Self {
        let constraints = Constraints { adapter: prompt.context().adapter(), ..Constraints::default() };
        Self { constraints, ..Self::new(Content::Prompt(prompt)) }
    }

    /// A prompt of `tokens` tokens whose local hashes are known, computed by the router's
    /// [`scheme`](crate::Router::scheme).
    pub fn from_hashes(locals: &'a [LocalBlockHash], tokens: usize) -> Self {
        Self::new(Content::Hashed { locals, tokens })
    }

    pub(crate) fn new(content: Content<'a>) -> Self {
        let constraints = Constraints::default();
        Self {
            content,
            id: None,
            constraints,
            explain: false,
            priority: 0,
            deadline: None,
            attempt: 0,
            session: None,
        }
    }

    /// Names the request: a second one of the same name is refused while the first is in flight.
    #[must_use]
    pub fn id(mut self, id: RequestId) -> Self {
        self.id = Some(id);
        self
    }

    /// Which try of the request this is, from 0. See [`LoadTracker::end_attempt`](kv_router_load::LoadTracker::end_attempt).
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Makes it part of a session, whose requests go to one rank as long as the filters pass it. An explanation of such
    /// a decision has that rank alone for a candidate.
    #[must_use]
    pub fn session(mut self, session: SessionId, stickiness: Stickiness) -> Self {
        self.session = Some((session, stickiness));
        self
    }

    /// Restricts the workers that may serve the request. Replaces earlier constraints, the adapter's too.
    #[must_use]
    pub fn constraints(mut self, constraints: Constraints<'a>) -> Self {
        self.constraints = constraints;
        self
    }

    /// Keeps every candidate, filter and cost term for [`Decision::explain`](crate::Decision::explain). Costs an
    /// allocation of the size of the fleet.
    #[must_use]
    pub fn explained(mut self) -> Self {
        self.explain = true;
        self
    }

    /// How urgent it is while it waits in [`Router::admit`](crate::Router::admit): more is more. Default 0.
    #[must_use]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// How long it may wait in [`Router::admit`](crate::Router::admit), by the router's clock. Default: for ever.
    #[must_use]
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The constraints that are in force.
    pub fn current_constraints(&self) -> Constraints<'a> {
        self.constraints
    }

    /// Whether its blocks are those of an adapter, as far as can be told.
    pub(crate) fn is_adapted(&self) -> bool {
        match self.content {
            Content::Prompt(prompt) => prompt.context().adapter().is_some(),
            Content::Hashed { .. } => self.constraints.adapter.is_some(),
        }
    }

    /// Tokens in the prompt.
    pub fn prompt_tokens(&self) -> usize {
        match self.content {
            Content::Prompt(prompt) => prompt.tokens().len(),
            Content::Hashed { tokens, .. } => tokens,
        }
    }
}
