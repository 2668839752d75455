//! Who is there, from what the store says and from time going by. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kv_router_types::WorkerId;

/// What became of a worker.
///
/// Not `#[non_exhaustive]` on purpose: code that forgets a kind of event must not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It is there, and was not before.
    Joined {
        /// Which one.
        worker: WorkerId,
        /// What it says of itself.
        about: Vec<u8>,
    },
    /// It says something else of itself.
    Changed {
        /// Which one.
        worker: WorkerId,
        /// What it says now.
        about: Vec<u8>,
    },
    /// It took its leave.
    Left {
        /// Which one.
        worker: WorkerId,
    },
    /// It was not heard of for its time to live, while the connection was up.
    Expired {
        /// Which one.
        worker: WorkerId,
    },
}

/// The workers there are.
///
/// While the connection is down nobody is heard and nobody expires; once it is back everyone has a whole time to
/// live again. A router that is cut off would otherwise take all workers for gone, and one whose broker restarts
/// those that reconnect a little later. A time in which nobody looked does not count either: more signs of life wait
/// behind it than are taken at once.
#[derive(Debug)]
pub(super) struct Liveness {
    ttl: Duration,
    limit: usize,
    down: bool,
    /// When somebody looked last.
    looked: Option<Instant>,
    workers: BTreeMap<WorkerId, Seen>,
}

#[derive(Debug)]
struct Seen {
    revision: u64,
    about: Vec<u8>,
    until: Instant,
}

impl Liveness {
    pub(super) fn new(ttl: Duration, limit: usize) -> Self {
        Self { ttl, limit, down: false, looked: None, workers: BTreeMap::new() }
    }

    /// The store has this entry. Returns `false` when there are too many workers to take it.
    pub(super) fn put(
        &mut self,
        now: Instant,
        worker: WorkerId,
        revision: u64,
        about: Vec<u8>,
        out: &mut Vec<WorkerEvent>,
    ) -> bool {
        let (until, full) = (now + self.ttl, self.workers.len() >= self.limit);
        match self.workers.get_mut(&worker) {
            // An entry told twice is no sign of life.
            Some(seen) if seen.revision == revision => {}
            Some(seen) => {
                (seen.revision, seen.until) = (revision, until);
                if seen.about != about {
                    seen.about.clone_from(&about);
                    out.push(WorkerEvent::Changed { worker, about });
                }
            }
            None if full => return false,
            None => {
                self.workers.insert(worker, Seen { revision, about: about.clone(), until });
                out.push(WorkerEvent::Joined { worker, about });
            }
        }
        true
    }

    /// The worker deleted its entry.
    pub(super) fn delete(&mut self, worker: WorkerId, out: &mut Vec<WorkerEvent>) {
        if self.workers.remove(&worker).is_some() {
            out.push(WorkerEvent::Left { worker });
        }
    }

    /// Somebody looks, and the connection is up, or is not.
    pub(super) fn connection(&mut self, now: Instant, up: Connection) {
        let was_down = std::mem::replace(&mut self.down, up == Connection::Down);
        let before = self.looked.replace(now).unwrap_or(now);
        let away = now.saturating_duration_since(before);
        if !self.down && (was_down || away > self.ttl / 3) {
            for seen in self.workers.values_mut() {
                seen.until = if was_down { now + self.ttl } else { seen.until + away };
            }
        }
    }

