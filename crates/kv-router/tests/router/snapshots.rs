//! What a snapshot says of itself, and ranks that it is not for.

use kv_router::{
    BlockSize, ExternalSequenceHash, Incarnation, KvEvent, LocalBlockHash, RouteRequest, StoredBlock, Tier,
    WorkerSpec,
};
use kv_router_transport::{DumpFingerprint, DumpWriter, Watermark};

use crate::support::{Fleet, name, rank, worker};

/// A dump of one rank, by whoever wrote it.
fn dump(events: &[KvEvent]) -> Vec<u8> {
    let mut writer = DumpWriter::new(Vec::new(), DumpFingerprint::new(16)).unwrap();
    writer.watermark(rank(0), Watermark::new(Incarnation::new(1), 0)).unwrap();
    events.iter().for_each(|event| writer.event(rank(0), event).unwrap());
    writer.finish().unwrap()
}

fn store(tier: Tier, local: u64) -> KvEvent {
    let block = StoredBlock::new(ExternalSequenceHash::new(7), LocalBlockHash::new(local));
    KvEvent::Stored { tier, parent: None, blocks: vec![block] }
}

#[test]
fn blocks_are_those_that_are_held_in_the_end() {
    let restored = |events: &[KvEvent]| {
        let fleet = Fleet::new(1);
        let report = fleet.router.restore(&mut &dump(events)[..]).unwrap();
        assert_eq!(report.ranks, 1);
        report.blocks
    };
    let (device, host) = (store(Tier::Device, 1), store(Tier::Host, 1));
    assert_eq!(restored(&[device.clone(), host.clone()]), 2);
    assert_eq!(restored(&[device.clone(), device.clone(), host.clone(), KvEvent::Cleared]), 0);
    // The name moves, and its copies in both tiers stay behind.
    assert_eq!(restored(&[device.clone(), host, store(Tier::Device, 2)]), 1);
    assert_eq!(restored(&[device, store(Tier::Disk, 2)]), 1);
}

#[test]
fn holes_are_written_and_not_counted() {
    let fleets = [Fleet::new(1), Fleet::new(1)];
    let tokens: Vec<u32> = (0..96).collect();
    let _ = fleets[0].store(0, &tokens, 6);
    let holes = vec![name(0, 1), name(0, 3)];
    let _ = fleets[0].apply(0, vec![KvEvent::Removed { tier: Tier::Device, blocks: holes }]);
    let mut bytes = Vec::new();
    assert_eq!(fleets[0].router.snapshot(&mut bytes).unwrap().blocks, 4);
    assert_eq!(fleets[1].router.restore(&mut &bytes[..]).unwrap().blocks, 4);
}

#[test]
fn a_rank_that_is_guessed_takes_no_snapshot() {
    let source = Fleet::new(1);
    let tokens: Vec<u32> = (0..96).collect();
    let _ = source.store(0, &tokens, 6);
    let mut bytes = Vec::new();
    let _ = source.router.snapshot(&mut bytes).unwrap();
    let silent = Fleet::new(0);
    silent.router.join(worker(0), WorkerSpec::new(BlockSize::new(16).unwrap()).without_events()).unwrap();
    let report = silent.router.restore(&mut &bytes[..]).unwrap();
    assert_eq!((report.ranks, report.fed_otherwise), (0, 1));
    let found = silent.router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert_eq!((found.blocks(rank(0)), silent.router.stats().index.names), (0, 0));
}
