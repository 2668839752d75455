//! Which worker a session went to last.
//!
//! A hint, and nothing else: it says where to look first, and every filter still decides whether the request may go
//! there. Losing a binding costs a cache hit, never an answer.

mod gossip;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use kv_router_types::{WorkerId, WorkerRank};

pub use gossip::{BindingVersion, SessionGossip};

/// A count that ran out would leave nothing to be younger with. A router that starts may have missed decades of decisions.
const MOST_AHEAD: u64 = 1 << 40;

/// The gateway's own name for a session, for instance a hash of a conversation's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// Wraps a raw 128-bit value.
    pub const fn new(raw: u128) -> Self {
        Self(raw)
    }

    /// The raw 128-bit value.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// What becomes of a request whose session is bound to a rank that the filters leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stickiness {
    /// It goes where it would go without a session, which is then bound there.
    #[default]
    Advisory,
    /// It is refused, or waits, as if it were pinned. A rank that is gone binds nobody.
    Strict,
}

/// The bounds of a [`SessionTable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Sessions remembered at a time, at least 1. Default 65,536. Above it the longest idle is forgotten.
    pub max_sessions: usize,
    /// A session that was not used for so long is forgotten. Default 10 minutes: about what a cache keeps.
    pub idle_ttl: Duration,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { max_sessions: 1 << 16, idle_ttl: Duration::from_secs(600) }
    }
}

/// [`SessionConfig::max_sessions`] is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSessions;

impl fmt::Display for NoSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("max_sessions is 0: choose at least 1, or give requests no session")
    }
}

impl Error for NoSessions {}

/// What a table holds and has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStats {
    /// Sessions that are bound.
    pub bound: usize,
    /// Sessions of which is only remembered that they were unbound, so that older gossip does not bind them again.
    pub unbound: usize,
    /// Sessions forgotten for lack of room, since the beginning.
    pub evicted: u64,
    /// Sessions forgotten for lack of use, since the beginning.
    pub expired: u64,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    /// `None` when it was unbound.
    worker: Option<WorkerRank>,
    version: BindingVersion,
    used: Instant,
    /// When the others were last told.
    told: Instant,
}

/// From sessions to the ranks that they are bound to.
///
/// ```
/// use std::time::{Duration, Instant};
/// use kv_router_schedule::{SessionConfig, SessionId, SessionTable};
/// use kv_router_types::{WorkerId, WorkerRank};
/// # #[expect(clippy::disallowed_methods, reason = "a program reads the clock, the library does not")]
/// # fn now() -> Instant { Instant::now() }
///
/// let (mut here, mut there) =
///     (SessionTable::new(SessionConfig::default(), 1)?, SessionTable::new(SessionConfig::default(), 2)?);
/// let (session, worker) = (SessionId::new(42), WorkerRank::from(WorkerId::new(7)));
/// let gossip = here.bind(session, worker, now()).expect("it is news");
/// there.merge(gossip, now());
/// assert_eq!(there.get(session, now()), Some(worker));
/// there.unbind_worker(WorkerId::new(7));
/// assert_eq!(there.get(session, now()), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// A few steps down trees of the sessions.
#[derive(Debug)]
pub struct SessionTable {
    config: SessionConfig,
    /// Breaks ties between bindings made at the same time by several routers.
    replica: u64,
    /// The highest count in any version seen.
    clock: u64,
    sessions: BTreeMap<SessionId, Binding>,
    /// The longest idle first.
    by_use: BTreeSet<(Instant, SessionId)>,
    by_worker: BTreeSet<(WorkerId, SessionId)>,
    /// The last bound one that had to make room.
    made_room: Option<SessionId>,
    evicted: u64,
    expired: u64,
}

impl SessionTable {
    /// An empty table of the router with this number, which no other router may have.
    ///
    /// # Errors
    ///
    /// [`NoSessions`].
    pub fn new(config: SessionConfig, replica: u64) -> Result<Self, NoSessions> {
        if config.max_sessions == 0 {
            return Err(NoSessions);
        }
        Ok(Self {
            config,
            replica,
            clock: 0,
            sessions: BTreeMap::new(),
            by_use: BTreeSet::new(),
            by_worker: BTreeSet::new(),
            made_room: None,
            evicted: 0,
            expired: 0,
        })
    }

    /// Where a session is bound. Not a use of it: that is [`bind`](Self::bind), once the request has gone there.
    pub fn get(&self, session: SessionId, now: Instant) -> Option<WorkerRank> {
        let binding = self.sessions.get(&session)?;
        if self.is_idle(binding, now) { None } else { binding.worker }
    }

