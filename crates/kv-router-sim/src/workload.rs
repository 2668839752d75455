//! A trace, cut for an engine and stretched in time until it loads a fleet as much as wanted.
//!
//! **Offered load.** How busy a fleet would be without any cache hit. One request is worth
//!
//! ```text
//! work = input / prefill_tokens_per_second + output * decode_step / together
//! together = clamp(pool tokens / mean(input + output), 1, max_running)
//! ```
//!
//! seconds of one engine: its prompt has the engine to itself, and its decode steps are shared by as many
//! average requests as fit in memory at once. The fleet's utilisation is the sum of all work divided by
//! engines x (last arrival - first arrival). At 1 a fleet without hits just keeps up, if nothing is ever
//! uneven; at 0.7 it is busy and stable. The time between any two arrivals is multiplied by one factor, so
//! bursts stay bursts.
//!
//! The definition knows nothing about the policy: every policy meets the same arrivals.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kv_router_types::LocalBlockHash;

use crate::bound::HitBound;
use crate::engine::EngineConfig;
use crate::fleet::FleetConfig;
use crate::prompt::{Prompt, TraceBlockSize};
use crate::request::SimRequest;
use crate::time::SimTime;
use crate::trace::Trace;

/// Hashes a prompt: one local hash a whole block.
pub type BlockHasher = fn(&Prompt, TraceBlockSize) -> Vec<LocalBlockHash>;

/// The requests of one simulation. Requests are made when they arrive, so memory is that of the trace.
#[derive(Clone, Debug)]
pub struct Workload {
    trace: Trace,
    block_size: TraceBlockSize,
    /// Simulated nanoseconds per millisecond of the trace.
    nanos_per_ms: f64,
    hasher: BlockHasher,
}

impl Workload {
    /// The trace at its own pace, under derived block hashes.
    pub fn new(trace: Trace, block_size: TraceBlockSize) -> Self {
        Self { trace, block_size, nanos_per_ms: 1e6, hasher: Prompt::local_hashes }
    }

    /// The same requests, at the pace that loads `fleet` to `target`. A trace whose requests all arrive at
    /// once has no pace, and stays as it is.
    #[must_use]
    pub fn at_utilisation(mut self, target: Utilisation, fleet: &FleetConfig) -> Self {
        let span_ms = self.trace.span_ms();
        if span_ms > 0 {
            let span_nanos = work_per_engine(&self.trace, fleet) / target.get() * 1e9;
            self.nanos_per_ms = span_nanos / span_ms as f64;
        }
        self
    }

    /// The same requests under block hashes of the caller's own, for a router that hashes tokens itself.
    /// Engines announce their blocks under these hashes too.
    #[must_use]
    pub fn hashed_by(mut self, hasher: BlockHasher) -> Self {
        self.hasher = hasher;
        self
    }

    /// Requests in all, at least one.
    #[inline]
    pub fn len(&self) -> usize {
        self.trace.records().len()
    }

    /// Whether there is no request. A trace has at least one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens per block.
    #[inline]
    pub fn block_size(&self) -> TraceBlockSize {
        self.block_size
    }

    /// When a request arrives; `None` past the end.
    pub fn arrival(&self, index: usize) -> Option<SimTime> {
        let first = self.trace.records().first()?.timestamp_ms;
        let record = self.trace.records().get(index)?;
        let nanos = (record.timestamp_ms - first) as f64 * self.nanos_per_ms;
        Some(SimTime::from_nanos(nanos.round() as u64)) // the cast saturates
    }

    /// Makes a request; `None` past the end. Costs O(prompt blocks).
    pub fn request(&self, index: usize) -> Option<SimRequest> {
        let record = self.trace.records().get(index)?;
        let number = u32::try_from(index).ok()?;
        let prompt = record.prompt.clone();
        let blocks = (self.hasher)(&prompt, self.block_size);
        let arrival = self.arrival(index)?;
        Some(
            SimRequest::new(number, arrival, prompt, record.output_tokens, self.block_size)
                .with_blocks(blocks),
        )
    }

    /// Arrival of the last request.
    pub fn last_arrival(&self) -> SimTime {
        self.arrival(self.len().saturating_sub(1)).unwrap_or_default()
    }

    /// What one unlimited cache, shared by the whole fleet, would save.
    pub fn hit_bound(&self) -> HitBound {
        HitBound::of(&self.trace, self.block_size)
    }

    /// How busy `fleet` would be without any cache hit; `None` when all requests arrive at once.
    pub fn utilisation(&self, fleet: &FleetConfig) -> Option<f64> {
        let span = self.last_arrival().since_start();
        (span > Duration::ZERO).then(|| work_per_engine(&self.trace, fleet) / span.as_secs_f64())
    }
}

