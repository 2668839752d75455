//! `decode FILE...`: what each captured payload says, one line of JSON a file.
#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::{env, fs};

use kv_router_engines::{DecodeLimits, Ingest, IngestConfig, WireBatch, WireTokens};
use kv_router_hash::{HashScheme, Window};
use kv_router_types::BlockSize;
use serde_json::json;

#[path = "support/sidecar.rs"]
mod sidecar;

fn main() -> Result<(), Box<dyn Error>> {
    let mut batch = WireBatch::new();
    for file in env::args().skip(1) {
        let payload = fs::read(&file)?;
        let line = match batch.decode(&payload, &DecodeLimits::default()) {
            Err(error) => json!({
                "file": file, "verdict": "reject_batch", "dp_rank": null, "events": [], "error": error.to_string(),
            }),
            Ok(()) => json!({
                "file": file,
                "verdict": verdict(&batch),
                "dp_rank": batch.rank().map(|rank| rank.get()),
                "ts": batch.time(),
                "events": batch.events().map(sidecar::event).collect::<Vec<_>>(),
                "skipped": batch.faults().iter().map(|(fault, count)| (fault.name(), count)).collect::<Vec<_>>(),
            }),
        };
        println!("{line}");
    }
    Ok(())
}

/// What becomes of the batch in a router whose block size is the engine's.
fn verdict(batch: &WireBatch) -> &'static str {
    if batch.is_lossy() {
        return "skip_event";
    }
    let size = batch.events().find_map(|event| {
        let size = u32::try_from(event.block_size()?).ok()?;
        BlockSize::new(size).ok()
    });
    let pairs = batch.events().any(|event| matches!(event.tokens(), WireTokens::Pairs(_)));
    let window = if pairs { Window::Eagle } else { Window::Plain };
    let Some(size) = size.or(BlockSize::new(16).ok()) else { return "accept" };
    let mut ingest = Ingest::new(IngestConfig::new(HashScheme::new(size, window)));
    ingest.apply(batch, &mut Vec::new());
    let refused = ingest.counters().skips.iter().any(|(skip, _)| skip.is_refusal());
    if refused { "index_skip" } else { "accept" }
}
