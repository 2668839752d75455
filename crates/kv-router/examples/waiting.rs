//! More requests than a worker has room for: `cargo run -p kv-router --example waiting`
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::num::NonZeroU32;

use kv_router::{BlockSize, Capacity, QueueConfig, RouteRequest, Router, RouterConfig, WorkerId, WorkerSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let block_size = BlockSize::new(16)?;
    let mut config = RouterConfig::new(block_size);
    config.queue = Some(QueueConfig::default());
    config.filters.wait_prefill = Some(1.0); // wait while every worker has more than one batch to compute
    let router = Router::builder(config).build()?;
    let capacity = Capacity { batched_tokens: NonZeroU32::new(512), total_blocks: None };
    router.join(WorkerId::new(1), WorkerSpec::new(block_size).with_capacity(capacity))?;

    let long: Vec<u32> = (0..2_000).collect();
    let short: Vec<u32> = (5_000..5_100).collect();
    let first = router.admit(&RouteRequest::from_tokens(&long))?.wait()?;
    println!("the first goes to {}", first.worker());

    // A task would `.await` the ticket, under any runtime.
    let second = router.admit(&RouteRequest::from_tokens(&short))?;
    let impatient = router.admit(&RouteRequest::from_tokens(&short))?;
    println!("waiting: {}", router.stats().queue.waiting);
    drop(impatient); // cancelled: it will never be booked

    drop(first); // its response is complete; this thread places who waits
    println!("the second goes to {}", second.wait()?.worker());
    println!("{:?}", router.stats().queue);
    Ok(())
}
