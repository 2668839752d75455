//! A gateway in small: three workers, one of them warm. `cargo run -p kv-router --example gateway`
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router::{BlockSize, EventBatch, ExternalSequenceHash, Incarnation, KvEvent, Prompt};
use kv_router::{RouteRequest, Router, RouterConfig, StoredBlock, Tier, WorkerId, WorkerSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let block_size = BlockSize::new(16)?;
    let router = Router::builder(RouterConfig::new(block_size)).seed(7).build()?;
    for worker in 0..3 {
        router.join(WorkerId::new(worker), WorkerSpec::new(block_size))?;
    }

    // Worker 1 has just computed the first 512 tokens of this prompt, and says so.
    let prompt: Vec<u32> = (0..1_000).collect();
    let locals = router.scheme().hash(&Prompt::new(&prompt[..512]));
    let names = (1..).map(ExternalSequenceHash::new);
    let blocks = names.zip(&locals).map(|(name, &local)| StoredBlock::new(name, local)).collect();
    let report = router.apply(&EventBatch {
        from: WorkerId::new(1).into(),
        incarnation: Incarnation::new(1),
        sequence: 0,
        events: vec![KvEvent::Stored { tier: Tier::Device, parent: None, blocks }],
    })?;
    println!("stored {} blocks", report.events.applied.stored);

    let decision = router.route(&RouteRequest::from_tokens(&prompt).explained())?;
    println!(
        "{} holds {} of {} blocks",
        decision.worker(),
        decision.overlap_blocks(),
        decision.prompt_blocks()
    );
    if let Some(explanation) = decision.explain() {
        println!("{explanation}");
    }
    assert_eq!(decision.worker(), WorkerId::new(1).into());

    // Forward the request; when its stream ends, drop the booking.
    drop(decision);
    Ok(())
}
