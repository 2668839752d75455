//! What the 64-bit words mean that writers and readers share.
//!
//! Every change that a reader can see is one store of one such word.

use super::sizes::CREW;
pub(super) use super::sizes::PAGE_BLOCKS;
use crate::rank_set::Word;

/// The most worker ranks that an index can know at a time: a slot number has 18 bits, and the longest list of holders has
/// as many words.
pub(super) const MAX_SLOTS: usize = 1 << 18;

/// The page number that stands for "before the first block". No page has it.
pub(super) const ROOT: u32 = 0;

/// Takes `bits` bits of `word` from `shift` up.
#[inline]
const fn field(word: u64, shift: u32, bits: u32) -> u64 {
    (word >> shift) & ((1 << bits) - 1)
}

/// One rank's hold on one page. Zero is no hold.
///
/// | bits | what |
/// |---|---|
/// | 0..20 | slot of the rank |
/// | 20..30 | reach: leading blocks of the page that the rank holds without a gap |
/// | 30..40 | end: one more than the last block that the rank holds; at least 1 |
/// | 40..63 | tier record, 0 when every block is on the device |
/// | 63 | 0: this is no [`Crew`] |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) fn new(slot: u32, reach: usize, end: usize, tiers: u32) -> Self {
        debug_assert!(
            (slot as usize) < MAX_SLOTS && reach <= end && end <= PAGE_BLOCKS && tiers < MAX_TIER_RECORDS
        );
        Self(u64::from(slot) | (reach as u64) << 20 | (end as u64) << 30 | u64::from(tiers) << 40)
    }

    #[inline]
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(super) const fn slot(self) -> u32 {
        field(self.0, 0, 20) as u32
    }

    #[inline]
    pub(super) const fn reach(self) -> usize {
        field(self.0, 20, 10) as usize
    }

    #[inline]
    pub(super) const fn end(self) -> usize {
        field(self.0, 30, 10) as usize
    }

    #[inline]
    pub(super) const fn tiers(self) -> u32 {
        field(self.0, 40, 23) as u32
    }

    /// Whether the rank holds so many leading blocks, on the device, and no others: ranks of which this is all there
    /// is to say can share a word.
    #[inline]
    pub(super) const fn is_plain(self) -> bool {
        self.reach() == self.end() && self.tiers() == 0
    }
}

/// Several ranks of neighbouring slots that hold the same leading blocks of a page, on the device, and no others of it.
///
/// | bits | what |
/// |---|---|
/// | 0..32 | which slots of the group |
/// | 32..50 | group: the slots from [`CREW`] times that |
/// | 50..60 | how many leading blocks, at least 1 |
/// | 63 | 1 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crew(u64);

impl Crew {
    /// The ranks of one entry, which is plain.
    #[inline]
    pub(super) fn of(entry: Entry) -> Self {
        debug_assert!(entry.is_plain() && entry.reach() > 0);
        let (group, bit) = (u64::from(entry.slot()) / CREW, u64::from(entry.slot()) % CREW);
        Self(1 << 63 | (entry.reach() as u64) << 50 | group << 32 | 1 << bit)
    }

    /// The slots, a bit each.
    #[inline]
    pub(super) const fn slots(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    /// The slot that the lowest bit stands for.
    #[inline]
    pub(super) const fn base(self) -> u32 {
        (field(self.0, 32, 18) * CREW) as u32
    }

    #[inline]
    pub(super) const fn reach(self) -> usize {
        field(self.0, 50, 10) as usize
    }

    /// Both together, if they are of one group and hold the same.
    #[inline]
    pub(super) const fn joined(self, other: Self) -> Option<Self> {
        if (self.0 ^ other.0) >> 32 == 0 { Some(Self(self.0 | other.0)) } else { None }
    }

    #[inline]
    const fn contains(self, slot: u32) -> bool {
        let offset = slot.wrapping_sub(self.base());
        (offset as u64) < CREW && self.slots() >> offset & 1 != 0
    }

    /// The ranks one by one.
    #[inline]
    pub(super) fn entries(self) -> impl Iterator<Item = Entry> {
        Word::slots(0, self.slots())
            .map(move |bit| Entry::new(self.base() + bit, self.reach(), self.reach(), 0))
    }
}

/// What a word of the holders of a page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    Nobody,
    One(Entry),
    Crew(Crew),
}

