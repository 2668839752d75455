//! What can be set.

use std::num::NonZeroUsize;

/// Sizes of a [`WriterPool`](crate::WriterPool).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolConfig {
    /// Writer threads. Default: 2.
    ///
    /// A worker keeps to one of them, so more threads than workers are idle. Writers compete with lookups for
    /// cores: one more thread helps when [`ThreadStats::depth`](crate::ThreadStats::depth) keeps rising on
    /// all of them.
    pub threads: NonZeroUsize,
    /// Messages that may wait in front of each thread. Default: 4,096.
    ///
    /// The queue costs about 120 bytes a message, whether there is one or not, and the blocks of the events
    /// in it. It should hold what arrives while the thread is busy with the longest event.
    pub queue: NonZeroUsize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();
        const QUEUE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
        Self { threads: THREADS, queue: QUEUE }
    }
}
