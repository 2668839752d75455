//! Names what silently ruins a router: streams that are mute, late, incomplete, or speak of something else.

mod finding;
mod samples;

use std::sync::atomic::Ordering;
use std::time::Duration;

use kv_router_engines::{EventFaults, Skip};
use kv_router_schedule::StreamFreshness;

pub use finding::{Diagnosis, Finding};
pub(crate) use samples::Samples;

use crate::fleet::Rank;
use crate::ingest::RankStatus;
use crate::{EventSource, Router};

/// Fewer of these are no trend.
const FEW: u64 = 16;
/// Fewer samples than this prove nothing.
const ENOUGH: u32 = 4;
/// A stream is late from here on.
const LATE: Duration = Duration::from_secs(5);
/// Why stores are passed over that a setting can change, or that a user should know of.
const SETTINGS: [Skip; 5] =
    [Skip::AdapterUnnamed, Skip::WindowMismatch, Skip::NamesFull, Skip::UnclearKeys, Skip::MediaReblocked];

/// Counters of a rank, as far as they are compared from one diagnosis to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    unknown_names: u64,
    removed: u64,
    unknown_parents: u64,
    unknown_media: u64,
    unfit_sizes: u64,
    settings: [u64; SETTINGS.len()],
    unreadable: [u64; 2],
    other_rank: u64,
    full: u64,
    replays: u64,
}

impl Seen {
    fn of(status: &RankStatus) -> Self {
        let RankStatus { events, engine, stream, .. } = status;
        let engine = engine.unwrap_or_default();
        let ingest = engine.ingest;
        let skipped = |reason| ingest.skips.get(reason);
        Self {
            unknown_names: events.applied.unknown + ingest.unknown_removals,
            removed: events.applied.removed,
            unknown_parents: events.unknown_parent + skipped(Skip::UnknownParent),
            unknown_media: skipped(Skip::UnknownMedium),
            unfit_sizes: skipped(Skip::BlockSizeRatio),
            settings: SETTINGS.map(skipped),
            unreadable: [engine.undecodable, EventFaults::total(&engine.faults)],
            other_rank: engine.other_rank,
            full: events.rank_full + events.index_full,
            replays: stream.replays,
        }
    }

    /// What came since. A counter that began anew counts from 0.
    fn since(&self, before: &Self) -> Self {
        let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            unknown_names: more(self.unknown_names, before.unknown_names),
            removed: more(self.removed, before.removed),
            unknown_parents: more(self.unknown_parents, before.unknown_parents),
            unknown_media: more(self.unknown_media, before.unknown_media),
            unfit_sizes: more(self.unfit_sizes, before.unfit_sizes),
            settings: std::array::from_fn(|at| more(self.settings[at], before.settings[at])),
            unreadable: std::array::from_fn(|at| more(self.unreadable[at], before.unreadable[at])),
            other_rank: more(self.other_rank, before.other_rank),
            full: more(self.full, before.full),
            replays: more(self.replays, before.replays),
        }
    }
}

impl Router {
    /// Looks for what silently ruins a router, rank by rank, and says what to do about it.
    ///
    /// Call it now and then, a minute apart for instance, from one place: what is counted is counted since the call
    /// before, so that a fault that was mended is not told for ever. Costs a lock of each rank's stream for a moment;
    /// what it rests on are counters and, for each rank, eight prompts that are remembered for a minute.
    ///
    /// ```
    /// use kv_router::{BlockSize, Router, RouterConfig, WorkerId, WorkerSpec};
    ///
    /// let block_size = BlockSize::new(16)?;
    /// let router = Router::builder(RouterConfig::new(block_size)).build()?;
    /// router.join(WorkerId::new(1), WorkerSpec::new(block_size))?;
    /// assert_eq!(router.diagnose().to_string(), "1 ranks, nothing found");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diagnose(&self) -> Diagnosis {
        let fleet = self.core.fleet();
        let mut ranks: Vec<_> = fleet.iter().filter(|rank| rank.events == EventSource::On).collect();
        ranks.sort_unstable_by_key(|rank| rank.id);
        let mut findings = Vec::new();
        for rank in &ranks {
            self.examine(rank, &mut |finding| findings.push((Some(rank.id), finding)));
        }
        let refused = self.core.unknown_rank_batches.load(Ordering::Relaxed)
            + self.core.events_off_batches.load(Ordering::Relaxed);
        let before = self.core.diagnosed_batches.swap(refused, Ordering::Relaxed);
        if refused > before {
            findings.push((None, Finding::Strangers { batches: refused - before }));
        }
        Diagnosis { findings, ranks: fleet.len() }
    }

    fn examine(&self, rank: &Rank, found: &mut dyn FnMut(Finding)) {
        let now = self.core.clock.now();
        let (status, news) = {
            let mut stream = rank.stream.lock();
            let status = stream.status(rank.id);
            let seen = Seen::of(&status);
            let before = std::mem::replace(&mut stream.diagnosed, seen);
            (status, seen.since(&before))
        };
        if let Some((requests, time)) = self.core.predictor.silence_of(rank, now) {
            found(Finding::NoEvents { requests, time });
        }
        let engine = status.engine.unwrap_or_default();
        if let Some(size) = engine.unfit_block_size.filter(|_| news.unfit_sizes > 0) {
            let router = self.scheme().block_size().get();
            found(Finding::BlockSize { engine: size, router, stores: news.unfit_sizes });
        }
        if news.unknown_names >= FEW && news.unknown_names.saturating_mul(3) >= news.removed {
            found(Finding::UnknownNames { unknown: news.unknown_names, known: news.removed });
        }
        if news.unknown_parents >= FEW {
            found(Finding::UnknownParents { stores: news.unknown_parents });
        }
        if status.suspect {
            found(Finding::Suspect);
        }
        // Of a rank that was never heard of nothing is lost.
        let is_cold = status.freshness == StreamFreshness::Cold && status.stream.applied > 0;
        if is_cold {
            let (abandoned, forgotten) = (status.stream.abandoned, status.stream.forgets);
            found(Finding::Cold { abandoned, forgotten });
        }
        if status.freshness == StreamFreshness::Recovering {
            found(Finding::Recovering { replays: news.replays });
        }
        if news.unknown_media > 0 {
            found(Finding::UnknownMedium { events: news.unknown_media });
        }
        for (reason, events) in SETTINGS.into_iter().zip(news.settings).filter(|&(_, events)| events > 0) {
            found(Finding::PassedOver { reason, events });
        }
        if let [frames, events] = news.unreadable
            && frames + events > 0
        {
            found(Finding::Unreadable { frames, events });
        }
        if news.other_rank > 0 {
            found(Finding::OtherRank { frames: news.other_rank });
        }
        if news.full > 0 {
            found(Finding::Full { stores: news.full });
        }
        if engine.lag >= LATE {
            found(Finding::Lag { behind: engine.lag });
        }
        let [plain, adapted] = rank.samples.found(now);
        // Of a rank that holds what is not known of it, less is stored than is looked for.
        if is_cold || status.suspect {
            return;
        }
        if plain.stored == 0 && plain.missing >= ENOUGH {
            found(Finding::HashDisagreement { missing: plain.missing });
        } else if adapted.stored == 0 && adapted.missing >= ENOUGH {
            found(Finding::AdapterDisagreement { missing: adapted.missing });
        }
    }
}