impl Holding {
    #[inline]
    pub(super) const fn from_bits(word: u64) -> Self {
        if word == 0 {
            Self::Nobody
        } else if word >> 63 == 0 {
            Self::One(Entry(word))
        } else {
            Self::Crew(Crew(word))
        }
    }

    #[inline]
    pub(super) const fn to_bits(self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::One(entry) => entry.0,
            Self::Crew(crew) => crew.0,
        }
    }

    /// One more than the last block that any of the ranks holds.
    #[inline]
    pub(super) const fn end(self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::One(entry) => entry.end(),
            Self::Crew(crew) => crew.reach(),
        }
    }

    /// The entry of a slot.
    #[inline]
    pub(super) fn entry_of(self, slot: u32) -> Option<Entry> {
        match self {
            Self::One(entry) if entry.slot() == slot => Some(entry),
            Self::Crew(crew) if crew.contains(slot) => Some(Entry::new(slot, crew.reach(), crew.reach(), 0)),
            _ => None,
        }
    }

    /// With a rank that is not in it, if one word can say it.
    #[inline]
    pub(super) fn joined(self, entry: Entry) -> Option<Self> {
        let crew = match self {
            Self::One(other) if other.is_plain() => Crew::of(other),
            Self::Crew(crew) => crew,
            _ => return None,
        };
        if !entry.is_plain() {
            return None;
        }
        crew.joined(Crew::of(entry)).map(Self::Crew)
    }

    /// Without a rank that is in it.
    #[inline]
    pub(super) fn without(self, slot: u32) -> Self {
        match self {
            Self::Crew(crew) => {
                let rest = Crew(crew.0 & !(1 << (slot - crew.base())));
                if rest.slots() == 0 { Self::Nobody } else { Self::Crew(rest) }
            }
            _ => Self::Nobody,
        }
    }
}

/// The most tier records, the number 0 included.
pub(super) const MAX_TIER_RECORDS: u32 = 1 << 23;

/// What the number of pages that hang at one page stays below.
pub(super) const MAX_CHILDREN: u32 = 1 << 26;

/// Where a page hangs and how long it is.
///
/// Bits 0..32 the parent page, 32..42 the offset: blocks of the parent before it, 42..52 the page's own blocks,
/// 52..62 top: no child hangs at a greater offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape(pub(super) u64);

impl Shape {
    #[inline]
    pub(super) fn new(parent: u32, offset: usize, len: usize) -> Self {
        Self(u64::from(parent) | (offset as u64) << 32).with_len(len)
    }

    #[inline]
    pub(super) const fn parent(self) -> u32 {
        field(self.0, 0, 32) as u32
    }

    #[inline]
    pub(super) const fn offset(self) -> usize {
        field(self.0, 32, 10) as usize
    }

    #[inline]
    pub(super) const fn len(self) -> usize {
        field(self.0, 42, 10) as usize
    }

    #[inline]
    pub(super) const fn top(self) -> usize {
        field(self.0, 52, 10) as usize
    }

    #[inline]
    #[must_use]
    pub(super) fn with_len(self, len: usize) -> Self {
        debug_assert!(len <= PAGE_BLOCKS);
        Self(self.0 & !(0x3ff << 42) | (len as u64) << 42)
    }

    #[inline]
    #[must_use]
    pub(super) fn with_top(self, top: usize) -> Self {
        debug_assert!(top <= PAGE_BLOCKS);
        Self(self.0 & !(0x3ff << 52) | (top as u64) << 52)
    }

