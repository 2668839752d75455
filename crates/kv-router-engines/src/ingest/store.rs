//! Stores: what a block's place and content are, then what is new about it.

use std::sync::Arc;

use kv_router_hash::{HashContext, Prompt, Window, fold_bigrams_into, next_sequence_hash};
use kv_router_types::{BlockSize, ExternalSequenceHash, KvEvent, StoredBlock, Tier};

use super::groups::GroupUse;
use super::names::{Change, Entry, Place, part_name, scoped};
use super::output::Output;
use super::salts::SaltId;
use super::small::SmallStore;
use super::{Ingest, Presence, Room, Sizes, Skip};
use crate::wire::{LoraId, RawHash, WireEvent, WireTokens};

/// Where a store goes.
#[derive(Clone, Copy, Debug)]
struct Target {
    tier: Tier,
    group: u32,
    parent: Option<u64>,
    salt: SaltId,
    parts: u16,
    presence: Presence,
}

impl Ingest {
    pub(super) fn stored(&mut self, event: WireEvent<'_>, out: &mut Output<'_>) -> Result<(), Skip> {
        let group = event.group().unwrap_or(0);
        let indexed = self.groups.indexed();
        let used = self.groups.learn(group, event.spec_kind());
        if self.groups.indexed() != indexed && self.name_count() > 0 {
            // What it holds is of a group whose removals are passed over from now on.
            self.clear();
            out.push(KvEvent::Cleared);
        }
        if used == GroupUse::Other {
            return Err(Skip::OtherGroup);
        }
        let tier = self.tier(event)?;
        let hashes = event.hashes().raw;
        if matches!(event.tokens(), WireTokens::Absent | WireTokens::Flat([])) {
            return self.placeholder(event, group, tier, out);
        }
        let size = engine_block_size(event)?;
        check_names(hashes, event.parent().map(|parent| parent.key()), &mut self.room.seen)?;

        let mut room = std::mem::take(&mut self.room);
        let result = self.stored_blocks(event, size, tier, &mut room, out);
        self.room = room;
        result
    }

    fn stored_blocks(
        &mut self,
        event: WireEvent<'_>,
        size: BlockSize,
        tier: Tier,
        room: &mut Room,
        out: &mut Output<'_>,
    ) -> Result<(), Skip> {
        let hashes = event.hashes().raw;
        let Room { keys, locals, folded, .. } = room;
        let tokens = tokens(event, self.config.scheme.window(), folded)?;
        let window = event_window(self.config.scheme.window());
        check_lengths(hashes.len(), size, tokens.len() - window)?;
        let parts = self.parts_of(size).inspect_err(|_| self.unfit_block_size = Some(size.get()))?;
        self.engine_block_size = Some(size.get());

        let adapter = self.adapter(event)?.unwrap_or_default().to_owned();
        let root_salt = keys.read(event, &adapter, hashes.len())?;
        if event.has_media_keys() {
            return Err(Skip::UnclearKeys);
        }
        if parts != 1 || window > 0 {
            keys.stop_at_media(Skip::MediaReblocked);
        }
        let group = event.group().unwrap_or(0);
        let parent = event.parent().map(|parent| scoped(parent.key(), group));
        let blocks = keys.blocks * usize::from(if parts == 0 { 2 } else { parts }); // a part may complete a block
        if blocks > self.config.max_names.saturating_sub(self.name_count()) {
            return Err(Skip::NamesFull);
        }
        let salt = match (event.cache_salt().or(root_salt), parent) {
            (_, Some(parent)) if self.parent_salt(parent).is_none() => return Err(Skip::UnknownParent),
            (Some(""), _) | (None, None) => SaltId::NONE,
            (Some(salt), _) => {
                HashContext::NONE.with_salt(salt).map_err(|_| Skip::NameTooLong)?;
                self.names.salts().id(salt).ok_or(Skip::NamesFull)?
            }
            (None, Some(parent)) => self.parent_salt(parent).unwrap_or_default(),
        };
        let salt_text = self.names.salts().text(salt);
        // Until the store is over: what its names stood for before goes first, and may be the last under this salt.
        self.names.salts().hold(salt);

        let result = if parts == 0 {
            let size = size.as_usize();
            let presence = self.presence(event);
            let store =
                SmallStore { tier, group, parent, salt, salt_text, adapter: &adapter, size, presence };
            self.store_small(&store, &hashes[..keys.blocks], tokens, out)
        } else if parent.is_some_and(|parent| !self.names.contains(parent)) {
            Err(Skip::UnknownParent) // an engine's block that is only a part of ours
        } else {
            let tokens = &tokens[..keys.blocks * size.as_usize() + window];
            self.hash(tokens, &adapter, salt_text, keys, locals)
        };
        if result.is_ok() && parts > 0 && keys.blocks > 0 {
            let target = Target { tier, group, parent, salt, parts, presence: self.presence(event) };
            self.place(&hashes[..keys.blocks], target, locals, out);
        }
        self.names.salts().release(salt);
        result?;
        keys.rest.map_or(Ok(()), Err)
    }

