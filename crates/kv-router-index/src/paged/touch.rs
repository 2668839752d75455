//! Reading what will be needed, so that several waits for memory become one.

/// Reads and forgets. The processor does not wait for it, and finds it in the cache later.
#[cfg(not(kv_router_loom))]
#[inline(always)]
pub(super) fn touch<T>(read: impl FnOnce() -> T) {
    std::hint::black_box(read());
}

/// A model waits for no memory, and each read would multiply what it has to explore.
#[cfg(kv_router_loom)]
pub(super) fn touch<T>(_read: impl FnOnce() -> T) {}
