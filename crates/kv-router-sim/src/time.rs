//! Virtual time: nanoseconds since the start of a simulation. Nothing here reads a clock.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment of the simulation, in nanoseconds since its start. Spans 584 years; arithmetic saturates.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(u64);

impl SimTime {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);

    /// A moment `nanos` nanoseconds after the start.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A moment `millis` milliseconds after the start.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the start.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since the start of the simulation, for an interface that takes its clock as a [`Duration`].
    #[inline]
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Time since `earlier`; zero when `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for SimTime {
    type Output = Self;

    #[inline]
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimTime({:?})", self.since_start())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(SimTime::from_millis(u64::MAX), SimTime::from_nanos(u64::MAX));
        assert_eq!(SimTime::from_nanos(u64::MAX) + Duration::from_nanos(1), SimTime::from_nanos(u64::MAX));
        assert_eq!(SimTime::ZERO + Duration::MAX, SimTime::from_nanos(u64::MAX));
        assert_eq!(SimTime::ZERO.since(SimTime::from_millis(1)), Duration::ZERO);
        assert_eq!(SimTime::from_millis(3).since(SimTime::from_millis(1)), Duration::from_millis(2));
    }
}