    /// What a store means where its blocks are stored already.
    fn presence(&self, event: WireEvent<'_>) -> Presence {
        if event.is_reused() { Presence::Logical } else { self.config.presence }
    }

    /// Blocks of ours in one of the engine's; 0 when it is the other way round.
    fn parts_of(&self, size: BlockSize) -> Result<u16, Skip> {
        let ours = self.config.scheme.block_size().get();
        if size.get() < ours
            && ours.is_multiple_of(size.get())
            && self.config.scheme.window() == Window::Plain
        {
            return Ok(0);
        }
        match (size.get() % ours, u16::try_from(size.get() / ours)) {
            (0, Ok(parts)) => Ok(parts),
            _ => Err(Skip::BlockSizeRatio),
        }
    }

    fn adapter<'a>(&'a self, event: WireEvent<'a>) -> Result<Option<&'a str>, Skip> {
        if let Some(name) = event.lora_name().filter(|name| !name.is_empty()) {
            return Ok(Some(name));
        }
        match event.lora_id() {
            None => Ok(None),
            Some(LoraId::Text(name)) => Ok(Some(name)),
            Some(LoraId::Number(number)) => {
                let known = self.config.adapters.iter().find(|(id, _)| *id == number);
                known.map(|(_, name)| Some(name.as_str())).ok_or(Skip::AdapterUnnamed)
            }
        }
    }

    fn hash(
        &mut self,
        tokens: &[u32],
        adapter: &str,
        salt: Option<Arc<str>>,
        keys: &super::keys::StoreKeys,
        locals: &mut Vec<kv_router_types::LocalBlockHash>,
    ) -> Result<(), Skip> {
        let context = HashContext::NONE
            .with_adapter(adapter)
            .and_then(|context| context.with_salt(salt.as_deref().unwrap_or_default()))
            .map_err(|_| Skip::NameTooLong)?;
        if !keys.has_media() {
            self.hasher.hash_into(&Prompt::new(tokens).in_context(context), locals);
            return Ok(());
        }
        locals.clear();
        let size = self.config.scheme.block_size().as_usize();
        for (block, tokens) in tokens.chunks_exact(size).enumerate() {
            let local = self.hasher.hash_block(tokens, &context, keys.pairs(block));
            locals.push(local.map_err(|_| Skip::UnclearKeys)?);
        }
        Ok(())
    }

    /// Remembers the blocks, and tells the index unless it knows all of them already.
    fn place(
        &mut self,
        hashes: &[RawHash],
        target: Target,
        locals: &[kv_router_types::LocalBlockHash],
        out: &mut Output<'_>,
    ) {
        let Target { group, parts, .. } = target;
        if parts == 1 {
            // Nearly always, and then it is worth an iterator without a loop in it.
            return self.place_named(
                hashes,
                || hashes.iter().map(|hash| scoped(hash.key, group)),
                target,
                locals,
                out,
            );
        }
        let names = || {
            hashes.iter().flat_map(move |hash| {
                let name = scoped(hash.key, group);
                (0..parts).map(move |part| part_name(name, part, parts))
            })
        };
        self.place_named(hashes, names, target, locals, out);
    }

