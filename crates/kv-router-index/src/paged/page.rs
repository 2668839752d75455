//! Page headers: two neighbouring cache lines each, locked by a bit, read by version.
//!
//! What a reader may rely on: a page whose `state` word is the same after reading as before has not been recycled,
//! has not had memory taken away or overwritten that the reader may have seen, and no rank's reach in it has shrunk.
//! Growth does not change the version; every such change is one store that makes a legal answer of its own. But a reader
//! that compares the content before it reads the holders may find a holder that is longer than the page was: then it
//! has seen two states, and starts again.

use super::branches::bit;
use super::chunks::Chunks;
use super::sizes::{HEAD, HEADER_CHUNK as CHUNK};
use super::words::{Content, Holders, Shape};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock_bit};

/// Bits of the state word; the version is above.
const LOCK: u64 = 1;
const ALIVE: u64 = 2;
const VERSION: u64 = 4;

/// What is known of a page without following it anywhere.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Header {
    state: AtomicU64,
    shape: AtomicU64,
    content: AtomicU64,
    /// A bit for each eight offsets: whether a page may hang there.
    filter: AtomicU64,
    holders: AtomicU64,
    /// Holders when they fit in so many words.
    pub(super) inline: [AtomicU64; INLINE],
    /// The first local hashes: the page is found by the very first, and most requests that part from it do so here.
    pub(super) head: [AtomicU64; HEAD],
}

/// Words of holders in a header.
pub(super) const INLINE: usize = 3;

/// The state of a page at some moment, less the lock bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    #[inline]
    pub(super) const fn is_alive(self) -> bool {
        self.0 & ALIVE != 0
    }
}

impl Header {
    #[inline]
    pub(super) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire) & !LOCK)
    }

    #[inline]
    pub(super) fn shape(&self) -> Shape {
        Shape(self.shape.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn content(&self) -> Content {
        Content(self.content.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.head[0].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn holders(&self) -> Holders {
        Holders(self.holders.load(Ordering::Acquire))
    }

    /// Whether a page may hang at the offset.
    #[inline]
    pub(super) fn may_continue_at(&self, offset: usize) -> bool {
        self.filter.load(Ordering::Acquire) & bit(offset) != 0
    }
}

/// All headers. Memory that was once a header is only ever a header again, so that a stale lock bit means a page.
pub(super) struct Headers {
    chunks: Chunks<Header>,
    free: Mutex<FreeIds>,
}

struct FreeIds {
    ids: Vec<u32>,
    /// The lowest number never given out. 0 is the root.
    next: u32,
}

impl Headers {
    pub(super) fn new() -> Self {
        Self { chunks: Chunks::new(CHUNK), free: Mutex::new(FreeIds { ids: Vec::new(), next: 1 }) }
    }

    /// The header of a page that exists or existed.
    #[inline]
    pub(super) fn at(&self, page: u32) -> &Header {
        let chunk = self.chunks.get(page as usize / CHUNK);
        &chunk.unwrap_or_default()[page as usize % CHUNK]
    }

    /// Locks a page, alive or not.
    #[inline]
    pub(super) fn lock(&self, page: u32) -> Locked<'_> {
        let header = self.at(page);
        let state = lock_bit(&header.state, LOCK);
        Locked { header, page, state }
    }

    /// A dead page, locked.
    pub(super) fn allocate(&self) -> Locked<'_> {
        let page = {
            let mut free = self.free.lock();
            free.ids.pop().unwrap_or_else(|| {
                free.next += 1;
                free.next - 1
            })
        };
        self.chunks.ensure(page as usize / CHUNK);
        self.lock(page)
    }

    /// Takes a dead page back.
    pub(super) fn recycle(&self, page: u32) {
        self.free.lock().ids.push(page);
    }

    /// Page numbers that are or were in use.
    pub(super) fn all(&self) -> std::ops::Range<u32> {
        1..self.free.lock().next
    }

    /// Pages in use.
    pub(super) fn in_use(&self) -> usize {
        let free = self.free.lock();
        free.next as usize - 1 - free.ids.len()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.bytes() + self.free.lock().ids.capacity() * 4
    }
}

/// A page that only we change. Lock order: parent before child, pages before a segment of the edges.
pub(super) struct Locked<'a> {
    header: &'a Header,
    page: u32,
    state: u64,
}

impl std::ops::Deref for Locked<'_> {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        self.header
    }
}

impl Locked<'_> {
    #[inline]
    pub(super) fn page(&self) -> u32 {
        self.page
    }

    #[inline]
    pub(super) fn is_alive(&self) -> bool {
        self.state & ALIVE != 0
    }

    /// Tells readers that what they read may be gone. Comes after a shrink and before anything that a reader could
    /// mistake for what was there.
    #[inline]
    pub(super) fn bump(&mut self) {
        self.state = self.state.wrapping_add(VERSION);
        self.publish();
    }

    fn publish(&self) {
        self.header.state.store(self.state | LOCK, Ordering::Release);
    }

    /// Brings a dead page to life. Its blocks are there already.
    pub(super) fn revive(&mut self, shape: Shape, content: Content) {
        self.header.shape.store(shape.0, Ordering::Release);
        self.header.content.store(content.0, Ordering::Release);
        self.header.filter.store(0, Ordering::Release);
        self.header.holders.store(Holders::NONE.0, Ordering::Release);
        self.header.inline.iter().for_each(|word| word.store(0, Ordering::Release));
        self.state |= ALIVE;
        self.bump();
    }

    /// Comes before the page's memory is given away. The version moves on when the page is used again.
    pub(super) fn kill(&mut self) {
        self.state &= !ALIVE;
        self.publish();
    }

    #[inline]
    pub(super) fn set_shape(&mut self, shape: Shape) {
        self.header.shape.store(shape.0, Ordering::Release);
    }

    #[inline]
    pub(super) fn set_content(&mut self, content: Content) {
        self.header.content.store(content.0, Ordering::Release);
    }

    #[inline]
    pub(super) fn set_holders(&mut self, holders: Holders) {
        self.header.holders.store(holders.0, Ordering::Release);
    }

    /// Sets how many pages hang here, how far back, and where. A bit that is there too long costs a reader a look; one
    /// that is missing would hide a page, so the filter comes first.
    pub(super) fn set_children(&mut self, children: u32, top: usize, filter: impl Fn(u64) -> u64) {
        let before = self.header.filter.load(Ordering::Relaxed);
        self.header.filter.store(filter(before), Ordering::Release);
        self.set_shape(self.shape().with_top(top));
        self.set_content(self.content().with_children(children));
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.header.state.store(self.state, Ordering::Release);
    }
}
