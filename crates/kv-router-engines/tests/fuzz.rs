//! Damaged payloads: nothing panics, and an index takes whatever comes out.
#![expect(clippy::unwrap_used, reason = "a vector that cannot be read fails the test")]

use std::fs;
use std::path::Path;

use kv_router_engines::soak::{Mutator, run};
use kv_router_engines::{DecodeLimits, Ingest, IngestConfig, LoadStat, TrtllmDecoder, WireBatch};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::ApplyEvents;
use kv_router_index::oracle::Oracle;
use kv_router_types::{BlockSize, WorkerId};
use proptest::prelude::*;

const JSON: &str = r#"[{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block",
    "block_hash":1,"tokens":[{"token_id":1,"token_extra_id":0},{"token_id":2}],"cache_level":0}]},"window_size":64},
    {"event_id":2,"data":{"type":"removed","block_hashes":[1,-2]},"window_size":64,"attention_dp_rank":1}]"#;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let files =
        ["valid", "malformed", "load"].into_iter().flat_map(|name| fs::read_dir(folder.join(name)).unwrap());
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension != "json"));
    paths.sort();
    let mut corpus: Vec<Vec<u8>> = paths.into_iter().map(|path| fs::read(path).unwrap()).collect();
    corpus.retain(|payload| payload.len() < 20_000); // the large ones are tested as they are
    corpus.push(JSON.as_bytes().to_vec());
    assert!(corpus.len() > 140);
    corpus
}

#[test]
fn damaged_vectors() {
    let report = run(&corpus(), 20_000, 1);
    assert!(report.accepted > 1_000 && report.accepted < report.payloads - 1_000, "{report:?}");
    assert!(report.lost_events > 100 && report.events > 1_000, "{report:?}");
}

#[test]
fn an_index_takes_whatever_comes_out() {
    let corpus = corpus();
    let mut mutator = Mutator::new(&corpus, 2);
    let mut batch = WireBatch::new();
    let mut stored = 0;
    for size in [1, 2, 4, 8, 16] {
        let scheme = HashScheme::new(BlockSize::new(size).unwrap(), Window::Plain);
        let mut ingest = Ingest::new(IngestConfig::new(scheme));
        let mut index = Oracle::new();
        for _ in 0..2_000 {
            if batch.decode(mutator.damaged(), &DecodeLimits::default()).is_err() {
                continue;
            }
            let mut events = Vec::new();
            ingest.apply(&batch, &mut events);
            for event in &events {
                let applied = index.apply(WorkerId::new(1).into(), event).unwrap();
                assert_eq!(applied.unknown, 0, "a removal that the rank does not know comes out");
                stored += applied.stored;
            }
        }
        assert!(ingest.name_count() >= index.names(WorkerId::new(1).into()).count()); // parts are no names there
    }
    assert!(stored > 500, "{stored}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let mut batch = WireBatch::new();
        let _ = batch.decode(&bytes, &DecodeLimits::default());
        let _ = LoadStat::decode(&bytes);
        let _ = TrtllmDecoder::new().decode(&bytes, &DecodeLimits::default(), &mut batch);
    }

    #[test]
    fn truncations(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let corpus = corpus();
        let whole = &corpus[pick.index(corpus.len())];
        prop_assume!(WireBatch::new().decode(whole, &DecodeLimits::default()).is_ok());
        let cut = &whole[..at.index(whole.len())];
        prop_assert!(WireBatch::new().decode(cut, &DecodeLimits::default()).is_err());
    }
}

#[test]
fn limits_are_kept() {
    let mut batch = WireBatch::new();
    let limits = DecodeLimits { payload_bytes: 1 << 20, events: 10, hashes: 10 };
    let event =
        |hashes: u8| [&[0x92, 0xac][..], b"BlockRemoved", &[0x90 | hashes], &vec![1; hashes.into()]].concat();
    let payload = |count: u8, hashes: u8| {
        let events: Vec<u8> = (0..count).flat_map(|_| event(hashes)).collect();
        [&[0x92, 0, 0x90 | count][..], &events].concat()
    };
    assert_eq!(batch.decode(&payload(10, 1), &limits), Ok(()));
    assert!(batch.decode(&payload(11, 0), &limits).is_err());
    assert!(batch.decode(&payload(2, 6), &limits).is_err());
    assert!(batch.decode(&vec![0x90; (1 << 20) + 1], &limits).is_err());
}
