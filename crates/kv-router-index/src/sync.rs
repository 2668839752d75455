//! Locks, atomics, shared pointers, threads and channels come from here.
//!
//! Ordinarily they are those of the standard library, parking_lot and crossbeam; under `--cfg kv_router_loom`
//! they are loom's, behind the same names and signatures, so that the models in `tests/loom` run the very
//! code that ships. What loom has no equivalent for (weak pointers, owned guards, upgradable locks) is not
//! offered here, and so is not used.

#[cfg(kv_router_loom)]
mod model;
mod ordered;
#[cfg(not(kv_router_loom))]
mod real;

#[cfg(kv_router_loom)]
pub(crate) use model::*;
#[cfg(not(kv_router_loom))]
pub(crate) use real::*;

pub(crate) use ordered::{Ordered, OrderedGuard, rank};

/// A closure panicked, and the panic ended there.
#[derive(Debug)]
pub(crate) struct Panicked;
