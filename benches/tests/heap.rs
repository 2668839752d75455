//! The counting allocator counts what is there.

use std::alloc::System;
use std::hint::black_box;

use kv_router_benches::heap::live;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The only test of this program: another thread's allocations would be counted too.
#[test]
fn a_vector_that_grows_and_shrinks_counts_once() {
    let before = live(&ALLOCATOR.stats());
    let mut vector = Vec::with_capacity(16);
    vector.resize(16, 7_u8);
    vector.reserve_exact(100_000 - 16);
    black_box(&mut vector);
    assert_eq!(live(&ALLOCATOR.stats()) - before, 100_000);
    vector.shrink_to(1_000);
    black_box(&mut vector);
    assert_eq!(live(&ALLOCATOR.stats()) - before, 1_000);
    drop(vector);
    assert_eq!(live(&ALLOCATOR.stats()), before);
}
