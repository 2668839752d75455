//! Approximate indexes: summaries of a few bytes a block, routing over deployment groups, and predicted state.
//!
//! ```
//! use kv_router_approx::cuckoo::{CuckooFeeder, CuckooIndex, CuckooLimits, FeederLimits, SummaryEpoch};
//! use kv_router_index::{ApplyEvents, Certainty, PrefixIndex};
//! use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank};
//!
//! // Beside the engine: events go in, a summary comes out.
//! let rank = WorkerRank::from(WorkerId::new(7));
//! let mut feeder = CuckooFeeder::new(SummaryEpoch::new(1), FeederLimits::default());
//! let block = |n| StoredBlock::new(ExternalSequenceHash::new(0xA0 + n), LocalBlockHash::new(n));
//! let blocks = (0..3).map(block).collect();
//! feeder.apply(rank, &KvEvent::Stored { tier: Tier::Device, parent: None, blocks })?;
//!
//! // In the router: a snapshot first, deltas from then on.
//! let mut index = CuckooIndex::new(CuckooLimits::default());
//! let position = index.install(rank, &feeder.publisher().snapshot())?;
//! let more = vec![block(3)];
//! let parent = Some(block(2).external);
//! feeder.apply(rank, &KvEvent::Stored { tier: Tier::Device, parent, blocks: more })?;
//! index.follow(rank, &feeder.publisher().delta_since(position, 1_000)?)?;
//!
//! let overlaps = index.find(&[0, 1, 2, 3, 99].map(LocalBlockHash::new));
//! assert_eq!(overlaps.blocks(rank), 4);
//! assert_eq!(overlaps.certainty(), Certainty::UpperBound);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I have | type | answers |
//! |---|---|---|
//! | events, and room for a table of all names | an exact index of `kv-router-index` | exact |
//! | summaries of caches elsewhere | [`cuckoo::CuckooIndex`], fed by [`cuckoo::CuckooFeeder`] | upper bounds |
//! | many deployment groups, each with an exact index | [`hierarchy::HierarchicalIndex`] | exact, from few groups |
//! | workers that publish no events | [`predicted::PredictedIndex`] | guesses |
//!
//! # Guarantees
//!
//! * Every answer says what it is worth, in its type: [`Certainty`](kv_router_index::Certainty).
//! * An upper bound is never below the truth of the summary's moment, under any history: holes, twins, moves,
//!   growth, restores. Property tests compare all of it with the oracle of `kv-router-index`.
//! * Everything has a limit. What is refused changes nothing; what comes from outside is checked before it is believed,
//!   and memory follows what is there, never what a header declares.
//! * Nothing reads a clock or draws a random number: equal calls give equal states, and replicas of a summary are equal
//!   to the byte.
//! * What is emptied is empty, tables and memory included.
//!
//! # Cost
//!
//! | | time | memory |
//! |---|---|---|
//! | summary, written | O(1) a block, amortised | about 3 bytes a block; the feeder's tables some 65 more |
//! | summary, asked | one hash of the request, then O(log blocks) tests an owner, one if it lacks the first block | |
//! | hierarchy, asked | that for each group, then the leaves that could still be best | leaves and summaries |
//! | prediction, recorded | O(1) a block, expiry and pruning included | some 100 bytes a block |
//! | prediction, asked | O(log blocks) a rank that has the first block | |
//!
//! The price of a summary is that it knows neither tiers nor holes: a rank that lost a block in the middle may be
//! credited with what it still holds behind it. Route by it between groups, and let an exact index decide inside one.
#![forbid(unsafe_code)]

pub mod cuckoo;
pub mod hierarchy;
pub mod predicted;
mod tables;
