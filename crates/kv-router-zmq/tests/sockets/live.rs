//! The live stream against bare ZeroMQ sockets: what is skipped, what is dropped, what is noticed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use crate::common::{Bare, PATIENCE, Rank, now, quick};
use kv_router_zmq::{
    Attach, Endpoint, Incoming, MessageFault, Publisher, PublisherConfig, RecvError, RequestError, Source,
    Subscriber, SubscriberConfig,
};

/// A rank without replay, connected.
fn connected(config: SubscriberConfig, engine: &Bare) -> Rank {
    let mut rank = Rank::new(config, Source { replay: None, ..engine.source() });
    rank.until("connected", |rank| rank.health().connected == 1);
    rank
}

#[test]
fn what_is_no_batch_is_skipped_and_counted_by_reason() {
    let engine = Bare::new();
    let config = SubscriberConfig { frame_bytes: 100, ..quick() };
    let mut rank = connected(config, &engine);
    let one = 1_u64.to_be_bytes();
    engine.live(0, b"zero");
    let send = |frames: &[&[u8]]| engine.live.send_multipart(frames.iter().copied(), 0).unwrap();
    send(&[&one, b"x"]);
    send(&[b"", &one, b"x", b"y"]);
    send(&[&b""[..]; 50]);
    send(&[b"", &one[1..], b"x"]);
    send(&[b"", &one, b""]);
    send(&[b"", &one, &[7; 150]]);
    engine.live(1, b"one");
    rank.until("both batches", |rank| rank.applied.len() == 2);
    let health = rank.health();
    let counts = MessageFault::ALL.map(|fault| health.faults.get(fault));
    assert_eq!(counts, [3, 1, 1, 1], "frame count, sequence length, empty, too long");
    assert_eq!((health.batches, health.connections, rank.forgets), (2, 1, 1));
    assert!(health.last_message.is_some());
}

#[test]
fn a_frame_far_above_the_limit_costs_the_connection_and_nothing_else() {
    let engine = Bare::new();
    let config = SubscriberConfig { frame_bytes: 1000, ..quick() };
    let mut rank = connected(config, &engine);
    engine.live(0, b"zero");
    engine.live(1, &[7; 100_000]);
    rank.until("a second connection", |rank| rank.health().connections == 2);
    engine.live(2, b"two");
    rank.until("the batch behind", |rank| rank.numbers().contains(&2));
    assert_eq!(rank.health().disconnects, 1);
    assert_eq!(rank.health().batches, 2);
    assert_eq!(rank.state().sequencer.gaps, 1); // batch 1 is lost, and that is known
}

#[test]
fn a_full_queue_drops_live_batches_and_the_gap_is_seen() {
    let engine = Bare::new();
    let config = SubscriberConfig { queue_messages: 10, ..quick() };
    let mut rank = connected(config, &engine);
    for sequence in 0..100 {
        engine.live(sequence, b"batch");
    }
    let until = now() + PATIENCE;
    while rank.health().batches < 100 {
        assert!(now() < until);
        std::thread::yield_now();
    }
    let dropped = rank.health().dropped;
    assert!(dropped >= 88, "{dropped}"); // 10 fit, and what the test took before
    assert_eq!(rank.subscriber.counters().dropped, dropped);
    assert!(rank.subscriber.counters().queued_messages <= 11);
    rank.until("the queue is empty", |rank| rank.subscriber.counters().queued_messages == 0);
    engine.live(100, b"batch");
    rank.until("the batch behind the gap", |rank| rank.numbers().contains(&100));
    assert_eq!(rank.state().sequencer.gaps, 1);
    assert_eq!(rank.subscriber.counters().queued_bytes, 0);
}

#[test]
fn bytes_are_bounded_as_messages_are() {
    let engine = Bare::new();
    let config = SubscriberConfig { queue_bytes: 1000, ..quick() };
    let rank = connected(config, &engine);
    for sequence in 0..20 {
        engine.live(sequence, &[7; 300]);
    }
    let until = now() + PATIENCE;
    while rank.health().batches < 20 {
        assert!(now() < until);
        std::thread::yield_now();
    }
    assert_eq!(rank.health().dropped, 16);
    assert_eq!(rank.subscriber.counters().queued_bytes, 1200);
}

