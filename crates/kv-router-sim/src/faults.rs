//! What goes wrong between engines and routers: events that are late, lost or out of order, and engines that die.

use std::time::Duration;

use crate::random::SeededRandom;
use crate::time::SimTime;

/// The way of event batches from the engines to the router. The default is perfect: at once, and all of them.
///
/// A batch that overtakes another, or follows one that was lost, is a gap to whoever reads the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How long every batch takes.
    pub delay: Duration,
    /// How much longer a batch may take, evenly drawn: above the time between two batches it reorders them.
    pub jitter: Duration,
    /// Batches lost of every 1,000, drawn one by one. 1,000 and more loses all.
    pub lost_per_mille: u32,
    /// When the trouble ends: from here on batches come at once and none is lost. Default `None`: never.
    pub until: Option<SimTime>,
}

impl Link {
    /// When a batch sent at `now` arrives; `None` when it is lost.
    pub(crate) fn arrival(&self, now: SimTime, random: &mut SeededRandom) -> Option<SimTime> {
        if self.until.is_some_and(|until| now >= until) {
            return Some(now);
        }
        if random.below(1_000) < self.lost_per_mille as usize {
            return None;
        }
        let jitter = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let late = (u128::from(random.next_word()) * u128::from(jitter)) >> 64; // at most `jitter`
        Some(now + self.delay + Duration::from_nanos(late as u64))
    }

    /// Whether nothing ever happens to a batch.
    pub(crate) fn is_perfect(&self) -> bool {
        self.delay.is_zero() && self.jitter.is_zero() && self.lost_per_mille == 0
    }
}

/// One engine dies, and comes back empty as a new incarnation. A death of one that is dead already changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Which engine, by its place in the fleet.
    pub engine: u32,
    /// When it dies. What it was working on is lost.
    pub at: SimTime,
    /// How long nobody knows: until then requests are sent to it and lost too. Then all of them are sent again.
    pub noticed_after: Duration,
    /// How long it is away; not shorter than `noticed_after` whatever it says.
    pub back_after: Duration,
}

/// All that goes wrong in a replay. The default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Between each engine and the router.
    pub link: Link,
    /// Deaths, in any order.
    pub outages: Vec<Outage>,
    /// Decides every draw of the link.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_bounds_and_ends() {
        let link = Link {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(3),
            lost_per_mille: 100,
            until: Some(SimTime::from_millis(50)),
        };
        let mut random = SeededRandom::new(1);
        let now = SimTime::from_millis(10);
        let arrivals: Vec<_> = (0..10_000).map(|_| link.arrival(now, &mut random)).collect();
        let lost = arrivals.iter().filter(|arrival| arrival.is_none()).count();
        assert!((900..1_100).contains(&lost), "{lost}");
        assert!(
            arrivals
                .iter()
                .flatten()
                .all(|at| { (SimTime::from_millis(15)..=SimTime::from_millis(18)).contains(at) })
        );
        assert!(arrivals.iter().flatten().any(|at| *at > SimTime::from_millis(17)));
        let after = SimTime::from_millis(50);
        assert_eq!(link.arrival(after, &mut random), Some(after));
        assert!(Link::default().is_perfect() && !link.is_perfect());
    }
}
