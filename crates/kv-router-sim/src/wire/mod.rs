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

use crate::holdings::{Holdings, holdings};
pub use cache::WireCache;
pub use dialect::{DIALECTS, Dialect, HashForm, Media};
pub use engine::{WireEngine, WireEngineError};
pub use faults::{Fault, FaultCounts, FaultRates};
pub use router::{RouterReport, WireRouter, WireRouterError};