#[test]
fn publishers_may_connect_to_us_and_are_told_apart_by_topic() {
    let subscriber = Subscriber::start(quick(), now).unwrap();
    let source = Source::bind(Endpoint::loopback(0)).with_topic(b"kv@");
    let id = subscriber.add(source).unwrap();
    let until = now() + PATIENCE;
    let endpoint = loop {
        assert!(now() < until);
        if let Some(endpoint) = subscriber.bound_endpoint(id) {
            break endpoint;
        }
    };
    let publisher = |topic: &[u8]| {
        let live = Attach::Connect(endpoint.clone());
        let config = PublisherConfig { live, replay: None, topic: topic.to_vec(), ..Default::default() };
        Publisher::start(config).unwrap()
    };
    let engines = [publisher(b"kv@a"), publisher(b"kv@b"), publisher(b"other")];
    while subscriber.health(id).unwrap().connected < 3 {
        assert!(now() < until);
        std::thread::yield_now();
    }
    // A publisher that connects learns of the subscription a moment after the connection stands.
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 2 {
        assert!(now() < until, "{seen:?}");
        for engine in &engines {
            engine.publish(b"batch".to_vec()).unwrap();
        }
        while let Ok(incoming) = subscriber.recv(Duration::from_millis(5)) {
            if let Incoming::Live { topic, .. } = incoming {
                seen.insert(topic.to_vec());
            }
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [b"kv@a".to_vec(), b"kv@b".to_vec()]);
    drop(engines);
    while subscriber.health(id).unwrap().connected > 0 {
        assert!(now() < until);
    }
    assert_eq!(subscriber.health(id).unwrap().disconnects, 3);
}

#[test]
fn an_endpoint_that_is_taken_is_counted_and_tried_again() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let subscriber = Subscriber::start(quick(), now).unwrap();
    let endpoint = Endpoint::from(taken.local_addr().unwrap());
    let id = subscriber.add(Source::bind(endpoint)).unwrap();
    let until = now() + PATIENCE;
    while subscriber.health(id).unwrap().socket_errors < 2 {
        assert!(now() < until);
    }
    drop(taken);
    while subscriber.bound_endpoint(id).is_none() {
        assert!(now() < until, "{:?}", subscriber.health(id));
    }
}

#[test]
fn a_publisher_that_comes_later_is_found() {
    let engine = Bare::new();
    let source = engine.source();
    let (live, replay) = (source.live.endpoint().clone(), source.replay.clone().unwrap());
    drop(engine);
    let mut rank = Rank::new(quick(), Source { replay: None, ..source });
    rank.until("refused a few times", |rank| rank.health().disconnects >= 3);
    let engine = Bare::at(&live, &replay);
    rank.until("connected", |rank| rank.health().connected == 1);
    engine.live(0, b"zero");
    rank.until("its batch", |rank| rank.applied.len() == 1);
}

