//! [`WriterPool`]: a few threads that apply the events of many workers to one concurrent index.
//!
//! Each worker belongs to one thread for as long as it holds anything, so that its events apply in the order
//! sent and its tables stay in one core's cache; lookups go to the index directly, on their own threads. The
//! queue in front of each thread is bounded: a full one gives the event back, and the sender decides whether
//! to wait, to drop the rank and resync it, or to slow its source down.
//!
//! # Order
//!
//! What one sender enqueues for one worker applies in that order, the removal of the worker included: once
//! [`remove_worker`](WriterPool::remove_worker) has returned, nothing that was enqueued before it will
//! survive it.
//!
//! A worker is sticky through a table from worker to thread. An entry is forgotten when its worker has been
//! removed and none of its messages is pending; only then may the worker, if it returns, go to another
//! thread, and everything that it had sent before has been applied by then. That is decided under the lock
//! under which senders look the table up.
//!
//! # Locking
//!
//! In this order: the gate, which senders hold for reading while they send and [`drain`](WriterPool::drain)
//! closes; the table of routes, under which nothing blocks; then, on the pool's threads alone, the index;
//! then a meter. The pool's threads never take the gate, so that a sender that waits for room is always let
//! through.
//!
//! # Panics
//!
//! An event that makes the index panic is lost alone: it is counted, the host is told, and its thread goes
//! on. What the index made of it is unknown: forget the worker and resync it.

mod config;
mod error;
mod host;
mod lag;
mod lane;
mod routes;
mod stats;
#[cfg(not(kv_router_loom))]
#[cfg(test)]
mod tests;
mod writers;

pub use config::PoolConfig;
pub use error::{EnqueueError, PoolClosed, StartError};
pub use host::PoolHost;
pub use lag::Lag;
pub use stats::{PoolStats, ThreadStats};
pub use writers::WriterPool;