    /// Whether the page hangs there.
    #[inline]
    pub(super) const fn hangs_at(self, parent: u32, offset: usize) -> bool {
        self.0 & ((1 << 42) - 1) == parent as u64 | (offset as u64) << 32
    }
}

/// A piece of line memory: bits 0..32 the first line, 32..38 the size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) line: u32,
    pub(super) class: u8,
}

impl Extent {
    /// No memory: no class has this number.
    pub(super) const NONE: Self = Self { line: 0, class: 0x3f };

    #[inline]
    const fn to_bits(self) -> u64 {
        self.line as u64 | (self.class as u64) << 32
    }

    #[inline]
    const fn from_bits(word: u64) -> Self {
        Self { line: field(word, 0, 32) as u32, class: field(word, 32, 6) as u8 }
    }
}

/// Where the local hashes of a page after the first line are (bits 0..38) and how many pages hang below it (38..64).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content(pub(super) u64);

impl Content {
    #[inline]
    pub(super) fn new(extent: Extent, children: u32) -> Self {
        Self(extent.to_bits() | u64::from(children) << 38)
    }

    #[inline]
    pub(super) const fn extent(self) -> Extent {
        Extent::from_bits(self.0)
    }

    #[inline]
    pub(super) const fn children(self) -> u32 {
        (self.0 >> 38) as u32
    }

    #[must_use]
    pub(super) fn with_extent(self, extent: Extent) -> Self {
        Self::new(extent, self.children())
    }

    #[must_use]
    pub(super) fn with_children(self, children: u32) -> Self {
        debug_assert!(children < MAX_CHILDREN);
        Self::new(self.extent(), children)
    }
}

/// Where the words of the holders of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// In the words of the header.
    Inline,
    /// In one extent, a word each.
    List,
    /// In several extents of [`LEAF`](super::sizes::LEAF) words, whose places one extent lists.
    Tree,
}

/// The holders of a page: bits 0..38 their extent, 38..40 the layout, 40..60 how many words are in use, freed
/// entries between them included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holders(pub(super) u64);

impl Holders {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(layout: Layout, extent: Extent, count: usize) -> Self {
        let layout = match layout {
            Layout::Inline => 0u64,
            Layout::List => 1,
            Layout::Tree => 2,
        };
        Self(extent.to_bits() | layout << 38 | (count as u64) << 40)
    }

    #[inline]
    pub(super) const fn layout(self) -> Layout {
        match field(self.0, 38, 2) {
            0 => Layout::Inline,
            1 => Layout::List,
            _ => Layout::Tree,
        }
    }

    #[inline]
    pub(super) const fn extent(self) -> Extent {
        Extent::from_bits(self.0)
    }

    #[inline]
    pub(super) const fn count(self) -> usize {
        field(self.0, 40, 20) as usize
    }

    #[must_use]
    pub(super) fn with_count(self, count: usize) -> Self {
        Self(self.0 & !(0xf_ffff << 40) | (count as u64) << 40)
    }
}

/// Which of a page's blocks one rank holds: a bit a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask([u64; PAGE_BLOCKS.div_ceil(64)]);

impl Mask {
    #[inline]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    #[inline]
    pub(super) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub(super) fn words(&self) -> &[u64; PAGE_BLOCKS.div_ceil(64)] {
        &self.0
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds all of another mask.
    pub(super) fn insert_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Takes all of another mask out.
    pub(super) fn remove_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }

    /// The blocks of this mask among `count` blocks from `from`.
    pub(super) fn part(&self, from: usize, count: usize) -> Self {
        let mut range = Self::default();
        range.insert_range(from, count);
        range.0.iter_mut().zip(&self.0).for_each(|(word, own)| *word &= own);
        range
    }

    /// The first `count` blocks.
    pub(super) fn first(count: usize) -> Self {
        let mut mask = Self::default();
        mask.insert_range(0, count);
        mask
    }

    /// Takes `count` blocks from `from` out.
    pub(super) fn remove_range(&mut self, from: usize, count: usize) {
        let (mut at, end) = (from, from + count);
        while at < end {
            let here = (end - at).min(64 - at % 64);
            self.0[at / 64] &= !((u64::MAX >> (64 - here)) << (at % 64));
            at += here;
        }
    }

