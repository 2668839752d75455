//! Blocks a second on one core: decoding, decoding and ingest, and with an index behind it.
//!
//! The stream is vLLM's map form with blocks of 16 tokens: prompts that share a first part, stored as one event each,
//! then block by block as they grow, and evictions one event a block.
#![expect(clippy::print_stdout, reason = "an example prints its result")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, RemoveFields, StoreFields, WireBatch,
    WireHash, WireTokens,
};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::ApplyEvents;
use kv_router_index::paged::PagedIndex;
use kv_router_types::{BlockSize, WorkerId};

const SIZE: usize = 16;
const PROMPTS: u64 = 64;
const PROMPT_BLOCKS: u64 = 128;
const GROWN_BLOCKS: u64 = 16;
const ROUNDS: u64 = 40;

fn name(prompt: u64, block: u64) -> WireHash<'static> {
    WireHash::Unsigned((prompt << 32 | block).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A life of every prompt: stored, grown, evicted. Payloads of up to 16 events, as a busy engine's steps have.
fn payloads() -> (Vec<Vec<u8>>, u64) {
    let mut encoder = BatchEncoder::new(EventForm::Map);
    let (mut payloads, mut blocks) = (Vec::new(), 0);
    let mut flush = |encoder: &mut BatchEncoder, least: usize| {
        if encoder.len() >= least {
            let mut payload = Vec::new();
            encoder.finish(1_717_171_717.25, None, &mut payload);
            payloads.push(payload);
        }
    };
    let common = StoreFields {
        block_size: Some(SIZE as u64),
        medium: Some("GPU"),
        group: Some(0),
        spec_kind: Some("full_attention"),
        ..StoreFields::default()
    };
    let total = PROMPT_BLOCKS + GROWN_BLOCKS;
    for prompt in 0..PROMPTS {
        let tokens: Vec<u32> = (0..total * SIZE as u64)
            .map(|at| ((at + prompt * 977).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % 150_000)
            .collect();
        let hashes: Vec<WireHash<'_>> = (0..total).map(|block| name(prompt, block)).collect();
        let (first, grown) = tokens.split_at(PROMPT_BLOCKS as usize * SIZE);
        let (head, tail) = hashes.split_at(PROMPT_BLOCKS as usize);
        encoder.stored(&StoreFields { hashes: head, tokens: WireTokens::Flat(first), ..common });
        flush(&mut encoder, 4);
        let mut parent = head.last().copied();
        for (hash, tokens) in tail.iter().zip(grown.chunks(SIZE)) {
            let hashes = std::slice::from_ref(hash);
            encoder.stored(&StoreFields { hashes, parent, tokens: WireTokens::Flat(tokens), ..common });
            parent = Some(*hash);
            flush(&mut encoder, 16);
        }
        blocks += total;
    }
    for prompt in 0..PROMPTS {
        for block in (0..total).rev() {
            let hashes = [name(prompt, block)];
            encoder.removed(&RemoveFields { hashes: &hashes, medium: Some("GPU"), group: Some(0) });
            flush(&mut encoder, 16);
        }
        blocks += total;
    }
    flush(&mut encoder, 1);
    (payloads, blocks)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (payloads, blocks) = payloads();
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    println!("{} payloads, {bytes} bytes, {blocks} blocks stored or removed", payloads.len());
    let scheme = HashScheme::new(BlockSize::new(SIZE as u32)?, Window::Plain);
    let limits = DecodeLimits::default();
    let mut batch = WireBatch::new();
    let mut events = Vec::new();
    let mut ingest = Ingest::new(IngestConfig::new(scheme));
    let mut both = Ingest::new(IngestConfig::new(scheme));
    let mut index = PagedIndex::new();
    let mut spent = [Duration::ZERO; 3];
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    for _ in 0..rounds {
        let start = Instant::now();
        for payload in &payloads {
            batch.decode(payload, &limits)?;
            black_box(&batch);
        }
        spent[0] += start.elapsed();
        let start = Instant::now();
        for payload in &payloads {
            batch.decode(payload, &limits)?;
            events.clear();
            ingest.apply(&batch, &mut events);
            black_box(&events);
        }
        spent[1] += start.elapsed();
        let start = Instant::now();
        for payload in &payloads {
            batch.decode(payload, &limits)?;
            events.clear();
            both.apply(&batch, &mut events);
            for event in &events {
                index.apply(WorkerId::new(1).into(), event)?;
            }
        }
        spent[2] += start.elapsed();
    }
    for (what, spent) in ["decode", "decode, ingest", "decode, ingest, index"].into_iter().zip(spent) {
        let rate = (blocks * rounds) as f64 / spent.as_secs_f64();
        println!("{what:<24}{:>8.1} million blocks a second", rate / 1e6);
    }
    Ok(())
}
