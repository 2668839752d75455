//! The most literal reading of one engine's events: which blocks its cache holds, and under which parents.
//!
//! Strict where a router must be lenient: an engine that contradicts itself is a fault of the engine. Tests
//! hold the mock engine to it; nothing here is meant to be fast, though lookups are.

use std::error::Error;
use std::fmt;

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier};
use rustc_hash::FxHashMap;

/// A block's place: its parent's name, and what is in it.
type Place = (Option<ExternalSequenceHash>, LocalBlockHash);

/// One device cache, rebuilt from events.
#[derive(Clone, Debug, Default)]
pub struct CacheModel {
    places: FxHashMap<ExternalSequenceHash, Place>,
    names: FxHashMap<Place, ExternalSequenceHash>,
    /// Children of every name that has some.
    children: FxHashMap<ExternalSequenceHash, u32>,
}

impl CacheModel {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one event.
    ///
    /// # Errors
    ///
    /// [`ModelFault`] when no engine with a leaf-first cache could have sent it; what stood before the fault
    /// in the same event is applied.
    pub fn apply(&mut self, event: &KvEvent) -> Result<(), ModelFault> {
        match event {
            KvEvent::Stored { tier, .. } | KvEvent::Removed { tier, .. } if *tier != Tier::Device => {
                Err(ModelFault::OtherTier { tier: *tier })
            }
            KvEvent::Stored { parent, blocks, .. } => {
                let mut parent = *parent;
                for &block in blocks {
                    self.store(parent, block)?;
                    parent = Some(block.external);
                }
                Ok(())
            }
            KvEvent::Removed { blocks, .. } => blocks.iter().try_for_each(|&name| self.remove(name)),
            KvEvent::Cleared => {
                *self = Self::new();
                Ok(())
            }
        }
    }

    /// Leading blocks of `query` that the cache holds.
    pub fn longest_prefix(&self, query: &[LocalBlockHash]) -> usize {
        let mut parent = None;
        for (depth, &local) in query.iter().enumerate() {
            match self.names.get(&(parent, local)) {
                Some(&name) => parent = Some(name),
                None => return depth,
            }
        }
        query.len()
    }

    /// Names of all blocks held, sorted.
    pub fn names(&self) -> Vec<ExternalSequenceHash> {
        let mut names: Vec<_> = self.places.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// Blocks held.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no block is held.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn store(&mut self, parent: Option<ExternalSequenceHash>, block: StoredBlock) -> Result<(), ModelFault> {
        let name = block.external;
        if let Some(parent) = parent.filter(|parent| !self.places.contains_key(parent)) {
            return Err(ModelFault::UnknownParent { parent });
        }
        let place = (parent, block.local);
        if self.places.contains_key(&name) || self.names.contains_key(&place) {
            return Err(ModelFault::StoredTwice { name });
        }
        self.places.insert(name, place);
        self.names.insert(place, name);
        if let Some(parent) = parent {
            *self.children.entry(parent).or_default() += 1;
        }
        Ok(())
    }

    fn remove(&mut self, name: ExternalSequenceHash) -> Result<(), ModelFault> {
        if self.children.contains_key(&name) {
            return Err(ModelFault::ParentBeforeChild { name });
        }
        let place = self.places.remove(&name).ok_or(ModelFault::NotHeld { name })?;
        self.names.remove(&place);
        if let Some(parent) = place.0
            && let Some(left) = self.children.get_mut(&parent)
        {
            *left -= 1;
            if *left == 0 {
                self.children.remove(&parent);
            }
        }
        Ok(())
    }
}

/// An event that contradicts those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelFault {
    /// A store under a block that is not held.
    UnknownParent {
        /// The parent named.
        parent: ExternalSequenceHash,
    },
    /// A store of a name or of a place that is held.
    StoredTwice {
        /// The block's name.
        name: ExternalSequenceHash,
    },
    /// A removal of a block that is not held.
    NotHeld {
        /// The block's name.
        name: ExternalSequenceHash,
    },
    /// A removal of a block whose children are held.
    ParentBeforeChild {
        /// The parent's name.
        name: ExternalSequenceHash,
    },
    /// A tier other than the device.
    OtherTier {
        /// Which one.
        tier: Tier,
    },
}

impl fmt::Display for ModelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownParent { parent } => write!(f, "store under {parent}, which is not held"),
            Self::StoredTwice { name } => write!(f, "store of {name}, which is held already"),
            Self::NotHeld { name } => write!(f, "removal of {name}, which is not held"),
            Self::ParentBeforeChild { name } => write!(f, "removal of {name}, whose children are held"),
            Self::OtherTier { tier } => write!(f, "event of tier {tier}: the model knows the device alone"),
        }?;
        f.write_str("; the engine that sent it is at fault")
    }
}

impl Error for ModelFault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(raw: u64) -> ExternalSequenceHash {
        ExternalSequenceHash::new(raw)
    }

    fn store(parent: Option<u64>, blocks: &[(u64, u64)]) -> KvEvent {
        let block = |&(external, local)| StoredBlock::new(name(external), LocalBlockHash::new(local));
        KvEvent::Stored {
            tier: Tier::Device,
            parent: parent.map(name),
            blocks: blocks.iter().map(block).collect(),
        }
    }

    fn remove(names: &[u64]) -> KvEvent {
        KvEvent::Removed { tier: Tier::Device, blocks: names.iter().copied().map(name).collect() }
    }

    #[test]
    fn holds_what_the_events_say() {
        let query: Vec<_> = [1, 2, 3].map(LocalBlockHash::new).to_vec();
        let mut model = CacheModel::new();
        model.apply(&store(None, &[(10, 1), (20, 2)])).unwrap();
        assert_eq!(model.longest_prefix(&query), 2);
        model.apply(&store(Some(20), &[(30, 3)])).unwrap();
        assert_eq!(model.longest_prefix(&query), 3);
        assert_eq!(model.longest_prefix(&query[1..]), 0);
        model.apply(&remove(&[30, 20])).unwrap();
        assert_eq!((model.longest_prefix(&query), model.names()), (1, vec![name(10)]));
        model.apply(&KvEvent::Cleared).unwrap();
        assert!(model.is_empty());
    }

    #[test]
    fn contradictions_are_faults() {
        let mut model = CacheModel::new();
        model.apply(&store(None, &[(10, 1), (20, 2)])).unwrap();
        for (event, fault) in [
            (store(Some(9), &[(30, 3)]), ModelFault::UnknownParent { parent: name(9) }),
            (store(None, &[(10, 7)]), ModelFault::StoredTwice { name: name(10) }),
            (store(None, &[(11, 1)]), ModelFault::StoredTwice { name: name(11) }),
            (remove(&[99]), ModelFault::NotHeld { name: name(99) }),
            (remove(&[10, 20]), ModelFault::ParentBeforeChild { name: name(10) }),
            (
                KvEvent::Removed { tier: Tier::Host, blocks: vec![] },
                ModelFault::OtherTier { tier: Tier::Host },
            ),
        ] {
            assert_eq!(model.apply(&event), Err(fault));
            assert_eq!(model.len(), 2);
        }
    }
}
