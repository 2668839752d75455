//! Traffic around a few long prompts that the fleet shares: the case that deep lookups are for.
//!
//! Four documents of 2,000 blocks. A quarter of the engines holds them whole, the others 250, 500 or 750 blocks less,
//! so that the candidates drop out along the way. Each request asks for a document and a tail of its own; the engine
//! that takes it stores the tail and gives up its oldest one, last block first.

use std::collections::VecDeque;

use kv_router_sim::time::SimTime;
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use crate::corpus::{Corpus, Op};

const DOCUMENTS: u64 = 4;
const DOCUMENT_BLOCKS: u64 = 2_000;
/// Each fourth part of the fleet holds so much less of the documents than the one before.
const STEP: u64 = 250;
/// Blocks that an engine announces at once.
const CHUNK: usize = 256;
const TAIL_BLOCKS: u64 = 32;
/// Tails that an engine has room for.
const TAILS: usize = 8;

impl Corpus {
    /// The corpus for a fleet. The same every time.
    pub fn shared_prompts(engines: u32, requests: usize) -> Self {
        let workers: Vec<WorkerRank> =
            (0..engines).map(|engine| WorkerId::new(u64::from(engine)).into()).collect();
        let mut ops = Vec::new();
        for (&worker, quarter) in workers.iter().zip((0..4).cycle()) {
            for document in 0..DOCUMENTS {
                ops.extend(store_document(worker, document, DOCUMENT_BLOCKS - quarter * STEP));
            }
        }
        let warm_up = ops.len();
        let mut tails = vec![VecDeque::new(); workers.len()];
        for (request, engine) in (0..requests as u64).zip((0..workers.len()).cycle()) {
            let at = SimTime::from_millis(request);
            let document = request % DOCUMENTS;
            let tail: Vec<StoredBlock> = (0..TAIL_BLOCKS).map(|n| tail_block(request, n)).collect();
            let query = (0..DOCUMENT_BLOCKS).map(|n| document_block(document, n));
            let query = query.chain(tail.iter().copied()).map(|block| block.local).collect();
            ops.push((at, Op::Find(query)));

            let held = DOCUMENT_BLOCKS - (engine as u64 % 4) * STEP;
            let parent = Some(document_block(document, held - 1).external);
            tails[engine].push_back(tail.iter().rev().map(|block| block.external).collect());
            let store = KvEvent::Stored { tier: Tier::Device, parent, blocks: tail };
            ops.push((at, Op::Apply(workers[engine], store)));
            if tails[engine].len() > TAILS
                && let Some(blocks) = tails[engine].pop_front()
            {
                ops.push((at, Op::Apply(workers[engine], KvEvent::Removed { tier: Tier::Device, blocks })));
            }
        }
        let name = format!(
            "{DOCUMENTS} shared prompts of {DOCUMENT_BLOCKS} blocks, {engines} engines, {requests} requests"
        );
        Self { name, workers, ops, warm_up }
    }
}

fn store_document(worker: WorkerRank, document: u64, blocks: u64) -> Vec<(SimTime, Op)> {
    let all: Vec<StoredBlock> = (0..blocks).map(|n| document_block(document, n)).collect();
    let mut parent = None;
    let stores = all.chunks(CHUNK).map(|chunk| {
        let event = KvEvent::Stored { tier: Tier::Device, parent, blocks: chunk.to_vec() };
        parent = chunk.last().map(|block| block.external);
        (SimTime::ZERO, Op::Apply(worker, event))
    });
    stores.collect()
}

fn document_block(document: u64, n: u64) -> StoredBlock {
    block(1 + document, n)
}

fn tail_block(request: u64, n: u64) -> StoredBlock {
    block(1 + DOCUMENTS + request, n)
}

/// A block with a local hash and a name that look like hashes and are never the same for two blocks.
fn block(family: u64, n: u64) -> StoredBlock {
    let id = family << 16 | n;
    let mix = |key: u64| id.wrapping_mul(key) ^ (id.wrapping_mul(key) >> 32);
    StoredBlock::new(
        ExternalSequenceHash::new(mix(0x9e37_79b9_7f4a_7c15)),
        LocalBlockHash::new(mix(0xd6e8_feb8_6659_fd93)),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::truth::Truth;

    #[test]
    fn no_two_blocks_are_alike_and_every_event_is_accepted() {
        let corpus = Corpus::shared_prompts(8, 200);
        let mut names = HashSet::new();
        for (_, op) in corpus.measured() {
            if let Op::Apply(_, KvEvent::Stored { blocks, .. }) = op {
                assert!(blocks.iter().all(|block| names.insert(block.external)));
            }
        }
        assert_eq!(names.len(), 200 * TAIL_BLOCKS as usize);
        // Two engines at each of the four depths, four documents, eight tails of 32 blocks an engine.
        let documents = 2 * 4 * (2_000 + 1_750 + 1_500 + 1_250);
        assert_eq!(Truth::of(&corpus).held_blocks, documents + 8 * 8 * 32);
    }
}