    /// Time went by.
    pub(super) fn tick(&mut self, now: Instant, out: &mut Vec<WorkerEvent>) {
        if self.down {
            return;
        }
        self.workers.retain(|&worker, seen| {
            let alive = now < seen.until;
            if !alive {
                out.push(WorkerEvent::Expired { worker });
            }
            alive
        });
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = (WorkerId, &[u8])> {
        self.workers.iter().map(|(worker, seen)| (*worker, seen.about.as_slice()))
    }
}

/// How the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Up,
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        liveness: Liveness,
        start: Instant,
    }

    /// What happens to worker 1 with a time to live of 10 s.
    enum Input {
        Put(u64, &'static str),
        Delete,
        Down,
        Up,
        Tick,
    }

    impl Rig {
        fn says(&mut self, seconds: u64, input: Input) -> String {
            let (now, worker) = (self.start + Duration::from_secs(seconds), WorkerId::new(1));
            let mut out = vec![];
            match input {
                Input::Put(revision, about) => {
                    self.liveness.put(now, worker, revision, about.into(), &mut out);
                }
                Input::Delete => self.liveness.delete(worker, &mut out),
                Input::Down => self.liveness.connection(now, Connection::Down),
                Input::Up => self.liveness.connection(now, Connection::Up),
                Input::Tick => self.liveness.tick(now, &mut out),
            }
            let words = out.into_iter().map(|event| match event {
                WorkerEvent::Joined { about, .. } => format!("+{}", String::from_utf8(about).unwrap()),
                WorkerEvent::Changed { about, .. } => format!("~{}", String::from_utf8(about).unwrap()),
                WorkerEvent::Left { .. } => String::from("-"),
                WorkerEvent::Expired { .. } => String::from("!"),
            });
            words.collect()
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an origin for the virtual clock")]
    fn rig() -> Rig {
        Rig { liveness: Liveness::new(Duration::from_secs(10), 1), start: Instant::now() }
    }

    #[test]
    fn signs_of_life_keep_a_worker_and_silence_expires_it() {
        let mut rig = rig();
        assert_eq!(rig.says(0, Input::Put(1, "a")), "+a");
        assert_eq!(rig.says(9, Input::Put(2, "a")), "");
        assert_eq!(rig.says(18, Input::Tick), "");
        assert_eq!(rig.says(19, Input::Tick), "!");
        assert_eq!(rig.says(19, Input::Tick), "");
        assert_eq!(rig.says(20, Input::Put(3, "b")), "+b");
        assert_eq!(rig.says(21, Input::Put(4, "c")), "~c");
        assert_eq!(rig.says(22, Input::Delete), "-");
        assert_eq!(rig.says(22, Input::Delete), "");
    }

    #[test]
    fn an_entry_told_twice_is_no_sign_of_life() {
        let mut rig = rig();
        rig.says(0, Input::Put(1, "a"));
        assert_eq!(rig.says(9, Input::Put(1, "a")), "");
        assert_eq!(rig.says(10, Input::Tick), "!");
    }

    #[test]
    fn nobody_expires_while_the_connection_is_down_or_just_back() {
        let mut rig = rig();
        rig.says(0, Input::Put(1, "a"));
        rig.says(5, Input::Down);
        assert_eq!(rig.says(100, Input::Tick), "");
        rig.says(100, Input::Up);
        for second in [103, 106, 109] {
            rig.says(second, Input::Up);
            assert_eq!(rig.says(second, Input::Tick), "");
        }
        assert_eq!(rig.says(110, Input::Tick), "!");
    }

    #[test]
    fn nobody_expires_because_nobody_looked() {
        let mut rig = rig();
        rig.says(0, Input::Up);
        rig.says(0, Input::Put(1, "a"));
        rig.says(20, Input::Up);
        assert_eq!(rig.says(20, Input::Tick), "");
        for second in [23, 26, 29] {
            rig.says(second, Input::Up);
            assert_eq!(rig.says(second, Input::Tick), "");
        }
        rig.says(30, Input::Up);
        assert_eq!(rig.says(30, Input::Tick), "!");
    }

    #[test]
    fn workers_above_the_limit_are_not_taken() {
        let mut rig = rig();
        rig.says(0, Input::Put(1, "a"));
        let mut out = vec![];
        assert!(!rig.liveness.put(rig.start, WorkerId::new(2), 2, vec![], &mut out));
        assert!(out.is_empty());
    }
}
