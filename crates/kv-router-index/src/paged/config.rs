//! Limits of a paged index.

use std::error::Error;
use std::fmt;

use super::names::MAX_NAMES;
use super::words::MAX_SLOTS;

/// Limits of a [`PagedIndex`](super::PagedIndex), checked when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedConfig {
    /// The most names that one rank may hold, 1 to 4,194,304. A store above it is
    /// [`RankFull`](crate::ApplyError::RankFull). Default: the most.
    pub max_names_per_rank: usize,
    /// The numbers that a rank may give its blocks, for ranks that have an [`IdWriter`](super::IdWriter): those below
    /// this, 1 to 4,194,304. A store with a greater one is [`OutOfRange`](super::IdError::OutOfRange). Default: 1,048,576.
    pub max_ids_per_rank: usize,
    /// The most blocks in pages, shared by all ranks, 1 to 536,870,912. A store above it is
    /// [`IndexFull`](crate::ApplyError::IndexFull), and so is one that finds 144 GiB of content and lists of holders in
    /// use, or that goes on apart behind a page at which 67,043,328 others hang. Default: 268,435,456.
    pub max_nodes: usize,
    /// The most ranks at a time that hold something, or did and still have a writer, 1 to 262,144. Default: 131,072.
    pub max_ranks: usize,
    /// Seed of the hash that spreads pages over the table. Prompts are user input: a process that takes them from
    /// strangers sets a random one. Default: a constant.
    pub hash_seed: u64,
}

/// The most that [`PagedConfig::max_nodes`] can be.
pub(super) const MAX_NODES: usize = 1 << 29;

impl PagedConfig {
    pub(super) fn check(&self) -> Result<(), PagedConfigError> {
        let field = |name, value, max| match value {
            0 => Err(PagedConfigError { field: name, value, max }),
            value if value > max => Err(PagedConfigError { field: name, value, max }),
            _ => Ok(()),
        };
        field("max_names_per_rank", self.max_names_per_rank, MAX_NAMES)?;
        field("max_ids_per_rank", self.max_ids_per_rank, MAX_NAMES)?;
        field("max_nodes", self.max_nodes, MAX_NODES)?;
        field("max_ranks", self.max_ranks, MAX_SLOTS)
    }
}

impl Default for PagedConfig {
    fn default() -> Self {
        Self {
            max_names_per_rank: 1 << 22,
            max_ids_per_rank: 1 << 20,
            max_nodes: 1 << 28,
            max_ranks: 1 << 17,
            hash_seed: 0x6b76_2d72,
        }
    }
}

/// A limit out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedConfigError {
    /// The field of [`PagedConfig`].
    pub field: &'static str,
    /// Its value.
    pub value: usize,
    /// The greatest value allowed; the least is 1.
    pub max: usize,
}

impl fmt::Display for PagedConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: set it to 1..={}", self.field, self.value, self.max)
    }
}

impl Error for PagedConfigError {}
