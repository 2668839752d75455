//! Replays against bare ZeroMQ sockets that answer as badly as engines can, and engines that start again.

use std::time::Duration;

use crate::common::{Bare, PATIENCE, Rank, now, quick};
use kv_router_transport::{RecoveryId, ReplayRequest, Standing};
use kv_router_zmq::{
    Incoming, PublishError, Publisher, PublisherConfig, ReplayFailure, ReplayFraming, ReplayPolicy, Source,
    Subscriber, SubscriberConfig,
};

const ALL: ReplayRequest = ReplayRequest { id: RecoveryId::new(7), incarnation: None, from: 0, to: None };

/// Asks for everything; what came, and how it ended. `engine` plays the engine.
fn replay(ask: ReplayRequest, engine: impl Fn(&Bare)) -> (Vec<u64>, Result<(), ReplayFailure>) {
    let bare = Bare::new();
    let subscriber = Subscriber::start(quick(), now).unwrap();
    let id = subscriber.add(bare.source()).unwrap();
    subscriber.request_replay(id, ask).unwrap();
    engine(&bare);
    let mut numbers = Vec::new();
    loop {
        match subscriber.recv(PATIENCE).unwrap() {
            Incoming::Replayed { sequence, replay, .. } => {
                assert_eq!(replay, ask.id);
                numbers.push(sequence);
            }
            Incoming::ReplayEnded { .. } => return (numbers, Ok(())),
            Incoming::ReplayFailed { reason, .. } => return (numbers, Err(reason)),
            Incoming::Connected { .. } => {}
            Incoming::Live { .. } => panic!("nothing was sent live"),
        }
    }
}

#[test]
fn a_source_that_never_answers_meets_a_deadline() {
    let (numbers, result) = replay(ALL, |_| {});
    assert_eq!((numbers, result), (vec![], Err(ReplayFailure::Silent)));
}

#[test]
fn an_end_alone_is_an_empty_answer() {
    let (numbers, result) = replay(ALL, |engine| {
        let (peer, start) = engine.request(PATIENCE).unwrap();
        assert_eq!(start, 0);
        engine.end(&peer);
    });
    assert_eq!((numbers, result), (vec![], Ok(())));
}

#[test]
fn an_answer_that_stops_is_asked_for_again_from_where_it_stopped() {
    let (numbers, result) = replay(ALL, |engine| {
        let (peer, _) = engine.request(PATIENCE).unwrap();
        engine.answer(&peer, 0, b"zero");
        engine.answer(&peer, 1, b"one");
        let (peer, start) = engine.request(PATIENCE).unwrap();
        assert_eq!(start, 1, "the last one again, as proof");
        engine.answer(&peer, 1, b"one");
        engine.answer(&peer, 2, b"two");
        engine.end(&peer);
    });
    assert_eq!((numbers, result), (vec![0, 1, 2], Ok(())));
}

#[test]
fn a_restart_in_the_middle_of_a_replay_is_noticed() {
    let (numbers, result) = replay(ALL, |engine| {
        let (peer, _) = engine.request(PATIENCE).unwrap();
        engine.answer(&peer, 0, b"zero");
        engine.answer(&peer, 1, b"one");
        let (peer, _) = engine.request(PATIENCE).unwrap();
        engine.answer(&peer, 1, b"another one");
    });
    assert_eq!((numbers, result), (vec![0, 1], Err(ReplayFailure::OtherLife)));
}

#[test]
fn a_hole_is_asked_for_again_and_given_up_when_it_stays() {
    let (numbers, result) = replay(ALL, |engine| {
        for start in [0, 1] {
            let (peer, from) = engine.request(PATIENCE).unwrap();
            assert_eq!(from, start);
            engine.answer(&peer, start, b"x");
            if start == 0 {
                engine.answer(&peer, 1, b"x");
            }
            engine.answer(&peer, 5, b"x");
        }
    });
    assert_eq!((numbers, result), (vec![0, 1], Err(ReplayFailure::Incomplete)));
}

#[test]
fn a_buffer_that_starts_late_is_handed_out_as_it_is() {
    let (numbers, result) = replay(ALL, |engine| {
        let (peer, _) = engine.request(PATIENCE).unwrap();
        engine.answer(&peer, 7, b"x");
        engine.answer(&peer, 8, b"x");
        engine.end(&peer);
    });
    assert_eq!((numbers, result), (vec![7, 8], Ok(())));
}

