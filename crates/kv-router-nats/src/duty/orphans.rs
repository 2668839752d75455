//! What is left of writes that never ended, and how it is told from writes that go on. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Most that is remembered; the rest is found at a later look.
const MOST: usize = 1024;

/// Pieces of objects that no object has.
///
/// A write puts its pieces into the store first and says last that they are an object, so one that is under way looks
/// like one that died. It takes no longer than it may: whose pieces are still nobody's after that is dead.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    since: BTreeMap<String, Instant>,
}

impl Orphans {
    /// The store has these pieces now, and nobody's object they are. Returns those that are dead: seen first longer ago
    /// than `longest`, the time that a write may take.
    pub(super) fn look(&mut self, now: Instant, found: BTreeSet<String>, longest: Duration) -> Vec<String> {
        self.since.retain(|name, _| found.contains(name));
        let mut dead = Vec::new();
        for name in found.into_iter().take(MOST) {
            match self.since.get(&name) {
                Some(&since) if now.saturating_duration_since(since) > longest => {
                    self.since.remove(&name);
                    dead.push(name);
                }
                Some(_) => {}
                None => drop(self.since.insert(name, now)),
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_nobodys_for_long_is_dead() {
        #[expect(clippy::disallowed_methods, reason = "an origin for the virtual clock")]
        let start = Instant::now();
        let (mut orphans, longest) = (Orphans::default(), Duration::from_secs(60));
        let mut look = |seconds, names: &[&str]| {
            let found = names.iter().map(|name| (*name).to_owned()).collect();
            orphans.look(start + Duration::from_secs(seconds), found, longest)
        };
        assert!(look(0, &["a", "b"]).is_empty());
        assert!(look(60, &["a", "c"]).is_empty(), "b became an object, or was taken away");
        assert_eq!(look(61, &["a", "b", "c"]), ["a"]);
        assert_eq!(look(121, &["b", "c"]), ["c"]);
        assert_eq!(look(122, &["b"]), ["b"]);
        assert!(look(500, &["a"]).is_empty(), "what comes again begins anew");
    }
}
