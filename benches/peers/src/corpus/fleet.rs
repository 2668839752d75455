//! Engines whose events are recorded as they happen.

use kv_router_hash::next_sequence_hash;
use kv_router_sim::random::SeededRandom;
use kv_router_types::{ExternalSequenceHash, LocalBlockHash, SequenceHash, StoredBlock};

use super::engine::Engine;
use super::{CACHE_BLOCKS, Recorder};

/// The names that engines give to the blocks of a prompt: its rolling hashes. The positional index of a peer needs
/// them to be just that; the other indexes do not look inside.
pub(super) fn names(locals: &[LocalBlockHash]) -> Vec<ExternalSequenceHash> {
    let mut last: Option<SequenceHash> = None;
    let name = |&local: &LocalBlockHash| {
        let next = next_sequence_hash(last, local);
        last = Some(next);
        ExternalSequenceHash::new(next.get())
    };
    locals.iter().map(name).collect()
}

/// Names and content side by side.
pub(super) fn pairs(names: &[ExternalSequenceHash], locals: &[LocalBlockHash]) -> Vec<StoredBlock> {
    names.iter().zip(locals).map(|(&name, &local)| StoredBlock::new(name, local)).collect()
}

/// A content hash that no other draw gives.
pub(super) fn fresh(random: &mut SeededRandom) -> LocalBlockHash {
    LocalBlockHash::new(random.next_word())
}

/// A number in `low..=high`.
pub(super) fn between(random: &mut SeededRandom, low: usize, high: usize) -> usize {
    low + random.below(high - low + 1)
}

/// Whether an event of this many per cent happens.
pub(super) fn chance(random: &mut SeededRandom, per_cent: usize) -> bool {
    random.below(100) < per_cent
}

/// The engines and the stream that they write.
pub(super) struct Fleet {
    pub(super) engines: Vec<Engine>,
    pub(super) out: Recorder,
}

impl Fleet {
    pub(super) fn new(workers: u32) -> Self {
        let engines = (0..workers).map(|_| Engine::new(CACHE_BLOCKS)).collect();
        Self { engines, out: Recorder::new(workers) }
    }

    /// Takes a prompt in: one event for what was evicted, one for what was computed. `false` when there is no room.
    pub(super) fn admit(
        &mut self,
        worker: usize,
        locals: &[LocalBlockHash],
        names: &[ExternalSequenceHash],
    ) -> bool {
        let engine = &mut self.engines[worker];
        let hit = engine.hit(names);
        let Some(evicted) = engine.admit(names, hit) else { return false };
        engine.served += 1;
        let parent = hit.checked_sub(1).map(|last| names[last]);
        self.out.remove(worker as u32, &evicted);
        self.out.store(worker as u32, parent, &pairs(&names[hit..], &locals[hit..]));
        true
    }

    /// Generates one more private block behind `names`, to which it is added. `false` when there is no room.
    pub(super) fn decode(
        &mut self,
        worker: usize,
        local: LocalBlockHash,
        names: &mut Vec<ExternalSequenceHash>,
    ) -> bool {
        let parent = names.last().copied();
        let path = parent.map(|parent| SequenceHash::new(parent.get()));
        let name = ExternalSequenceHash::new(next_sequence_hash(path, local).get());
        let Some(evicted) = self.engines[worker].admit(&[name], 0) else { return false };
        self.out.remove(worker as u32, &evicted);
        self.out.store(worker as u32, parent, &[StoredBlock::new(name, local)]);
        names.push(name);
        true
    }

    /// A request from arrival to end without anything in between.
    pub(super) fn serve(
        &mut self,
        worker: usize,
        locals: &[LocalBlockHash],
        decodes: usize,
        random: &mut SeededRandom,
    ) {
        self.out.find(locals);
        let mut names = names(locals);
        if self.admit(worker, locals, &names) {
            for _ in 0..decodes {
                if !self.decode(worker, fresh(random), &mut names) {
                    break;
                }
            }
            self.engines[worker].release(&names);
        }
    }
}
