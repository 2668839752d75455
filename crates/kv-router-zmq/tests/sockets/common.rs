//! A rank as a router has it, and engines made of bare ZeroMQ sockets.

use std::time::{Duration, Instant};

use kv_router_transport::{Action, FeedConfig, FeedHealth, RankFeed, Standing};
use kv_router_zmq::{
    Backoff, Decoded, Endpoint, Heartbeat, Payload, PublisherHealth, PublisherId, RecvError, ReplayPolicy,
    Source, Subscriber, SubscriberConfig,
};

/// Longest wait for anything in these tests: a machine may be busy, but nothing here takes long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits short enough for tests.
pub(crate) fn quick() -> SubscriberConfig {
    SubscriberConfig {
        heartbeat: Heartbeat { interval: Duration::from_millis(200), timeout: Duration::from_secs(2) },
        reconnect: Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(100) },
        replay: ReplayPolicy {
            idle: Duration::from_millis(500),
            total: Duration::from_secs(10),
            tries: 2,
            backoff: Backoff { first: Duration::from_millis(20), longest: Duration::from_millis(100) },
            at_once: 8,
        },
        ..SubscriberConfig::default()
    }
}

/// One rank: a subscriber, a feed, and what was applied since the last forget.
pub(crate) struct Rank {
    pub(crate) subscriber: Subscriber,
    pub(crate) publisher: PublisherId,
    pub(crate) feed: RankFeed<(u64, Vec<u8>)>,
    pub(crate) applied: Vec<(u64, Vec<u8>)>,
    pub(crate) forgets: usize,
    actions: Vec<Action<(u64, Vec<u8>)>>,
}

impl Rank {
    pub(crate) fn new(config: SubscriberConfig, source: Source) -> Self {
        let policy = config.replay;
        let mut feed = FeedConfig {
            heal: Backoff { first: Duration::from_millis(50), longest: Duration::from_millis(200) },
            ..FeedConfig::default()
        };
        if source.replay.is_some() {
            feed.replay = Some(policy.waits());
        }
        let subscriber = Subscriber::start(config, Instant::now).unwrap();
        let publisher = subscriber.add(source).unwrap();
        Self {
            subscriber,
            publisher,
            feed: RankFeed::new(feed).unwrap(),
            applied: Vec::new(),
            forgets: 0,
            actions: Vec::new(),
        }
    }

    /// Does what a router does, until `done`.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let until = now() + PATIENCE;
        while !done(self) {
            assert!(now() < until, "{what}: {:?}, {:?}, {:?}", self.health(), self.state(), self.numbers());
            self.step();
        }
    }

    pub(crate) fn step(&mut self) {
        match self.subscriber.recv(Duration::from_millis(5)) {
            Ok(incoming) => {
                let decode = |sequence, payload: Payload| Decoded {
                    clears: false,
                    lossy: false,
                    payload: (sequence, payload.to_vec()),
                };
                incoming.hand_to(&mut self.feed, now(), decode, &mut self.actions);
            }
            Err(RecvError::Empty) => {}
            Err(RecvError::Stopped) => panic!("the thread ended"),
        }
        self.feed.tick(now(), &mut self.actions);
        for action in self.actions.drain(..) {
            match action {
                Action::Apply(batch) => self.applied.push(batch),
                Action::Forget(_) => {
                    self.applied.clear();
                    self.forgets += 1;
                }
                Action::RequestReplay(ask) => self.subscriber.request_replay(self.publisher, ask).unwrap(),
                Action::RequestSnapshot(_) | Action::Skip { .. } => {}
            }
        }
    }

    pub(crate) fn health(&self) -> PublisherHealth {
        self.subscriber.health(self.publisher).unwrap()
    }

    pub(crate) fn state(&self) -> FeedHealth {
        self.feed.health()
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.state().standing == Standing::Fresh
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.applied.iter().map(|&(sequence, _)| sequence).collect()
    }
}

/// An engine's sockets, without an engine.
pub(crate) struct Bare {
    pub(crate) live: zmq::Socket,
    pub(crate) router: zmq::Socket,
}

impl Bare {
    pub(crate) fn new() -> Self {
        Self::at(&Endpoint::loopback(0), &Endpoint::loopback(0))
    }

    /// Takes over from an engine that was there. Its ports are free a moment after it is gone.
    pub(crate) fn at(live: &Endpoint, replay: &Endpoint) -> Self {
        let context = zmq::Context::new();
        Self { live: bind(&context, zmq::PUB, live), router: bind(&context, zmq::ROUTER, replay) }
    }

    pub(crate) fn source(&self) -> Source {
        Source::connect(last_endpoint(&self.live)).with_replay(last_endpoint(&self.router))
    }

    pub(crate) fn live(&self, sequence: u64, payload: &[u8]) {
        self.live.send_multipart([b"", &sequence.to_be_bytes()[..], payload], 0).unwrap();
    }

    /// A replay request, if one came in time: whom from, and the number.
    pub(crate) fn request(&self, wait: Duration) -> Option<(Vec<u8>, u64)> {
        let milliseconds = i64::try_from(wait.as_millis()).unwrap();
        if self.router.poll(zmq::POLLIN, milliseconds).unwrap() == 0 {
            return None;
        }
        let frames = self.router.recv_multipart(0).unwrap();
        assert_eq!(frames.len(), 3, "identity, delimiter, number");
        assert!(frames[1].is_empty(), "engines never answer without the delimiter");
        let start = u64::from_be_bytes(frames[2].clone().try_into().unwrap());
        Some((frames[0].clone(), start))
    }

    pub(crate) fn answer(&self, peer: &[u8], sequence: u64, payload: &[u8]) {
        self.router.send_multipart([peer, b"", &sequence.to_be_bytes()[..], payload], 0).unwrap();
    }

    pub(crate) fn end(&self, peer: &[u8]) {
        self.answer(peer, u64::MAX, b"");
    }
}

pub(crate) fn last_endpoint(socket: &zmq::Socket) -> Endpoint {
    Endpoint::new(&socket.get_last_endpoint().unwrap().unwrap()).unwrap()
}

fn bind(context: &zmq::Context, kind: zmq::SocketType, endpoint: &Endpoint) -> zmq::Socket {
    let until = now() + PATIENCE;
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    while let Err(error) = socket.bind(endpoint.as_str()) {
        assert!(error == zmq::Error::EADDRINUSE && now() < until, "{endpoint}: {error}");
        std::thread::yield_now();
    }
    socket
}
