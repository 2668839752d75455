//! One target on files, or, where `cargo xtask fuzz` built it, on what libFuzzer makes of a corpus.
//!
//! ```text
//! cargo run -p kv-router-fuzz -- wire-batch target/fuzz/crashes/wire-batch-crash-0123
//! ```
//!
//! The plain build needs no C++ compiler for a fuzzer and has every symbol, so a crash is looked at there.

#![cfg_attr(kv_router_fuzz, no_main)]

#[cfg(kv_router_fuzz)]
mod guided;

#[cfg(not(kv_router_fuzz))]
mod plain;

#[cfg(not(kv_router_fuzz))]
fn main() -> std::process::ExitCode {
    plain::run(std::env::args_os().skip(1))
}
