//! Memory for what varies in size: local hashes and lists of holders.
//!
//! Cut in lines of 64 bytes, in slabs of 192 lines: every size class divides a slab without a rest. A slab serves one
//! class at a time and goes back to all of them when it is empty, so that memory freed in one size serves another.
//! Nothing is ever unmapped while the index lives: a reader that follows an old word finds memory, though perhaps
//! someone else's by then, and the version of the page that it came from tells.

use super::chunks::Chunks;
use super::sizes::{CHUNK_SLABS, CLASSES, SLAB};
use super::words::Extent;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering, fence};

pub(super) use super::sizes::LINE;

const NIL: u32 = u32::MAX;

/// Slabs that there are numbers for: 192 GiB.
pub(super) const MAX_SLABS: usize = 1 << 24;

/// Slabs from which on stores are refused. What is left is for those on their way, and for removals: a rank that leaves
/// its crew needs a word more. They cannot use it up before memory ends: each word has a record of 64 bytes.
const MOST: usize = MAX_SLABS / 4 * 3;

/// One cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [AtomicU64; LINE]);

/// The smallest class with room for `words` words.
pub(super) fn class_for(words: usize) -> u8 {
    let lines = words.div_ceil(LINE).max(1);
    CLASSES.partition_point(|&size| usize::from(size) < lines) as u8
}

/// Words in an extent of that class, 0 in none.
pub(super) fn class_words(class: u8) -> usize {
    CLASSES.get(usize::from(class)).map_or(0, |&lines| usize::from(lines) * LINE)
}

/// The arena and its allocator.
pub(super) struct Lines {
    chunks: Chunks<Line>,
    slabs: Mutex<Slabs>,
    /// Slabs that are not empty. Not a model's atomic: no order depends on it.
    slabs_in_use: std::sync::atomic::AtomicUsize,
    /// The slabs that may be in use before stores are refused.
    pub(super) most: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            chunks: Chunks::new(CHUNK_SLABS * SLAB),
            slabs: Mutex::new(Slabs::new()),
            slabs_in_use: 0.into(),
            most: MOST,
        }
    }

    /// Whether so much is in use that nothing new may be held.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.slabs_in_use.load(Ordering::Relaxed) >= self.most
    }

    /// The lines of an extent, none of [`Extent::NONE`]. Nothing when the extent was never allocated, which only a reader
    /// that follows recycled memory can ask for.
    #[inline]
    pub(super) fn at(&self, extent: Extent) -> &[Line] {
        let (slab, line) = ((extent.line >> 8) as usize, (extent.line & 0xff) as usize);
        let from = slab % CHUNK_SLABS * SLAB + line;
        let Some(&len) = CLASSES.get(usize::from(extent.class)) else { return &[] };
        match self.chunks.get(slab / CHUNK_SLABS) {
            Some(chunk) => chunk.get(from..from + usize::from(len)).unwrap_or_default(),
            None => &[],
        }
    }

    /// An extent with room for `words` words, 512 at most. What it holds is undefined.
    ///
    /// Stores into it are ordered after everything that the one who freed it did before: whoever reads them sees that.
    pub(super) fn allocate(&self, words: usize) -> Extent {
        let class = class_for(words);
        let line = self.with_slabs(|slabs| slabs.allocate(class));
        self.chunks.ensure((line >> 8) as usize / CHUNK_SLABS);
        fence(Ordering::Release);
        Extent { line, class }
    }

    /// Takes an extent back. The caller has made sure that readers notice: it bumped the page's version.
    pub(super) fn free(&self, extent: Extent) {
        if extent != Extent::NONE {
            self.with_slabs(|slabs| slabs.free(extent.line));
        }
    }

    #[inline]
    fn with_slabs<R>(&self, change: impl FnOnce(&mut Slabs) -> R) -> R {
        let mut slabs = self.slabs.lock();
        let result = change(&mut slabs);
        self.slabs_in_use.store(slabs.slabs.len() - slabs.empty.len(), Ordering::Relaxed);
        result
    }

    /// Bytes allocated, and those of them that are in use.
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.chunks.bytes(), self.slabs.lock().used_lines * LINE * 8)
    }
}

/// One slab: what it is cut in and which pieces are free.
#[derive(Clone, Copy)]
struct Slab {
    free: [u64; SLAB.div_ceil(64)],
    class: u8,
    used: u8,
    /// Neighbours in the list of slabs of this class with a free piece.
    prev: u32,
    next: u32,
}

