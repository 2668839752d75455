//! Who writes the next snapshot, and when. Pure: the time goes in, orders come out.

use std::time::{Duration, Instant};

use crate::config::{check_count, check_wait};
use crate::error::ConfigError;

/// How snapshots of a fleet are written, by one replica at a time.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SnapshotSchedule {
    /// The longest time from one snapshot to the next; each is cut by up to a quarter. Default: 60 s.
    pub every: Duration,
    /// How long the duty lasts without being renewed, which happens three times as often: when the replica that has it
    /// dies, another takes over within about twice that. All replicas need the same. Default: 15 s.
    pub lease: Duration,
    /// How often a snapshot that would leave ranks out is put off, an eighth of `every` each time, before it is written
    /// without them. Default: 4.
    pub patience: u32,
    /// Decides by how much each wait is cut. Give every replica another one. Default: 0.
    pub spread: u64,
    /// Servers that keep who has the duty, when the bucket has to be made. Default: 1.
    pub replicas: usize,
}

impl Default for SnapshotSchedule {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(60),
            lease: Duration::from_secs(15),
            patience: 4,
            spread: 0,
            replicas: 1,
        }
    }
}

impl SnapshotSchedule {
    /// Checks that the parts make sense.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_wait("every", self.every)?;
        check_wait("lease", self.lease)?;
        check_count("replicas", self.replicas)
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Ask for the duty, unless somebody has it.
    Acquire,
    /// Renew this grant of it.
    Renew(u64),
    /// Write a snapshot if no rank is left out of it.
    WriteWhole,
    /// Write what there is.
    WriteAny,
}

/// Why there is no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// Somebody else has it.
    Taken,
    /// Nobody knows: the broker did not answer.
    Unknown,
}

/// What became of an order to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// Ranks would have been left out.
    NotWhole,
    Failed,
}

/// One replica's view of the duty.
///
/// At most one replica has it, as long as clocks run alike: the store grants it to one, for `lease` from when it heard
/// the question, and who was granted it counts from when it asked, which is before.
#[derive(Debug)]
pub(super) struct Schedule {
    config: SnapshotSchedule,
    /// Cuts drawn so far.
    draws: u64,
    duty: Duty,
    /// When the open question to the store was asked.
    asked: Option<Instant>,
    writing: bool,
}

#[derive(Clone, Copy, Debug)]
enum Duty {
    Elsewhere { ask_at: Instant },
    Ours { grant: u64, until: Instant, renew_at: Instant, write_at: Instant, put_off: u32 },
}

impl Schedule {
    /// A replica that does not know who has the duty. It asks within a third of a lease.
    pub(super) fn new(now: Instant, config: SnapshotSchedule) -> Self {
        let mut schedule =
            Self { config, draws: 0, duty: Duty::Elsewhere { ask_at: now }, asked: None, writing: false };
        schedule.duty = Duty::Elsewhere { ask_at: now + schedule.upto(config.lease / 3) };
        schedule
    }

    /// What to do now: call it until there is nothing. Each order has to be answered, by [`granted`](Self::granted) or
    /// [`denied`](Self::denied), or by [`written`](Self::written).
    pub(super) fn next(&mut self, now: Instant) -> Option<Order> {
        if let Duty::Ours { until, .. } = self.duty
            && now >= until
        {
            self.duty = Duty::Elsewhere { ask_at: now };
        }
        match &mut self.duty {
            Duty::Elsewhere { ask_at } if self.asked.is_none() && now >= *ask_at => {
                self.asked = Some(now);
                Some(Order::Acquire)
            }
            Duty::Ours { grant, renew_at, .. } if self.asked.is_none() && now >= *renew_at => {
                self.asked = Some(now);
                Some(Order::Renew(*grant))
            }
            Duty::Ours { write_at, put_off, .. } if !self.writing && now >= *write_at => {
                self.writing = true;
                Some(if *put_off < self.config.patience { Order::WriteWhole } else { Order::WriteAny })
            }
            _ => None,
        }
    }

    /// When there is something to do next, if nothing is answered before.
    #[cfg(test)]
    fn next_at(&self) -> Instant {
        match self.duty {
            Duty::Elsewhere { ask_at } => ask_at,
            Duty::Ours { until, renew_at, write_at, .. } => until.min(renew_at).min(write_at),
        }
    }

    /// The store granted the duty, or renewed it.
    pub(super) fn granted(&mut self, now: Instant, new: u64) {
        let Some(asked) = self.asked.take() else { return };
        let (until, renew) = (asked + self.config.lease, now + self.config.lease / 3);
        match &mut self.duty {
            Duty::Ours { grant, until: end, renew_at, .. } => (*grant, *end, *renew_at) = (new, until, renew),
            Duty::Elsewhere { .. } => {
                // Not at once: a fleet of replicas that die young would write without end.
                let write_at = now + self.upto(self.config.every / 2);
                self.duty = Duty::Ours { grant: new, until, renew_at: renew, write_at, put_off: 0 };
            }
        }
    }

    /// The store did not grant it.
    pub(super) fn denied(&mut self, now: Instant, why: Denial) {
        self.asked = None;
        let wait = self.config.lease / 6 + self.upto(self.config.lease / 6);
        match &mut self.duty {
            // The grant we have is good until it ends.
            Duty::Ours { renew_at, .. } if why == Denial::Unknown => *renew_at = now + wait,
            duty => *duty = Duty::Elsewhere { ask_at: now + wait * 2 },
        }
    }

