//! kv-index 2.0.0, `ChainIndex`.
//!
//! As its replay benchmark (`benches/mooncake_replay`) drives it: one lane that owns the workers' block maps and applies
//! their events, and `score_into` for lookups. The benchmark's sharded wrapper with one shard is this index behind one
//! indirection; more shards are for more sockets than one.

use std::fmt;
use std::mem;
use std::sync::Arc;

use kv_index::{ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock};
use kv_router_types::LocalBlockHash;

use super::{Concurrent, Find, Owner, Subject};
use crate::corpus::{Change, Corpus, Held};

/// The index with its one lane.
pub struct Chain {
    index: ChainFinder,
    lane: Vec<Lane>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("workers", &self.lane.len()).finish_non_exhaustive()
    }
}

/// Its reading side.
#[derive(Clone)]
pub struct ChainFinder(Arc<ChainIndex>);

impl fmt::Debug for ChainFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChainFinder").finish_non_exhaustive()
    }
}

/// One worker's place in the index, which a replacement gives up, and what it holds.
struct Lane {
    id: Option<u32>,
    map: ChainBlockMap,
}

/// Its event.
#[derive(Debug)]
pub enum Event {
    /// Blocks stored.
    Store(u32, Option<SequenceHash>, Vec<StoredBlock>),
    /// Blocks removed.
    Remove(u32, Vec<SequenceHash>),
    /// Cache dropped.
    Clear(u32),
    /// Worker gone.
    Replace(u32),
}

impl Find for ChainFinder {
    type Query = Vec<ContentHash>;
    type Answer = Vec<Held>;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        query.clear();
        query.extend(locals.iter().map(|local| ContentHash(local.get())));
    }

    #[inline]
    fn find(&self, query: &mut Self::Query, answer: &mut Vec<Held>) {
        answer.clear();
        let push = |worker, blocks| answer.push(Held { worker, blocks });
        self.0.score_into(query, |content| content.0, false, push);
    }

    fn read(&self, answer: &Vec<Held>, out: &mut Vec<Held>) {
        // Ids are dense, given in the order of asking, and a replaced worker gets its own back: an id is its number.
        out.extend_from_slice(answer);
    }
}

impl Chain {
    fn lane(&mut self, worker: u32) -> Option<(u32, &mut ChainBlockMap)> {
        let lane = &mut self.lane[worker as usize];
        if lane.id.is_none() {
            lane.id = self.index.0.intern_worker(&format!("worker-{worker}")).ok();
        }
        debug_assert_eq!(lane.id, Some(worker), "ids are worker numbers");
        Some((lane.id?, &mut lane.map))
    }
}

impl Subject for Chain {
    const NAME: &'static str = "kv-index chain";
    const OWNER: Owner = Owner::Peer;
    type Event = Event;
    type Builder = ();
    type Finder = ChainFinder;

    fn open(workers: u32) -> Self {
        let index = ChainFinder(Arc::new(ChainIndex::with_max_workers(workers as usize)));
        let lane = (0..workers).map(|_| Lane { id: None, map: ChainBlockMap::new() }).collect();
        let mut chain = Self { index, lane };
        for worker in 0..workers {
            chain.lane(worker);
        }
        chain
    }

    fn finder(&self) -> &ChainFinder {
        &self.index
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Event {
        let name = |name: &kv_router_types::ExternalSequenceHash| SequenceHash(name.get());
        match change {
            Change::Store { worker, parent, blocks } => {
                let block = |block: &kv_router_types::StoredBlock| StoredBlock {
                    seq_hash: name(&block.external),
                    content_hash: ContentHash(block.local.get()),
                };
                Event::Store(worker, parent.as_ref().map(name), blocks.iter().map(block).collect())
            }
            Change::Remove { worker, names } => Event::Remove(worker, names.iter().map(name).collect()),
            Change::Clear { worker } => Event::Clear(worker),
            Change::Replace { worker } => Event::Replace(worker),
        }
    }

    #[inline]
    fn apply(&mut self, event: &mut Event) {
        let index = Arc::clone(&self.index.0);
        match event {
            Event::Store(worker, parent, blocks) => {
                if let Some((id, map)) = self.lane(*worker) {
                    let _ = index.apply_stored(id, blocks, *parent, map);
                }
            }
            Event::Remove(worker, names) => {
                if let Some((id, map)) = self.lane(*worker) {
                    index.apply_removed(id, names, map);
                }
            }
            Event::Clear(worker) => {
                if let Some((id, map)) = self.lane(*worker) {
                    index.apply_cleared(id, map);
                }
            }
            Event::Replace(worker) => {
                if let Some((id, map)) = self.lane(*worker) {
                    index.remove_worker(id, mem::take(map));
                    self.lane[*worker as usize].id = None;
                }
            }
        }
    }
}

impl Concurrent for Chain {}
