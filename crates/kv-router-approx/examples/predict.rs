//! What a worker without events probably holds, from where requests went:
//! `cargo run -p kv-router-approx --example predict`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::{Duration, Instant};

use kv_router_approx::predicted::{PredictedConfig, PredictedConfigError, PredictedIndex};
use kv_router_index::Overlaps;
use kv_router_types::{LocalBlockHash, WorkerId, WorkerRank};

fn main() -> Result<(), PredictedConfigError> {
    #[expect(clippy::disallowed_methods, reason = "a program reads the clock, and passes the time on")]
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let prompt = |blocks| (0..blocks).map(LocalBlockHash::new).collect::<Vec<_>>();
    let [one, two] = [1, 2].map(|worker| WorkerRank::from(WorkerId::new(worker)));

    let mut index = PredictedIndex::new(PredictedConfig::default(), start)?;
    println!("0 s: {:?}", index.record(one, &prompt(20), after(0)));
    println!("90 s: {:?}", index.record(one, &prompt(5), after(90)));
    println!("90 s: {:?}", index.record_for(two, &prompt(10), Duration::from_secs(3_600), after(90)));

    let mut out = Overlaps::new();
    for seconds in [100, 150, 300, 4_000] {
        index.find_at(&prompt(30), after(seconds), &mut out);
        println!("{seconds} s: {one} {}, {two} {}, {:?}", out.blocks(one), out.blocks(two), out.certainty());
    }
    println!("expired in the end: {}", index.expire(after(4_000)));
    Ok(())
}
