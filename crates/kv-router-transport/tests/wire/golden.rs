//! The bytes that the documentation shows are the bytes that the code writes.
//!
//! `docs/wire.md` holds them. A change that makes this fail is a breaking release with a new version number.

use kv_router_transport::{
    BatchCodec, DumpFingerprint, DumpReader, DumpRecord, DumpWriter, EventBatch, FrameHash, Incarnation,
    Watermark,
};
use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

const WIRE: &str = include_str!("../../../../docs/wire.md");

/// The bytes of the code block marked `hex name`: two digits a byte, up to the comment of each line.
#[track_caller]
fn documented(name: &str) -> Vec<u8> {
    let fence = format!("```hex {name}\n");
    let start = WIRE.find(&fence).expect("the example is there") + fence.len();
    let block = &WIRE[start..start + WIRE[start..].find("```").expect("the example ends")];
    let digits = block.lines().filter_map(|line| line.split('#').next());
    digits
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"))
        .collect()
}

fn name(raw: u64) -> ExternalSequenceHash {
    ExternalSequenceHash::new(raw)
}

fn rank() -> WorkerRank {
    WorkerRank::new(WorkerId::new(7), DpRank::new(1))
}

fn stored() -> KvEvent {
    KvEvent::Stored {
        tier: Tier::Device,
        parent: Some(name(0xA0)),
        blocks: vec![
            StoredBlock::new(name(0xA1), LocalBlockHash::new(0x1122_3344_5566_7788)),
            StoredBlock::new(name(0xA2), LocalBlockHash::new(0x99AA_BBCC_DDEE_FF00)),
        ],
    }
}

fn removed() -> KvEvent {
    KvEvent::Removed { tier: Tier::Host, blocks: vec![name(0xA1)] }
}

#[test]
fn the_batch_frame_is_as_documented() {
    let batch = EventBatch {
        from: rank(),
        incarnation: Incarnation::new(3),
        sequence: 500,
        events: vec![stored(), removed(), KvEvent::Cleared],
    };
    let mut frame = Vec::new();
    BatchCodec::default().encode(&batch, &mut frame).unwrap();
    assert_eq!(frame, documented("batch"));
    assert_eq!(BatchCodec::default().decode(&documented("batch")), Ok(batch));
}

#[test]
fn the_dump_is_as_documented() {
    let watermark = Watermark::of_frame(500, FrameHash::of(b"frame 500"));
    let fingerprint = DumpFingerprint::new(0x10);
    let mut writer = DumpWriter::new(Vec::new(), fingerprint).unwrap();
    writer.watermark(rank(), watermark).unwrap();
    writer.event(rank(), &stored()).unwrap();
    assert_eq!(writer.finish().unwrap(), documented("dump"));

    let bytes = documented("dump");
    let reader = DumpReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.fingerprint(), fingerprint);
    let records: Vec<DumpRecord> = reader.map(Result::unwrap).collect();
    let from = rank();
    assert_eq!(
        records,
        [DumpRecord::Watermark { from, watermark }, DumpRecord::Event { from, event: stored() }]
    );
}
