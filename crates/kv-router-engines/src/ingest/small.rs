//! Stores and removals of engine blocks that are smaller than ours.

use std::sync::Arc;

use kv_router_hash::HashContext;
use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier};

use super::merge::{Part, PartChange};
use super::names::{Change, Place, scoped};
use super::output::Output;
use super::salts::SaltId;
use super::{Ingest, Presence, Skip};
use crate::wire::RawHash;

/// What the parts of one store share.
#[derive(Clone, Debug)]
pub(super) struct SmallStore<'a> {
    pub(super) tier: Tier,
    pub(super) group: u32,
    pub(super) parent: Option<u64>,
    pub(super) salt: SaltId,
    pub(super) salt_text: Option<Arc<str>>,
    pub(super) adapter: &'a str,
    /// Tokens a block.
    pub(super) size: usize,
    pub(super) presence: Presence,
}

impl Ingest {
    /// Whether a store may continue this name, and under which salt.
    pub(super) fn parent_salt(&self, parent: u64) -> Option<SaltId> {
        let part = self.parts.get(parent).filter(|part| part.is_held()).map(|part| part.salt);
        part.or_else(|| self.names.place(parent).map(|(_, salt)| salt))
    }

    pub(super) fn store_small(
        &mut self,
        store: &SmallStore<'_>,
        hashes: &[RawHash],
        tokens: &[u32],
        out: &mut Output<'_>,
    ) -> Result<(), Skip> {
        let ours = self.config.scheme.block_size().as_usize();
        let context = HashContext::NONE
            .with_adapter(store.adapter)
            .and_then(|context| context.with_salt(store.salt_text.as_deref().unwrap_or_default()))
            .map_err(|_| Skip::NameTooLong)?;
        let mut parent = store.parent;
        for (hash, own) in hashes.iter().zip(tokens.chunks_exact(store.size)) {
            let name = scoped(hash.key, store.group);
            // A parent that fills a block of ours, or that is one, starts the next.
            let open = parent.and_then(|parent| Some((parent, self.parts.get(parent)?)));
            let mut part = match open.filter(|(_, before)| before.tokens.len() < ours) {
                Some((parent, before)) => {
                    let tokens = [&before.tokens, own].concat().into_boxed_slice();
                    Part::new(Some(parent), before.base, tokens, store.salt)
                }
                None => Part::new(None, parent, own.into(), store.salt),
            };
            match part.tokens.len().cmp(&ours) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => {
                    let local = self.hasher.hash_block(&part.tokens, &context, &[]);
                    part.whole = Some(local.map_err(|_| Skip::BlockSizeRatio)?);
                }
                std::cmp::Ordering::Greater => return Err(Skip::BlockSizeRatio),
            }
            if self.parts.differs(name, &part) || self.parts.get(name).is_none() {
                self.release(name, out);
            }
            if self.parts.differs(name, &part) {
                return Err(Skip::RepeatedHash); // others continue what it was before
            }
            if part.before.is_some_and(|before| self.parts.get(before).is_none()) {
                return Err(Skip::UnknownParent); // it went with what this name stood for before
            }
            let salt = part.salt;
            if self.parts.insert(name, part) {
                self.names.salts().hold(salt);
            }
            self.add_part(name, store.tier, store.presence, out);
            parent = Some(name);
        }
        Ok(())
    }

    /// One copy more of a part. Whether the name is that of one.
    pub(super) fn add_part(
        &mut self,
        name: u64,
        tier: Tier,
        presence: Presence,
        out: &mut Output<'_>,
    ) -> PartChange {
        let change = self.parts.add(name, tier, presence);
        match change {
            PartChange::Tier => {
                self.counters.blocks_stored += 1;
                for whole in self.parts.wholes(name) {
                    self.complete(whole, tier, out);
                }
            }
            PartChange::Copy => self.counters.blocks_repeated += 1,
            PartChange::Unknown => {}
        }
        change
    }

    /// One copy less of a part. Whether the name is that of one.
    pub(super) fn take_part(&mut self, name: u64, tier: Tier, out: &mut Output<'_>) -> PartChange {
        let change = self.parts.take(name, tier);
        match change {
            PartChange::Tier => {
                self.counters.blocks_removed += 1;
                self.lost_part(name, tier, out);
            }
            PartChange::Copy => self.counters.copies_removed += 1,
            PartChange::Unknown => {}
        }
        change
    }

    /// Whatever the name stands for goes, in all tiers, before it stands for something else.
    pub(super) fn release(&mut self, name: u64, out: &mut Output<'_>) {
        if self.parts.get(name).is_some() {
            for tier in Tier::ALL {
                if self.parts.take_all(name, tier) {
                    self.lost_part(name, tier, out);
                }
            }
        }
        let Some(parts) = self.names.get(name).map(|entry| entry.parts) else { return };
        for tier in Tier::ALL {
            if self.names.remove_all(name, tier) {
                self.remove_parts(name, parts, tier, out);
                out.removed(tier, name);
            }
        }
    }

    /// Tells the index of a block if the tier has all its parts and the index the block before it.
    fn complete(&mut self, whole: u64, tier: Tier, out: &mut Output<'_>) {
        let Some((part, local)) = self.parts.complete(whole, tier).and_then(|part| Some((part, part.whole?)))
        else {
            return;
        };
        let (parent, salt) = (part.base, part.salt);
        let Some(path) = self.names.path(parent, local) else { return };
        let place = Place { name: whole, parent, local, path, salt, parts: 1 };
        let change = self.names.store(place, tier, Presence::Logical);
        let parent = parent.map(ExternalSequenceHash::new);
        let block = StoredBlock::new(ExternalSequenceHash::new(whole), local);
        match change {
            Change::Fresh => out.stored_fresh(tier, parent, std::iter::once(block)),
            Change::Tier => out.push(KvEvent::Stored { tier, parent, blocks: vec![block] }),
            Change::Nothing => {}
        }
    }

    /// The tier has a part no longer, so neither has it the blocks that the part is in.
    fn lost_part(&mut self, name: u64, tier: Tier, out: &mut Output<'_>) {
        for whole in self.parts.wholes(name) {
            if self.names.remove_all(whole, tier) {
                out.removed(tier, whole);
            }
        }
        let Self { parts, names, .. } = self;
        parts.forget_dead(name, |salt| names.salts().release(salt));
    }
}
