//! The first three generations of this index, kept as baselines for measurements. None is meant for use.
//!
//! | generation | type | answers | what was wrong |
//! |---|---|---|---|
//! | nested dictionary | [`NestedDictionary`] | upper bounds | asks every rank; cannot tell prefixes apart |
//! | one thread behind a channel | [`Actor`] | those of what it wraps | all lookups and events queue for one thread |
//! | inverted index | [`InvertedIndex`] | upper bounds | cannot tell prefixes apart |
//!
//! # What the flat ones cannot tell
//!
//! Both know which local hashes a rank holds, and neither what came before them. A rank that holds `[a, b]`
//! and `[x, y]` is said to hold all of `[a, y]`, of `[a, x]`, and of `[a, a, a]`:
//!
//! ```
//! use kv_router_index::baseline::NestedDictionary;
//! use kv_router_index::{ApplyEvents, Certainty, PrefixIndex, RadixTree};
//! use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank};
//!
//! let rank = WorkerRank::from(WorkerId::new(1));
//! let [a, b, x, y] = [1, 2, 3, 4].map(LocalBlockHash::new);
//! let block = |name, local| StoredBlock::new(ExternalSequenceHash::new(name), local);
//! let store = |blocks| KvEvent::Stored { tier: Tier::Device, parent: None, blocks };
//!
//! let (mut exact, mut flat) = (RadixTree::new(), NestedDictionary::new());
//! for event in [store(vec![block(10, a), block(11, b)]), store(vec![block(20, x), block(21, y)])] {
//!     exact.apply(rank, &event)?;
//!     flat.apply(rank, &event)?;
//! }
//! assert_eq!(exact.find(&[a, y]).blocks(rank), 1);
//! assert_eq!(flat.find(&[a, y]).blocks(rank), 2);
//! assert_eq!(flat.certainty(), Certainty::UpperBound);
//! # Ok::<(), kv_router_index::ApplyError>(())
//! ```
//!
//! They are never below the truth: what a rank holds, its local hashes are known for. A name that moves to
//! another place of equal content goes unnoticed, and keeps the copies that it had. They cannot be dumped,
//! for they do not know in which order blocks stand.

mod actor;
mod inverted;
mod ledger;
mod nested;

pub use actor::Actor;
pub use inverted::InvertedIndex;
pub use nested::NestedDictionary;