struct Slabs {
    slabs: Vec<Slab>,
    /// Slabs of each class with a free piece.
    partial: [u32; CLASSES.len()],
    empty: Vec<u32>,
    used_lines: usize,
}

impl Slabs {
    fn new() -> Self {
        Self { slabs: Vec::new(), partial: [NIL; CLASSES.len()], empty: Vec::new(), used_lines: 0 }
    }

    fn allocate(&mut self, class: u8) -> u32 {
        let mut at = self.partial[usize::from(class)];
        if at == NIL {
            at = self.cut(class);
        }
        let lines = CLASSES[usize::from(class)];
        let pieces = SLAB / usize::from(lines);
        let slab = &mut self.slabs[at as usize];
        let word = slab.free.iter().position(|&bits| bits != 0).unwrap_or(0);
        let piece = word * 64 + slab.free[word].trailing_zeros() as usize;
        slab.free[word] &= slab.free[word] - 1;
        slab.used += 1;
        if usize::from(slab.used) == pieces {
            self.unlist(at);
        }
        self.used_lines += usize::from(lines);
        at << 8 | (piece * usize::from(lines)) as u32
    }

    fn free(&mut self, line: u32) {
        let at = line >> 8;
        let slab = &mut self.slabs[at as usize];
        let lines = CLASSES[usize::from(slab.class)];
        let piece = (line & 0xff) as usize / usize::from(lines);
        debug_assert!(slab.free[piece / 64] >> (piece % 64) & 1 == 0, "freed twice");
        let was_full = usize::from(slab.used) == SLAB / usize::from(lines);
        slab.free[piece / 64] |= 1 << (piece % 64);
        slab.used -= 1;
        self.used_lines -= usize::from(lines);
        match (slab.used, was_full) {
            (0, listed_not) => {
                if !listed_not {
                    self.unlist(at);
                }
                self.empty.push(at);
            }
            (_, true) => self.list(at),
            _ => {}
        }
    }

    /// An empty slab, cut in pieces of the class and listed.
    fn cut(&mut self, class: u8) -> u32 {
        let at = self.empty.pop().unwrap_or_else(|| {
            // Numbers that come round again would mix up pages.
            assert!(
                self.slabs.len() < MAX_SLABS,
                "192 GiB of lists of holders: more memory than there can be"
            );
            self.slabs.push(Slab { free: [0; SLAB.div_ceil(64)], class, used: 0, prev: NIL, next: NIL });
            self.slabs.len() as u32 - 1
        });
        let pieces = SLAB / usize::from(CLASSES[usize::from(class)]);
        let slab = &mut self.slabs[at as usize];
        slab.class = class;
        slab.free = std::array::from_fn(|word| match pieces.saturating_sub(word * 64) {
            0 => 0,
            left => u64::MAX >> (64 - left.min(64)),
        });
        self.list(at);
        at
    }

    fn list(&mut self, at: u32) {
        let class = usize::from(self.slabs[at as usize].class);
        let next = self.partial[class];
        self.slabs[at as usize].prev = NIL;
        self.slabs[at as usize].next = next;
        if next != NIL {
            self.slabs[next as usize].prev = at;
        }
        self.partial[class] = at;
    }

    fn unlist(&mut self, at: u32) {
        let Slab { prev, next, class, .. } = self.slabs[at as usize];
        match prev {
            NIL => self.partial[usize::from(class)] = next,
            _ => self.slabs[prev as usize].next = next,
        }
        if next != NIL {
            self.slabs[next as usize].prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_never_overlap_and_slabs_come_back(steps in prop::collection::vec((any::<bool>(), 1usize..=512, any::<prop::sample::Index>()), 1..400)) {
            let lines = Lines::new();
            let mut live: Vec<Extent> = Vec::new();
            for (take, words, pick) in steps {
                if take || live.is_empty() {
                    let extent = lines.allocate(words);
                    prop_assert!(lines.at(extent).len() * LINE >= words);
                    live.push(extent);
                } else {
                    lines.free(live.swap_remove(pick.index(live.len())));
                }
                let mut spans: Vec<_> = live.iter().map(|e| (e.line, e.line + class_words(e.class) as u32 / 8)).collect();
                spans.sort_unstable();
                prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0));
                prop_assert_eq!(lines.bytes().1, spans.iter().map(|span| (span.1 - span.0) as usize * 64).sum::<usize>());
            }
            live.drain(..).for_each(|extent| lines.free(extent));
            let slabs = lines.slabs.lock();
            prop_assert_eq!(slabs.empty.len(), slabs.slabs.len());
            prop_assert!(slabs.partial.iter().all(|&at| at == NIL));
        }
    }
}