#[test]
fn listening_stops_at_the_last_batch_wanted() {
    let ask = ReplayRequest { from: 1, to: Some(2), ..ALL };
    let (numbers, result) = replay(ask, |engine| {
        let (peer, _) = engine.request(PATIENCE).unwrap();
        for sequence in 0..5 {
            engine.answer(&peer, sequence, b"x");
        }
    });
    assert_eq!((numbers, result), (vec![1, 2], Ok(())));
}

#[test]
fn messages_that_are_none_are_passed_over() {
    let (numbers, result) = replay(ALL, |engine| {
        let (peer, _) = engine.request(PATIENCE).unwrap();
        engine.router.send_multipart([&peer[..], b"", b"short", b"x"], 0).unwrap();
        engine.router.send_multipart([&peer[..], b"x"], 0).unwrap();
        engine.answer(&peer, 0, b"");
        engine.answer(&peer, 0, b"zero");
        engine.end(&peer);
    });
    assert_eq!((numbers, result), (vec![0], Ok(())));
}

#[test]
fn a_live_stream_never_waits_for_a_replay() {
    let engine = Bare::new();
    // One replay at a time, and the first one is as slow as it may be.
    let policy = ReplayPolicy { at_once: 1, idle: Duration::from_secs(5), ..quick().replay };
    let mut rank = Rank::new(SubscriberConfig { replay: policy, ..quick() }, engine.source());
    let (peer, _) = loop {
        if let Some(request) = engine.request(Duration::from_millis(1)) {
            break request;
        }
        rank.step();
    };
    engine.answer(&peer, 0, b"0"); // and nothing more for now
    rank.until("connected", |rank| rank.health().connected == 1);
    for sequence in 5..500_u64 {
        engine.live(sequence, b"live");
        rank.until("a live batch", |rank| rank.health().last_sequence == Some(sequence));
    }
    assert_eq!(rank.state().standing, Standing::Recovering);
    for sequence in 1..5 {
        engine.answer(&peer, sequence, b"replayed");
    }
    rank.until("all of them", |rank| rank.numbers() == (0..500).collect::<Vec<_>>() && rank.is_fresh());
}

#[test]
fn silence_makes_a_rank_cold_and_it_heals_when_the_source_answers_again() {
    let engine = Bare::new();
    let mut rank = Rank::new(quick(), engine.source());
    rank.until("connected", |rank| rank.health().connected == 1);
    engine.live(3, b"3");
    rank.until("cold, with what came", |rank| {
        rank.state().standing == Standing::Cold && rank.numbers() == [3]
    });
    let until = now() + PATIENCE;
    while !(rank.is_fresh() && rank.numbers() == [0, 1, 2, 3]) {
        assert!(now() < until, "{:?}", rank.state());
        rank.step();
        if let Some((peer, start)) = engine.request(Duration::ZERO) {
            for sequence in start..4 {
                engine.answer(&peer, sequence, sequence.to_string().as_bytes());
            }
            engine.end(&peer);
        }
    }
    assert!(rank.state().feed.healed >= 1);
}

#[test]
fn a_source_that_has_nothing_makes_a_rank_cold_and_not_deaf() {
    let engine = Bare::new();
    let mut rank = Rank::new(quick(), engine.source());
    rank.until("connected", |rank| rank.health().connected == 1);
    let until = now() + PATIENCE;
    for sequence in 3..10 {
        engine.live(sequence, b"live");
        while rank.numbers() != (3..=sequence).collect::<Vec<_>>() {
            assert!(now() < until, "{:?} {:?}", rank.state(), rank.numbers());
            rank.step();
            if let Some((peer, _)) = engine.request(Duration::ZERO) {
                engine.end(&peer);
            }
        }
    }
    assert_eq!(rank.state().standing, Standing::Cold);
}

#[test]
fn both_framings_of_our_own_publisher_are_read() {
    for framing in [ReplayFraming::WithTopic, ReplayFraming::WithoutTopic] {
        let config = PublisherConfig { framing, topic: b"kv@a".to_vec(), ..PublisherConfig::default() };
        let publisher = Publisher::start(config).unwrap();
        for number in 0..2_000_u32 {
            publisher.publish(number.to_be_bytes().to_vec()).unwrap();
        }
        let mut rank = Rank::new(quick(), source(&publisher));
        rank.until("all batches", |rank| rank.applied.len() == 2_000 && rank.is_fresh());
        publisher.publish(b"live".to_vec()).unwrap();
        rank.until("the live one", |rank| rank.applied.last() == Some(&(2_000, b"live".to_vec())));
    }
}

