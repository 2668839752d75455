//! [`ConcurrentRadixTree`]: the tree of [`radix`](crate::radix), read and written by many threads at once.
//!
//! A node is one block: one exact prefix, behind a lock of its own, with its children by local hash and a set
//! of ranks that hold it. Beside the tree each rank has a table from engine name to node, behind another
//! lock: the lookup table is sharded by rank, since no event touches the names of two.
//!
//! # Locking
//!
//! In this order, and no lock of a kind while a later one is held:
//!
//! 1. the names of one rank: for writing during each of its events;
//! 2. nodes: parent before child, two at most;
//! 3. the roster of ranks: for a moment, and nothing is locked under it.
//!
//! A lookup takes read locks alone, one node at a time. A store goes hand over hand: it reads the parent and,
//! still under that lock, writes the child, so the child cannot be freed in between; only a child that is
//! missing costs a write lock of the parent. A removal writes the node; where that leaves it without use it
//! locks the parent, then the node again, looks again whether it is unused and alive, and unlinks it; then
//! the same one level up.
//!
//! # Why a lookup is exact
//!
//! Locks of single nodes alone would not do. A rank holds blocks 1, 2 and 3 of a chain and a lookup has
//! passed 1; now the rank loses 1, then stores 4 under 3; the lookup goes on and finds 2, 3 and 4. It has
//! seen four blocks, but the rank never held more than three of them from the root. Coupling the reader's
//! locks does not help: the writer starts in the middle, ahead of the reader.
//!
//! So each rank has a stamp, odd while an event of it is under way and never the same again after it (see
//! `stamps.rs`). A lookup reads the stamps of its candidates, the holders of the first block, while it holds
//! the lock of that first node; and again at the end of its walk. Take a candidate.
//!
//! *Its stamp is even and the same at both times.* The events that had ended before the first reading did all
//! that they did to nodes before it, so the walk, which locks its nodes later, sees it; and the first node,
//! which was locked already, cannot have been changed between its lock and the reading. An event that began
//! later marks the stamp before it changes a node. Had the walk seen such a change, then through the lock of
//! that node, and its second reading would have found the mark. So the walk saw the state between two events
//! and nothing else: the score is what the rank held when the stamp was read.
//!
//! *It is odd, or it moved.* What was found is thrown away, and these ranks, and only they, are walked again.
//! Those that fail once more are walked one by one under a read lock of their names, when no event of theirs
//! can be under way. The number of walks is bounded, and the last kind cannot fail.
//!
//! *A rank that is no candidate* did not hold the first block when that node was read: its overlap is 0, and
//! was, since one event takes or gives the first block at most once, so that its state before or after that
//! event had none.
//!
//! A slot is the number that stands for a rank in the sets. When its owner leaves, another rank may get it;
//! stamps belong to the slot and only rise, so a lookup that spans the change sees it.
//!
//! The models in `tests/loom` check this on the real type; `docs/locking.md` says which model checks what.

mod config;
mod dump;
mod find;
mod names;
mod node;
mod roster;
mod stamps;
#[cfg(not(kv_router_loom))]
#[cfg(test)]
mod tests;
mod tree;
mod watch;

pub use config::ConcurrentRadixConfig;
pub use tree::ConcurrentRadixTree;
pub(crate) use watch::Watch;
