//! What engines publish, on its way into an index: blocks a second, stage by stage on one thread, and through sockets.

#[cfg(feature = "wire")]
pub mod socket;
pub mod stages;
pub mod traffic;

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use kv_router_hash::{HashScheme, Window};
use kv_router_index::paged::PagedIndex;
use kv_router_types::BlockSize;
use serde_json::{Value, json};

use stages::{Answers, Lanes, Stage};
use traffic::{BLOCK_TOKENS, Dialect, Fleet, Recording};

/// How thorough to be.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The fleet on one thread.
    pub fleet: Fleet,
    /// The fleet on sockets: a publisher has a thread and three sockets.
    pub on_sockets: Fleet,
    /// Measurements of each stage, in turn with those of the others; the median counts.
    pub rounds: usize,
}

impl Effort {
    /// 32 ranks of 12,288 blocks, each block of which is replaced once; five rounds.
    pub const FULL: Self = Self {
        fleet: Fleet { ranks: 32, blocks: 12_288, stored: 32 * 12_288 },
        on_sockets: Fleet { ranks: 4, blocks: 12_288, stored: 500_000 },
        rounds: 5,
    };
    /// Some seconds.
    pub const QUICK: Self = Self {
        fleet: Fleet { ranks: 8, blocks: 12_288, stored: 60_000 },
        on_sockets: Fleet { ranks: 4, blocks: 12_288, stored: 60_000 },
        rounds: 3,
    };
}

/// Measures and prints; each line of JSON goes to `line`.
///
/// # Errors
///
/// When a payload or an event is refused, when an answer is wrong, or when something is lost.
pub fn bench(
    effort: Effort,
    out: &mut dyn Write,
    line: &mut dyn FnMut(Value) -> std::io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let scheme = HashScheme::new(BlockSize::new(BLOCK_TOKENS as u32)?, Window::Plain);
    write!(out, "{:<14}{:>8}{:>10}", "engines", "wrong", "B a block")?;
    for stage in Stage::ALL {
        write!(out, "{:>10}", stage.name())?;
    }
    writeln!(out, "   million blocks a second, one thread")?;
    for dialect in Dialect::ALL {
        let recording = Recording::of(effort.fleet, dialect, scheme);
        let Answers { wrong, held } = check(&recording, scheme)?;
        let rates = rates(&recording, scheme, effort.rounds)?;
        let bytes: usize = recording.steady.iter().map(|frame| frame.payload.len()).sum();
        let bytes = bytes as f64 / recording.blocks as f64;
        write!(out, "{:<14}{wrong:>8}{bytes:>10.0}", dialect.name())?;
        for rate in rates {
            write!(out, "{:>10.2}", rate * 1e-6)?;
        }
        writeln!(out)?;
        let named: serde_json::Map<_, _> = Stage::ALL
            .iter()
            .zip(rates)
            .map(|(stage, rate)| (stage.key().to_owned(), json!(rate.round())))
            .collect();
        line(json!({
            "engines": dialect.name(),
            "ranks": recording.ranks,
            "blocks": recording.blocks,
            "events": recording.events,
            "payload_bytes_per_block": bytes,
            "prompts_held": held,
            "exact": wrong == 0,
            "blocks_per_second": named,
        }))?;
        if wrong > 0 || held == 0 {
            return Err(format!("{wrong} answers are wrong, {held} prompts are held").into());
        }
    }
    on_sockets(effort, scheme, out, line)
}

/// Blocks a second of each stage: the median of so many rounds, the stages in turn.
fn rates(recording: &Recording, scheme: HashScheme, rounds: usize) -> Result<[f64; 4], Box<dyn Error>> {
    let mut times = [const { Vec::<Duration>::new() }; Stage::ALL.len()];
    for _ in 0..rounds.max(1) {
        for (times, stage) in times.iter_mut().zip(Stage::ALL) {
            times.push(stages::time(recording, scheme, stage)?);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        recording.blocks as f64 / times[times.len() / 2].as_secs_f64()
    }))
}

fn check(recording: &Recording, scheme: HashScheme) -> Result<Answers, Box<dyn Error>> {
    let index = PagedIndex::new();
    let mut lanes = Lanes::new(recording, scheme, Some(&index))?;
    for frame in recording.filling.iter().chain(&recording.steady) {
        lanes.feed(frame.rank, &frame.payload)?;
    }
    stages::compare(recording, scheme, &index)
}

#[cfg(feature = "wire")]
fn on_sockets(
    effort: Effort,
    scheme: HashScheme,
    out: &mut dyn Write,
    line: &mut dyn FnMut(Value) -> std::io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    writeln!(out, "\n{:<14}{:>8}{:>10}   over ZeroMQ on loopback, into the index", "engines", "lost", "M/s")?;
    for dialect in Dialect::ALL {
        let recording = Recording::of(effort.on_sockets, dialect, scheme);
        let socket::Arrived { took, lost, is_same } = socket::run(&recording, scheme)?;
        let rate = recording.blocks as f64 / took.as_secs_f64();
        writeln!(out, "{:<14}{lost:>8}{:>10.2}", dialect.name(), rate * 1e-6)?;
        line(json!({
            "engines": dialect.name(),
            "over": "zeromq",
            "publishers": recording.ranks,
            "blocks": recording.blocks,
            "batches": recording.steady.len(),
            "lost": lost,
            "same_index": is_same,
            "blocks_per_second": rate.round(),
        }))?;
        if lost > 0 || !is_same {
            return Err(format!("{lost} batches were lost; the same index: {is_same}").into());
        }
    }
    Ok(())
}

#[cfg(not(feature = "wire"))]
fn on_sockets(
    _effort: Effort,
    _scheme: HashScheme,
    out: &mut dyn Write,
    _line: &mut dyn FnMut(Value) -> std::io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(out, "\nover ZeroMQ: not built, see the feature `wire`")?)
}
