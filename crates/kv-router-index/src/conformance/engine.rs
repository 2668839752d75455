//! One engine of a fleet: how it names blocks and what it remembers.

use std::collections::BTreeMap;

use kv_router_types::{DpRank, ExternalSequenceHash, StoredBlock, WorkerId, WorkerRank};

use super::rng::mix;
use crate::oracle::Place;

/// Data-parallel ranks a worker.
const RANKS_PER_WORKER: u16 = 3;

/// Removed blocks that an engine remembers, and ends of chains that the world does.
pub(super) const REMEMBERED: usize = 256;

/// One rank.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) id: WorkerRank,
    kind: Kind,
    salt: u64,
    /// Names given so far by an engine that counts.
    given: u64,
    /// What it stored last.
    pub(super) tip: Option<ExternalSequenceHash>,
    /// What it last called each place.
    pub(super) called: BTreeMap<Place, ExternalSequenceHash>,
    /// What it has removed, oldest first.
    pub(super) gone: Vec<Gone>,
    /// Its worker was removed and it has not stored since.
    pub(super) left: bool,
}

/// How an engine names blocks. Between them: the same names for the same content, other names for the same
/// content, and the same names for other content.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A hash of the content, as all engines of this kind compute it.
    Common,
    /// A hash of the content, salted.
    Private,
    /// 0, 1, 2 and so on.
    CountingUp,
    /// From the highest name down.
    CountingDown,
}

/// A block that an engine has removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    pub(super) place: Place,
    pub(super) parent: Option<ExternalSequenceHash>,
    pub(super) block: StoredBlock,
}

impl Engine {
    /// The engine of one rank; the seed decides which kind the first rank is.
    pub(super) fn new(rank: u16, seed: u64) -> Self {
        Self {
            id: WorkerRank::new(
                WorkerId::new(u64::from(rank / RANKS_PER_WORKER)),
                DpRank::new(u32::from(rank % RANKS_PER_WORKER)),
            ),
            kind: match (u64::from(rank) + seed % 4) % 4 {
                0 => Kind::Common,
                1 => Kind::Private,
                2 => Kind::CountingUp,
                _ => Kind::CountingDown,
            },
            salt: mix(1 + u64::from(rank)),
            given: 0,
            tip: None,
            called: BTreeMap::new(),
            gone: Vec::new(),
            left: false,
        }
    }

    /// What it calls a block whose path has this signature, and which it may hold under a name already.
    pub(super) fn usual_name(
        &mut self,
        signature: u64,
        held: Option<ExternalSequenceHash>,
    ) -> ExternalSequenceHash {
        ExternalSequenceHash::new(match (self.kind, held) {
            (Kind::Common, _) => mix(signature),
            (Kind::Private, _) => mix(signature ^ self.salt),
            (Kind::CountingUp | Kind::CountingDown, Some(held)) => held.get(),
            (Kind::CountingUp, None) => {
                self.given += 1;
                self.given - 1
            }
            (Kind::CountingDown, None) => {
                self.given += 1;
                u64::MAX - (self.given - 1)
            }
        })
    }

    /// Remembers a removed block.
    pub(super) fn remember_gone(&mut self, gone: Gone) {
        if self.gone.len() == REMEMBERED {
            self.gone.remove(0);
        }
        self.gone.push(gone);
    }
}