    /// What became of writing.
    pub(super) fn written(&mut self, now: Instant, outcome: Written) {
        self.writing = false;
        let cut = self.upto(self.config.every / 4);
        let soon = now + self.config.every / 8;
        if let Duty::Ours { write_at, put_off, .. } = &mut self.duty {
            (*write_at, *put_off) = match outcome {
                Written::Done => (now + self.config.every - cut, 0),
                Written::NotWhole => (soon, *put_off + 1),
                Written::Failed => (soon, *put_off),
            };
        }
    }

    /// Whether this replica has the duty.
    pub(super) fn is_ours(&self, now: Instant) -> bool {
        matches!(self.duty, Duty::Ours { until, .. } if now < until)
    }

    /// An even draw below `most`.
    fn upto(&mut self, most: Duration) -> Duration {
        self.draws += 1;
        let mut mixed = self.config.spread.wrapping_add(self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let product = u128::from(mixed ^ (mixed >> 31)) * most.as_nanos();
        Duration::from_nanos((product >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the store says of who has the duty: one entry that expires.
    #[derive(Default)]
    struct Store {
        entry: Option<(usize, Instant)>,
        revision: u64,
    }

    impl Store {
        /// One's own entry is taken up again, whatever became of the answer that said so.
        fn ask(&mut self, now: Instant, who: usize) -> Option<u64> {
            let holder = self.entry.filter(|&(_, until)| now < until).map(|(who, _)| who);
            holder.is_none_or(|holder| holder == who).then(|| {
                self.revision += 1;
                self.entry = Some((who, now + SnapshotSchedule::default().lease));
                self.revision
            })
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an origin for the virtual clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    fn config(spread: u64) -> SnapshotSchedule {
        SnapshotSchedule { spread, ..SnapshotSchedule::default() }
    }

    const STEP: Duration = Duration::from_millis(250);

    /// Three replicas over an hour, each of which does not run in its own third of every ten minutes, and a broker that
    /// does not answer one question in five.
    #[test]
    fn one_replica_at_a_time_writes_and_somebody_always_does() {
        let (start, mut store) = (origin(), Store::default());
        let mut replicas: Vec<_> = (0..3).map(|spread| Schedule::new(start, config(spread))).collect();
        let (mut written, mut last, mut questions) = (0, start, 0_u32);
        for step in 0..4 * 3600 {
            let now = start + STEP * step;
            for (number, replica) in replicas.iter_mut().enumerate() {
                let paused = step / (4 * 200) % 3 == number as u32;
                while !paused && let Some(order) = replica.next(now) {
                    match order {
                        Order::Acquire | Order::Renew(_) => {
                            questions += 1;
                            match store.ask(now, number) {
                                _ if questions.is_multiple_of(5) => replica.denied(now, Denial::Unknown),
                                Some(grant) => replica.granted(now, grant),
                                None => replica.denied(now, Denial::Taken),
                            }
                        }
                        Order::WriteWhole | Order::WriteAny => {
                            replica.written(now, Written::Done);
                            (written, last) = (written + 1, now);
                        }
                    }
                }
            }
            let leaders = replicas.iter().filter(|replica| replica.is_ours(now)).count();
            assert!(leaders <= 1, "{leaders} at {step}");
            assert!(now - last < Duration::from_secs(150), "nobody wrote for {:?}", now - last);
        }
        assert!((50..=90).contains(&written), "{written} in an hour");
        assert!(questions < 3600, "{questions} questions in an hour");
    }

    #[test]
    fn a_grant_counts_from_when_it_was_asked_for() {
        let start = origin();
        let mut replica = Schedule::new(start, config(1));
        let asked = replica.next_at();
        assert_eq!(replica.next(asked), Some(Order::Acquire));
        assert_eq!(replica.next(asked + Duration::from_secs(3)), None, "one question at a time");
        replica.granted(asked + Duration::from_secs(14), 7);
        assert!(replica.is_ours(asked + Duration::from_secs(14)));
        assert!(!replica.is_ours(asked + Duration::from_secs(15)));
    }

    #[test]
    fn a_renewal_that_nobody_answers_is_tried_again_and_one_that_is_refused_ends_it() {
        let start = origin();
        let mut replica = Schedule::new(start, config(1));
        let asked = replica.next_at();
        assert_eq!(replica.next(asked), Some(Order::Acquire));
        replica.granted(asked, 7);
        let mut now = asked + Duration::from_secs(5);
        let renewed = |replica: &mut Schedule, now| {
            std::iter::from_fn(|| replica.next(now)).find(|order| matches!(order, Order::Renew(_)))
        };
        assert_eq!(renewed(&mut replica, now), Some(Order::Renew(7)));
        replica.denied(now, Denial::Unknown);
        assert!(replica.is_ours(now));
        now += Duration::from_secs(5);
        assert_eq!(renewed(&mut replica, now), Some(Order::Renew(7)));
        replica.denied(now, Denial::Taken);
        assert!(!replica.is_ours(now));
        assert_eq!(replica.next(now), None, "it does not ask again at once");
    }

    #[test]
    fn a_snapshot_that_is_not_whole_is_put_off_for_a_bounded_time() {
        let start = origin();
        let mut replica = Schedule::new(start, config(1));
        let mut now = replica.next_at();
        let (mut orders, mut begun) = (vec![], None);
        while orders.last() != Some(&Order::WriteAny) {
            match replica.next(now) {
                Some(Order::Acquire | Order::Renew(_)) => replica.granted(now, 1),
                Some(order) => {
                    begun = begun.or(Some(now));
                    orders.push(order);
                    replica.written(now, Written::NotWhole);
                }
                None => now += STEP,
            }
        }
        assert_eq!(orders.len(), 5, "{orders:?}");
        assert!(now - begun.unwrap() <= Duration::from_secs(32), "{:?}", now - begun.unwrap());
    }
}
