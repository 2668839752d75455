//! What a tracker does besides counting.

use std::fmt;
use std::sync::Arc;

use kv_router_types::WorkerRank;

use crate::JournalConfig;

/// Is told that a rank has less to do than before, so that whoever waits for that need not ask again and again.
pub trait LoadListener: fmt::Debug + Send + Sync {
    /// The load of a rank fell: a request ended, expired or came further, or an engine reported less. Called on the
    /// thread that made it fall, after the change can be seen and with no lock of the tracker held: it may call the
    /// tracker, but it delays whoever drops a booking. Not called for ranks that are added or removed and for new
    /// capacities, which whoever does that knows.
    fn load_fell(&self, worker: WorkerRank);
}

/// What a tracker does besides counting. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Who is told when a load falls.
    pub listener: Option<Arc<dyn LoadListener>>,
    /// Makes the tracker note the changes of its own bookings, for other replicas.
    pub journal: Option<JournalConfig>,
}
