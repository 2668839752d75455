//! From an engine's name to the place of the block: one rank's table.
//!
//! A word of the table has 18 bits or so for the place and the rest for the tag. In a rank with many records that is
//! not enough for an offset, so a word names a *neighbourhood*: a record and a few offsets in a row. Whoever looks
//! compares the name with those that the record has there. About 5 bytes a name.

use std::ops::Range;

use super::record::Record;
use super::table::{Home, Seat, Table};

/// Where a block of the rank is: a record of its lane (bits 9..32) and the offset in the record's page (0..9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place(u32);

/// Names that a lane can have, hence records.
pub(super) const MAX_NAMES: usize = 1 << 22;

/// Bits of an offset.
const OFFSET: u32 = super::words::PAGE_BLOCKS.ilog2();
/// Bits of a word for the place, unless the number of a record alone needs more.
const PLACE: u32 = 18;

impl Place {
    #[inline]
    pub(super) fn new(record: u32, offset: usize) -> Self {
        debug_assert!(record >> (u32::BITS - OFFSET) == 0 && offset < super::words::PAGE_BLOCKS);
        Self(record << OFFSET | offset as u32)
    }

    #[inline]
    pub(super) const fn record(self) -> usize {
        (self.0 >> OFFSET) as usize
    }

    #[inline]
    pub(super) const fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET) - 1)) as usize
    }

    /// The place in one word; no place has only ones.
    #[inline]
    pub(super) const fn to_word(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// The place of the next block, or one `step` further, in the same record.
    #[inline]
    pub(super) const fn after(self, step: usize) -> Self {
        Self(self.0 + step as u32)
    }
}

/// What a word of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clue {
    /// The name may be one of these, of that record.
    Near(usize, usize),
    /// The name may be one of the store that is being looked at.
    Pending,
}

/// The table.
#[derive(Debug)]
pub(super) struct Names {
    table: Table,
    /// Bits of a place that a word leaves out.
    shift: u32,
    /// All ones: no place.
    pending: u32,
}

impl Default for Names {
    fn default() -> Self {
        let layout = Layout::for_records(0);
        Self { table: Table::new(layout.bits), shift: layout.shift, pending: layout.pending() }
    }
}

/// How a word is divided.
#[derive(Clone, Copy)]
struct Layout {
    bits: u32,
    shift: u32,
}

impl Layout {
    /// One that has a number for each of so many records, and one more.
    fn for_records(records: usize) -> Self {
        let record_bits = (records.min(MAX_NAMES) + 1).ilog2() + 1;
        let bits = (record_bits + OFFSET).min(PLACE).max(record_bits);
        Self { bits, shift: record_bits + OFFSET - bits }
    }

    const fn pending(self) -> u32 {
        (1 << self.bits) - 1
    }
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Where a name belongs.
    #[inline(always)]
    pub(super) fn home(&self, name: u64) -> Home {
        self.table.home(spread(name))
    }

    /// Reads what finding these names will need.
    #[inline]
    pub(super) fn touch(&self, homes: &[Home]) {
        self.table.touch(homes);
    }

    /// The first clue to a name that `accept` accepts.
    #[inline(always)]
    pub(super) fn clue<R>(&self, home: Home, mut accept: impl FnMut(Clue) -> Option<R>) -> Option<(Seat, R)> {
        self.table.find(home, |value| accept(self.read(value)))
    }

    /// Where a name is.
    #[inline(always)]
    pub(super) fn find(&self, home: Home, name: u64, records: &[Record]) -> Option<Place> {
        let found = self.clue(home, |clue| match clue {
            Clue::Near(record, from) => self.look(record, from, name, records),
            Clue::Pending => None,
        });
        found.map(|(_, place)| place)
    }

    #[inline]
    fn read(&self, value: u32) -> Clue {
        if value == self.pending {
            return Clue::Pending;
        }
        let place = Place(value << self.shift);
        Clue::Near(place.record(), place.offset())
    }

    /// The place of a name in the neighbourhood of a clue.
    #[inline]
    pub(super) fn look(&self, record: usize, from: usize, name: u64, records: &[Record]) -> Option<Place> {
        let offset = records[record].find(self.near(from), name)?;
        Some(Place::new(record as u32, offset))
    }

    #[inline]
    fn near(&self, from: usize) -> Range<usize> {
        from..from + (1 << self.shift)
    }

    /// Makes sure that so many further names fit, in so many records at most. `all` gives every entry, when the table
    /// has to be written anew.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        more: usize,
        records: usize,
        all: impl FnOnce(&mut dyn FnMut(u64, Place)),
    ) {
        let growth = self.table.wants_growth(more);
        let place = Place((records.min(MAX_NAMES) as u32) << OFFSET);
        if growth.is_some() || self.pending <= place.0 >> self.shift {
            self.rewrite(growth.unwrap_or(self.table.buckets()), records, all);
        }
    }

    /// Gives memory back when most of the table is empty.
    #[inline]
    pub(super) fn shrink(&mut self, records: usize, all: impl FnOnce(&mut dyn FnMut(u64, Place))) {
        if let Some(buckets) = self.table.wants_shrinking() {
            self.rewrite(buckets, records, all);
        }
    }

    #[cold]
    fn rewrite(&mut self, buckets: usize, records: usize, all: impl FnOnce(&mut dyn FnMut(u64, Place))) {
        let layout = Layout::for_records(records);
        self.table.reset(buckets, layout.bits);
        (self.shift, self.pending) = (layout.shift, layout.pending());
        all(&mut |name, place| self.insert(self.home(name), place));
    }

    /// Adds a name that is not in. There must be room.
    #[inline]
    pub(super) fn insert(&mut self, home: Home, place: Place) {
        self.table.insert(home, place.0 >> self.shift);
    }

    /// Adds a name of the store that is being looked at, if it is certainly new.
    #[inline(always)]
    pub(super) fn insert_pending_alone(&mut self, home: Home) -> Option<Seat> {
        self.table.insert_alone(home, self.pending)
    }

    /// Adds a name of the store that is being looked at, which is new.
    #[inline]
    pub(super) fn insert_pending(&mut self, home: Home) -> Seat {
        self.table.insert(home, self.pending)
    }

    /// Makes the entry of a name pending. What to give [`restore`](Self::restore) to undo that.
    pub(super) fn suspend(&mut self, seat: Seat) -> u32 {
        let before = self.table.value(seat);
        self.table.set(seat, self.pending);
        before
    }

    pub(super) fn restore(&mut self, seat: Seat, before: u32) {
        self.table.set(seat, before);
    }

    /// Gives a pending entry its place.
    #[inline(always)]
    pub(super) fn settle(&mut self, seat: Seat, place: Place) {
        self.table.set(seat, place.0 >> self.shift);
    }

    /// Takes a name out that is at that place.
    #[inline(always)]
    pub(super) fn remove(&mut self, home: Home, place: Place) {
        let known = self.table.remove(home, place.0 >> self.shift);
        debug_assert!(known, "a name of a held block is in the table");
    }

    /// Takes a pending name out.
    pub(super) fn remove_pending(&mut self, home: Home) {
        let known = self.table.remove(home, self.pending);
        debug_assert!(known, "a pending name is in the table");
    }
}

/// Engines choose names, mostly by hashing; small numbers and multiples of anything must do as well.
#[inline(always)]
pub(super) fn spread(name: u64) -> u64 {
    (name ^ name >> 32).wrapping_mul(SPREAD)
}

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(all(test, feature = "conformance"))]
mod tests;
