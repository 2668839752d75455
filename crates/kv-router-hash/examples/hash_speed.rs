//! What hashing costs on this machine: `cargo run --release -p kv-router-hash --example hash_speed`.
//!
//! Best of several rounds, in nanoseconds a block; the last lines tell where a second thread begins to pay.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
#![expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use kv_router_hash::{
    BlockHasher, HashContext, HashScheme, MmHash, MmSpan, Prompt, Window, sequence_hashes_into,
};
use kv_router_types::BlockSize;

const TOKENS: u32 = 65_536;

fn best_of(rounds: u32, mut work: impl FnMut()) -> Duration {
    let timed = (0..rounds).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    timed.min().unwrap_or_default()
}

fn report(name: &str, size: u32, blocks: usize, best: Duration) {
    println!("{name:<28} {size:>5} tokens {:>8.2} ns/block", best.as_nanos() as f64 / blocks as f64);
}

fn main() -> Result<(), Box<dyn Error>> {
    let tokens: Vec<u32> = (0..TOKENS).map(|i| i.wrapping_mul(2_654_435_761) >> 15).collect();
    let text = Prompt::new(&tokens);
    let adapter = text.in_context(HashContext::NONE.with_adapter("sql-expert")?);
    let spans: Vec<MmSpan> =
        (0..TOKENS / 512).map(|i| MmSpan::new(i * 512, 256, MmHash::new(u64::from(i)))).collect();
    let images = text.with_spans(&spans)?;
    let mut out = Vec::new();

    for (name, window, prompt) in [
        ("text", Window::Plain, &text),
        ("text, eagle", Window::Eagle, &text),
        ("adapter", Window::Plain, &adapter),
        ("half of it images", Window::Plain, &images),
    ] {
        for size in [16, 32, 64, 512] {
            let mut hasher = BlockHasher::new(HashScheme::new(BlockSize::new(size)?, window));
            let best = best_of(500, || hasher.hash_into(black_box(prompt), &mut out));
            report(name, size, out.len(), best);
        }
    }
    for size in [16, 64] {
        let mut hasher = BlockHasher::new(HashScheme::new(BlockSize::new(size)?, Window::Plain));
        let blocks = tokens.len() / size as usize;
        let best = best_of(500, || {
            for block in tokens.chunks_exact(size as usize) {
                let _ = black_box(hasher.hash_block(black_box(block), &HashContext::NONE, &[]));
            }
        });
        report("event, block by block", size, blocks, best);
        let best = best_of(500, || {
            black_box(hasher.lazy(text, &mut out).all());
        });
        report("lazy, all of it", size, blocks, best);
    }
    let scheme = HashScheme::new(BlockSize::new(16)?, Window::Plain);
    scheme.hash_into(&text, &mut out);
    let mut sequence = Vec::new();
    let best = best_of(500, || sequence_hashes_into(black_box(&out), &mut sequence));
    report("sequence hashes", 16, out.len(), best);

    for shares in [2, 3, 4, 8] {
        let tokens = vec![7; HashScheme::TOKENS_PER_THREAD * shares];
        let prompt = Prompt::new(&tokens);
        let serial = best_of(200, || scheme.hash_into(black_box(&prompt), &mut out));
        let two = NonZeroUsize::MIN.saturating_add(1);
        let parallel = best_of(200, || scheme.hash_parallel_into(black_box(&prompt), two, &mut out));
        println!("{} tokens: {serial:?} on one thread, {parallel:?} on two", tokens.len());
    }
    Ok(())
}
