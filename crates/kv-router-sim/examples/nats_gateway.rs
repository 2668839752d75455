//! A gateway over a NATS server: routers started like this share one fleet. `nats-server -js & cargo run -p
//! kv-router-sim --features nats --example nats_gateway -- nats://127.0.0.1:4222 1`
//!
//! It reads prompts from its input, a line of token numbers each, and says where each goes. Workers announce themselves
//! with `Registry::announce` and publish with `RankPublisher`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
#![expect(clippy::disallowed_methods, reason = "a program reads the clock")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use kv_router::{
    BlockSize, JournalConfig, PeerLimits, ReplicaId, ReplicaLife, RouteRequest, Router, RouterConfig,
    RouterReplica,
};
use kv_router_nats::{GossipConfig, Link, LinkConfig, Replica, ReplicaConfig, RequestError};

/// What the router is fed by: one thread, which ends with the link or when it is told to.
fn feed(
    mut replica: Replica,
    mut sink: RouterReplica,
    stop: &AtomicBool,
) -> Result<RouterReplica, RequestError> {
    let mut expire_at = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        replica.poll(Instant::now(), Duration::from_millis(20), &mut sink)?;
        if Instant::now() >= expire_at {
            expire_at += Duration::from_secs(10);
            // Requests that nobody heard of for so long are lost, whatever became of them.
            sink.router().expire_idle(Duration::from_secs(600));
        }
    }
    println!("{:#?}", replica.counters());
    Ok(sink)
}

/// Places one prompt, and says why there.
fn place(router: &Router, line: &str) -> Result<String, Box<dyn Error>> {
    let tokens = line.split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    let decision = router.route(&RouteRequest::from_tokens(&tokens))?;
    // A real gateway keeps the decision until the request ends: dropping it takes its load back.
    Ok(format!("{}, which has {} blocks of it", decision.worker(), decision.overlap_blocks()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| String::from("nats://127.0.0.1:4222"));
    let number: u64 = arguments.next().as_deref().unwrap_or("1").parse()?;

    // Every replica has its own number, and every life of it a larger one.
    let life = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis() as u64;
    let mut settings = RouterConfig::new(BlockSize::new(16)?);
    settings.journal = Some(JournalConfig::new(ReplicaLife { replica: ReplicaId::new(number), life }));
    let router = Arc::new(Router::builder(settings).build()?);

    let mut link = LinkConfig::default();
    (link.servers, link.backoff.spread) = (servers, number);
    let link = Link::connect(link)?;
    // What the broker carries in one message.
    let limits = PeerLimits { max_bytes: GossipConfig::default().most_bytes, ..PeerLimits::default() };
    let sink = RouterReplica::new(Arc::clone(&router), limits);
    let config = ReplicaConfig::new(number, sink.fingerprint());
    let replica = Replica::start(&link, config, Instant::now())?;

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fed = scope.spawn(|| feed(replica, sink, &stop));
        for line in std::io::stdin().lines() {
            match line.map_err(Box::from).and_then(|line| place(&router, &line)) {
                Ok(answer) => println!("{answer}"),
                Err(error) => println!("not placed: {error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        match fed.join() {
            Ok(Ok(sink)) => println!("{:?}\n{}", sink.counters(), router.diagnose()),
            Ok(Err(error)) => println!("the feed ended: {error}"),
            Err(_) => println!("the feed panicked: its message is above"),
        }
    });
    link.close(Duration::from_secs(1));
    Ok(())
}
