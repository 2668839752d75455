//! Which worker rank holds which leading blocks of a request: contracts, an oracle, and exact indexes.
//!
//! Engines say what they store and remove; an index remembers it and answers, for the local hashes of a
//! prompt, how many leading blocks each rank holds and in which tier.
//!
//! ```
//! use kv_router_index::{ApplyEvents, PrefixIndex, RadixTree};
//! use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier};
//! use kv_router_types::{WorkerId, WorkerRank};
//!
//! let [one, two] = [1, 2].map(|id| WorkerRank::from(WorkerId::new(id)));
//! let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
//! let store = |blocks| KvEvent::Stored { tier: Tier::Device, parent: None, blocks };
//!
//! let mut index = RadixTree::new();
//! index.apply(one, &store(vec![block(1), block(2), block(3)]))?;
//! index.apply(two, &store(vec![block(1)]))?;
//!
//! let overlaps = index.find(&[1, 2, 3, 4].map(LocalBlockHash::new));
//! assert_eq!(overlaps.blocks(one), 3);
//! assert_eq!(overlaps.blocks(two), 1);
//! assert_eq!(overlaps.best().map(|best| best.worker()), Some(one));
//!
//! // A rank that loses the middle of a chain holds the rest still: it counts again once the hole is filled.
//! let middle = ExternalSequenceHash::new(2);
//! index.apply(one, &KvEvent::Removed { tier: Tier::Device, blocks: vec![middle] })?;
//! assert_eq!(index.find(&[1, 2, 3].map(LocalBlockHash::new)).blocks(one), 1);
//! # Ok::<(), kv_router_index::ApplyError>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | keep an index in one thread, or behind my own lock | [`RadixTree`] |
//! | look up on many threads while others write | [`ConcurrentRadixTree`] |
//! | jump through deep shared prompts, with writers on other threads | [`PositionalIndexer`] |
//! | have a relay beside each engine do most of an event's work | [`paged::IdWriter`] and [`paged::BlockIds`] |
//! | have the events of many workers written by a few threads, in order | [`WriterPool`] |
//! | know what the right answer is, however slowly | [`Oracle`] |
//! | measure against the first generations | the module [`baseline`] |
//! | write code for any index | the traits [`PrefixIndex`], [`ApplyEvents`], [`DumpEvents`], [`Inspect`] |
//! | test an index of my own | the module `conformance`, behind the feature of that name |
//!
//! Keep one [`Overlaps`] a thread and pass it to [`PrefixIndex::find_into`]; [`PrefixIndex::find`] makes a
//! new one.
//!
//! # Guarantees
//!
//! An index whose [`Certainty`] is [`Exact`](Certainty::Exact) answers what the events say under any history:
//! holes, heads that went and came back, blocks with two names, names that moved, copies in four tiers. It
//! passes the same conformance suite as all others, against the oracle, and the suite is tested to reject
//! indexes with planted faults.
//!
//! Bad input is data: it is refused whole with an [`ApplyError`] or counted in [`Applied`], and nothing
//! panics. What is removed is gone: an emptied index has the [`Occupancy`] of a new one. No index reads a
//! clock or recurses on the length of a chain, and none but the [`Actor`](baseline::Actor) spawns a thread;
//! the [`WriterPool`] has its threads, and asks its [`PoolHost`] for the time.
//!
//! # Cost
//!
//! A lookup visits the matched blocks once, whatever the number of ranks in the fleet, plus one entry for
//! each rank that holds the first block. An event costs a probe of the rank's name table for each block. See
//! each type for more.
#![forbid(unsafe_code)]

pub mod baseline;
mod candidates;
mod children;
pub mod concurrent_radix;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod dump;
mod holders;
mod names;
pub mod oracle;
mod overlaps;
pub mod paged;
pub mod pool;
pub mod positional;
pub mod radix;
mod rank_set;
mod sequence;
mod sync;

pub use concurrent_radix::{ConcurrentRadixConfig, ConcurrentRadixTree};
pub use contract::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, PrefixIndex,
};
pub use oracle::Oracle;
pub use overlaps::{Overlap, Overlaps};
pub use pool::{
    EnqueueError, Lag, PoolClosed, PoolConfig, PoolHost, PoolStats, StartError, ThreadStats, WriterPool,
};
pub use positional::{PositionalConfig, PositionalConfigError, PositionalIndexer};
pub use radix::{RadixConfig, RadixTree};