#[test]
fn a_full_queue_makes_a_replay_wait_and_not_lose() {
    let publisher = Publisher::start(PublisherConfig::default()).unwrap();
    for number in 0..3_000_u32 {
        publisher.publish(number.to_be_bytes().to_vec()).unwrap();
    }
    let until = now() + PATIENCE;
    while publisher.counters().sent < 3_000 {
        assert!(now() < until); // what comes live may find the queue full, and is not what this is about
        std::thread::yield_now();
    }
    let config = SubscriberConfig { queue_messages: 20, ..quick() };
    let mut rank = Rank::new(config, source(&publisher));
    rank.until("all batches", |rank| rank.applied.len() == 3_000 && rank.is_fresh());
    assert_eq!(rank.health().replays.failed, 0, "{:?} {:?}", rank.health(), rank.state());
}

#[test]
fn a_reader_slower_than_the_publisher_gets_every_batch_of_a_replay() {
    let config = PublisherConfig { backlog: 50, ..PublisherConfig::default() };
    let publisher = Publisher::start(config).unwrap();
    for number in 0..2_000_u32 {
        let mut payload = vec![0; 8_192];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        while let Err(PublishError::Full(back)) = publisher.publish(payload) {
            payload = back;
        }
    }
    let context = zmq::Context::new();
    let dealer = context.socket(zmq::DEALER).unwrap();
    dealer.set_linger(0).unwrap();
    dealer.set_rcvhwm(10).unwrap();
    dealer.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    dealer.connect(publisher.replay_endpoint().unwrap().as_str()).unwrap();
    dealer.send_multipart([&b""[..], &0_u64.to_be_bytes()], 0).unwrap();
    for expected in (0..2_000).chain([u64::MAX]) {
        let frames = dealer.recv_multipart(0).unwrap();
        assert_eq!(frames[2], expected.to_be_bytes(), "{:?}", publisher.counters());
    }
    assert_eq!(publisher.counters().replays_abandoned, 0);
}

#[test]
fn requests_that_are_none_are_refused_and_counted() {
    let publisher = Publisher::start(PublisherConfig::default()).unwrap();
    publisher.publish(b"zero".to_vec()).unwrap();
    assert_eq!(publisher.publish(Vec::new()), Err(PublishError::Empty));
    let context = zmq::Context::new();
    let dealer = context.socket(zmq::DEALER).unwrap();
    dealer.set_linger(0).unwrap();
    dealer.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    dealer.connect(publisher.replay_endpoint().unwrap().as_str()).unwrap();
    let send = |frames: &[&[u8]]| dealer.send_multipart(frames.iter().copied(), 0).unwrap();
    send(&[&[0; 8]]); // no delimiter
    send(&[b"x", &[0; 8]]);
    send(&[b"", b""]);
    send(&[b"", &[0; 9]]);
    send(&[b"", &[0; 8], b"more"]);
    send(&[b"", &[0, 0]]); // a short number is a number, as engines have it
    assert_eq!(dealer.recv_multipart(0).unwrap()[3], b"zero");
    assert_eq!(dealer.recv_multipart(0).unwrap()[2], [0xff; 8]);
    let counters = publisher.counters();
    assert_eq!((counters.replays, counters.refused, counters.buffered_batches), (1, 5, 1));
}

/// An engine starts again on the ports of the one before, unseen between `before` and `after` batches.
fn restart(before: u64, after: u64) -> Rank {
    let publisher = Publisher::start(PublisherConfig::default()).unwrap();
    let source = source(&publisher);
    let publish = |publisher: &Publisher, life: u8, batches: u64| {
        for number in 0..batches {
            publisher.publish(vec![life, number as u8]).unwrap();
        }
    };
    publish(&publisher, b'a', before);
    let mut rank = Rank::new(quick(), source.clone());
    rank.until("the first life", |rank| rank.applied.len() as u64 == before);
    drop(publisher);
    rank.until("disconnected", |rank| rank.health().connected == 0);
    let until = now() + PATIENCE;
    let publisher = loop {
        let config = PublisherConfig {
            live: kv_router_zmq::Attach::Bind(source.live.endpoint().clone()),
            replay: source.replay.clone(),
            ..PublisherConfig::default()
        };
        match Publisher::start(config) {
            Ok(publisher) => break publisher,
            Err(error) => assert!(now() < until, "{error}"),
        }
    };
    publish(&publisher, b'b', after);
    rank.until("connected again", |rank| rank.health().connections == 2);
    publisher.publish(b"bx".to_vec()).unwrap();
    rank.until("the second life alone", |rank| {
        rank.applied.len() as u64 == after + 1 && rank.applied.iter().all(|(_, payload)| payload[0] == b'b')
    });
    rank
}

