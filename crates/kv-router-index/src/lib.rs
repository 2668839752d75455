//! Which worker holds which prefix: contracts, oracle, conformance suite and exact indexes.
#![forbid(unsafe_code)]

mod contract;
mod overlaps;
pub mod radix {
    #[derive(Default)]
    pub(crate) struct Scratch;
}

pub use contract::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, PrefixIndex,
};
pub use overlaps::{Overlap, Overlaps};
