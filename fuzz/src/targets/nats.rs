//! What comes over NATS beside frames of batches.

use kv_router_nats::{SubjectPrefix, soak};
use kv_router_types::{DpRank, WorkerId, WorkerRank};

use crate::input::Choices;
use crate::memory::within;
use crate::{seal, seeds};

/// One of: a question, a page, a subject, the key of a worker, a snapshot.
pub(super) fn replay(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.below(4);
    let bytes = choices.rest();
    match kind {
        0 => {
            for ask in [bytes, &seal::head(bytes, soak::ASK_BYTES)] {
                let Some(asked) = within(ask.len(), 0, || soak::ask(ask)) else { continue };
                assert_eq!(asked.written, ask, "what was read is written otherwise");
                // Few frames of some 64 bytes each, and a page of 256 bytes.
                assert!(asked.answer.len() <= 256 && soak::page(&asked.answer).is_some());
            }
        }
        1 => {
            for page in [bytes, &seal::head(bytes, soak::PAGE_HEAD_BYTES)] {
                // A frame of a page is four bytes at least, and a handle of 32.
                let Some(read) = within(page.len(), 16, || soak::page(page)) else { continue };
                assert_eq!(read, page, "what was read is written otherwise");
            }
        }
        2 => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            if let Some(rank) = soak::rank_of(&SubjectPrefix::default(), text) {
                let canonical = format!("kvr.kv.{}.{}", rank.worker.get(), rank.rank.get());
                assert_eq!(text, canonical, "two subjects of one rank");
            }
            if let Some(worker) = soak::worker_of(text) {
                assert_eq!(text, worker.get().to_string(), "two keys of one worker");
            }
            if let Ok(prefix) = SubjectPrefix::new(text) {
                assert_eq!(prefix.as_str(), text);
                let rank = WorkerRank::new(WorkerId::new(5), DpRank::new(6));
                assert_eq!(soak::rank_of(&prefix, &format!("{text}.kv.5.6")), Some(rank));
            }
        }
        _ => {
            for snapshot in [bytes, &seal::dump(bytes)] {
                let ranks = within(snapshot.len(), 64, || soak::ranks_of_snapshot(snapshot));
                assert!(ranks.is_none_or(|ranks| ranks <= snapshot.len() / 32));
            }
        }
    }
}

pub(super) fn replay_seeds() -> Vec<Vec<u8>> {
    let kind = |kind: u8, bytes: Vec<u8>| [&[kind][..], &bytes].concat();
    let ask = |incarnation, from, to| soak::question(incarnation, from, to);
    let page = soak::ask(&ask(4, 1, u64::MAX)).map(|asked| asked.answer).unwrap_or_default();
    vec![
        kind(0, ask(4, 1, 2)),
        kind(0, ask(4, 0, u64::MAX)),
        kind(0, ask(9, 7, 3)),
        kind(1, page),
        kind(2, b"kvr.kv.18446744073709551615.3".to_vec()),
        kind(2, b"fleet.a-1.b_2".to_vec()),
        kind(2, b"12".to_vec()),
        kind(3, seeds::example("dump")),
    ]
}
