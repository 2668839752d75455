//! Which worker gets the request, and which request is next: filters, cost, sampling, explanation, queue, sessions.
//!
//! A pure function of what it is given. The caller says what each worker rank has cached and what it is working on;
//! a [`Selector`] answers with one of them, and can say why.
//!
//! ```
//! use kv_router_schedule::{
//!     Candidate, CostConfig, FilterConfig, Scratch, SelectRequest, Selector, SplitMix64, WorkerTraits,
//! };
//! use kv_router_types::{BlockSize, WorkerId};
//!
//! let selector = Selector::new(CostConfig::default(), FilterConfig::default())?;
//! let traits = WorkerTraits::default();
//! let mut warm_and_busy = Candidate::idle(WorkerId::new(1).into(), &traits);
//! warm_and_busy.overlap = [48, 0, 0, 0]; // blocks on device, host, disk, object storage
//! warm_and_busy.active_blocks = 46;
//! let mut cooler_and_idle = Candidate::idle(WorkerId::new(2).into(), &traits);
//! cooler_and_idle.overlap = [20, 0, 0, 0];
//! cooler_and_idle.active_blocks = 8;
//!
//! let request = SelectRequest::new(60, BlockSize::new(16)?);
//! let (mut entropy, mut scratch) = (SplitMix64::new(42), Scratch::new());
//! let candidates = [warm_and_busy, cooler_and_idle];
//! let selection = selector.select(&request, candidates, &mut entropy, &mut scratch)?;
//! assert_eq!((selection.position, selection.cost), (1, 48.0)); // the other one costs 58
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | choose | [`Selector::select`], with a [`Scratch`] to use again and an [`Entropy`] to break ties |
//! | choose, and show the evidence | [`Selector::explain`], an [`Explanation`] |
//! | describe a worker rank now | [`Candidate`] |
//! | describe what does not change with load | [`WorkerTraits`] |
//! | say where a request may go | [`Constraints`] |
//! | tune | [`CostConfig`], [`FilterConfig`] |
//! | choose among thousands, again and again | [`Slate`], a [`Holding`] for each rank that has something |
//! | keep many routers from herding | [`Spread`] |
//! | let requests wait | [`Queue`], walked through in a [`Pass`]; [`FilterConfig::wait_prefill`] says when |
//! | keep a session on one worker | [`SessionTable`] |
//! | filter, score or pick by rules of my own | [`Filter`], [`Scorer`], [`Picker`], in [`CustomRules`] |
//! | see one cost | [`Selector::cost`], [`CostTerms`] |
//!
//! # The cost
//!
//! Lower is better, the unit is one block:
//!
//! ```text
//! overlap_credit   = min(incoming_prompt_blocks, sum over tiers of weight * blocks)
//! adjusted_prefill = max(0, active_prefill_blocks + incoming_prompt_blocks - overlap_credit)
//! potential_decode = active_decode_blocks + incoming_active_blocks
//! cost             = prefill_load_scale * adjusted_prefill + potential_decode
//!                  + decode_active_request_weight * active_requests
//! ```
//!
//! Each block is credited once, at its best tier. The cap keeps the credit of one request from cancelling the
//! prefill that others have queued.
//!
//! # The filters
//!
//! Before any scoring, in this order; the first that objects is the reason given: allow-list, pin, data-parallel
//! rank bounds, required taints, adapter, busy thresholds, staleness, [custom ones](CustomRules). Preferred taints come last, although a
//! wish like the required ones: they give way when nobody who passed everything else has them. Every reason is
//! derived from the candidate as it is now; nothing is remembered from one decision to the next.
//!
//! When somebody is left, and all of them are above [`FilterConfig::wait_prefill`], nobody is chosen:
//! [`SelectError::MustWait`].
//!
//! # Guarantees
//!
//! * An excluded candidate never wins, and no excluded candidate influences the draw.
//! * The choice is a function of configuration, request, candidates in their order, and entropy.
//!   [`Selector::explain`] chooses what [`Selector::select`] would have chosen.
//! * A [`Slate`] chooses what [`Selector::select`] would have chosen among the same candidates with the same entropy.
//! * A waiting request is overtaken by later ones for at most [`QueueConfig::aging`], where it can go itself.
//! * A session is a hint: nothing in here lets it past a filter.
//! * Equal costs are drawn from uniformly; a worker's place in the list gives it no advantage.
//! * The cost rises with every kind of load and falls with overlap, for every configuration accepted.
//! * Custom rules cannot bring an excluded candidate back, nor a cost that is no number.
//! * No clock, no I/O, no locks, no panics but those of custom rules. Numbers that come with candidates are integers, so no NaN comes in.
//!
//! # Cost
//!
//! One pass over the candidates, a few nanoseconds for each, no allocation once the [`Scratch`] has grown.
//! Candidates are read once and never stored, so they can be made on the fly. Sampling with a temperature adds one
//! exponential for each candidate that is left. A [`Slate`] takes half a nanosecond a rank, and a few for each that
//! holds something or whose load changed.
#![forbid(unsafe_code)]

mod affinity;
mod candidate;
mod config;
mod cost;
mod custom;
mod entropy;
mod explain;
mod filter;
mod pool;
mod queue;
mod request;
mod select;
mod slate;
mod traits;

pub use affinity::{
    BindingVersion, NoSessions, SessionConfig, SessionGossip, SessionId, SessionStats, SessionTable,
    Stickiness,
};
pub use candidate::{Candidate, Capacity, StreamFreshness};
pub use config::{ConfigError, CostConfig, FilterConfig, StaleRule};
pub use cost::CostTerms;
pub use custom::{CustomRules, CustomTerm, Filter, Picker, Scorer};
pub use entropy::{Entropy, SplitMix64};
pub use explain::{Explained, Explanation, Verdict};
pub use filter::{Excluded, ExclusionCounts, Resource};
pub use pool::{Contender, Draw, Scratch};
pub use queue::{
    Pass, Queue, QueueConfig, QueueConfigError, QueueFull, QueueKey, QueueOrder, QueueStats, Refused, Waiting,
};
pub use request::{Constraints, Pin, SelectRequest, Spread, WorkerSet};
pub use select::{Preference, SelectError, Selection, Selector, Shortage};
pub use slate::{Holding, Slate};
pub use traits::{Adapters, RankBounds, Taint, WorkerTraits};
