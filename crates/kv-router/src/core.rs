//! What the router is made of, shared by its handles, its tickets and whoever waits.

use std::convert::Infallible;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use kv_router_index::{Certainty, FindOptions};
use kv_router_load::{BookError, Booking, Demand, LoadTracker};
use kv_router_schedule::{
    Explanation, Preference, SelectError, SelectRequest, Selection, Selector, Stickiness,
};
use kv_router_types::WorkerRank;
use parking_lot::{Mutex, RwLock};

use crate::admit::{Doorbell, Lobby, ring, ring_for_sessions};
use crate::clock::Clock;
use crate::decision::Placement;
use crate::fleet::Fleet;
use crate::index::SharedIndex;
use crate::peers::Peers;
use crate::pool::Pool;
use crate::predict::Predictor;
use crate::request::Content;
use crate::room::Room;
use crate::seed::Seeds;
use crate::sessions::Sessions;
use crate::{Decision, RouteError, RouteRequest, RouterConfig};

/// How often a decision is made again because the selected rank left before it was booked.
const MOST_ATTEMPTS: usize = 4;

/// Who was chosen, and why, if that was asked for.
type Decided = (Result<Selection, SelectError>, Option<Explanation>);

/// The state of a router.
pub(crate) struct Core {
    pub(crate) config: RouterConfig,
    pub(crate) selector: Selector,
    pub(crate) index: Box<dyn SharedIndex>,
    pub(crate) load: LoadTracker,
    pub(crate) fleet: RwLock<Arc<Fleet>>,
    /// Serialises joining and leaving. Taken before every other lock.
    pub(crate) membership: Mutex<()>,
    pub(crate) rooms: Pool<Box<Room>>,
    pub(crate) seeds: Seeds,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) unknown_rank_batches: AtomicU64,
    pub(crate) events_off_batches: AtomicU64,
    /// Names the owner of the next engine stream.
    pub(crate) streams_opened: AtomicU64,
    /// Batches that the last diagnosis knew of to have been refused.
    pub(crate) diagnosed_batches: AtomicU64,
    pub(crate) sessions: Sessions,
    pub(crate) predictor: Predictor,
    /// The other routers. `None` for one that is alone.
    pub(crate) peers: Option<Peers>,
    pub(crate) doorbell: Arc<Doorbell>,
    /// Those who wait. `None` without a queue.
    pub(crate) lobby: Option<Lobby>,
}

impl Core {
    /// Chooses a rank for a request and books it there.
    pub(crate) fn route(&self, request: &RouteRequest<'_>) -> Result<Decision, RouteError> {
        let placed = self.place::<Infallible>(request, |worker, demand, now, is_current| {
            let booking = self.load.book(worker, demand, now)?;
            if is_current() { Ok(Continue(booking)) } else { Err(BookError::UnknownRank { worker }) }
        });
        placed.map(|Continue(decision)| decision)
    }

