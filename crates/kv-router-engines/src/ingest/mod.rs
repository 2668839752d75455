//! From what an engine says to what an index is told.

mod config;
mod counters;
mod groups;
mod keys;
mod media;
mod merge;
mod names;
mod output;
mod salts;
mod skip;
mod slots;
mod small;
mod state;
mod store;

pub use config::{IngestConfig, Presence};
pub use counters::IngestCounters;
pub use media::MediaTable;
pub use skip::{Skip, Skips};
pub use state::{IngestLoader, IngestStateError};

use kv_router_hash::BlockHasher;
use kv_router_types::{DpRank, KvEvent, LocalBlockHash, Tier};

use crate::wire::{EVERYWHERE, EventKind, RawHash, Span, WireBatch, WireEvent};
use groups::{GroupUse, Groups};
use keys::StoreKeys;
use merge::{PartChange, Parts};
use names::{Names, Removal, part_name, scoped};
use output::Output;

/// Turns the events of one worker rank into ours: one for each rank, fed in order.
///
/// Feed it where batches are applied, behind the sequence machine, and call [`Ingest::forget`] when the machine says
/// to forget the rank. It remembers what the rank holds by name, because events leave out what was said before: how
/// many copies there are, under which salt a chain runs, which blocks of ours an engine's block is.
///
/// ```
/// use kv_router_engines::{BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, StoreFields, WireBatch};
/// use kv_router_engines::{WireHash, WireTokens};
/// use kv_router_hash::{HashScheme, Window};
/// use kv_router_types::BlockSize;
///
/// let scheme = HashScheme::new(BlockSize::new(4)?, Window::Plain);
/// let mut ingest = Ingest::new(IngestConfig::new(scheme));
///
/// let mut payload = Vec::new();
/// let mut encoder = BatchEncoder::new(EventForm::Map);
/// let hashes = [WireHash::Unsigned(0xa1), WireHash::Unsigned(0xa2)];
/// encoder.stored(&StoreFields {
///     hashes: &hashes,
///     tokens: WireTokens::Flat(&[1, 2, 3, 4, 5, 6, 7, 8]),
///     block_size: Some(4),
///     ..StoreFields::default()
/// });
/// encoder.finish(1_717_171_717.25, None, &mut payload);
///
/// let mut batch = WireBatch::new();
/// batch.decode(&payload, &DecodeLimits::default())?;
/// let mut events = Vec::new();
/// ingest.apply(&batch, &mut events);
/// assert_eq!(events[0].block_count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ingest {
    config: IngestConfig,
    hasher: BlockHasher,
    /// Blocks of the index.
    names: Names,
    /// Blocks of an engine whose blocks are smaller than ours.
    parts: Parts,
    groups: Groups,
    counters: IngestCounters,
    engine_block_size: Option<u32>,
    unfit_block_size: Option<u32>,
    sizes: Sizes,
    room: Room,
}

/// Which block sizes the stores of a rank had, since it was empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sizes {
    #[default]
    None,
    /// All the same: so many blocks of ours.
    One(u16),
    /// Several: the same name may have been stored in another size.
    Mixed,
}

/// Buffers of one store, kept for the next.
#[derive(Debug, Default)]
struct Room {
    keys: StoreKeys,
    locals: Vec<LocalBlockHash>,
    /// Tokens of an EAGLE engine, folded.
    folded: Vec<u32>,
    /// A table of the names of a store.
    seen: Vec<u64>,
}

impl Ingest {
    /// A rank that holds nothing.
    pub fn new(config: IngestConfig) -> Self {
        Self {
            hasher: BlockHasher::new(config.scheme),
            config,
            names: Names::default(),
            parts: Parts::default(),
            groups: Groups::default(),
            counters: IngestCounters::default(),
            engine_block_size: None,
            unfit_block_size: None,
            sizes: Sizes::default(),
            room: Room::default(),
        }
    }

    /// Appends what the index is to be told. Cost: a hash of each block's tokens and one table access a block; one
    /// allocation for each event that comes out, and none once buffers have grown.
    ///
    /// Consecutive stores that continue each other come out as one event, consecutive removals too.
    pub fn apply(&mut self, batch: &WireBatch, out: &mut Vec<KvEvent>) {
        self.apply_some(batch, |_| true, out);
    }

    /// The same for the events of one rank alone, where a payload has events of several: those that name another
    /// rank are left for the [`Ingest`] of that one.
    pub fn apply_rank(&mut self, rank: DpRank, batch: &WireBatch, out: &mut Vec<KvEvent>) {
        self.apply_some(batch, |event| event.rank().is_none_or(|of| of == rank), out);
    }

