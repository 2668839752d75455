//! The router as a gateway uses it, alone and from many threads.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod admit;
mod custom;
mod doctor;
mod engines;
mod followed;
mod healing;
mod incarnations;
mod indexes;
mod lives;
mod peer_wire;
mod peers;
mod predictions;
mod pulled;
mod replica;
mod reports;
mod routing;
mod sessions;
mod snapshots;
mod support;
mod table;
mod threads;
mod waits;
mod wire;
