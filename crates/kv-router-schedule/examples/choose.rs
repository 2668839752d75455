//! One decision with its evidence, then the same fleet under load: `cargo run -p kv-router-schedule --example choose`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::num::NonZeroU32;

use kv_router_schedule::{
    Candidate, Capacity, CostConfig, FilterConfig, Scratch, SelectRequest, Selector, SplitMix64, WorkerTraits,
};
use kv_router_types::{BlockSize, WorkerId};

fn main() -> Result<(), Box<dyn Error>> {
    let filters = FilterConfig { busy_decode: Some(0.8), ..FilterConfig::default() };
    let selector = Selector::new(CostConfig::default(), filters)?;
    let traits = WorkerTraits::default();
    let capacity = Capacity { batched_tokens: NonZeroU32::new(8192), total_blocks: NonZeroU32::new(1000) };
    let worker = |id, device, active_blocks| Candidate {
        overlap: [device, 0, 0, 0],
        active_blocks,
        capacity,
        ..Candidate::idle(WorkerId::new(id).into(), &traits)
    };
    let mut fleet = [worker(1, 48, 46), worker(2, 20, 8), worker(3, 60, 900)];

    let request = SelectRequest::new(60, BlockSize::new(16)?);
    let (mut entropy, mut scratch) = (SplitMix64::new(7), Scratch::new());
    println!("{}\n", selector.explain(&request, fleet, &mut entropy, &mut scratch));

    println!("a warmer draw spreads the load:");
    let warm =
        Selector::new(CostConfig { temperature: 0.5, ..CostConfig::default() }, FilterConfig::default())?;
    println!("{}\n", warm.explain(&request, fleet, &mut entropy, &mut scratch));

    fleet.iter_mut().for_each(|worker| worker.active_blocks = 900);
    match selector.select(&request, fleet, &mut entropy, &mut scratch) {
        Ok(selection) => println!("chose {}", selection.worker),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