    #[inline]
    fn place_named<N: Iterator<Item = u64>>(
        &mut self,
        hashes: &[RawHash],
        names: impl Fn() -> N,
        target: Target,
        locals: &[kv_router_types::LocalBlockHash],
        out: &mut Output<'_>,
    ) {
        let Target { tier, salt, parts, .. } = target;
        self.release_other_sizes(hashes, target, out);
        if target.parent.is_some_and(|parent| !self.names.contains(parent)) {
            return; // it went with what one of these names stood for before
        }
        let (mut fresh, mut known) = (0, 0);
        let mut parent = target.parent;
        let mut before = parent.and_then(|parent| self.names.place(parent)).map(|(path, _)| path);
        for (name, &local) in names().zip(locals) {
            let path = next_sequence_hash(before, local);
            let place = Place { name, parent, local, path, salt, parts };
            match self.names.store(place, tier, target.presence) {
                Change::Fresh => fresh += 1,
                Change::Tier => {}
                Change::Nothing => known += 1,
            }
            (parent, before) = (Some(name), Some(path));
        }
        let count = locals.len();
        self.counters.blocks_repeated += (known / usize::from(parts)) as u64;
        self.counters.blocks_stored += ((count - known) / usize::from(parts)) as u64;
        if known == count {
            return;
        }
        let parent = target.parent.map(ExternalSequenceHash::new);
        let blocks = ExactChain { names: names(), locals: locals.iter() };
        if fresh == count {
            out.stored_fresh(tier, parent, blocks);
        } else {
            out.push(KvEvent::Stored { tier, parent, blocks: blocks.collect() });
        }
    }

    /// Names that were stored in another size before: what they stood for is gone.
    fn release_other_sizes(&mut self, hashes: &[RawHash], target: Target, out: &mut Output<'_>) {
        if self.parts.len() > 0 {
            self.sizes = Sizes::Mixed;
        }
        match self.sizes {
            Sizes::None => self.sizes = Sizes::One(target.parts),
            Sizes::One(parts) if parts != target.parts => self.sizes = Sizes::Mixed,
            Sizes::One(_) | Sizes::Mixed => {}
        }
        if self.sizes != Sizes::Mixed {
            return;
        }
        for hash in hashes {
            let name = scoped(hash.key, target.group);
            let sized = self.names.get(name).is_some_and(|entry| entry.parts != target.parts);
            if sized || self.parts.get(name).is_some() {
                self.release(name, out);
            }
        }
    }

    /// A store without tokens: what it names is also in this tier now, if we know it.
    fn placeholder(
        &mut self,
        event: WireEvent<'_>,
        group: u32,
        tier: Tier,
        out: &mut Output<'_>,
    ) -> Result<(), Skip> {
        let presence = self.presence(event);
        let mut unknown = false;
        for hash in event.hashes().raw {
            let name = scoped(hash.key, group);
            if self.parts.get(name).is_some_and(|part| part.is_held()) {
                self.add_part(name, tier, presence, out);
                continue;
            }
            let Some(entry) = self.names.get(name) else {
                unknown = true;
                continue;
            };
            let mut chain = Vec::new();
            for part in 0..entry.parts {
                let name = part_name(name, part, entry.parts);
                let in_place = |part: &Entry| self.names.path(part.parent, part.local) == Some(part.path);
                let held = self.names.get(name).filter(in_place);
                let Some(part) = held else { break };
                chain.push(part);
            }
            let Some(&first) = chain.first().filter(|_| chain.len() == usize::from(entry.parts)) else {
                unknown = true;
                continue;
            };
            let mut news = false;
            for &Entry { name, parent, local, path, salt, parts, .. } in &chain {
                let place = Place { name, parent, local, path, salt, parts };
                news |= self.names.store(place, tier, presence) != Change::Nothing;
            }
            if news {
                self.counters.blocks_stored += 1;
                let blocks = chain
                    .iter()
                    .map(|entry| StoredBlock::new(ExternalSequenceHash::new(entry.name), entry.local))
                    .collect();
                let parent = first.parent.map(ExternalSequenceHash::new);
                out.push(KvEvent::Stored { tier, parent, blocks });
            } else {
                self.counters.blocks_repeated += 1;
            }
        }
        if unknown { Err(Skip::UnknownPlaceholder) } else { Ok(()) }
    }
}