#[test]
fn a_peer_that_falls_silent_on_an_open_connection_is_noticed() {
    // Greets as a publisher does, and then never says a word: a node that lost its power looks like this.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::from(listener.local_addr().unwrap());
    let mut rank = Rank::new(quick(), Source::connect(endpoint));
    let (mut stream, _) = listener.accept().unwrap();
    let mut greeting = [0_u8; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting).unwrap();
    stream.write_all(b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB").unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    rank.until("connected", |rank| rank.health().connected == 1);
    rank.until("given up", |rank| rank.health().disconnects == 1);
    reader.join().unwrap();
}

#[test]
fn who_only_knocks_where_we_listen_is_no_publisher_that_left() {
    let mut rank = Rank::new(quick(), Source::bind(Endpoint::loopback(0)));
    let until = now() + PATIENCE;
    let bound = loop {
        if let Some(bound) = rank.subscriber.bound_endpoint(rank.publisher) {
            break bound;
        }
        assert!(now() < until);
    };
    let context = zmq::Context::new();
    let engine = context.socket(zmq::PUB).unwrap();
    engine.set_linger(0).unwrap();
    engine.connect(bound.as_str()).unwrap();
    rank.until("connected", |rank| rank.health().connected == 1);
    let address = bound.as_str().strip_prefix("tcp://").unwrap();
    // A port scan, a health check, and somebody who speaks another protocol.
    drop(std::net::TcpStream::connect(address).unwrap());
    let mut other = std::net::TcpStream::connect(address).unwrap();
    other.write_all(&[0x55; 64]).unwrap();
    let _closed = other.read(&mut [0; 64]);
    drop(other);
    rank.until("both are gone", |rank| rank.health().disconnects == 2);
    assert_eq!((rank.health().connected, rank.health().connections), (1, 1));
    drop(engine);
    rank.until("the engine left", |rank| rank.health().connected == 0);
    assert_eq!(rank.health().disconnects, 3);
}

/// How many files this process may have open.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn hundreds_of_publishers_share_the_thread() {
    // Twelve file handles for both ends of each, and other tests have some too.
    let publishers = (open_files() / 2 / 12).min(600);
    let contexts: Vec<_> = (0..3).map(|_| zmq::Context::new()).collect();
    let sockets: Vec<_> = (0..publishers)
        .map(|number| {
            let socket = contexts[number % contexts.len()].socket(zmq::PUB).unwrap();
            socket.set_linger(0).unwrap();
            socket.bind("tcp://127.0.0.1:*").unwrap();
            socket
        })
        .collect();
    let subscriber = Subscriber::start(quick(), now).unwrap();
    let ids: Vec<_> = sockets
        .iter()
        .map(|socket| subscriber.add(Source::connect(crate::common::last_endpoint(socket))).unwrap())
        .collect();
    let until = now() + PATIENCE;
    let mut heard = std::collections::BTreeSet::new();
    for (round, wanted) in [publishers, 2 * publishers].into_iter().enumerate() {
        while heard.len() < wanted {
            assert!(now() < until, "{} of {wanted}", heard.len());
            match subscriber.recv(Duration::from_millis(20)) {
                Ok(Incoming::Connected { publisher, .. }) => {
                    assert!(heard.insert((publisher, 0)));
                }
                Ok(Incoming::Live { publisher, sequence, .. }) => {
                    assert_eq!(ids[sequence as usize], publisher);
                    assert!(heard.insert((publisher, 1)));
                }
                Ok(other) => panic!("{other:?}"),
                Err(RecvError::Empty) => {}
                Err(RecvError::Stopped) => panic!("the thread ended"),
            }
        }
        if round == 0 {
            for (number, socket) in sockets.iter().enumerate() {
                let sequence = (number as u64).to_be_bytes();
                socket.send_multipart([b"", &sequence[..], b"batch"], 0).unwrap();
            }
        }
    }
    let started = now();
    drop(subscriber);
    assert!(now() - started < Duration::from_secs(20));
}

#[test]
fn removed_publishers_are_silent_and_unknown() {
    let engine = Bare::new();
    let mut rank = connected(quick(), &engine);
    engine.live(0, b"zero");
    rank.until("a batch", |rank| rank.applied.len() == 1);
    let Rank { subscriber, publisher, .. } = rank;
    subscriber.remove(publisher).unwrap();
    assert_eq!(subscriber.remove(publisher), Err(RequestError::UnknownPublisher));
    assert_eq!(subscriber.health(publisher), None);
    // Whether the thread has closed the socket is seen from the other side: what is sent has no subscriber.
    let monitor = subscriber.add(engine.source()).unwrap();
    let until = now() + PATIENCE;
    while subscriber.health(monitor).unwrap().connected == 0 {
        assert!(now() < until);
    }
    engine.live(1, b"one");
    loop {
        match subscriber.recv(PATIENCE).unwrap() {
            Incoming::Live { publisher, .. } => break assert_eq!(publisher, monitor),
            other => assert_eq!(other.publisher(), monitor),
        }
    }
}
