//! What a snapshot says of itself, and ranks that it is not for.

use kv_router::{BlockSize, RouteRequest, WorkerSpec};

use crate::support::{Fleet, rank, worker};

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
