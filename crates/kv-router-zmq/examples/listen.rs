//! Listens to an engine and prints what it announces, a line a batch, until nothing comes for five seconds.
//!
//! `cargo run -p kv-router-zmq --example listen -- tcp://127.0.0.1:5557 tcp://127.0.0.1:5558`: the live stream, and
//! the replay endpoint if there is one. Without endpoints it listens to a publisher of its own.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
#![expect(clippy::disallowed_methods, reason = "a program reads the clock")]

use std::error::Error;
use std::time::{Duration, Instant};

use kv_router_engines::{BatchEncoder, DecodeLimits, EventForm, RemoveFields, WireBatch, WireHash};
use kv_router_transport::{Action, FeedConfig, RankFeed};
use kv_router_zmq::{
    Decoded, Endpoint, Payload, Publisher, PublisherConfig, RecvError, Source, Subscriber, SubscriberConfig,
};

fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    // Kept to the end, for it stops when it is dropped.
    let (source, _publisher) = match &endpoints[..] {
        [] => {
            let publisher = mock()?;
            let source = Source::connect(publisher.live_endpoint().clone());
            let replay = publisher.replay_endpoint().cloned();
            (Source { replay, ..source }, Some(publisher))
        }
        [live, rest @ ..] => {
            let replay = rest.first().map(|replay| Endpoint::new(replay)).transpose()?;
            (Source { replay, ..Source::connect(Endpoint::new(live)?) }, None)
        }
    };
    let config = SubscriberConfig::default();
    let mut feed = FeedConfig::default();
    if source.replay.is_some() {
        feed.replay = Some(config.replay.waits());
    }
    let mut feed: RankFeed<(u64, Payload)> = RankFeed::new(feed)?;
    let subscriber = Subscriber::start(config, Instant::now)?;
    let publisher = subscriber.add(source)?;

    let (mut batch, mut actions) = (WireBatch::new(), Vec::new());
    let mut quiet_at = Instant::now() + Duration::from_secs(5);
    while Instant::now() < quiet_at {
        match subscriber.recv(Duration::from_millis(100)) {
            Ok(incoming) => {
                let decode = |sequence, payload: Payload| {
                    let lossy = batch.decode(&payload, &DecodeLimits::default()).is_err() || batch.is_lossy();
                    Decoded { clears: batch.clears(), lossy, payload: (sequence, payload) }
                };
                incoming.hand_to(&mut feed, Instant::now(), decode, &mut actions);
            }
            Err(RecvError::Empty) => {}
            Err(stopped) => return Err(stopped.into()),
        }
        feed.tick(Instant::now(), &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Apply((sequence, payload)) => {
                    quiet_at = Instant::now() + Duration::from_secs(5);
                    match batch.decode(&payload, &DecodeLimits::default()) {
                        Ok(()) => println!("{sequence}: {} events", batch.events().len()),
                        Err(error) => println!("{sequence}: {error}"),
                    }
                }
                Action::Forget(reason) => println!("forget the rank: {reason:?}"),
                Action::RequestReplay(ask) => subscriber.request_replay(publisher, ask)?,
                Action::RequestSnapshot(_) | Action::Skip { .. } => {}
            }
        }
    }
    println!("{:?}", feed.health());
    println!("{:?}", subscriber.health(publisher));
    Ok(())
}

/// Three batches, as vLLM writes them.
fn mock() -> Result<Publisher, Box<dyn Error>> {
    let publisher = Publisher::start(PublisherConfig::default())?;
    let mut encoder = BatchEncoder::new(EventForm::Map);
    for name in 1..=3 {
        encoder.removed(&RemoveFields {
            hashes: &[WireHash::Unsigned(name)],
            medium: Some("GPU"),
            group: None,
        });
        let mut payload = Vec::new();
        encoder.finish(1.7e9, None, &mut payload);
        publisher.publish(payload)?;
    }
    Ok(publisher)
}
