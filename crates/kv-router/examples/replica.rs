//! A fresh router over a fleet of a million blocks: from a snapshot, then the stream. `cargo run --release -p
//! kv-router --example replica`
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
#![expect(clippy::disallowed_methods, reason = "it tells the time that it takes")]

use std::error::Error;
use std::time::Instant;

use kv_router::{BlockSize, EngineFrame, EngineKind, EngineStream, EngineStreamConfig, RouteRequest, Router};
use kv_router::{RouterConfig, WorkerId, WorkerSpec};
use kv_router_engines::{BatchEncoder, EventForm, StoreFields, WireHash, WireTokens};

const WORKERS: u64 = 16;
/// Chains of each worker, and blocks of each.
const CHAINS: u32 = 977;
const BLOCKS: u32 = 64;
const TOKENS: u32 = 16;

fn router() -> Result<(Router, Vec<EngineStream>), Box<dyn Error>> {
    let block_size = BlockSize::new(TOKENS)?;
    let router = Router::builder(RouterConfig::new(block_size)).build()?;
    let mut streams = Vec::new();
    for worker in 0..WORKERS {
        router.join(WorkerId::new(worker), WorkerSpec::new(block_size))?;
        let config = EngineStreamConfig::new(WorkerId::new(worker).into(), EngineKind::Vllm);
        streams.push(router.engine_stream(config)?);
    }
    Ok((router, streams))
}

fn prompt(worker: u64, chain: u32) -> Vec<u32> {
    let first = chain + worker as u32 / 2 * CHAINS; // pairs of workers hold the same
    (0..BLOCKS * TOKENS).map(|at| first.wrapping_mul(0x9e37_79b9) ^ at).collect()
}

fn payload(worker: u64, chain: u32) -> Vec<u8> {
    let name = |block| WireHash::Unsigned((worker << 40) + (u64::from(chain) << 16) + block);
    let hashes: Vec<_> = (0..u64::from(BLOCKS)).map(name).collect();
    let tokens = prompt(worker, chain);
    let mut encoder = BatchEncoder::new(EventForm::Map);
    encoder.stored(&StoreFields {
        hashes: &hashes,
        tokens: WireTokens::Flat(&tokens),
        block_size: Some(u64::from(TOKENS)),
        ..StoreFields::default()
    });
    let mut payload = Vec::new();
    encoder.finish(f64::from(chain), None, &mut payload);
    payload
}

fn main() -> Result<(), Box<dyn Error>> {
    let (router, mut streams) = router()?;
    let frames: Vec<Vec<Vec<u8>>> =
        (0..WORKERS).map(|worker| (0..=CHAINS).map(|chain| payload(worker, chain)).collect()).collect();
    let feed = |streams: &mut [EngineStream], chains: std::ops::RangeInclusive<u32>| {
        for (stream, frames) in streams.iter_mut().zip(&frames) {
            for chain in chains.clone() {
                let _ =
                    stream.frame(EngineFrame::new(chain.into(), &frames[chain as usize]), Instant::now())?;
            }
        }
        Ok::<(), Box<dyn Error>>(())
    };
    let blocks = f64::from(CHAINS * BLOCKS) * WORKERS as f64;
    let rate = |began: Instant| {
        let seconds = began.elapsed().as_secs_f64();
        format!("{seconds:.2} s, {:.1} million blocks/s", blocks / seconds / 1e6)
    };

    let began = Instant::now();
    feed(&mut streams, 0..=CHAINS - 1)?;
    println!("{:.2} million blocks heard: {}", blocks / 1e6, rate(began));
    let began = Instant::now();
    let mut bytes = Vec::new();
    let written = router.snapshot(&mut bytes)?;
    println!("snapshot of {:.0} MB: {}", bytes.len() as f64 / 1e6, rate(began));

    let (replica, mut live) = self::router()?;
    let began = Instant::now();
    let restored = replica.restore(&mut &bytes[..])?;
    println!("restored: {}", rate(began));
    assert_eq!((restored.ranks, restored.blocks), (written.ranks, written.blocks));
    // The last batch of each worker came after the snapshot. Each engine shows the last one in it, and that.
    feed(&mut streams, CHAINS..=CHAINS)?;
    for (stream, frames) in live.iter_mut().zip(&frames) {
        let ask = stream.connected(Instant::now())?.ask.ok_or("there is something to prove")?;
        for (sequence, payload) in (0..).zip(frames).skip(ask.from as usize) {
            let _ = stream.replayed(ask.id, EngineFrame::new(sequence, payload), Instant::now())?;
        }
        let _ = stream.replay_ended(ask.id, Instant::now())?;
    }
    println!("fresh replica is exact after {:.2} s", began.elapsed().as_secs_f64());

    for worker in 0..WORKERS {
        for chain in 0..=CHAINS {
            let tokens = prompt(worker, chain);
            let request = RouteRequest::from_tokens(&tokens);
            let (ours, theirs) = (replica.overlaps(&request)?, router.overlaps(&request)?);
            for rank in (0..WORKERS).map(|worker| WorkerId::new(worker).into()) {
                assert_eq!(ours.get(rank), theirs.get(rank));
            }
            assert!(ours.blocks(WorkerId::new(worker).into()) >= BLOCKS);
        }
    }
    println!("{} prompts: every rank answers alike", u64::from(CHAINS + 1) * WORKERS);
    println!("{}", replica.diagnose());
    assert!(replica.diagnose().is_healthy());
    Ok(())
}
