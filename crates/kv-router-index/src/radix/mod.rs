//! [`RadixTree`]: one tree of blocks, shared by all ranks.
//!
//! A node is one block: one exact prefix. It knows its parent, its children by local hash, and who holds it,
//! as a set of dense rank numbers; beside the tree each rank has a table from engine name to node. A lookup
//! walks down the query and narrows the set of ranks that hold everything so far; a store or removal touches
//! one node and one table entry a block.
//!
//! A rank that loses a block in the middle loses a bit there and nowhere else, so that the hole can be filled
//! again. A node with neither holders nor children is freed at once, and with it each ancestor that it leaves
//! so: the tree has exactly the nodes that somebody holds or that lead to one.

mod config;
mod dump;
mod nodes;
mod ranks;
#[cfg(test)]
mod tests;
mod tree;
mod uses;

pub use config::RadixConfig;
pub use tree::RadixTree;
