//! From milestones to numbers.

use std::time::Duration;

use crate::engine::EngineStats;
use crate::progress::{Milestone, Progress};
use crate::time::SimTime;

/// Mean and percentiles of a set of durations, in milliseconds. All 0 for an empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half are at most this (nearest rank).
    pub p50: f64,
    /// 99 of 100 are at most this (nearest rank).
    pub p99: f64,
}

impl Spread {
    /// Of durations in any order. Costs O(n log n).
    pub fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        let millis = |duration: &Duration| duration.as_secs_f64() * 1e3;
        let rank = |percent: usize| {
            let rank = (durations.len() * percent).div_ceil(100).max(1);
            durations.get(rank - 1).map_or(0.0, millis)
        };
        let total: f64 = durations.iter().map(millis).sum();
        Self { mean: total / durations.len().max(1) as f64, p50: rank(50), p99: rank(99) }
    }
}

/// What one policy made of one workload. Times are simulated, but for [`Outcome::decision`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Requests that ran to their end.
    pub finished: u64,
    /// Requests that no engine took, or that the policy would not route.
    pub refused: u64,
    /// Times that a request was sent again because its engine died.
    pub resent: u64,
    /// Times that a running request lost its blocks to an older one.
    pub preemptions: u64,
    /// Prompt blocks reused at first admission.
    pub hit_blocks: u64,
    /// Whole prompt blocks of the requests admitted.
    pub prompt_blocks: u64,
    /// Arrival to first token.
    pub ttft: Spread,
    /// Arrival to first admission.
    pub queueing: Spread,
    /// Arrival to last token.
    pub end_to_end: Spread,
    /// Real time inside [`Policy::choose`](crate::policy::Policy::choose), as the host's clock saw it.
    pub decision: Spread,
    /// Tokens computed by the busiest engine per token computed by the average one: 1 is even.
    pub imbalance: f64,
    /// What each engine did, in fleet order.
    pub engines: Vec<EngineStats>,
    /// When the last request finished.
    pub end: SimTime,
}

impl Outcome {
    /// Hit blocks per prompt block; 0 when there is none.
    pub fn hit_ratio(&self) -> f64 {
        if self.prompt_blocks == 0 { 0.0 } else { self.hit_blocks as f64 / self.prompt_blocks as f64 }
    }
}

/// Collects milestones of one replay.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// One a request.
    requests: Vec<Stage>,
    hit_blocks: u64,
    prompt_blocks: u64,
    queueing: Vec<Duration>,
    ttft: Vec<Duration>,
    end_to_end: Vec<Duration>,
    decisions: Vec<Duration>,
    refused: u64,
    resent: u64,
    end: SimTime,
}

/// How far a request ever came: what is measured once is measured the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    New,
    Admitted,
    HasToken,
}

impl Recorder {
    pub(crate) fn new(requests: usize) -> Self {
        Self {
            requests: vec![Stage::New; requests],
            hit_blocks: 0,
            prompt_blocks: 0,
            queueing: Vec::with_capacity(requests),
            ttft: Vec::with_capacity(requests),
            end_to_end: Vec::with_capacity(requests),
            decisions: Vec::with_capacity(requests),
            refused: 0,
            resent: 0,
            end: SimTime::ZERO,
        }
    }

    /// A decision took this long in real time.
    pub(crate) fn decided(&mut self, took: Duration) {
        self.decisions.push(took);
    }

    /// The policy would not route a request.
    pub(crate) fn not_routed(&mut self) {
        self.refused += 1;
    }

    /// Requests that are done one way or the other.
    pub(crate) fn settled(&self) -> usize {
        self.end_to_end.len() + self.refused as usize
    }