    fn apply_some(
        &mut self,
        batch: &WireBatch,
        wanted: impl Fn(&WireEvent<'_>) -> bool,
        out: &mut Vec<KvEvent>,
    ) {
        let mut out = Output::new(out);
        let mut touched = 0;
        for event in batch.events().filter(wanted) {
            self.touch_names(event, &mut touched);
            self.event(event, &mut out);
        }
    }

    /// Has the memory fetched for the names of an event and the ones after it: one wait for many names. Evictions come
    /// one name an event, so this looks beyond the event. `touched` counts the names of the batch that were seen to.
    #[inline]
    fn touch_names(&self, event: WireEvent<'_>, touched: &mut usize) {
        const AHEAD: usize = 16;
        /// What was fetched earlier would be gone again before its turn.
        const MOST: usize = 256;
        let all = &event.batch.hashes;
        let Span { start, length } = event.raw.hashes;
        let (start, end) = (start as usize, start as usize + length as usize);
        // In groups of some: waits are shared only within one.
        if *touched >= (end + AHEAD / 2).min(all.len()) {
            return;
        }
        let from = start.max(*touched);
        let to = (end + AHEAD).min(from + MOST).min(all.len());
        let group = event.group().unwrap_or(0);
        for hash in all.get(from..to).unwrap_or_default() {
            self.names.touch(scoped(hash.key, group));
        }
        *touched = to;
    }

    /// Forgets what the rank holds: it was cleared, or its engine started again. What its groups are is forgotten
    /// too; counters go on.
    pub fn forget(&mut self) {
        self.clear();
        self.groups = Groups::default();
    }

    /// Takes over what a snapshot put into the index, so that the stream can go on from there: feed it the same
    /// events. A dump does not say under which salt a chain runs, so blocks that continue a salted chain without
    /// naming the salt are filed under none until the rank is cleared.
    pub fn seed(&mut self, event: &KvEvent) {
        match event {
            KvEvent::Stored { tier, parent, blocks } => {
                self.sizes = Sizes::Mixed; // a dump does not say which blocks are parts of one
                let mut parent = parent.map(|name| name.get());
                for block in blocks {
                    let Some(path) = self.names.path(parent, block.local) else { return };
                    let place = names::Place {
                        name: block.external.get(),
                        parent,
                        local: block.local,
                        path,
                        salt: salts::SaltId::NONE,
                        parts: 1,
                    };
                    if self.names.len() < self.config.max_names {
                        self.names.store(place, *tier, Presence::Logical);
                    }
                    parent = Some(place.name);
                }
            }
            KvEvent::Removed { tier, blocks } => {
                for block in blocks {
                    self.names.remove(block.get(), *tier);
                }
            }
            KvEvent::Cleared => self.clear(),
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> &IngestCounters {
        &self.counters
    }

    /// Names that are remembered: of blocks of ours, and of smaller ones of the engine.
    pub fn name_count(&self) -> usize {
        self.names.len() + self.parts.len()
    }

    /// Salts that are remembered: those of chains that are held.
    pub fn salt_count(&self) -> usize {
        self.names.salt_count()
    }

    /// Tokens a block, as the last store into the index had it; `None` before the first.
    pub fn engine_block_size(&self) -> Option<u32> {
        self.engine_block_size
    }

    /// Blocks of ours that the engine's blocks complete at a time, at least 1.
    pub fn blocks_in_one(&self) -> u32 {
        let ours = self.config.scheme.block_size().get();
        self.engine_block_size.map_or(1, |size| (size / ours).max(1))
    }

    /// Tokens a block in the last store that was passed over as [`Skip::BlockSizeRatio`]; `None` when none was.
    pub fn unfit_block_size(&self) -> Option<u32> {
        self.unfit_block_size
    }

    fn clear(&mut self) {
        self.names.clear();
        self.parts.clear();
        self.sizes = Sizes::None;
    }

    fn event(&mut self, event: WireEvent<'_>, out: &mut Output<'_>) {
        let done = match event.kind() {
            EventKind::Stored => self.stored(event, out),
            EventKind::Removed => self.removed(event, out),
            EventKind::Cleared => {
                self.clear();
                self.counters.cleared += 1;
                out.push(KvEvent::Cleared);
                Ok(())
            }
        };
        if let Err(skip) = done {
            self.counters.skips.add(skip);
        }
    }

    fn removed(&mut self, event: WireEvent<'_>, out: &mut Output<'_>) -> Result<(), Skip> {
        let group = event.group().unwrap_or(0);
        if self.groups.get(group) == GroupUse::Other {
            return Err(Skip::OtherGroup);
        }
        if event.medium() == Some(EVERYWHERE) {
            for &RawHash { key, .. } in event.hashes().raw {
                let name = scoped(key, group);
                let taken = Tier::ALL.into_iter().filter(|&tier| self.take(name, tier, out)).count();
                self.counters.unknown_removals += u64::from(taken == 0);
            }
            return Ok(());
        }
        let tier = self.tier(event)?;
        for &RawHash { key, .. } in event.hashes().raw {
            let is_known = self.take(scoped(key, group), tier, out);
            self.counters.unknown_removals += u64::from(!is_known);
        }
        Ok(())
    }

    /// One copy less in a tier. Whether there was one.
    #[inline]
    fn take(&mut self, name: u64, tier: Tier, out: &mut Output<'_>) -> bool {
        if self.parts.len() > 0 && self.take_part(name, tier, out) != PartChange::Unknown {
            return true;
        }
        match self.names.remove(name, tier) {
            Removal::Unknown => return false,
            Removal::CopiesLeft => self.counters.copies_removed += 1,
            Removal::Gone { parts } => {
                self.counters.blocks_removed += 1;
                self.remove_parts(name, parts, tier, out);
                out.removed(tier, name);
            }
        }
        true
    }

    /// Removes the parts of a block but the last, which has the block's own name.
    fn remove_parts(&mut self, name: u64, parts: u16, tier: Tier, out: &mut Output<'_>) {
        // What was seeded has none, as far as is known: those that have a name derived from this one are its.
        let known = parts > 1 || self.sizes != Sizes::Mixed;
        let others = if known { parts.saturating_sub(1) } else { u16::MAX - 1 };
        for part in 0..others {
            let part = part_name(name, part, u16::MAX);
            if self.names.remove_all(part, tier) {
                out.removed(tier, part);
            } else if !known {
                break;
            }
        }
    }

    fn tier(&self, event: WireEvent<'_>) -> Result<Tier, Skip> {
        self.config.media.tier(event.medium()).ok_or(Skip::UnknownMedium)
    }
}
