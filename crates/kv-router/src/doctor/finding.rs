//! What a diagnosis may find, and what to do about it.

use std::fmt;
use std::time::Duration;

use kv_router_engines::Skip;
use kv_router_types::WorkerRank;

/// What ails one rank. Each is a sentence of what is wrong and what to do next.
///
/// Counts are of what happened since the diagnosis before, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Requests flow that the engine must have had something to store for, and no event comes: as many, and as long, as
    /// [`SilenceRule`](crate::SilenceRule) says.
    NoEvents {
        /// Requests since the rank was last heard of, at least.
        requests: u32,
        /// Time since the first of them.
        time: Duration,
    },
    /// The engine's blocks are no multiple and no part of ours: nothing that it stores can ever be found.
    BlockSize {
        /// Tokens a block of the engine.
        engine: u32,
        /// Tokens a block of the router.
        router: u32,
        /// Stores passed over for it.
        stores: u64,
    },
    /// A quarter or more of what the engine removes was never heard of, and 16 blocks at least.
    UnknownNames {
        /// Removals of names that the rank does not have.
        unknown: u64,
        /// Removals of names that it had.
        known: u64,
    },
    /// 16 stores or more continue blocks that the rank does not have.
    UnknownParents {
        /// Such stores.
        stores: u64,
    },
    /// The rank holds more, or less, than is known of it: events were lost out of a batch or refused.
    Suspect,
    /// Batches were lost for good: what the engine held before is unknown.
    Cold {
        /// Batches that were lost while they waited, since the rank joined.
        abandoned: u64,
        /// How often its state was forgotten, since the rank joined.
        forgotten: u64,
    },
    /// Frames of the rank wait: for others that are missing and asked for, or until its engine has shown that it is in the
    /// life that is known of it. Told as long as it lasts; no single wait lasts longer than its deadline.
    Recovering {
        /// Replays that were asked for.
        replays: u64,
    },
    /// Events name a medium that the table of media does not have.
    UnknownMedium {
        /// Such events.
        events: u64,
    },
    /// Stores are passed over because of a setting.
    PassedOver {
        /// Why.
        reason: Skip,
        /// Such events.
        events: u64,
    },
    /// Frames, or events in them, could not be read.
    Unreadable {
        /// Frames of which nothing could be read.
        frames: u64,
        /// Single events.
        events: u64,
    },
    /// Frames name another rank than the one that the stream is of.
    OtherRank {
        /// Such frames.
        frames: u64,
    },
    /// Stores were refused because the rank, or the index, is full.
    Full {
        /// Such stores.
        stores: u64,
    },
    /// The last frame came 5 s or more later than the fastest one of the last minutes, going by the time in it. An engine
    /// whose clock was set back looks the same for some minutes.
    Lag {
        /// How much later.
        behind: Duration,
    },
    /// The engine stores blocks, but of the prompts that it was sent none: both sides hash differently.
    HashDisagreement {
        /// Prompts of the base model that were looked for and not found, of late.
        missing: u32,
    },
    /// The engine stores what it computes for the base model under our hashes, but not for adapters.
    AdapterDisagreement {
        /// Prompts of adapters that were looked for and not found, of late.
        missing: u32,
    },
    /// Batches come from ranks that have not joined, or joined without events. Of no rank of the fleet.
    Strangers {
        /// Such batches.
        batches: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoEvents { requests, time } => write!(
                f,
                "no event for {requests} requests and {} s: check that the engine publishes events (enable_kv_cache_events), \
                 its endpoint and topic, and whether prefix caching is on",
                time.as_secs()
            ),
            Self::BlockSize { engine, router, stores } => write!(
                f,
                "{stores} stores in blocks of {engine} tokens, where the router has {router}: give the router a block \
                 size that divides the engine's"
            ),
            Self::UnknownNames { unknown, known } => write!(
                f,
                "{unknown} removals of unknown blocks beside {known} of known ones: stores get lost or are passed over; \
                 look at what else is found here, then resync the rank"
            ),
            Self::UnknownParents { stores } => write!(
                f,
                "{stores} stores continue blocks that are not known: resync the rank, or give its stream a replay source"
            ),
            Self::Suspect => f.write_str("the rank holds something else than is known of it: resync it"),
            Self::Cold { abandoned, forgotten } => write!(
                f,
                "cold: {abandoned} batches lost and the state forgotten {forgotten} times: lengthen the engine's replay \
                 buffer, or restore the rank from a snapshot"
            ),
            Self::Recovering { replays } => write!(
                f,
                "recovering, with {replays} replays asked for: if this is told again and again, look at the engine's replay \
                 endpoint, and at what is lost on the way"
            ),
            Self::UnknownMedium { events } => {
                write!(f, "{events} events of an unknown medium: add it to the table of media of the stream")
            }
            Self::PassedOver { reason, events } => {
                write!(f, "{events} events passed over ({reason}): {}", remedy(reason))
            }
            Self::Unreadable { frames, events } => write!(
                f,
                "{frames} frames and {events} events could not be read: compare the engine's release with the ones that \
                 are known, and resync the rank"
            ),
            Self::OtherRank { frames } => write!(
                f,
                "{frames} frames of another rank: two publishers share a port, or the engine's ranks are workers of \
                 their own and their names are to be ignored"
            ),
            Self::Full { stores } => {
                write!(f, "{stores} stores refused for want of room: raise the limits of the index")
            }
            Self::Lag { behind } => write!(
                f,
                "{:.1} s behind: whoever receives the frames is too slow, or the engine's queue is long",
                behind.as_secs_f64()
            ),
            Self::HashDisagreement { missing } => write!(
                f,
                "of {missing} prompts sent there nothing was stored: compare tokenizer, chat template, block size and \
                 window of router and engine"
            ),
            Self::AdapterDisagreement { missing } => write!(
                f,
                "of {missing} prompts for adapters nothing was stored: compare the names of adapters in requests and in \
                 the engine"
            ),
            Self::Strangers { batches } => write!(
                f,
                "{batches} batches from ranks that have not joined, or that joined without events: join them with enough \
                 ranks"
            ),
        }
    }
}

fn remedy(reason: Skip) -> &'static str {
    match reason {
        Skip::AdapterUnnamed => "say in the settings of the stream which adapter is which number",
        Skip::WindowMismatch => "choose the window of the hash scheme that the engine has (EAGLE or not)",
        Skip::NamesFull => "raise max_names of the stream",
        _ => "requests with such keys find nothing on this rank",
    }
}

/// What a router found out about its fleet. Empty when all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// What was found, in the order of the ranks; `None` is of no rank of the fleet.
    pub findings: Vec<(Option<WorkerRank>, Finding)>,
    /// Ranks that were looked at.
    pub ranks: usize,
}

impl Diagnosis {
    /// Whether nothing was found.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }

    /// What was found of one rank.
    pub fn of(&self, worker: WorkerRank) -> impl Iterator<Item = Finding> {
        self.findings.iter().filter(move |(of, _)| *of == Some(worker)).map(|&(_, finding)| finding)
    }
}

/// A line for each finding.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_healthy() {
            return write!(f, "{} ranks, nothing found", self.ranks);
        }
        for (at, (worker, finding)) in self.findings.iter().enumerate() {
            let line = if at == 0 { "" } else { "\n" };
            match worker {
                Some(worker) => write!(f, "{line}{worker}: {finding}")?,
                None => write!(f, "{line}fleet: {finding}")?,
            }
        }
        Ok(())
    }
}
