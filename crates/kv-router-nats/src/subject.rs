//! Names of subjects and buckets.

use std::fmt;
use std::str::FromStr;

use kv_router_types::{DpRank, WorkerId, WorkerRank};

use crate::ConfigError;

/// Longest prefix, in bytes: names of buckets have limits.
const MOST_BYTES: usize = 64;

/// First words of every subject and bucket of one fleet: letters, digits, `-` and `_`, in words separated by dots.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SubjectPrefix(String);

impl SubjectPrefix {
    /// Checks and keeps a prefix.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Prefix`] when a subject cannot begin like this.
    pub fn new(prefix: &str) -> Result<Self, ConfigError> {
        let word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if prefix.len() > MOST_BYTES || !prefix.split('.').all(word) {
            return Err(ConfigError::Prefix);
        }
        Ok(Self(prefix.to_owned()))
    }

    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where the batches of a rank go.
    pub(crate) fn batches(&self, rank: WorkerRank) -> String {
        format!("{}.kv.{}.{}", self.0, rank.worker.get(), rank.rank.get())
    }

    /// Where the batches of all ranks go.
    pub(crate) fn all_batches(&self) -> String {
        format!("{}.kv.*.*", self.0)
    }

    /// Where replays of a rank are asked for.
    pub(crate) fn replays(&self, rank: WorkerRank) -> String {
        format!("{}.replay.{}.{}", self.0, rank.worker.get(), rank.rank.get())
    }

    /// Where gossip about `word` goes.
    pub(crate) fn gossip(&self, word: &str) -> String {
        format!("{}.gossip.{word}", self.0)
    }

    /// A bucket's name, which may not have dots in it.
    pub(crate) fn bucket(&self, word: &str) -> String {
        format!("{}_{word}", self.0.replace('.', "_"))
    }

    /// Whose batches these are, going by the subject.
    pub(crate) fn rank_of(&self, subject: &str) -> Option<WorkerRank> {
        let rest = subject.strip_prefix(&self.0)?.strip_prefix(".kv.")?;
        let (worker, rank) = rest.split_once('.')?;
        Some(WorkerRank::new(WorkerId::new(number(worker)?), DpRank::new(number(rank)?)))
    }
}

/// A number as we write it, and no other way: `+7` and `07` would be second names of 7.
pub(crate) fn number<N: FromStr + ToString>(text: &str) -> Option<N> {
    text.parse().ok().filter(|number: &N| number.to_string() == text)
}

/// `kvr`.
impl Default for SubjectPrefix {
    fn default() -> Self {
        Self(String::from("kvr"))
    }
}

impl fmt::Debug for SubjectPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubjectPrefix({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_a_subject_can_have() {
        for good in ["kvr", "a.b-1.c_2", "7"] {
            assert!(SubjectPrefix::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a b", "a.*", "a.>", "\u{e4}", "$KV", &"x".repeat(65)] {
            assert!(SubjectPrefix::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_rank_comes_back_from_the_subject() {
        let prefix = SubjectPrefix::new("fleet.a").unwrap();
        let rank = WorkerRank::new(WorkerId::new(u64::MAX), DpRank::new(3));
        assert_eq!(prefix.rank_of(&prefix.batches(rank)), Some(rank));
        for foreign in [
            "fleet.a.kv.1",
            "fleet.b.kv.1.2",
            "fleet.a.kv.x.2",
            "fleet.a.kv.1.2.3",
            "fleet.a.replay.1.2",
            "fleet.a.kv.+1.2",
            "fleet.a.kv.01.2",
            "fleet.a.kv.1.-0",
        ] {
            assert_eq!(prefix.rank_of(foreign), None, "{foreign}");
        }
    }
}
