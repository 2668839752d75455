//! Snapshots of a router.

use kv_router::{
    Clock, EngineFrame, EngineKind, EngineStream, EngineStreamConfig, EventBatch, Incarnation, KvEvent,
    RestoreReport, Router, WorkerId, WorkerRank,
};
use kv_router_engines::{BatchEncoder, EventForm, StoreFields, WireHash, WireTokens};
use kv_router_types::{DpRank, ExternalSequenceHash, LocalBlockHash, StoredBlock, Tier};

use super::fleet::{Block, Hours, held, router};
use crate::memory::within;
use crate::{seal, seeds};

/// Fed by batches, like the ranks of the examples of docs/wire.md.
const BATCHES: u64 = 7;
/// Fed by the frames of an engine.
const FRAMES: u64 = 1;
/// Heard of before.
const LIVE: u64 = 2;

/// The snapshot as it is, and with its checksums put right: all of it is taken over or nothing, and a router that took
/// it over writes one that the next router takes over.
pub(super) fn restore(bytes: &[u8]) {
    for snapshot in [bytes, &seal::dump(bytes)] {
        let Fleet { router, stream: _stream } = fleet();
        let before = held(&router);
        let streams = router.streams();
        // A name of a note takes 64 bytes of a table that doubles, and an event's block some 60 of the index.
        let restored = within(snapshot.len(), 512, || router.restore(&mut &snapshot[..]));
        let Ok(report) = restored else {
            assert_eq!(
                (held(&router), router.streams()),
                (before, streams),
                "a refused snapshot changed something"
            );
            continue;
        };
        let after = held(&router);
        // A name that moves within one snapshot, which no router writes, is counted as if it had stayed.
        assert!(copies(&after) <= copies(&before) + report.blocks, "{report:?}");
        assert!(before.iter().all(|block| after.contains(block)), "a rank that lives lost something");
        assert!(report.ranks > 0 || after == before, "{report:?}");
        again(&router, report);
        go_on(&router);
    }
}

struct Fleet {
    router: Router,
    stream: EngineStream,
}

fn fleet() -> Fleet {
    let (router, _) = router(&[BATCHES, FRAMES, LIVE], |config| config.max_restore_bytes = 1 << 16);
    let rank = WorkerRank::from(WorkerId::new(FRAMES));
    let stream = match router.engine_stream(EngineStreamConfig::new(rank, EngineKind::Vllm)) {
        Ok(stream) => stream,
        Err(error) => panic!("{error}"),
    };
    apply(&router, LIVE, 0, stored(1));
    Fleet { router, stream }
}

fn stored(name: u64) -> KvEvent {
    let block = StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(name));
    KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block] }
}

fn apply(router: &Router, worker: u64, sequence: u64, event: KvEvent) {
    let (from, incarnation) = (WorkerId::new(worker).into(), Incarnation::new(3));
    if let Err(error) = router.apply(&EventBatch { from, incarnation, sequence, events: vec![event] }) {
        panic!("{error}");
    }
}

/// What was taken over can be written and taken over again.
fn again(router: &Router, report: RestoreReport) {
    let mut snapshot = Vec::new();
    match router.snapshot(&mut snapshot) {
        Ok(written) => assert_eq!(written.ranks, report.ranks + 1, "{report:?} {written:?}"),
        Err(error) => panic!("{error}"),
    }
    let other = fleet();
    match other.router.restore(&mut &snapshot[..]) {
        Ok(second) => assert_eq!((second.ranks, second.live, second.refused), (report.ranks, 1, 0)),
        Err(error) => panic!("what was written cannot be restored: {error}"),
    }
    assert_eq!(held(&other.router), held(router));
}

/// The ranks live on: each takes what comes, and a clear leaves nothing behind.
fn go_on(router: &Router) {
    for rank in 0..2 {
        let from = WorkerRank::new(WorkerId::new(BATCHES), DpRank::new(rank));
        for sequence in [0, 1, 501, 502] {
            let batch = EventBatch {
                from,
                incarnation: Incarnation::new(3),
                sequence,
                events: vec![stored(sequence), KvEvent::Cleared],
            };
            let _ = router.apply(&batch);
        }
    }
    let _ = held(router);
}

/// A block in two tiers is two.
fn copies(blocks: &[Block]) -> u64 {
    blocks.iter().map(|block| block.tiers.iter().count() as u64).sum()
}

pub(super) fn restore_seeds() -> Vec<Vec<u8>> {
    let Fleet { router, mut stream } = fleet();
    for sequence in 0..3 {
        apply(&router, BATCHES, sequence, stored(sequence));
    }
    let batches_alone = snapshot(&router);
    let tokens: Vec<u32> = (0..48).collect();
    let mut encoder = BatchEncoder::new(EventForm::Map);
    for (name, salt) in [(1, None), (11, Some("a"))] {
        encoder.stored(&StoreFields {
            hashes: &[0, 1, 2].map(|at| WireHash::Unsigned(name + at)),
            tokens: WireTokens::Flat(&tokens),
            block_size: Some(16),
            cache_salt: salt,
            ..StoreFields::default()
        });
    }
    encoder.stored(&StoreFields {
        hashes: &[WireHash::Unsigned(20)],
        tokens: WireTokens::Flat(&tokens[..8]),
        block_size: Some(8),
        ..StoreFields::default()
    });
    let mut payload = Vec::new();
    encoder.finish(1.0, None, &mut payload);
    let now = Hours::new().now();
    if let Err(error) = stream.frame(EngineFrame::new(0, &payload), now) {
        panic!("{error}");
    }
    vec![seeds::example("dump"), batches_alone, snapshot(&router)]
}

fn snapshot(router: &Router) -> Vec<u8> {
    let mut snapshot = Vec::new();
    match router.snapshot(&mut snapshot) {
        Ok(_) => snapshot,
        Err(error) => panic!("{error}"),
    }
}
