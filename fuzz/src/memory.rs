//! How much memory something asks for.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that anything may ask for, however little it was given: errors, first entries of tables.
const ANYWAY: usize = 16 << 10;

/// Does something for which `input` bytes came, and that may ask for `each` bytes of memory for each of them.
///
/// What counts is what it asked for, given back or not: more than the bytes that it keeps in the end, and no less.
/// Allocations of other threads count too, so nothing may run beside a target.
///
/// # Panics
///
/// When it asked for more.
#[track_caller]
pub(crate) fn within<R>(input: usize, each: usize, work: impl FnOnce() -> R) -> R {
    let region = Region::new(ALLOCATOR);
    let result = work();
    let asked = region.change().bytes_allocated;
    let most = ANYWAY + each * input;
    assert!(asked <= most, "{asked} bytes of memory for {input} bytes of input, where {most} should do");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_counts_even_when_it_was_given_back() {
        // Far from the limit on both sides: other tests run beside this one.
        within(1 << 20, 10, || drop(Vec::<u8>::with_capacity(1_000)));
        let wasted = || within(100, 10, || drop(Vec::<u8>::with_capacity(64 << 20)));
        assert!(std::panic::catch_unwind(wasted).is_err());
    }
}