#[test]
fn a_restarted_engine_is_noticed_whatever_it_published_before_we_saw_it() {
    // Behind, level with, just ahead of, and far ahead of what the first life had.
    for (before, after) in [(10, 0), (10, 5), (10, 9), (10, 10), (10, 11), (10, 40), (1, 1)] {
        let mut rank = restart(before, after);
        rank.until("fresh", Rank::is_fresh);
        assert_eq!(rank.state().feed.new_life, 1, "{before}, {after}");
    }
}

#[test]
fn a_lost_connection_to_the_same_life_costs_nothing() {
    let engine = Bare::new();
    let config = SubscriberConfig { frame_bytes: 100, ..quick() };
    let mut rank = Rank::new(config, engine.source());
    let serve = |rank: &mut Rank, done: &dyn Fn(&Rank) -> bool| {
        let until = now() + PATIENCE;
        while !done(rank) {
            assert!(now() < until, "{:?} {:?}", rank.state(), rank.numbers());
            rank.step();
            if let Some((peer, start)) = engine.request(Duration::ZERO) {
                for sequence in start..4 {
                    engine.answer(&peer, sequence, sequence.to_string().as_bytes());
                }
                engine.end(&peer);
            }
        }
    };
    serve(&mut rank, &|rank| rank.numbers() == [0, 1, 2, 3]);
    let forgets = rank.forgets;
    engine.live(9, &[0; 1000]); // far above the limit: the connection goes
    serve(&mut rank, &|rank| rank.health().connections == 2 && rank.state().feed.same_life == 1);
    engine.live(4, b"4");
    serve(&mut rank, &|rank| rank.numbers() == [0, 1, 2, 3, 4]);
    assert_eq!((rank.forgets, rank.state().feed.new_life), (forgets, 0));
}

#[test]
fn a_slow_reader_keeps_its_replay_however_much_is_published_meanwhile() {
    const BATCHES: u64 = 1_000;
    let config = PublisherConfig { backlog: 16, ..PublisherConfig::default() };
    let publisher = Publisher::start(config).unwrap();
    let publish = |payload: Vec<u8>| {
        let (mut payload, sent) = (payload, publisher.counters().sent);
        let until = now() + PATIENCE;
        while let Err(PublishError::Full(back)) = publisher.publish(payload) {
            assert!(now() < until);
            payload = back;
        }
        // One turn of its thread for each.
        while publisher.counters().sent == sent {
            assert!(now() < until);
            std::thread::yield_now();
        }
    };
    (0..BATCHES).for_each(|_| publish(vec![7; 64 << 10]));
    let context = zmq::Context::new();
    let reader = context.socket(zmq::DEALER).unwrap();
    reader.set_linger(0).unwrap();
    reader.set_rcvhwm(16).unwrap();
    reader.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    reader.connect(publisher.replay_endpoint().unwrap().as_str()).unwrap();
    reader.send_multipart([&[][..], &0_u64.to_be_bytes()[..]], 0).unwrap();
    let until = now() + PATIENCE;
    while publisher.counters().replays == 0 {
        assert!(now() < until);
    }
    (0..6_000).for_each(|_| publish(vec![7]));
    assert_eq!(publisher.counters().replays_abandoned, 0);
    for expected in 0.. {
        let frames = reader.recv_multipart(0).unwrap();
        let sequence = u64::from_be_bytes(frames[frames.len() - 2][..].try_into().unwrap());
        if sequence == u64::MAX {
            assert!(expected >= BATCHES);
            break;
        }
        assert_eq!(sequence, expected);
    }
}

#[test]
fn dropping_a_subscriber_ends_its_thread_in_the_middle_of_everything() {
    let engine = Bare::new();
    let rank = Rank::new(quick(), engine.source());
    rank.subscriber.request_replay(rank.publisher, ALL).unwrap();
    engine.request(PATIENCE).unwrap();
    let started = now();
    drop(rank);
    assert!(now() - started < Duration::from_secs(10));
}

fn source(publisher: &Publisher) -> Source {
    Source::connect(publisher.live_endpoint().clone())
        .with_replay(publisher.replay_endpoint().unwrap().clone())
}
