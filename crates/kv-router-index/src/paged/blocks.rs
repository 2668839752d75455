//! The local hashes of a page: the first are beside the header, so that both are read at once, the others in an extent.

use kv_router_types::{LocalBlockHash, StoredBlock};

use super::lines::{LINE, Line, Lines, class_words};
use super::page::Header;
use super::sizes::HEAD;
use super::words::Extent;
use crate::sync::atomic::{AtomicU64, Ordering, fence};

#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    head: &'a [AtomicU64; HEAD],
    rest: &'a [Line],
}

impl<'a> Blocks<'a> {
    /// Those of a page.
    #[inline]
    pub(super) fn of(lines: &'a Lines, header: &'a Header) -> Self {
        Self::new(lines, header, header.content().extent())
    }

    /// Those of a page whose extent is, or will be, this.
    #[inline]
    pub(super) fn new(lines: &'a Lines, header: &'a Header, extent: Extent) -> Self {
        Self { head: &header.head, rest: lines.at(extent) }
    }

    #[inline]
    fn word(self, at: usize) -> &'a AtomicU64 {
        match at.checked_sub(HEAD) {
            None => &self.head[at],
            Some(at) => &self.rest[at / LINE].0[at % LINE],
        }
    }

    /// The local hash at `at`. Only for blocks that somebody keeps from going away.
    pub(super) fn get(self, at: usize) -> LocalBlockHash {
        LocalBlockHash::new(self.word(at).load(Ordering::Relaxed))
    }

    /// How many of the first `len` blocks are the same as the first of `query`.
    #[inline]
    pub(super) fn common(self, len: usize, query: &[LocalBlockHash]) -> usize {
        let len = len.min(query.len());
        let (first, query) = query[..len].split_at(len.min(HEAD));
        let begin = same(self.head, first);
        if begin < HEAD {
            return begin;
        }
        let (whole, rest) = query.as_chunks::<LINE>();
        for (index, (line, wanted)) in self.rest.iter().zip(whole).enumerate() {
            let mut differs = 0;
            for (word, wanted) in line.0.iter().zip(wanted) {
                differs |= word.load(Ordering::Relaxed) ^ wanted.get();
            }
            // Opaque, or the compiler makes eight branches of the eight comparisons.
            if std::hint::black_box(differs) != 0 {
                return begin + index * LINE + same(&line.0, wanted);
            }
        }
        let done = whole.len();
        begin + done * LINE + self.rest.get(done).map_or(0, |line| same(&line.0, rest))
    }

    /// How many of the blocks from `at` to `len` are the same as `wanted`.
    #[inline]
    pub(super) fn common_from(self, at: usize, len: usize, wanted: &[StoredBlock]) -> usize {
        let here = (at..len).map(|at| self.word(at).load(Ordering::Relaxed));
        here.zip(wanted).take_while(|(here, block)| *here == block.local.get()).count()
    }

    /// Writes local hashes from `from` on. Readers who see one of them see what was done before to the page that they
    /// knew there.
    pub(super) fn write(self, from: usize, blocks: &[StoredBlock]) {
        fence(Ordering::Release);
        let (first, rest) = blocks.split_at(blocks.len().min(HEAD.saturating_sub(from)));
        put(self.head.iter().skip(from), first);
        let from = from.max(HEAD) - HEAD;
        let (first, rest) = rest.split_at(rest.len().min((LINE - from % LINE) % LINE));
        if !first.is_empty() {
            put(self.rest[from / LINE].0[from % LINE..].iter(), first);
        }
        let lines = self.rest.iter().skip(from.div_ceil(LINE));
        lines.zip(rest.chunks(LINE)).for_each(|(line, blocks)| put(line.0.iter(), blocks));
    }

    /// Copies what is not beside the header, as far as there is room for it.
    pub(super) fn copy_rest(self, to: Self) {
        for (to, from) in to.rest.iter().zip(self.rest) {
            for (to, from) in to.0.iter().zip(&from.0) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

/// Blocks for which a page with this extent has room.
pub(super) fn room(extent: Extent) -> usize {
    HEAD + class_words(extent.class)
}

/// An extent for a page of so many blocks.
pub(super) fn allocate(lines: &Lines, blocks: usize) -> Extent {
    if blocks <= HEAD { Extent::NONE } else { lines.allocate(blocks - HEAD) }
}

#[inline]
fn same(words: &[AtomicU64], wanted: &[LocalBlockHash]) -> usize {
    let pairs = words.iter().zip(wanted);
    pairs.take_while(|(word, wanted)| word.load(Ordering::Relaxed) == wanted.get()).count()
}

fn put<'a>(words: impl Iterator<Item = &'a AtomicU64>, blocks: &[StoredBlock]) {
    words.zip(blocks).for_each(|(word, block)| word.store(block.local.get(), Ordering::Relaxed));
}
