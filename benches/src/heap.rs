//! Bytes on the heap, from a counting allocator.

use stats_alloc::Stats;

/// Bytes that are allocated and not freed.
///
/// `stats_alloc` counts the difference that a reallocation makes as allocated or freed *and* in a sum of its own,
/// which therefore must not be added.
pub fn live(stats: &Stats) -> usize {
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}
