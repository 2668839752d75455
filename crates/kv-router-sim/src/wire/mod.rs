//! Mock engines on real ZeroMQ sockets, in the wire formats of real ones, with everything that goes wrong; routers
//! that listen to them; and the run that shows that the routers come out right.
//!
//! [`chaos::run`] is everything at once, [`scenario::run`] one fault at a time: `cargo xtask chaos` from the outside. Seeds decide what engines cache and which
//! faults there are; when they strike depends on the machine.

mod cache;
pub mod chaos;
mod dialect;
mod engine;
mod faults;
mod router;
pub mod scenario;
pub mod throughput;

use std::collections::BTreeMap;

use kv_router_hash::next_sequence_hash;
use kv_router_index::DumpEvents;
use kv_router_types::{ExternalSequenceHash, KvEvent, SequenceHash, TierSet, WorkerRank};

pub use cache::WireCache;
pub use dialect::{DIALECTS, Dialect, HashForm, Media};
pub use engine::{WireEngine, WireEngineError};
pub use faults::{Fault, FaultCounts, FaultRates};
pub use router::{RouterReport, WireRouter, WireRouterError};

/// What ranks hold: each name with what leads to the block, and where its copies are.
pub type Holdings = BTreeMap<(WorkerRank, ExternalSequenceHash), (SequenceHash, TierSet)>;

/// What an index holds, told by its dump.
pub fn holdings(index: &dyn DumpEvents) -> Holdings {
    let mut paths: BTreeMap<(WorkerRank, ExternalSequenceHash), SequenceHash> = BTreeMap::new();
    let mut held = Holdings::new();
    index.dump(&mut |rank, event| match event {
        KvEvent::Stored { tier, parent, blocks } => {
            let mut path = parent.and_then(|parent| paths.get(&(rank, parent)).copied());
            for block in blocks {
                let here = next_sequence_hash(path, block.local);
                paths.insert((rank, block.external), here);
                let (_, tiers) = held.entry((rank, block.external)).or_insert((here, TierSet::default()));
                *tiers = tiers.with(tier);
                path = Some(here);
            }
        }
        KvEvent::Removed { tier, blocks } => {
            for name in blocks {
                if let Some((_, tiers)) = held.get_mut(&(rank, name)) {
                    *tiers = tiers.without(tier);
                    if tiers.is_empty() {
                        held.remove(&(rank, name));
                    }
                }
            }
        }
        KvEvent::Cleared => held.retain(|&(of, _), _| of != rank),
    });
    held
}
