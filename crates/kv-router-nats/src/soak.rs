//! No stability promise: what comes over NATS, read without a server, for tests and for `cargo xtask fuzz`.

use bytes::Bytes;
use kv_router_transport::Incarnation;
use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use crate::SubjectPrefix;
use crate::follower::fleet::Fleet;
use crate::relay::buffer::ReplayBuffer;
use crate::replay::{self, Ask, Page};

/// Bytes of a question for a replay, its checksum at their end.
pub const ASK_BYTES: usize = replay::ASK_BYTES;
/// Bytes of a page before its frames, its checksum at their end.
pub const PAGE_HEAD_BYTES: usize = replay::PAGE_HEAD_BYTES;

/// The life that the relay of [`ask`] is in.
const LIFE: u64 = 4;
/// Batches that it published, of which it still has the last few.
const PUBLISHED: u64 = 7;
/// Bytes of the batches that it keeps.
const KEPT: usize = 512;
/// Bytes of a page of its answers.
const PAGE: usize = 256;

/// A question that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// As it is written.
    pub written: Vec<u8>,
    /// What a relay with a few batches answers: at most 256 bytes.
    pub answer: Vec<u8>,
}

/// Reads a question and has it answered.
pub fn ask(bytes: &[u8]) -> Option<Asked> {
    let ask = Ask::decode(bytes)?;
    let mut buffer = ReplayBuffer::new(WorkerId::new(1).into(), Incarnation::new(LIFE), KEPT);
    for _ in 0..PUBLISHED {
        buffer.push(vec![KvEvent::Cleared]).ok()?;
    }
    Some(Asked { written: ask.encode(), answer: buffer.page(&ask, PAGE).encode() })
}

/// A question as it is written.
pub fn question(incarnation: u64, from: u64, to: u64) -> Vec<u8> {
    Ask { incarnation: Incarnation::new(incarnation), from, to }.encode()
}

/// Reads a page, and gives it as it is written.
pub fn page(bytes: &[u8]) -> Option<Vec<u8>> {
    Page::decode(&Bytes::copy_from_slice(bytes)).map(|page| page.encode())
}

/// Whose batches come on this subject.
pub fn rank_of(prefix: &SubjectPrefix, subject: &str) -> Option<WorkerRank> {
    prefix.rank_of(subject)
}

/// Whose entry has this key.
pub fn worker_of(key: &str) -> Option<WorkerId> {
    crate::registry::worker_of(key)
}

/// Reads a snapshot; gives the ranks that can be restored from it.
pub fn ranks_of_snapshot(bytes: &[u8]) -> Option<usize> {
    Fleet::read(bytes).ok().map(|fleet| fleet.ranks.len())
}
