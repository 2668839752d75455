//! How large the parts are.
//!
//! A model of the concurrency has the same parts, as small as they can be: chunks, segments and lists that are full
//! after two entries, so that three operations grow and reuse all of them.

pub(super) use chosen::*;

#[cfg(not(kv_router_loom))]
mod chosen {
    /// The most blocks in one page.
    pub(in crate::paged) const PAGE_BLOCKS: usize = 512;
    /// Blocks of a page that are beside its header.
    pub(in crate::paged) const HEAD: usize = 8;
    /// Blocks of a page that have one key.
    pub(in crate::paged) const CHUNK: usize = 64;
    /// Words in a line of memory: a cache line.
    pub(in crate::paged) const LINE: usize = 8;
    /// Lines of each size class. Each divides [`SLAB`] without a rest.
    pub(in crate::paged) const CLASSES: [u16; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
    /// Lines in a slab.
    pub(in crate::paged) const SLAB: usize = 192;
    pub(in crate::paged) const CHUNK_SLABS: usize = 16;
    /// Entries in one leaf of the largest lists of holders.
    pub(in crate::paged) const LEAF: usize = 512;
    /// Slots that one word of holders can stand for.
    pub(in crate::paged) const CREW: u64 = 32;
    /// Words of holders that are searched for one that a rank can join.
    pub(in crate::paged) const JOINABLE: usize = 128;

    /// Entries of the top table of chunks, and chunks under each.
    pub(in crate::paged) const TOP: usize = 1024;
    pub(in crate::paged) const MID: usize = 1024;
    pub(in crate::paged) const HEADER_CHUNK: usize = 1024;
    pub(in crate::paged) const BRANCH_CHUNK: usize = 1024;
    pub(in crate::paged) const TIER_CHUNK: usize = 64;
    pub(in crate::paged) const SLOT_CHUNK: usize = 256;
    /// Numbers in one piece of a rank's array of places.
    pub(in crate::paged) const ID_CHUNK: usize = 1024;

    /// Segments of the table of edges; the table of a segment has 1, 2, 4, ... buckets.
    pub(in crate::paged) const SEGMENTS: usize = 256;
    pub(in crate::paged) const SEGMENT_SIZES: usize = 24;

    /// Records of a cleared rank that a clear takes apart at once.
    pub(in crate::paged) const AT_ONCE: usize = 256;
    /// Records of cleared ranks that every later event takes apart.
    pub(in crate::paged) const SLICE: usize = 4;
    /// Lookups without a lock: each fails only if a rank shrank in one of the very pages asked for, in this very time.
    pub(in crate::paged) const ATTEMPTS: usize = 16;
}

#[cfg(kv_router_loom)]
mod chosen {
    pub(in crate::paged) const PAGE_BLOCKS: usize = 4;
    pub(in crate::paged) const HEAD: usize = 1;
    pub(in crate::paged) const CHUNK: usize = 4;
    pub(in crate::paged) const LINE: usize = 2;
    pub(in crate::paged) const CLASSES: [u16; 2] = [1, 2];
    pub(in crate::paged) const SLAB: usize = 2;
    pub(in crate::paged) const CHUNK_SLABS: usize = 2;
    pub(in crate::paged) const LEAF: usize = 4;
    pub(in crate::paged) const CREW: u64 = 2;
    pub(in crate::paged) const JOINABLE: usize = 4;

    pub(in crate::paged) const TOP: usize = 1;
    pub(in crate::paged) const MID: usize = 4;
    pub(in crate::paged) const HEADER_CHUNK: usize = 3;
    pub(in crate::paged) const BRANCH_CHUNK: usize = 3;
    pub(in crate::paged) const TIER_CHUNK: usize = 1;
    pub(in crate::paged) const SLOT_CHUNK: usize = 2;
    pub(in crate::paged) const ID_CHUNK: usize = 2;

    pub(in crate::paged) const SEGMENTS: usize = 1;
    pub(in crate::paged) const SEGMENT_SIZES: usize = 4;

    pub(in crate::paged) const AT_ONCE: usize = 1;
    pub(in crate::paged) const SLICE: usize = 1;
    pub(in crate::paged) const ATTEMPTS: usize = 1;
}
