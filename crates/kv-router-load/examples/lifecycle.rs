//! Two requests that share a prompt, from booking to release: `cargo run -p kv-router-load --example lifecycle`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::{Duration, Instant};

use kv_router_load::{BookingState, Demand, LoadConfig, LoadTracker};
use kv_router_types::{RequestId, SequenceHash, WorkerId, WorkerRank};

#[expect(clippy::disallowed_methods, reason = "a program reads the clock, the library does not")]
fn clock() -> Instant {
    Instant::now()
}

fn main() -> Result<(), Box<dyn Error>> {
    let tracker = LoadTracker::new(LoadConfig::default())?;
    let worker = WorkerRank::from(WorkerId::new(7));
    tracker.add_rank(worker)?;
    let show = |what: &str| {
        if let Some(load) = tracker.load(worker) {
            println!(
                "{what:<42} {:>3} prompt tokens, {:>2} blocks, {} requests",
                load.prefill_tokens, load.blocks, load.requests
            );
        }
    };
    let start = clock();
    let demand = |id, prompt| Demand {
        request: Some(RequestId::new(id)),
        attempt: 0,
        prefill_tokens: 48,
        prompt_blocks: prompt,
        private_blocks: 1,
    };

    let prompts = [[1, 2, 3], [1, 2, 4]].map(|prompt| prompt.map(SequenceHash::new));
    let first = tracker.book(worker, demand(1, &prompts[0]), start)?;
    show("first booked");
    let second = tracker.book(worker, demand(2, &prompts[1]), start)?;
    show("second booked, two blocks shared");
    match tracker.book(worker, demand(2, &prompts[1]), start) {
        Ok(_) => println!("booked twice?"),
        Err(refused) => println!("{refused}"),
    }

    first.prefill_completed(start + Duration::from_secs(1));
    first.set_output_blocks(4, start + Duration::from_secs(240));
    show("first has generated four blocks");

    let idle = tracker.expire_idle(start + Duration::from_secs(300), Duration::from_secs(300));
    show(&format!("{} request silent for five minutes", idle.len()));
    if second.touch(start + Duration::from_secs(301)) == BookingState::Gone {
        println!("its guard knows that it no longer counts");
    }

    drop((first, second));
    show("all released");
    println!("{:?}", tracker.stats());
    Ok(())
}
