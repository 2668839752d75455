//! What the hand-over of tickets is built on: parking_lot and the standard library, or loom under
//! `--cfg kv_router_loom`, so that the models run the code that ships.

#[cfg(kv_router_loom)]
mod model;

#[cfg(kv_router_loom)]
pub(crate) use model::{Condvar, Mutex, atomic};
#[cfg(not(kv_router_loom))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(not(kv_router_loom))]
pub(crate) use std::sync::atomic;