    /// Chooses a rank for a request and books it there with `book`, which may break off.
    ///
    /// Once it has booked, `book` asks whether the rank is still the one that was decided on. If not, it takes the
    /// booking back and says that the rank is unknown: the decision is then made again.
    pub(crate) fn place<X>(
        &self,
        request: &RouteRequest<'_>,
        mut book: impl FnMut(
            WorkerRank,
            Demand<'_>,
            Instant,
            &dyn Fn() -> bool,
        ) -> Result<ControlFlow<X, Booking>, BookError>,
    ) -> Result<ControlFlow<X, Decision>, RouteError> {
        self.with_room(|room| {
            let (prompt_blocks, blocks) = self.hash(request, room)?;
            let select = self.select_request(request, prompt_blocks);
            let mut attempt = 1;
            loop {
                let (selection, explanation) = self.decide(request, &select, blocks, room);
                let selection = selection.map_err(RouteError::Select)?;
                let worker = selection.worker;
                let winner = room.candidate(worker, blocks);
                let candidate = winner.ok_or(RouteError::Book(BookError::UnknownRank { worker }))?;
                let cost = self.selector.cost(&select, &candidate);
                // What the cost took off is not there to be computed.
                let saved = cost.overlap_credit * f64::from(select.block_size.get());
                let demand = Demand {
                    request: request.id,
                    attempt: request.attempt,
                    prefill_tokens: (request.prompt_tokens() as u64).saturating_sub(saved as u64),
                    prompt_blocks: &room.sequence,
                    private_blocks: blocks - prompt_blocks,
                };
                // After many attempts in vain, a rank that came back is good enough.
                let is_current = || attempt >= MOST_ATTEMPTS || room.is_current(worker, &self.fleet());
                let now = self.clock.now();
                let booking = match book(worker, demand, now, &is_current) {
                    // It left after it was selected, and may have come back. Look again, at the fleet as it is now.
                    Err(BookError::UnknownRank { .. }) if attempt < MOST_ATTEMPTS => {
                        attempt += 1;
                        continue;
                    }
                    outcome => outcome.map_err(RouteError::Book)?,
                };
                let booking = match booking {
                    Continue(booking) => booking,
                    Break(off) => return Ok(Break(off)),
                };
                let (overlap, certainty) = room.overlap(worker);
                let cached = overlap.map_or(0, |overlap| overlap.blocks());
                if certainty == Certainty::Exact
                    && let Some(rank) = room.rank(worker)
                {
                    rank.samples.sent(room.locals(), cached, request.is_adapted(), now);
                }
                let is_judged_anew = room
                    .rank(worker)
                    .is_some_and(|rank| self.predictor.sent(rank, room.locals(), cached, certainty, now));
                let placement = Placement { selection, overlap, certainty, prompt_blocks, cost, explanation };
                if let Some((session, _)) = request.session {
                    ring_for_sessions(self, self.sessions.bind(session, worker, now));
                }
                if is_judged_anew {
                    ring(self);
                }
                return Ok(Continue(Decision { placement, booking }));
            }
        })
    }

    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet.read())
    }

    pub(crate) fn with_room<R>(&self, work: impl FnOnce(&mut Room) -> R) -> R {
        self.rooms.with(
            || Box::new(Room::new(self.config.scheme, self.selector.clone(), self.index.keyer())),
            |room| work(room),
        )
    }

    /// Hashes the prompt into `room`. Returns its whole blocks, and those that it takes up with its partial tail.
    pub(crate) fn hash(&self, request: &RouteRequest<'_>, room: &mut Room) -> Result<(u32, u32), RouteError> {
        let tokens = request.prompt_tokens();
        let limit = self.config.max_prompt_tokens;
        if tokens == 0 {
            return Err(RouteError::EmptyPrompt);
        }
        if tokens > limit {
            return Err(RouteError::PromptTooLong { tokens, limit });
        }
        if let Content::Hashed { locals, .. } = request.content {
            let blocks = self.config.scheme.blocks_in(tokens);
            if locals.len() > blocks {
                return Err(RouteError::HashesExceedPrompt { hashes: locals.len(), blocks });
            }
        }
        room.hash(&request.content);
        // Both fit: the limit on tokens is below u32::MAX.
        let taken = tokens.div_ceil(self.config.scheme.block_size().as_usize()) as u32;
        Ok((room.locals().len() as u32, taken))
    }

    pub(crate) fn select_request<'a>(
        &self,
        request: &RouteRequest<'a>,
        prompt_blocks: u32,
    ) -> SelectRequest<'a> {
        let block_size = self.config.scheme.block_size();
        SelectRequest {
            id: request.id,
            constraints: request.constraints,
            spread: self.config.spread,
            ..SelectRequest::new(prompt_blocks, block_size)
        }
    }

    /// Looks at overlap, load and fleet.
    pub(crate) fn look(&self, room: &mut Room) {
        // The fleet first: a rank that is another one by now is noticed before the decision is given out.
        let fleet = self.fleet();
        self.index.find_into(&room.prompt, FindOptions::new(), &mut room.overlaps);
        self.load.snapshot_into(&room.sequence, &mut room.loads);
        room.line_up(&fleet);
        if room.is_guessing() {
            self.predictor.find_into(room.prompt.locals(), self.clock.now(), &mut room.guesses);
            room.place_guesses();
        }
    }

    /// Says what would be decided now. Of the request, only its session counts beside `select`.
    pub(crate) fn explain(
        &self,
        request: &RouteRequest<'_>,
        select: &SelectRequest<'_>,
        blocks: u32,
        room: &mut Room,
    ) -> Explanation {
        match self.decide(&request.explained(), select, blocks, room) {
            (_, Some(explanation)) => explanation,
            (_, None) => room.explain(select, blocks, None, &mut self.seeds.next()),
        }
    }

    fn decide(
        &self,
        request: &RouteRequest<'_>,
        select: &SelectRequest<'_>,
        blocks: u32,
        room: &mut Room,
    ) -> Decided {
        self.look(room);
        if let Some((session, stickiness)) = request.session
            && let Some(bound) = self.sessions.get(session, self.clock.now())
            && room.candidate(bound, blocks).is_some()
        {
            let decided = self.choose(request, select, blocks, room, Some(bound));
            // A strict one stays, or waits. A hint is no reason to do either.
            if stickiness == Stickiness::Strict {
                return decided;
            }
            match decided.0 {
                // Alone it has nobody beside it who has the taints that it lacks.
                Ok(Selection { preference: Preference::Relaxed, .. }) => {
                    let among_all = self.choose(request, select, blocks, room, None);
                    let is_met = |goes: &Selection| goes.preference == Preference::Met;
                    return if among_all.0.as_ref().is_ok_and(is_met) { among_all } else { decided };
                }
                Ok(_) => return decided,
                Err(_) => {}
            }
        }
        self.choose(request, select, blocks, room, None)
    }

    /// Chooses among all ranks, or looks at one alone.
    fn choose(
        &self,
        request: &RouteRequest<'_>,
        select: &SelectRequest<'_>,
        blocks: u32,
        room: &mut Room,
        only: Option<WorkerRank>,
    ) -> Decided {
        if request.explain {
            let explanation = room.explain(select, blocks, only, &mut self.seeds.next());
            return (explanation.outcome, Some(explanation));
        }
        let selection = match only {
            None => room.select(select, blocks, &mut self.seeds.next()),
            Some(only) => room.select_only(select, blocks, only, &mut self.seeds.next()),
        };
        (selection, None)
    }
}
