//! One engine, step by step: what it computes, what it announces, what it forgets.
//! `cargo run -p kv-router-sim --example one_engine`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::sync::Arc;

use kv_router_sim::engine::{EngineConfig, EngineIdentity, MockEngine, Naming, StepReport};
use kv_router_sim::prompt::Prompt;
use kv_router_sim::request::SimRequest;
use kv_router_sim::time::SimTime;
use kv_router_transport::Incarnation;
use kv_router_types::{WorkerId, WorkerRank};

fn main() -> Result<(), Box<dyn Error>> {
    let identity = EngineIdentity {
        worker: WorkerRank::from(WorkerId::new(1)),
        incarnation: Incarnation::new(1),
        naming: Naming::Salted(42),
    };
    // Memory for 2,400 tokens: two different prompts of 1,500 do not both stay.
    let config = EngineConfig { pool_blocks: 150, ..EngineConfig::default() };
    let mut engine = MockEngine::new(identity, config)?;

    let mut report = StepReport::default();
    let mut now = SimTime::ZERO;
    for (index, ids) in [[1, 2, 3], [1, 2, 4], [7, 8, 9], [1, 2, 3]].into_iter().enumerate() {
        let prompt = Prompt::new(ids.to_vec(), 1_500)?;
        let request = SimRequest::new(u32::try_from(index)?, now, prompt, 2, config.block_size);
        println!("{now:?}: request {index} of pieces {ids:?}");
        engine.enqueue(Arc::new(request))?;
        engine.advance(now, &mut report);
        loop {
            for milestone in &report.milestones {
                println!(
                    "  {:?}: request {} {:?}",
                    milestone.at,
                    milestone.request.index(),
                    milestone.progress
                );
            }
            if let Some(batch) = &report.batch {
                let blocks: usize = batch.events.iter().map(|event| event.block_count()).sum();
                println!(
                    "  {now:?}: batch {} names {blocks} blocks in {} events",
                    batch.sequence,
                    batch.events.len()
                );
            }
            let Some(next) = report.next else { break };
            now = next;
            engine.advance(now, &mut report);
        }
    }
    println!("{:?}", engine.stats());
    Ok(())
}
