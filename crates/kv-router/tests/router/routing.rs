//! The router as a gateway uses it.

use crate::support::{Fleet, rank, worker};
use kv_router::{
    ApplyBatchError, BatchReport, BlockSize, Capacity, Constraints, HashContext, Incarnation, JoinError,
    KvEvent, LeaveError, Pin, Prompt, RequestId, RouteError, RouteRequest, Router, RouterConfig, SkipReason,
    StaleRule, StreamFreshness, Tier, WorkerSpec,
};

#[test]
fn a_warm_worker_wins_and_a_busy_one_does_not() {
    let fleet = Fleet::new(4);
    let prompt: Vec<u32> = (0..960).collect();
    fleet.store(2, &prompt, 48);

    let decision = fleet.router.route(&RouteRequest::from_tokens(&prompt)).unwrap();
    assert_eq!(decision.worker(), rank(2));
    assert_eq!((decision.overlap_blocks(), decision.prompt_blocks()), (48, 60));
    assert_eq!(decision.cost().cost, 12.0 + 60.0);

    // 12 blocks to compute and 60 in use on rank 2. The prompt again shares the 60: cost 24 + 60 there, 60 + 60
    // elsewhere. A long stranger adds 200 + 200 to rank 2 and turns the scale.
    let again = fleet.router.route(&RouteRequest::from_tokens(&prompt)).unwrap();
    assert_eq!((again.worker(), again.cost().cost), (rank(2), 24.0 + 60.0));
    let stranger: Vec<u32> = (10_000..13_200).collect();
    let pin = Constraints { pin: Some(Pin::Worker(worker(2))), ..Constraints::default() };
    let long = fleet.router.route(&RouteRequest::from_tokens(&stranger).constraints(pin)).unwrap();
    assert_eq!(long.worker(), rank(2));
    let fled = fleet.router.route(&RouteRequest::from_tokens(&prompt)).unwrap();
    assert_ne!(fled.worker(), rank(2));
}

#[test]
fn a_booking_counts_what_is_left_to_compute_until_it_is_dropped() {
    let fleet = Fleet::new(1);
    let prompt: Vec<u32> = (0..970).collect(); // 60 blocks and a tail of 10 tokens
    fleet.store(0, &prompt, 48);
    let decision = fleet.router.route(&RouteRequest::from_tokens(&prompt)).unwrap();
    let load = fleet.router.load(rank(0)).unwrap();
    assert_eq!((load.prefill_tokens, load.blocks, load.requests), (970 - 48 * 16, 61, 1));

    let booking = decision.into_booking();
    let _ = booking.prefill_completed(fleet.now());
    let _ = booking.grow_output(3, fleet.now());
    let load = fleet.router.load(rank(0)).unwrap();
    assert_eq!((load.prefill_tokens, load.blocks, load.requests), (0, 64, 1));
    drop(booking);
    let load = fleet.router.load(rank(0)).unwrap();
    assert_eq!((load.prefill_tokens, load.blocks, load.requests), (0, 0, 0));
}

#[test]
fn misses_and_ties_spread_over_the_fleet() {
    let fleet = Fleet::new(4);
    let mut picked = [0; 4];
    for request in 0..4_000u32 {
        let decision = fleet.router.route(&RouteRequest::from_tokens(&[request; 32])).unwrap();
        picked[decision.worker().worker.get() as usize] += 1;
    }
    assert!(picked.iter().all(|count| (850..=1_150).contains(count)), "{picked:?}");
}

#[test]
fn adapters_and_salts_do_not_share_a_cache() {
    let fleet = Fleet::new(2);
    let tokens: Vec<u32> = (0..64).collect();
    fleet.store(1, &tokens, 4);
    let seen = |context: HashContext<'_>| {
        let prompt = Prompt::new(&tokens).in_context(context);
        fleet.router.overlaps(&RouteRequest::from_prompt(prompt)).unwrap().blocks(rank(1))
    };
    assert_eq!(seen(HashContext::NONE), 4);
    assert_eq!(seen(HashContext::NONE.with_adapter("a").unwrap()), 0);
    assert_eq!(seen(HashContext::NONE.with_salt("a").unwrap()), 0);
}

#[test]
fn tokens_and_their_hashes_are_the_same_request() {
    let fleet = Fleet::new(2);
    let tokens: Vec<u32> = (0..100).collect();
    fleet.store(1, &tokens, 3);
    let locals = fleet.router.scheme().hash(&Prompt::new(&tokens));
    let by_tokens = fleet.router.explain(&RouteRequest::from_tokens(&tokens)).unwrap();
    let by_hashes = fleet.router.explain(&RouteRequest::from_hashes(&locals, 100)).unwrap();
    assert_eq!(by_tokens.candidates, by_hashes.candidates);
}

