//! What is looked at before anything of a store is to be seen: its names, its parent, the limits.

use kv_router_types::{ExternalSequenceHash, StoredBlock};
use rustc_hash::FxHashSet;

use super::moved::Trace;
use super::{AHEAD, Lane, Named, each_name};
use crate::ApplyError;
use crate::paged::block::Block;
use crate::paged::names::{Clue, Place};
use crate::paged::shared::{Full, Shared};
use crate::paged::table::{Home, Seat};
use crate::paged::words::ROOT;

/// What the names of a store are.
pub(super) struct Entered {
    /// The first that equals the parent or one before it.
    repeat: Option<ExternalSequenceHash>,
    /// How many the rank had already.
    pub(super) known: usize,
}

/// What a name of a store turned out to be.
enum Met {
    /// One that came before in the same event.
    Again,
    Known,
}

impl Lane {
    /// Looks at every name of a store once: puts those that are new in the table, pending, and finds by that the first
    /// that stands in the event twice.
    #[inline]
    pub(super) fn enter_names(
        &mut self,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Entered {
        let records = &self.records;
        // No block needs more than a record of its own.
        self.names.reserve(blocks.len(), records.len() + blocks.len(), |each| each_name(records, each));
        self.seats.clear();
        self.seats.reserve(blocks.len());
        let repeat = if self.twins.is_empty() { None } else { first_repeat(parent, blocks) };
        let mut entered = Entered { repeat, known: 0 };
        let mut chunks = blocks;
        // Whatever comes after the parent's name does not matter.
        if let Some(parent) = parent
            && let Some(at) = blocks.iter().position(|block| block.external == parent)
        {
            entered.repeat = entered.repeat.or(Some(parent));
            chunks = &blocks[..at];
        }
        for chunk in chunks.chunks(AHEAD) {
            let mut homes = [Home::default(); AHEAD];
            for (home, block) in homes.iter_mut().zip(chunk) {
                *home = self.names.home(block.external.get());
            }
            let homes = &homes[..chunk.len()];
            self.names.touch(homes);
            if !self.enter_chunk(blocks, homes, &mut entered) {
                break;
            }
        }
        entered.known += self.lent.len();
        self.lent.drain(..).for_each(|(seat, before)| self.names.restore(seat, before));
        entered
    }

    /// The next of `blocks`. Whether to go on.
    #[inline]
    fn enter_chunk(&mut self, blocks: &[StoredBlock], homes: &[Home], entered: &mut Entered) -> bool {
        let has_twins = !self.twins.is_empty();
        for &home in homes {
            let seat = match self.names.insert_pending_alone(home) {
                Some(seat) if !has_twins => seat,
                seat => match self.enter_one(blocks, home, seat, entered) {
                    Some(seat) => seat,
                    None => return false,
                },
            };
            self.seats.push(seat);
        }
        true
    }

    /// The next of `blocks`, which may be known, or have come before; where it was put if it has been put in already.
    /// `None` if it came before.
    fn enter_one(
        &mut self,
        blocks: &[StoredBlock],
        home: Home,
        seat: Option<Seat>,
        entered: &mut Entered,
    ) -> Option<Seat> {
        let Self { names, records, twins, seats, lent, .. } = self;
        let (before, block) = (&blocks[..seats.len()], blocks[seats.len()].external);
        if let Some(seat) = seat {
            if twins.get(block.get()).is_some() {
                names.remove_pending(home);
                entered.known += 1;
                return Some(Seat::NONE);
            }
            return Some(seat);
        }
        let found = names.clue(home, |clue| match clue {
            Clue::Near(record, from) => names.look(record, from, block.get(), records).map(|_| Met::Known),
            Clue::Pending => before.iter().any(|other| other.external == block).then_some(Met::Again),
        });
        match found {
            None if twins.get(block.get()).is_none() => Some(names.insert_pending(home)),
            None => {
                entered.known += 1;
                Some(Seat::NONE)
            }
            Some((_, Met::Again)) => {
                // With twins the first repeat is known already.
                if twins.is_empty() {
                    entered.repeat = Some(block);
                }
                None
            }
            Some((seat, Met::Known)) => {
                // Pending too, until all are seen, or the same name later would look like a known one.
                lent.push((seat, names.suspend(seat)));
                Some(Seat::NONE)
            }
        }
    }

    /// Takes the names of a refused store out again.
    #[cold]
    pub(super) fn retract_names(&mut self, blocks: &[StoredBlock]) {
        for (seat, block) in self.seats.iter().zip(blocks) {
            if *seat != Seat::NONE {
                self.names.remove_pending(self.names.home(block.external.get()));
            }
        }
    }

    /// Everything that may speak against a store; its slot and the place of its parent if nothing does.
    #[inline]
    pub(super) fn check_store(
        &mut self,
        shared: &Shared,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
        entered: &Entered,
    ) -> Result<(u32, Option<Place>), ApplyError> {
        if let Some(block) = entered.repeat {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        let parent = match parent {
            None => None,
            Some(parent) => Some(self.parent(parent.get()).ok_or(ApplyError::UnknownParent { parent })?),
        };
        // New names are counted already.
        self.check_limits(shared, parent, blocks, entered.known, self.len())?;
        Ok((self.take_slot(shared, blocks.is_empty())?, parent))
    }

    /// The slot of the rank, taken when it begins to hold something.
    #[inline]
    pub(super) fn take_slot(&mut self, shared: &Shared, is_nothing: bool) -> Result<u32, Full> {
        match self.slot {
            Some(slot) => Ok(slot),
            None if is_nothing => Ok(0),
            None => Ok(*self.slot.insert(shared.allocate_slot(self.rank)?)),
        }
    }

    /// What the limits say to a store of blocks of which `known` have names already, and `len` names after it.
    pub(super) fn check_limits(
        &self,
        shared: &Shared,
        parent: Option<Place>,
        blocks: &[impl Block],
        known: usize,
        len: usize,
    ) -> Result<(), Full> {
        let limit = shared.config.max_names_per_rank;
        if len > limit && known < blocks.len() {
            return Err(Full::Rank { limit });
        }
        let pages = &shared.pages;
        if pages.lines.is_full() && known < blocks.len() {
            return Err(Full::Index { limit: pages.lines.most });
        }
        let (limit, nodes) = (shared.config.max_nodes, pages.nodes());
        if nodes + blocks.len() > limit || pages.branches.is_crowded() {
            let Trace { spans, end } = self.trace(pages, parent, blocks);
            let new = blocks.len() - spans.iter().map(|span| span.count).sum::<usize>();
            if new > 0 && nodes + new > limit {
                return Err(Full::Index { limit });
            }
            let limit = pages.branches.most;
            if new > 0 && end != ROOT && pages.headers.at(end).content().children() >= limit {
                return Err(Full::Index { limit: limit as usize });
            }
        }
        Ok(())
    }

    /// Where the rank has the block that it calls `name`.
    #[inline]
    fn parent(&self, name: u64) -> Option<Place> {
        let guess = self.tails.guess(name).place;
        if self.records.get(guess.record()).is_some_and(|record| record.is_at(guess.offset(), name)) {
            return Some(guess);
        }
        self.named(name).map(Named::place)
    }
}

/// The first name that equals the parent or a block before it.
#[cold]
fn first_repeat(
    parent: Option<ExternalSequenceHash>,
    blocks: &[StoredBlock],
) -> Option<ExternalSequenceHash> {
    let mut seen = FxHashSet::from_iter(parent);
    blocks.iter().map(|block| block.external).find(|&name| !seen.insert(name))
}
