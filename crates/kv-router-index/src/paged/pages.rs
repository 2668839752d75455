//! The tree of pages that all ranks share, and every change of its shape.

use kv_router_types::LocalBlockHash;

use super::block::Block;
use super::branches::Branches;
use super::edges::{EdgeHash, Edges};
use super::lines::{LINE, Lines, class_for, class_words};
use super::locals::{self, Keys, Locals};
use super::page::{Header, Headers, Locked, State};
use super::sizes::HEAD;
use super::tiers::TierRecords;
use super::touch::touch;
use super::words::{Content, Entry, Extent, PAGE_BLOCKS, ROOT, Shape};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Everything that readers look at but the slots.
pub(super) struct Pages {
    pub(super) headers: Headers,
    pub(super) lines: Lines,
    pub(super) tiers: TierRecords,
    pub(super) branches: Branches,
    pub(super) keys: Keys,
    edges: Edges,
    seed: u64,
    /// Blocks in pages.
    nodes: AtomicUsize,
}

/// What [`Pages::open_child`] came to.
pub(super) enum Opened<'a> {
    /// The page hangs there already. It is locked and alive.
    Found(Locked<'a>),
    /// The page is new, with so many of the blocks in it, and is locked.
    Created(Locked<'a>, usize),
}

impl Pages {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            headers: Headers::new(),
            lines: Lines::new(),
            tiers: TierRecords::new(),
            branches: Branches::new(),
            keys: Keys::new(seed),
            edges: Edges::new(),
            seed,
            nodes: AtomicUsize::new(0),
        }
    }

    /// Blocks in pages.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    pub(super) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    pub(super) fn edge_bytes(&self) -> usize {
        self.edges.bytes()
    }

    fn hash(&self, parent: u32, offset: usize, local: u64) -> EdgeHash {
        EdgeHash::new(parent, offset, local, self.seed)
    }

    /// The page that hangs there and begins with `local`, with the state that it had before it was looked at.
    #[inline]
    pub(super) fn child(&self, parent: u32, offset: usize, local: u64) -> Option<(u32, &Header, State)> {
        self.edges.find(self.hash(parent, offset, local), |page| {
            let header = self.headers.at(page);
            let state = header.state();
            let is_it =
                state.is_alive() && header.shape().hangs_at(parent, offset) && header.first() == local;
            is_it.then_some((page, header, state))
        })
    }

    /// Reads what [`child`](Self::child) will need, if anything may hang there.
    #[inline]
    pub(super) fn touch_child(&self, header: &Header, parent: u32, offset: usize, local: u64) {
        touch(|| {
            if header.may_continue_at(offset) {
                self.edges.touch(self.hash(parent, offset, local));
            }
        });
    }

    /// The local hash at `at`. Only for blocks that somebody keeps from going away.
    pub(super) fn local(&self, header: &Header, at: usize) -> LocalBlockHash {
        Locals::of(&self.lines, header).get(at)
    }

    /// Where in memory the local hash at an offset of a page is, or was.
    #[inline]
    pub(super) fn line_of(&self, page: u32, at: usize) -> u32 {
        let line = self.headers.at(page).content().extent().line;
        // What is beside the header is read with it.
        at.checked_sub(HEAD).map_or(u32::MAX, |at| line + (at / LINE) as u32)
    }

    /// Reads a page's header and a line of hashes. Nothing depends on what is there.
    #[inline]
    pub(super) fn touch(&self, page: u32, line: u32) {
        touch(|| self.headers.at(page).state());
        touch(|| self.headers.at(page).first());
        touch(|| {
            self.lines.at(Extent { line, class: 0 }).first().map(|line| line.0[0].load(Ordering::Relaxed))
        });
    }

    /// How many of the page's blocks from `at` on are the same as `wanted`.
    #[inline]
    pub(super) fn common(&self, header: &Header, at: usize, wanted: &[impl Block]) -> usize {
        Locals::of(&self.lines, header).common_from(at, header.shape().len(), wanted)
    }

    /// Follows `blocks` from `at` on in a locked page, then appends what the page has room for. How many blocks of
    /// the page are now the same as `blocks`; 0 when the first belongs into a page of its own.
    pub(super) fn follow(&self, page: &mut Locked<'_>, at: usize, blocks: &[impl Block]) -> usize {
        let len = page.shape().len();
        let same = if at < len { self.common(page, at, blocks) } else { 0 };
        let rest = &blocks[same..];
        if at + same < len || rest.is_empty() || len == PAGE_BLOCKS {
            return same;
        }
        if page.may_continue_at(len) && self.child(page.page(), len, rest[0].local()).is_some() {
            return same;
        }
        same + self.append(page, rest)
    }

    /// Appends as many blocks as there is room for.
    fn append(&self, page: &mut Locked<'_>, blocks: &[impl Block]) -> usize {
        let (shape, content) = (page.shape(), page.content());
        let count = blocks.len().min(PAGE_BLOCKS - shape.len());
        let len = shape.len() + count;
        let mut extent = content.extent();
        if len > locals::room(extent) {
            extent = self.move_content(page, len);
        }
        Locals::new(&self.lines, page, extent).write(shape.len(), &blocks[..count], &self.keys);
        page.set_shape(shape.with_len(len));
        self.nodes.fetch_add(count, Ordering::Relaxed);
        count
    }

    /// Moves the content to an extent for `len` blocks; what fits is copied.
    fn move_content(&self, page: &mut Locked<'_>, len: usize) -> Extent {
        let old = page.content().extent();
        let new = locals::allocate(&self.lines, len);
        Locals::new(&self.lines, page, old).copy_rest(Locals::new(&self.lines, page, new));
        page.set_content(page.content().with_extent(new));
        page.bump();
        self.lines.free(old);
        new
    }

    /// The page for `blocks[0]` at that offset of a page, or of the root: found or made.
    ///
    /// `holder` gives the first entry of a new page, from the number of blocks in it: a page that is visible is held.
    pub(super) fn open_child(
        &self,
        mut parent: Option<&mut Locked<'_>>,
        offset: usize,
        blocks: &[impl Block],
        holder: impl Fn(usize) -> Entry,
    ) -> Opened<'_> {
        let at = parent.as_ref().map_or(ROOT, |parent| parent.page());
        let first = blocks[0].local();
        let hash = self.hash(at, offset, first);
        let may_exist = parent.as_ref().is_none_or(|parent| parent.may_continue_at(offset));
        loop {
            if may_exist && let Some((page, ..)) = self.child(at, offset, first) {
                let page = self.headers.lock(page);
                // Under the root there is no lock that keeps a page from dying before we have it.
                if page.is_alive() && page.shape().hangs_at(at, offset) && page.first() == first {
                    return Opened::Found(page);
                }
                continue;
            }
            let count = blocks.len().min(PAGE_BLOCKS);
            let mut page = self.headers.allocate();
            let extent = locals::allocate(&self.lines, count);
            Locals::new(&self.lines, &page, extent).write(0, &blocks[..count], &self.keys);
            page.revive(Shape::new(at, offset, count), Content::new(extent, 0));
            page.add_holder(&self.lines, holder(count));

            let mut segment = self.edges.lock(hash);
            if parent.is_none() && self.child(at, offset, first).is_some() {
                // Somebody else made it in the meantime.
                drop(segment);
                page.kill();
                page.free_holders(&self.lines);
                self.lines.free(extent);
                self.headers.recycle(page.page());
                continue;
            }
            segment.insert(hash, page.page());
            drop(segment);
            if let Some(parent) = &mut parent {
                self.branches.add(&self.lines, parent, offset);
            }
            self.nodes.fetch_add(count, Ordering::Relaxed);
            return Opened::Created(page, count);
        }
    }

    /// Cuts off the blocks at the end that nobody holds and nothing hangs behind.
    pub(super) fn trim(&self, page: &mut Locked<'_>) {
        let shape = page.shape();
        let mut end = if page.content().children() > 0 { shape.top() } else { 0 };
        super::holders::for_each_word(&self.lines, page, |holding| end = end.max(holding.end()));
        if end >= shape.len() {
            return;
        }
        page.set_shape(shape.with_len(end));
        page.bump();
        self.nodes.fetch_sub(shape.len() - end, Ordering::Relaxed);
        let has = class_words(page.content().extent().class);
        let needs = match locals::words_for(end) {
            0 => 0,
            words => class_words(class_for(words)),
        };
        if end > 0 && has > needs && has >= 2 * needs {
            self.move_content(page, end);
        }
    }

    /// Takes a rank out of a page for good. Gives back what it held.
    pub(super) fn unhold(&self, page: u32, slot: u32, hint: u32) {
        let mut locked = self.headers.lock(page);
        let Some(before) = locked.remove_holder(&self.lines, slot, hint) else { return };
        self.tiers.free(before.tiers());
        if before.end() == locked.shape().len() {
            self.trim(&mut locked);
        }
        let abandoned = is_abandoned(&locked);
        drop(locked);
        if abandoned {
            self.free_page(page);
        }
    }

    /// Frees a page that has neither holders nor children, then its parent if that is left with none, and so on.
    fn free_page(&self, mut page: u32) {
        loop {
            let header = self.headers.at(page);
            let shape = header.shape();
            // Far away, and each lock waits for what is on its way: ask for all before the first.
            self.edges.touch(self.hash(shape.parent(), shape.offset(), header.first()));
            if shape.parent() == ROOT {
                let mut locked = self.headers.lock(page);
                if locked.is_alive() && locked.shape().parent() == ROOT && is_abandoned(&locked) {
                    self.unlink(&mut locked);
                }
                return;
            }
            let mut parent = self.headers.lock(shape.parent());
            // Somebody else may have freed it, and its number may be in use elsewhere. While we hold the lock of the
            // parent a living child stays its child, so the order of the locks is right.
            let header = self.headers.at(page);
            if !header.state().is_alive() || header.shape().parent() != parent.page() {
                return;
            }
            let mut locked = self.headers.lock(page);
            if !is_abandoned(&locked) {
                return;
            }
            self.unlink(&mut locked);
            drop(locked);
            self.branches.remove(&self.lines, &mut parent, shape.offset());
            self.trim(&mut parent);
            if !is_abandoned(&parent) {
                return;
            }
            page = parent.page();
        }
    }

    fn unlink(&self, page: &mut Locked<'_>) {
        let shape = page.shape();
        let hash = self.hash(shape.parent(), shape.offset(), page.first());
        let known = self.edges.lock(hash).remove(hash, page.page());
        debug_assert!(known, "a live page has an edge");
        page.kill();
        self.nodes.fetch_sub(shape.len(), Ordering::Relaxed);
        self.lines.free(page.content().extent());
        page.free_holders(&self.lines);
        self.headers.recycle(page.page());
    }
}

fn is_abandoned(page: &Locked<'_>) -> bool {
    page.holders().count() == 0 && page.content().children() == 0
}
