//! What a worker is, whatever it is doing.

use std::fmt;
use std::sync::Arc;

use kv_router_types::DpRank;

/// A label on a worker, for example `gpu=h200` or `tenant-a`. Compared byte by byte. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint(Arc<str>);

impl Taint {
    /// Wraps a label.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self(label.into())
    }

    /// The label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Taint({})", &self.0)
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The data-parallel ranks that a worker registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankBounds {
    first: u32,
    /// One past the last, in 64 bits so that the last rank of all has a successor.
    end: u64,
}

impl RankBounds {
    /// Every rank: the worker did not say.
    pub const ANY: Self = Self { first: 0, end: 1 << 32 };

    /// `count` ranks from `first` on.
    pub const fn new(first: DpRank, count: u32) -> Self {
        Self { first: first.get(), end: first.get() as u64 + count as u64 }
    }

    /// Whether `rank` is one of them.
    #[inline]
    pub const fn contains(self, rank: DpRank) -> bool {
        self.first <= rank.get() && (rank.get() as u64) < self.end
    }
}

impl Default for RankBounds {
    fn default() -> Self {
        Self::ANY
    }
}

/// `first..end`, as ranges are written.
impl fmt::Display for RankBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.end)
    }
}

/// The LoRA adapters that a worker can serve, besides the base model, which it always can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Adapters {
    /// Every one: the engine loads them on demand, or the caller does not track them.
    #[default]
    All,
    /// These alone.
    Only(Vec<Arc<str>>),
}

impl Adapters {
    /// Whether an adapter can be served. The empty name is the base model.
    pub fn can_serve(&self, adapter: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => adapter.is_empty() || names.iter().any(|name| **name == *adapter),
        }
    }
}

/// What a worker is, whatever it is doing. The default has no taints, any rank and every adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTraits {
    /// The labels it carries. Usually a handful: they are searched one by one.
    pub taints: Vec<Taint>,
    /// The adapters it can serve.
    pub adapters: Adapters,
    /// The data-parallel ranks it registered.
    pub ranks: RankBounds,
}

impl WorkerTraits {
    /// Whether the worker carries every one of `taints`.
    pub fn has_all(&self, taints: &[Taint]) -> bool {
        taints.iter().all(|taint| self.taints.contains(taint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_to_the_last_rank() {
        let two = RankBounds::new(DpRank::new(4), 2);
        assert_eq!([3, 4, 5, 6].map(|rank| two.contains(DpRank::new(rank))), [false, true, true, false]);
        assert!(RankBounds::ANY.contains(DpRank::new(u32::MAX)));
        assert!(RankBounds::new(DpRank::new(u32::MAX), 1).contains(DpRank::new(u32::MAX)));
        assert!(!RankBounds::new(DpRank::new(0), 0).contains(DpRank::new(0)));
        assert_eq!(two.to_string(), "4..6");
    }

    #[test]
    fn the_base_model_needs_no_adapter() {
        let only = Adapters::Only(vec!["sql".into()]);
        assert_eq!(["", "sql", "chat"].map(|name| only.can_serve(name)), [true, true, false]);
        assert!(Adapters::All.can_serve("chat"));
    }
}