/// Names beside contents, as blocks of an event.
struct ExactChain<'a, N> {
    names: N,
    locals: std::slice::Iter<'a, kv_router_types::LocalBlockHash>,
}

impl<N: Iterator<Item = u64>> Iterator for ExactChain<'_, N> {
    type Item = StoredBlock;

    #[inline]
    fn next(&mut self) -> Option<StoredBlock> {
        let local = *self.locals.next()?;
        Some(StoredBlock::new(ExternalSequenceHash::new(self.names.next()?), local))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.locals.size_hint()
    }
}

impl<N: Iterator<Item = u64>> ExactSizeIterator for ExactChain<'_, N> {}

/// Tokens that a store has beyond its whole blocks: an EAGLE engine's last window reaches one token further.
fn event_window(window: Window) -> usize {
    match window {
        Window::Plain => 0,
        Window::Eagle => 1,
    }
}

fn engine_block_size(event: WireEvent<'_>) -> Result<BlockSize, Skip> {
    let size = event.block_size().and_then(|size| u32::try_from(size).ok());
    size.and_then(|size| BlockSize::new(size).ok()).ok_or(Skip::BadBlockSize)
}

/// The tokens as the scheme wants them. At least one more than [`event_window`] says.
fn tokens<'a>(event: WireEvent<'a>, window: Window, folded: &'a mut Vec<u32>) -> Result<&'a [u32], Skip> {
    match (event.tokens(), window) {
        (WireTokens::Flat(tokens), Window::Plain) => Ok(tokens),
        (WireTokens::Pairs(pairs), Window::Eagle) => {
            fold_bigrams_into(pairs.iter().copied(), folded).map_err(|_| Skip::BrokenPairs)?;
            Ok(folded)
        }
        _ => Err(Skip::WindowMismatch),
    }
}

/// `tokens` counts those that the names are for.
fn check_lengths(hashes: usize, size: BlockSize, tokens: usize) -> Result<(), Skip> {
    match hashes.cmp(&size.blocks_in(tokens)) {
        std::cmp::Ordering::Less => Err(Skip::MaskedBlocks),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Skip::MoreHashesThanTokens),
    }
}

/// A chain names each block once, and never the block that it continues.
fn check_names(hashes: &[RawHash], parent: Option<u64>, seen: &mut Vec<u64>) -> Result<(), Skip> {
    /// Up to here comparing all with all is faster than a table.
    const FEW: usize = 4;
    let repeated = if hashes.len() <= FEW {
        let seen =
            |index: usize, key| parent == Some(key) || hashes[..index].iter().any(|before| before.key == key);
        hashes.iter().enumerate().any(|(index, hash)| seen(index, hash.key))
    } else {
        // Little more than half full at most. Zero is free, so a name that is zero is looked for by itself.
        seen.clear();
        seen.resize((hashes.len() * 2).next_power_of_two(), 0);
        let is_zero = |name: &u64| *name == 0;
        let names = || parent.into_iter().chain(hashes.iter().map(|hash| hash.key));
        names().filter(is_zero).count() > 1 || names().filter(|name| *name != 0).any(|name| is_in(seen, name))
    };
    if repeated { Err(Skip::RepeatedHash) } else { Ok(()) }
}

/// Whether a name is in a table already; puts it in. The table has a power of two of places, and some are free.
#[inline]
fn is_in(table: &mut [u64], name: u64) -> bool {
    let last = table.len() - 1;
    let mut at = (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & last;
    while table[at] != 0 {
        if table[at] == name {
            return true;
        }
        at = (at + 1) & last;
    }
    table[at] = name;
    false
}
