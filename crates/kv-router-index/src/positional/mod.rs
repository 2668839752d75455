//! [`PositionalIndexer`]: one flat map by position, in which a lookup jumps.
//!
//! The map is keyed by what a lookup knows of its query for nothing: the position of a block and its local
//! hash. An entry is `Single`, one prefix that ends there, or `Multi`, several, told apart by the rolling
//! hash of the whole prefix ([`SequenceHash`](kv_router_types::SequenceHash)); with each prefix stands the
//! set of ranks that hold it. There are no links between blocks, so a lookup may look at block 64 before
//! block 1.
//!
//! # Why a jump is exact
//!
//! *The prefix is the query's.* That one prefix alone stands at a position does not say that it is the one
//! asked for: a query that differs in one block in the middle meets the same local hashes afterwards. So a
//! found prefix counts only if its hash is that of the query. The query is hashed as far as that needs, lazily:
//! not where an entry is missing or a candidate is missing from it, and never twice.
//!
//! *Every candidate is there.* Sets of ranks are compared, not their sizes.
//!
//! *Nothing is missing between.* A rank that holds the far end holds everything before it unless it has a hole
//! there. Each rank counts its exceptions: blocks that it needs and has no device copy of, which are its holes
//! and the blocks that it has in a lower tier alone. They are kept by stretches of 64 positions. A stretch that
//! has none, in any candidate, is jumped over and credited to the device; in one that has some, the lookup goes
//! block by block. For the same reason the place where a rank drops out inside a jump is found by halving.
//!
//! # What a lookup may see
//!
//! Blocks are looked at one after another while ranks change, and a rank must not be credited with blocks
//! that it held at different times. Each rank has a stamp that moves when it loses something. A lookup reads
//! the stamp before it looks at the first block, and again when the rank drops out of the match: if it has
//! not moved, the rank held at the second reading all that was seen, for between them it can only have
//! gained. If it has moved, the lookup looks at that rank again while its writer waits, which is at most once
//! a rank.
//!
//! # Any name
//!
//! Engines name blocks as they like, and the router cannot recompute their names. Another form of this index
//! takes the rolling hash of the engine at construction and stores nothing else, which saves a table and
//! excludes all engines whose names are salted, random or simply unknown. Here each rank has a table from the
//! engine's name to our hash, and one from our hash to where the block stands, so any name will do, and one
//! content is one prefix whatever it is called. The second table also knows the way to blocks behind a hole,
//! so that the shared map has no entry that nobody holds.
//!
//! # What it relies on
//!
//! One sequence hash names one prefix. It has 64 bits: among ten million prefixes the odds are one in 370,000
//! that any two collide. Then a rank that holds one of the two is taken to hold the other as well; the tables
//! stay in order and what is removed is gone.

mod cache;
mod cell;
mod config;
mod dump;
mod entries;
mod exceptions;
mod find;
mod fleet;
mod indexer;
mod rolling;
#[cfg(test)]
mod tests;

pub use config::{PositionalConfig, PositionalConfigError};
pub(crate) use find::Buffers;
pub use indexer::PositionalIndexer;
