//! Time inside an index: a clock that knows its own cost, and percentiles.

use std::time::{Duration, Instant};

/// Reads the monotonic clock and takes off what a reading costs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    cost_ns: u64,
}

impl Clock {
    /// Measures the cost: the median of many pairs of readings with nothing between them. Takes a few milliseconds.
    pub fn calibrated() -> Self {
        let mut pairs: Vec<u64> = (0..100_000)
            .map(|_| {
                let start = now();
                nanos(start.elapsed())
            })
            .collect();
        pairs.sort_unstable();
        Self { cost_ns: pairs[pairs.len() / 2] }
    }

    /// What every measurement is shortened by, in nanoseconds.
    pub fn cost_ns(self) -> u64 {
        self.cost_ns
    }

    /// Starts a measurement.
    #[inline]
    pub fn start(self) -> Instant {
        now()
    }

    /// Nanoseconds since `start`, without the clock's own.
    #[inline]
    pub fn stop(self, start: Instant) -> u64 {
        nanos(start.elapsed()).saturating_sub(self.cost_ns)
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Measured times. Keeps them all: a run has at most a few million, and percentiles are then exact.
#[derive(Clone, Debug, Default)]
pub struct Times {
    nanos: Vec<u32>,
    total: u64,
}

impl Times {
    /// None yet, with room for `count` of them, so that no measurement meets a growing vector.
    pub fn with_capacity(count: usize) -> Self {
        Self { nanos: Vec::with_capacity(count), total: 0 }
    }

    /// Adds one. Times above four seconds count as four seconds in percentiles.
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        self.nanos.push(u32::try_from(nanos).unwrap_or(u32::MAX));
        self.total += nanos;
    }

    /// Their sum in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// The smallest time that `share` of all do not exceed (nearest rank), for each share; 0 without any time.
    pub fn percentiles<const N: usize>(mut self, shares: [f64; N]) -> [f64; N] {
        self.nanos.sort_unstable();
        let count = self.nanos.len();
        shares.map(|share| {
            let rank = ((count as f64 * share).ceil() as usize).clamp(1, count.max(1));
            self.nanos.get(rank - 1).map_or(0.0, |&nanos| f64::from(nanos))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut times = Times::default();
        (1..=1_000).rev().for_each(|nanos| times.add(nanos));
        assert_eq!(times.total_ns(), 500_500);
        assert_eq!(times.percentiles([0.0, 0.5, 0.99, 0.999, 1.0]), [1.0, 500.0, 990.0, 999.0, 1_000.0]);
        assert_eq!(Times::default().percentiles([0.5, 1.0]), [0.0, 0.0]);
    }

    #[test]
    fn the_cost_of_the_clock_is_taken_off() {
        let clock = Clock { cost_ns: u64::MAX };
        assert_eq!(clock.stop(clock.start()), 0);
    }
}
