//! The relay beside the engine alone: how long it takes to put numbers for names.

use crate::clock::Clock;
use crate::corpus::{Corpus, Step};
use crate::subjects::{Relays, paged_event};

/// What one run of the relays of a fleet gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relayed {
    /// Events of the measured part for each second inside a relay. There is one beside each engine, so a fleet does as
    /// many times more.
    pub events_per_s: f64,
    /// The same in stored and removed blocks.
    pub event_blocks_per_s: f64,
    /// Runs of numbers for each event: how much of it is left to send beside the content.
    pub runs_per_event: f64,
    /// Bytes that the relays have allocated in the end for each (worker, block) pair.
    pub bytes_per_held_block: f64,
}

/// Plays the events of a corpus through relays, each timed alone.
pub fn relay(corpus: &Corpus, clock: Clock) -> Relayed {
    let mut relays = Relays::default();
    let (mut ns, mut events, mut blocks, mut runs) = (0, 0u64, 0u64, 0u64);
    for at in 0..corpus.len() {
        let Some(Step::Change(change)) = corpus.step(at) else { continue };
        let (worker, event) = paged_event(change);
        let relay = relays.of(worker);
        let start = clock.start();
        let translated = relay.translate(&event);
        let took = clock.stop(start);
        if at >= corpus.warm_up() && change.blocks() > 0 {
            ns += took;
            events += 1;
            blocks += change.blocks() as u64;
            runs += translated.map_or(0, |translated| translated.event.run_count()) as u64;
        }
    }
    let seconds = ns.max(1) as f64 / 1e9;
    Relayed {
        events_per_s: events as f64 / seconds,
        event_blocks_per_s: blocks as f64 / seconds,
        runs_per_event: runs as f64 / events.max(1) as f64,
        bytes_per_held_block: relays.bytes() as f64 / corpus.held().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::churn_for_tests;

    #[test]
    fn every_event_of_the_measured_part_counts() {
        let relayed = relay(&churn_for_tests(), Clock::calibrated());
        assert!(relayed.events_per_s > 0.0 && relayed.event_blocks_per_s > relayed.events_per_s);
        assert!(relayed.runs_per_event >= 1.0 && relayed.bytes_per_held_block > 8.0);
    }
}