#[test]
fn a_decision_explains_itself_when_asked() {
    let fleet = Fleet::new(3);
    let tokens: Vec<u32> = (0..320).collect();
    fleet.store(1, &tokens, 20);
    let plain = fleet.router.route(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert!(plain.explain().is_none());
    drop(plain);
    let told = fleet.router.route(&RouteRequest::from_tokens(&tokens).explained()).unwrap();
    let explanation = told.explain().unwrap();
    assert_eq!(explanation.candidates.len(), 3);
    assert_eq!(explanation.outcome.unwrap().worker, told.worker());
    assert!(explanation.to_string().contains("1@0"), "{explanation}");
}

#[test]
fn what_a_gateway_gets_wrong_is_refused_and_changes_nothing() {
    let fleet = Fleet::new(2);
    let router = &fleet.router;
    let refused = |request: RouteRequest<'_>, expected: RouteError| {
        assert_eq!(router.route(&request).err(), Some(expected));
        assert_eq!(router.stats().load.requests, 0);
    };
    refused(RouteRequest::from_tokens(&[]), RouteError::EmptyPrompt);
    let long = vec![1; (1 << 22) + 1];
    refused(
        RouteRequest::from_tokens(&long),
        RouteError::PromptTooLong { tokens: (1 << 22) + 1, limit: 1 << 22 },
    );
    let locals = router.scheme().hash(&Prompt::new(&[1; 64]));
    refused(RouteRequest::from_hashes(&locals, 63), RouteError::HashesExceedPrompt { hashes: 4, blocks: 3 });
    let nowhere = Constraints { pin: Some(Pin::Worker(worker(9))), ..Constraints::default() };
    let error = router.route(&RouteRequest::from_tokens(&[1; 64]).constraints(nowhere)).unwrap_err();
    assert!(matches!(error, RouteError::Select(_)), "{error}");

    let named = RouteRequest::from_tokens(&[1; 64]).id(RequestId::new(7));
    let first = router.route(&named).unwrap();
    let load = router.load(first.worker());
    let error = router.route(&named).unwrap_err();
    assert!(matches!(error, RouteError::Book(_)) && error.to_string().contains("in flight"), "{error}");
    assert_eq!(router.load(first.worker()), load);
    drop(first);
    router.route(&named).map(drop).unwrap();
}

#[test]
fn an_empty_fleet_says_so() {
    let fleet = Fleet::new(0);
    let error = fleet.router.route(&RouteRequest::from_tokens(&[1; 64])).unwrap_err();
    assert!(error.to_string().contains("no worker"), "{error}");
}

#[test]
fn a_worker_joins_once_with_a_size_that_fits() {
    let fleet = Fleet::new(1);
    let router = &fleet.router;
    let size = router.scheme().block_size();
    let other = BlockSize::new(64).unwrap();
    assert_eq!(
        router.join(worker(0), WorkerSpec::new(size)),
        Err(JoinError::AlreadyJoined { worker: worker(0) })
    );
    assert_eq!(
        router.join(worker(1), WorkerSpec::new(other)),
        Err(JoinError::BlockSizeMismatch { worker: worker(1), theirs: other, ours: size })
    );
    for ranks in [0, 4_097] {
        let spec = WorkerSpec::new(size).with_ranks(ranks);
        assert_eq!(router.join(worker(1), spec), Err(JoinError::RankCount { worker: worker(1), ranks }));
    }
    assert_eq!(router.leave(worker(1)), Err(LeaveError::UnknownWorker { worker: worker(1) }));
    assert_eq!(router.stats().ranks, 1);
    router.join(worker(1), WorkerSpec::new(size).with_ranks(8)).unwrap();
    assert_eq!(router.stats().ranks, 9);
}

#[test]
fn a_full_fleet_takes_no_part_of_a_worker() {
    let mut config = RouterConfig::new(BlockSize::new(16).unwrap());
    config.load.max_ranks = 3;
    let router = Router::builder(config).build().unwrap();
    let spec = WorkerSpec::new(router.scheme().block_size()).with_ranks(2);
    router.join(worker(0), spec.clone()).unwrap();
    assert!(matches!(router.join(worker(1), spec.clone()), Err(JoinError::FleetFull(_))));
    assert_eq!((router.stats().ranks, router.stats().load.ranks), (2, 2));
    router.leave(worker(0)).unwrap();
    router.join(worker(1), spec).unwrap();
}

