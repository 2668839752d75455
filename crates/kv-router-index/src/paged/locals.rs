//! The local hashes of a page: the first are beside the header, so that both are read at once, the others in an extent.
//!
//! An extent with room for a chunk of them ends with keys, one a chunk that is full: what a request with keys of its own
//! compares in one word. They are content like the hashes, of the same version.

use kv_router_hash::{KeyStep, PrefixKey, PrefixKeyer};
use kv_router_types::LocalBlockHash;

use super::block::Block;
use super::lines::{LINE, Line, Lines, class_for, class_words};
use super::page::Header;
use super::sizes::{CHUNK, HEAD};
use super::words::{Extent, PAGE_BLOCKS};
use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Keys of a page.
const KEYS: usize = PAGE_BLOCKS / CHUNK;

/// How a request is compared.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) locals: &'a [LocalBlockHash],
    /// The keys of its prefixes, from that of no blocks on; none if the request brings none.
    pub(super) keys: &'a [PrefixKey],
}

impl<'a> Query<'a> {
    /// What is left behind the first `blocks` blocks.
    #[inline]
    pub(super) fn behind(self, blocks: usize) -> Self {
        Self { locals: &self.locals[blocks..], keys: self.keys.get(blocks..).unwrap_or_default() }
    }
}

/// What keys are made with.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) keyer: PrefixKeyer,
    step: KeyStep,
}

impl Keys {
    pub(super) fn new(seed: u64) -> Self {
        let keyer = PrefixKeyer::new(seed);
        Self { keyer, step: keyer.step(CHUNK) }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Locals<'a> {
    head: &'a [AtomicU64; HEAD],
    rest: &'a [Line],
}

impl<'a> Locals<'a> {
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

    /// The keys, one a chunk that is full.
    #[inline]
    fn keys(self) -> impl Iterator<Item = &'a AtomicU64> {
        let words = if self.rest.len() * LINE >= CHUNK { KEYS } else { 0 };
        let lines = &self.rest[self.rest.len() - words.div_ceil(LINE)..];
        let spare = words.next_multiple_of(LINE) - words;
        lines.iter().flat_map(|line| &line.0).skip(spare)
    }

    /// How many of the first `len` blocks are the same as the first of a request.
    #[inline]
    pub(super) fn common(self, len: usize, query: Query<'_>, keys: &Keys) -> usize {
        let len = len.min(query.locals.len());
        let mut same = 0;
        if query.keys.len() > CHUNK {
            let borders = query.keys.iter().step_by(CHUNK);
            let chunks = borders.clone().zip(borders.skip(1)).take(len / CHUNK);
            let is_same = |((before, after), key): ((&PrefixKey, &PrefixKey), &AtomicU64)| {
                keys.keyer.between(*before, *after, keys.step).get() == key.load(Ordering::Relaxed)
            };
            same = CHUNK * chunks.zip(self.keys()).take_while(|&pair| is_same(pair)).count();
        }
        self.common_after(same, &query.locals[..len])
    }

    /// The same, where so many are known to be the same: none, or whole chunks.
    #[inline]
    fn common_after(self, known: usize, query: &[LocalBlockHash]) -> usize {
        let (mut begin, mut lines) = (known, self.rest);
        if known == 0 {
            begin = same(self.head, query);
            if begin < HEAD {
                return begin;
            }
        } else {
            lines = lines.get((known - HEAD).div_ceil(LINE)..).unwrap_or_default();
        }
        let (whole, rest) = query[begin..].as_chunks::<LINE>();
        for (index, (line, wanted)) in lines.iter().zip(whole).enumerate() {
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
        begin + done * LINE + lines.get(done).map_or(0, |line| same(&line.0, rest))
    }

    /// How many of the blocks from `at` to `len` are the same as `wanted`.
    #[inline]
    pub(super) fn common_from(self, at: usize, len: usize, wanted: &[impl Block]) -> usize {
        let here = (at..len).map(|at| self.word(at).load(Ordering::Relaxed));
        here.zip(wanted).take_while(|(here, block)| *here == block.local()).count()
    }

    /// Writes local hashes from `from` on, and the keys of the chunks that they fill. Readers who see one of them see
    /// what was done before to the page that they knew there.
    pub(super) fn write(self, from: usize, blocks: &[impl Block], keys: &Keys) {
        fence(Ordering::Release);
        self.write_hashes(from, blocks);
        let chunks = from / CHUNK..(from + blocks.len()) / CHUNK;
        for (chunk, word) in chunks.clone().zip(self.keys().skip(chunks.start)) {
            word.store(self.key(chunk, keys).get(), Ordering::Relaxed);
        }
    }

    fn key(self, chunk: usize, keys: &Keys) -> PrefixKey {
        let blocks = (chunk * CHUNK..).take(CHUNK).map(|at| self.get(at));
        blocks.fold(PrefixKey::default(), |key, block| keys.keyer.extend(key, block))
    }

    /// Whether every chunk that is full has its key.
    pub(super) fn has_keys(self, len: usize, keys: &Keys) -> bool {
        let mut words = self.keys();
        (0..len / CHUNK).all(|chunk| {
            words.next().is_some_and(|word| word.load(Ordering::Relaxed) == self.key(chunk, keys).get())
        })
    }

    fn write_hashes(self, from: usize, blocks: &[impl Block]) {
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
        to.keys()
            .zip(self.keys())
            .for_each(|(to, from)| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed));
    }
}

/// Locals for which a page with this extent has room.
pub(super) fn room(extent: Extent) -> usize {
    let words = class_words(extent.class);
    HEAD + if words >= CHUNK { words - KEYS } else { words }
}

/// Words that a page of so many blocks needs in an extent.
pub(super) fn words_for(blocks: usize) -> usize {
    let rest = blocks.saturating_sub(HEAD);
    let has_keys = rest > 0 && class_words(class_for(rest)) >= CHUNK;
    if has_keys { rest + KEYS } else { rest }
}

/// An extent for a page of so many blocks.
pub(super) fn allocate(lines: &Lines, blocks: usize) -> Extent {
    match words_for(blocks) {
        0 => Extent::NONE,
        words => lines.allocate(words),
    }
}

#[inline]
fn same(words: &[AtomicU64], wanted: &[LocalBlockHash]) -> usize {
    let pairs = words.iter().zip(wanted);
    pairs.take_while(|(word, wanted)| word.load(Ordering::Relaxed) == wanted.get()).count()
}

fn put<'a>(words: impl Iterator<Item = &'a AtomicU64>, blocks: &[impl Block]) {
    words.zip(blocks).for_each(|(word, block)| word.store(block.local(), Ordering::Relaxed));
}