/// Seconds that the fleet takes for the trace when nobody ever has nothing to do. Engines that differ share the work by
/// their speed.
fn work_per_engine(trace: &Trace, fleet: &FleetConfig) -> f64 {
    let engines = fleet.engines.max(1);
    let Some(_) = fleet.every_other else {
        return offered_work(trace, &fleet.engine) / f64::from(engines);
    };
    // Traces that each kind of engine does in a second.
    let speed = |index| 1.0 / offered_work(trace, &fleet.engine_at(index)).max(f64::MIN_POSITIVE);
    let others = engines / 2;
    1.0 / (f64::from(engines - others) * speed(0) + f64::from(others) * speed(1))
}

/// Seconds of one engine that the trace is worth without any cache hit: see the module documentation.
fn offered_work(trace: &Trace, engine: &EngineConfig) -> f64 {
    let records = trace.records();
    let input: f64 = records.iter().map(|record| f64::from(record.prompt.token_count())).sum();
    let output: f64 = records.iter().map(|record| f64::from(record.output_tokens)).sum();
    let pool_tokens = f64::from(engine.pool_blocks) * f64::from(engine.block_size.get().get());
    let mean_request = ((input + output) / records.len().max(1) as f64).max(1.0);
    let together = (pool_tokens / mean_request).clamp(1.0, f64::from(engine.max_running.max(1)));
    input / f64::from(engine.prefill_tokens_per_second.max(1))
        + output * engine.decode_step.as_secs_f64() / together
}

/// How busy a fleet is to be made: above 0, 1 is just keeping up without hits, 10 at most.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Utilisation(f64);

impl Utilisation {
    /// Busy and stable: the default.
    pub const DEFAULT: Self = Self(0.7);

    /// Checks a utilisation that came from outside.
    ///
    /// # Errors
    ///
    /// [`UtilisationError`] unless `fraction` is above 0 and at most 10.
    pub fn new(fraction: f64) -> Result<Self, UtilisationError> {
        if fraction > 0.0 && fraction <= 10.0 {
            Ok(Self(fraction))
        } else {
            Err(UtilisationError { fraction })
        }
    }

    /// The fraction.
    #[inline]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for Utilisation {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A utilisation outside (0, 10].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtilisationError {
    /// The refused value.
    pub fraction: f64,
}

impl fmt::Display for UtilisationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "utilisation {} is not above 0 and at most 10: 0.7 is busy and stable", self.fraction)
    }
}

impl Error for UtilisationError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests of 8,000 tokens that share 512, 10 s apart.
    fn two() -> Trace {
        let line = |at: u64, base: u64| {
            let ids: Vec<u64> = (0..16).map(|i| if i == 0 { 0 } else { base + i }).collect();
            format!(r#"{{"timestamp":{at},"input_length":8000,"output_length":100,"hash_ids":{ids:?}}}"#)
        };
        Trace::read(format!("{}\n{}\n", line(5_000, 100), line(15_000, 200)).as_bytes()).unwrap()
    }

    fn fleet() -> FleetConfig {
        FleetConfig { engines: 2, ..FleetConfig::default() }
    }

    #[test]
    fn work_by_hand() {
        // Prefill 1 s each; 262,144 pool tokens / 8,100 = 32.36 requests share a step of 25 ms.
        let expected = 2.0 * (1.0 + 100.0 * 0.025 / (262_144.0 / 8_100.0));
        assert!((offered_work(&two(), &EngineConfig::default()) - expected).abs() < 1e-9);
    }

    #[test]
    fn the_pace_meets_the_target_and_keeps_the_first_arrival_at_zero() {
        let workload = Workload::new(two(), EngineConfig::default().block_size);
        assert_eq!(workload.last_arrival(), SimTime::from_millis(10_000));
        for target in [0.1, 0.7, 2.0] {
            let scaled = workload.clone().at_utilisation(Utilisation::new(target).unwrap(), &fleet());
            assert!((scaled.utilisation(&fleet()).unwrap() - target).abs() < 1e-6);
            assert_eq!(scaled.arrival(0), Some(SimTime::ZERO));
        }
    }

    #[test]
    fn engines_of_half_the_speed_are_half_an_engine() {
        let mut fleet = FleetConfig { engines: 4, ..FleetConfig::default() };
        let all_equal = work_per_engine(&two(), &fleet);
        fleet.every_other = Some(fleet.engine);
        assert!((work_per_engine(&two(), &fleet) - all_equal).abs() < 1e-9);
        let slow = EngineConfig {
            prefill_tokens_per_second: fleet.engine.prefill_tokens_per_second / 2,
            decode_step: fleet.engine.decode_step * 2,
            ..fleet.engine
        };
        fleet.every_other = Some(slow);
        assert!((work_per_engine(&two(), &fleet) - all_equal * 4.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn requests_end_where_the_trace_ends() {
        let workload = Workload::new(two(), EngineConfig::default().block_size);
        assert_eq!(workload.request(1).map(|request| request.blocks().len()), Some(500));
        assert_eq!((workload.request(2), workload.arrival(2)), (None, None));
    }

    #[test]
    fn utilisation_is_checked() {
        for fraction in [0.0, -1.0, 10.1, f64::NAN, f64::INFINITY] {
            assert!(Utilisation::new(fraction).is_err(), "{fraction}");
        }
    }
}
