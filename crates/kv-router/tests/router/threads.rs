//! Joining, leaving, events and requests from many threads at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Fleet, rank, worker};
use kv_router::{Occupancy, RouteRequest, WorkerSpec};

#[test]
fn a_worker_that_leaves_amid_its_events_leaves_nothing() {
    let fleet = Fleet::new(2);
    let tokens: Vec<u32> = (0..160).collect();
    for _ in 0..50 {
        // A thousand stores are on their way when the worker leaves.
        let batches: Vec<_> = (0..1_000)
            .map(|_| {
                let batch = fleet.batch(1, vec![fleet.stored(1, &tokens, 10)]);
                fleet.skip(1, 1);
                batch
            })
            .collect();
        let started = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for batch in &batches {
                    started.store(true, Ordering::Release);
                    let _ = fleet.router.apply(batch);
                }
            });
            while !started.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            fleet.router.leave(worker(1)).unwrap();
        });
        assert_eq!(fleet.router.stats().index, Occupancy::default());
        fleet.router.join(worker(1), WorkerSpec::new(fleet.router.scheme().block_size())).unwrap();
    }
}

#[test]
fn load_ends_at_zero_whatever_happens_to_the_fleet() {
    let fleet = Fleet::new(4);
    let spec = WorkerSpec::new(fleet.router.scheme().block_size());
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let router = &fleet.router;
            scope.spawn(move || {
                let mut held = Vec::new();
                for request in 0..2_000u32 {
                    let tokens = [request % 37, thread, request];
                    let prompt: Vec<u32> = tokens.into_iter().cycle().take(100).collect();
                    held.extend(router.route(&RouteRequest::from_tokens(&prompt)));
                    if held.len() > 20 {
                        drop(held.swap_remove(request as usize % 20));
                    }
                }
            });
        }
        scope.spawn(|| {
            for round in 0..200 {
                fleet.router.leave(worker(round % 4)).unwrap();
                fleet.router.join(worker(round % 4), spec.clone()).unwrap();
            }
        });
    });
    let stats = fleet.router.stats();
    assert_eq!((stats.ranks, stats.load.requests, stats.load.prompt_blocks), (4, 0, 0));
    for id in 0..4 {
        assert_eq!(fleet.router.load(rank(id)), Some(Default::default()));
    }
}