#[test]
fn a_worker_that_leaves_takes_everything_along() {
    let fleet = Fleet::new(2);
    let tokens: Vec<u32> = (0..320).collect();
    fleet.store(1, &tokens, 20);
    let decision = fleet.router.route(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert_eq!(decision.worker(), rank(1));

    fleet.router.leave(worker(1)).unwrap();
    assert_eq!(fleet.router.stats().index, kv_router::Occupancy::default());
    assert_eq!(fleet.router.load(rank(1)), None);
    let late = fleet.batch(1, vec![KvEvent::Cleared]);
    assert_eq!(fleet.router.apply(&late), Err(ApplyBatchError::UnknownRank { from: rank(1) }));
    assert_eq!(fleet.router.stats().unknown_rank_batches, 1);

    // It comes back as another life: neither the old booking nor a late event touches the new one.
    let spec = WorkerSpec::new(fleet.router.scheme().block_size()).with_incarnation(Incarnation::new(2));
    fleet.router.join(worker(1), spec).unwrap();
    let late = fleet.batch(1, vec![fleet.stored(1, &tokens, 20)]);
    assert_eq!(fleet.router.apply(&late).unwrap().skipped, Some(SkipReason::Stale));
    drop(decision);
    assert_eq!(fleet.router.load(rank(1)).unwrap().requests, 0);
    assert_eq!(fleet.router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap().len(), 0);
}

#[test]
fn events_of_a_rank_that_the_worker_does_not_have_are_refused() {
    let fleet = Fleet::new(1);
    let mut batch = fleet.batch(0, vec![]);
    batch.from.rank = kv_router::DpRank::new(7);
    assert_eq!(fleet.router.apply(&batch), Err(ApplyBatchError::UnknownRank { from: batch.from }));
}

#[test]
fn a_gap_forgets_the_rank_and_a_new_life_starts_over() {
    let fleet = Fleet::new(1);
    let tokens: Vec<u32> = (0..320).collect();
    let seen = || fleet.router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap().blocks(rank(0));
    assert_eq!(fleet.store(0, &tokens, 20).freshness, StreamFreshness::Fresh);
    assert_eq!(seen(), 20);

    fleet.skip(0, 1);
    let report = fleet.apply(0, vec![]);
    assert!(report.forgot.is_some());
    assert_eq!((report.freshness, seen()), (StreamFreshness::Cold, 0));

    let duplicate = fleet.repeat(0);
    assert!(duplicate.skipped.is_some());

    fleet.restart(0);
    assert_eq!(fleet.store(0, &tokens, 5).freshness, StreamFreshness::Fresh);
    assert_eq!(seen(), 5);
    let mut old = fleet.batch(0, vec![KvEvent::Cleared]);
    old.incarnation = Incarnation::new(0);
    assert!(fleet.router.apply(&old).unwrap().skipped.is_some());
    assert_eq!(seen(), 5);
}

#[test]
fn refused_events_are_counted_and_their_neighbours_apply() {
    let fleet = Fleet::new(1);
    let tokens: Vec<u32> = (0..64).collect();
    let good = fleet.stored(0, &tokens, 4);
    let KvEvent::Stored { blocks, .. } = &good else { panic!("a store") };
    let orphan = KvEvent::Stored {
        tier: Tier::Device,
        parent: Some(crate::support::name(99, 99)),
        blocks: blocks.clone(),
    };
    let twice = KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![blocks[0], blocks[0]] };
    let report: BatchReport = fleet.apply(0, vec![orphan, twice, good.clone()]);
    assert_eq!((report.events.unknown_parent, report.events.invalid_sequence), (1, 1));
    assert_eq!((report.events.applied.stored, report.events.refused()), (4, 2));
    assert_eq!(fleet.router.streams()[0].events, report.events);
    assert!(fleet.router.streams()[0].suspect);
}

#[test]
fn an_idle_request_expires_and_a_busy_one_lives() {
    let fleet = Fleet::new(1);
    let ttl = std::time::Duration::from_secs(120);
    let idle = fleet.router.route(&RouteRequest::from_tokens(&[1; 64]).id(RequestId::new(1))).unwrap();
    let busy = fleet.router.route(&RouteRequest::from_tokens(&[2; 64]).id(RequestId::new(2))).unwrap();
    for _ in 0..60 {
        fleet.clock.advance(std::time::Duration::from_secs(60));
        let _ = busy.booking().touch(fleet.now());
        for expired in fleet.router.expire_idle(ttl) {
            assert_eq!(expired.request, Some(RequestId::new(1)));
        }
    }
    assert_eq!(fleet.router.load(rank(0)).unwrap().requests, 1);
    drop(idle);
    assert_eq!(fleet.router.load(rank(0)).unwrap().requests, 1);
    drop(busy);
    assert_eq!(fleet.router.stats().load.requests, 0);
}

#[test]
fn a_rank_whose_stream_breaks_is_judged_anew_at_the_next_decision() {
    let fleet = Fleet::with(2, Capacity::default(), |config| {
        config.filters.cold = StaleRule::Exclude;
    });
    let tokens: Vec<u32> = (0..320).collect();
    let chosen = || fleet.router.route(&RouteRequest::from_tokens(&tokens)).map(|decision| decision.worker());
    for id in 0..2 {
        assert_eq!(fleet.apply(id, vec![]).freshness, StreamFreshness::Fresh);
    }
    fleet.store(0, &tokens, 20);
    assert_eq!(chosen(), Ok(rank(0)));
    // Nothing changes but what is thought of its stream.
    fleet.skip(0, 1);
    assert_eq!(fleet.apply(0, vec![]).freshness, StreamFreshness::Cold);
    (0..20).for_each(|_| assert_eq!(chosen(), Ok(rank(1))));
    fleet.restart(0);
    assert_eq!(fleet.store(0, &tokens, 20).freshness, StreamFreshness::Fresh);
    assert_eq!(chosen(), Ok(rank(0)));
}