    pub(crate) fn milestone(&mut self, milestone: &Milestone) {
        let Milestone { request, at, progress, .. } = milestone;
        let since_arrival = at.since(request.arrival());
        let Some(stage) = self.requests.get_mut(request.index() as usize) else { return };
        match *progress {
            Progress::Admitted { hit_blocks } if *stage < Stage::Admitted => {
                *stage = Stage::Admitted;
                self.hit_blocks += u64::from(hit_blocks);
                self.prompt_blocks += request.blocks().len() as u64;
                self.queueing.push(since_arrival);
            }
            Progress::PrefillCompleted if *stage < Stage::HasToken => {
                *stage = Stage::HasToken;
                self.ttft.push(since_arrival);
            }
            Progress::Finished => {
                self.end_to_end.push(since_arrival);
                self.end = self.end.max(*at);
            }
            Progress::Refused => self.refused += 1,
            Progress::Lost => self.resent += 1,
            Progress::Admitted { .. }
            | Progress::PrefillCompleted
            | Progress::OutputGrown { .. }
            | Progress::Preempted => {}
        }
    }

    pub(crate) fn outcome(self, engines: Vec<EngineStats>) -> Outcome {
        Outcome {
            finished: self.end_to_end.len() as u64,
            refused: self.refused,
            resent: self.resent,
            preemptions: engines.iter().map(|engine| engine.preemptions).sum(),
            hit_blocks: self.hit_blocks,
            prompt_blocks: self.prompt_blocks,
            ttft: Spread::of(self.ttft),
            queueing: Spread::of(self.queueing),
            end_to_end: Spread::of(self.end_to_end),
            decision: Spread::of(self.decisions),
            imbalance: imbalance(&engines),
            engines,
            end: self.end,
        }
    }
}

fn imbalance(engines: &[EngineStats]) -> f64 {
    let computed = engines.iter().map(|engine| engine.prefill_tokens + engine.decode_tokens);
    let (most, total) = computed.fold((0, 0), |(most, total), tokens| (tokens.max(most), total + tokens));
    if total == 0 { 1.0 } else { most as f64 * engines.len() as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kv_router_types::WorkerRank;

    use super::*;
    use crate::prompt::{Prompt, TraceBlockSize};
    use crate::request::SimRequest;

    #[test]
    fn what_is_measured_once_is_measured_the_first_time() {
        let prompt = Prompt::new(vec![1], 64).unwrap();
        let size = TraceBlockSize::new(16).unwrap();
        let request = Arc::new(SimRequest::new(0, SimTime::from_millis(100), prompt, 9, size));
        let mut recorder = Recorder::new(1);
        for (millis, progress) in [
            (110, Progress::Admitted { hit_blocks: 1 }),
            (120, Progress::PrefillCompleted),
            (130, Progress::Preempted),
            (140, Progress::Admitted { hit_blocks: 3 }),
            (150, Progress::PrefillCompleted),
            (160, Progress::Finished),
        ] {
            let (request, worker, at) =
                (Arc::clone(&request), WorkerRank::default(), SimTime::from_millis(millis));
            recorder.milestone(&Milestone { request, worker, at, progress });
        }
        let outcome = recorder.outcome(vec![]);
        assert_eq!((outcome.hit_blocks, outcome.prompt_blocks, outcome.finished), (1, 4, 1));
        let means = [outcome.queueing, outcome.ttft, outcome.end_to_end].map(|spread| spread.mean);
        assert_eq!(means, [10.0, 20.0, 60.0]);
        assert_eq!(outcome.end, SimTime::from_millis(160));
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        assert_eq!(Spread::of(vec![]), Spread::default());
        let spread = Spread::of((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!((spread.mean, spread.p50, spread.p99), (100.5, 100.0, 198.0));
        let one = Spread::of(vec![Duration::from_millis(7)]);
        assert_eq!((one.mean, one.p50, one.p99), (7.0, 7.0, 7.0));
    }

    #[test]
    fn imbalance_is_busiest_over_average() {
        let engine = |prefill_tokens, decode_tokens| EngineStats {
            prefill_tokens,
            decode_tokens,
            ..Default::default()
        };
        assert_eq!(imbalance(&[engine(20, 10), engine(10, 0)]), 1.5);
        assert_eq!(imbalance(&[engine(0, 0), engine(0, 0)]), 1.0);
        assert_eq!(imbalance(&[]), 1.0);
    }
}