    /// Notes that a request of a session went to a rank. Returns what to tell the other routers: a binding that is new,
    /// and one that they would soon take for idle.
    pub fn bind(&mut self, session: SessionId, worker: WorkerRank, now: Instant) -> Option<SessionGossip> {
        if let Some(binding) = self.sessions.get(&session).copied()
            && binding.worker == Some(worker)
            && now.saturating_duration_since(binding.told) < self.config.idle_ttl / 4
        {
            self.put(session, Binding { used: binding.used.max(now), ..binding });
            return None;
        }
        Some(self.decide(session, Some(worker), now))
    }

    /// Forgets where a session is bound, by the will of its client. Returns what to tell the other routers.
    pub fn unbind(&mut self, session: SessionId, now: Instant) -> Option<SessionGossip> {
        self.get(session, now)?;
        Some(self.decide(session, None, now))
    }

    /// Forgets the bindings to a worker that is gone, and says how many there were. Nothing to tell: every router
    /// learns of that itself.
    pub fn unbind_worker(&mut self, worker: WorkerId) -> usize {
        let from = (worker, SessionId(0));
        let to = (worker, SessionId(u128::MAX));
        let bound: Vec<SessionId> = self.by_worker.range(from..=to).map(|&(_, session)| session).collect();
        bound.iter().filter(|&&session| self.remove(session).is_some()).count()
    }

    /// Takes what another router tells. `false` when something as young is known: the last decision wins, whatever the
    /// order in which they come. `false` too when the session is idle by now, and when the version is no honest one:
    /// 2^40 decisions ahead of all that were heard of.
    pub fn merge(&mut self, gossip: SessionGossip, now: Instant) -> bool {
        let SessionGossip { session, worker, version, idle } = gossip;
        if version.count > self.clock.saturating_add(MOST_AHEAD) {
            return false;
        }
        self.clock = self.clock.max(version.count);
        if self.sessions.get(&session).is_some_and(|binding| binding.version >= version) {
            return false;
        }
        let Some(used) = now.checked_sub(idle) else { return false };
        let binding = Binding { worker, version, used, told: now };
        if self.is_idle(&binding, now) {
            return false;
        }
        self.put(session, binding);
        true
    }

    /// The bound session that was forgotten to make room for another, if one was since the last call. Ask after each
    /// [`bind`](Self::bind) and each [`merge`](Self::merge) to miss none.
    pub fn take_evicted(&mut self) -> Option<SessionId> {
        self.made_room.take()
    }

    /// Forgets sessions that were not used for [`SessionConfig::idle_ttl`], and says how many. Call it on a timer.
    pub fn expire(&mut self, now: Instant) -> usize {
        let mut expired = 0;
        while let Some(&(used, session)) = self.by_use.first() {
            if now.saturating_duration_since(used) < self.config.idle_ttl {
                break;
            }
            self.remove(session);
            expired += 1;
        }
        self.expired += expired as u64;
        expired
    }

    /// What the table holds and has counted.
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            bound: self.by_worker.len(),
            unbound: self.sessions.len() - self.by_worker.len(),
            evicted: self.evicted,
            expired: self.expired,
        }
    }

    fn is_idle(&self, binding: &Binding, now: Instant) -> bool {
        now.saturating_duration_since(binding.used) >= self.config.idle_ttl
    }

    /// A decision of our own, younger than all that is known.
    fn decide(&mut self, session: SessionId, worker: Option<WorkerRank>, now: Instant) -> SessionGossip {
        self.clock = self.clock.saturating_add(1);
        let version = BindingVersion { count: self.clock, replica: self.replica };
        self.put(session, Binding { worker, version, used: now, told: now });
        SessionGossip { session, worker, version, idle: Duration::ZERO }
    }

    fn put(&mut self, session: SessionId, binding: Binding) {
        self.remove(session);
        if self.sessions.len() >= self.config.max_sessions
            && let Some(&(_, oldest)) = self.by_use.first()
        {
            let forgotten = self.remove(oldest);
            self.made_room = forgotten.and_then(|binding| binding.worker).map(|_| oldest);
            self.evicted += 1;
        }
        self.by_use.insert((binding.used, session));
        self.by_worker.extend(binding.worker.map(|rank| (rank.worker, session)));
        self.sessions.insert(session, binding);
    }

    fn remove(&mut self, session: SessionId) -> Option<Binding> {
        let binding = self.sessions.remove(&session)?;
        self.by_use.remove(&(binding.used, session));
        if let Some(rank) = binding.worker {
            self.by_worker.remove(&(rank.worker, session));
        }
        Some(binding)
    }
}