    /// Adds `count` blocks from `from`; false when one of them was in already.
    #[inline]
    pub(super) fn insert_range(&mut self, from: usize, count: usize) -> bool {
        let (mut at, end, mut fresh) = (from, from + count, true);
        while at < end {
            let here = (end - at).min(64 - at % 64);
            let bits = (u64::MAX >> (64 - here)) << (at % 64);
            fresh &= self.0[at / 64] & bits == 0;
            self.0[at / 64] |= bits;
            at += here;
        }
        fresh
    }

    /// Leading blocks without a gap.
    #[inline]
    pub(super) fn reach(&self) -> usize {
        let mut reach = 0;
        for &word in &self.0 {
            let here = word.trailing_ones();
            reach += here as usize;
            if here < 64 {
                break;
            }
        }
        reach
    }

    /// One more than the last block, 0 when empty.
    #[inline]
    pub(super) fn end(&self) -> usize {
        let last = self.0.iter().rposition(|&word| word != 0);
        last.map_or(0, |index| index * 64 + 64 - self.0[index].leading_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_mask_is_a_set(bits in prop::collection::btree_set(0usize..PAGE_BLOCKS, 0..40), from in 0usize..PAGE_BLOCKS, len in 0usize..PAGE_BLOCKS) {
            let len = len.min(PAGE_BLOCKS - from);
            let all = |mask: &Mask| (0..PAGE_BLOCKS).filter(|&at| mask.contains(at)).collect::<Vec<_>>();
            let mut mask = Mask::default();
            bits.iter().for_each(|&at| mask.insert(at));
            prop_assert_eq!(all(&mask), bits.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(mask.end(), bits.last().map_or(0, |at| at + 1));
            prop_assert_eq!(mask.reach(), (0..).take_while(|at| bits.contains(at)).count());
            let part = mask.part(from, len);
            prop_assert_eq!(all(&part), bits.range(from..from + len).copied().collect::<Vec<_>>());
            let mut rest = mask;
            rest.remove_all(&part);
            prop_assert_eq!(rest.count(), mask.count() - part.count());
            rest.insert_all(&part);
            prop_assert_eq!(rest, mask);
            rest.remove_range(from, len);
            prop_assert_eq!(rest.count(), mask.count() - part.count());
            let fresh = mask.insert_range(from, len);
            prop_assert_eq!(fresh, bits.range(from..from + len).next().is_none());
            let mut union = bits.clone();
            union.extend(from..from + len);
            prop_assert_eq!(mask.count(), union.len());
            prop_assert_eq!(mask.reach(), (0..).take_while(|at| union.contains(at)).count());
        }

        #[test]
        fn words_give_back_what_was_put_in(slot in 0u32..MAX_SLOTS as u32, end in 1usize..=512, cut in 0usize..=512, tiers in 0u32..1 << 23, page: u32) {
            let entry = Entry::new(slot, end.min(cut), end, tiers);
            prop_assert_eq!((entry.slot(), entry.reach(), entry.end(), entry.tiers()), (slot, end.min(cut), end, tiers));
            let shape = Shape::new(page, cut, end).with_top(cut).with_len(end - 1);
            prop_assert_eq!((shape.parent(), shape.offset(), shape.len(), shape.top()), (page, cut, end - 1, cut));
            prop_assert!(shape.hangs_at(page, cut) && !shape.hangs_at(page ^ 1, cut));
            let extent = Extent { line: page, class: 11 };
            let content = Content::new(extent, slot).with_children(slot + 1);
            prop_assert_eq!((content.extent(), content.children()), (extent, slot + 1));
            let holders = Holders::new(Layout::Tree, extent, 5).with_count(slot as usize);
            prop_assert_eq!((holders.extent(), holders.layout(), holders.count()), (extent, Layout::Tree, slot as usize));
        }
    }
}
