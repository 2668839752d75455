//! Fills a filter and prints its load, size and false positives on the way:
//! `cargo run --release -p kv-router-approx --example fp_rate -- --entries 10000000`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router_approx::cuckoo::CuckooFilter;
use kv_router_types::SequenceHash;

/// Hashes that are asked for and were never inserted.
const PROBES: u64 = 10_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let entries = parse(std::env::args().skip(1))?;

    println!("growing from nothing:");
    header();
    let mut growing = CuckooFilter::new();
    for stage in 1..=5 {
        fill(&mut growing, entries * stage / 5)?;
        report(&growing);
    }

    println!("\nin a table of fixed size:");
    header();
    // The smallest table of a power of two that takes the entries at a load of at most 95 %.
    let slots = (entries * 100).div_ceil(95).next_power_of_two();
    let mut fixed = CuckooFilter::with_room_for(slots / 100 * 95);
    for percent in [50, 80, 95] {
        fill(&mut fixed, slots / 100 * percent)?;
        report(&fixed);
    }
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<usize, Box<dyn Error>> {
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(1_000_000),
        (Some("--entries"), Some(entries), None) => Ok(entries.parse::<usize>()?.clamp(1_000, 100_000_000)),
        _ => Err("usage: fp_rate [--entries N]".into()),
    }
}

/// Inserts hashes until the filter holds `entries`.
fn fill(filter: &mut CuckooFilter, entries: usize) -> Result<(), Box<dyn Error>> {
    for raw in filter.len()..entries {
        filter.insert(SequenceHash::new(raw as u64))?;
    }
    Ok(())
}

fn header() {
    println!(
        "{:>11} {:>11} {:>7} {:>12} {:>12} {:>7}",
        "entries", "load", "bytes", "false pos.", "8*load/65535", "ratio"
    );
}

fn report(filter: &CuckooFilter) {
    let denied = (0..filter.len() as u64).find(|&raw| !filter.may_contain(SequenceHash::new(raw)));
    assert_eq!(denied, None, "a filter never denies what it holds");

    let strangers = 1 << 40..(1 << 40) + PROBES;
    let wrong = strangers.filter(|&raw| filter.may_contain(SequenceHash::new(raw))).count();
    let rate = wrong as f64 / PROBES as f64;
    let load = filter.occupied_slots() as f64 / filter.slots() as f64;
    let expected = 8.0 * load / 65_535.0;
    let bytes = (filter.heap_bytes() + size_of::<CuckooFilter>()) as f64 / filter.len() as f64;
    println!(
        "{:>11} {:>10.2}% {bytes:>7.3} {rate:>12.3e} {expected:>12.3e} {:>7.3}",
        filter.len(),
        load * 100.0,
        rate / expected
    );
}
