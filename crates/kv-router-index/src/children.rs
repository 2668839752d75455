//! What continues a node of a tree, and tables that give memory back.

use std::hash::Hash;

use kv_router_types::LocalBlockHash;
use rustc_hash::FxHashMap;

/// Children by local hash. Most nodes have one.
#[derive(Debug)]
pub(crate) enum Children<C> {
    None,
    One(LocalBlockHash, C),
    /// Two or more.
    Many(Box<FxHashMap<LocalBlockHash, C>>),
}

impl<C> Children<C> {
    #[inline]
    pub(crate) fn get(&self, local: LocalBlockHash) -> Option<&C> {
        match self {
            Self::None => None,
            Self::One(only, child) => (*only == local).then_some(child),
            Self::Many(children) => children.get(&local),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds a child that is not there yet.
    pub(crate) fn insert(&mut self, local: LocalBlockHash, child: C) {
        *self = match std::mem::replace(self, Self::None) {
            Self::None => Self::One(local, child),
            Self::One(other, first) => {
                Self::Many(Box::new(FxHashMap::from_iter([(other, first), (local, child)])))
            }
            Self::Many(mut children) => {
                children.insert(local, child);
                Self::Many(children)
            }
        };
    }

    pub(crate) fn remove(&mut self, local: LocalBlockHash) {
        match self {
            Self::None => {}
            Self::One(..) => *self = Self::None,
            Self::Many(children) => {
                children.remove(&local);
                if children.len() > 1 {
                    return shrink_sparse(children);
                }
                let last = children.drain().next();
                *self = last.map_or(Self::None, |(local, last)| Self::One(local, last));
            }
        }
    }

    pub(crate) fn drain_into(&mut self, list: &mut Vec<C>) {
        match std::mem::replace(self, Self::None) {
            Self::None => {}
            Self::One(_, child) => list.push(child),
            Self::Many(children) => list.extend(children.into_values()),
        }
    }
}

/// Gives memory back once a table is at most one eighth full. Amortised, since it is then left half full.
pub(crate) fn shrink_sparse<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) {
    if table.capacity() > 64 && table.len() * 8 < table.capacity() {
        table.shrink_to(table.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_and_go_in_every_form() {
        let local = LocalBlockHash::new;
        let mut children = Children::None;
        for count in 1..=300 {
            children.insert(local(count), count);
            assert_eq!(children.get(local(count)), Some(&count));
        }
        assert!(matches!(children, Children::Many(_)) && children.get(local(301)).is_none());
        children.remove(local(301));
        for count in (2..=300).rev() {
            children.remove(local(count));
            assert_eq!((children.get(local(count)), children.get(local(1))), (None, Some(&1)));
        }
        assert!(matches!(children, Children::One(..)));
        let mut list = Vec::new();
        children.drain_into(&mut list);
        assert!(list == [1] && children.is_empty());
    }

    #[test]
    fn a_table_that_was_large_shrinks() {
        let mut table: FxHashMap<u32, ()> = (0..10_000).map(|key| (key, ())).collect();
        let full = table.capacity();
        table.retain(|&key, ()| key < 100);
        shrink_sparse(&mut table);
        assert!((200..full / 8).contains(&table.capacity()), "{}", table.capacity());
    }
}
