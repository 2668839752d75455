//! What libFuzzer calls. Its flags and folders are on the command line, and the target is in the environment, because
//! the command line is its own.

use std::fs;
use std::sync::OnceLock;

use kv_router_fuzz::Target;
use libfuzzer_sys::fuzz_target;

/// The name of the target.
const TARGET: &str = "KV_ROUTER_FUZZ_TARGET";
/// A folder for inputs to start from, written before it is read.
const SEEDS: &str = "KV_ROUTER_FUZZ_SEEDS";

static CHECK: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: prepare(),
    |bytes: &[u8]| {
        if let Some(check) = CHECK.get() {
            check(bytes);
        }
    }
);

fn prepare() {
    let name = std::env::var_os(TARGET).unwrap_or_default();
    let Some(target) = name.to_str().and_then(Target::named) else {
        panic!("{TARGET} has to name a target: `cargo xtask fuzz --list`");
    };
    CHECK.get_or_init(|| target.check);
    let Some(folder) = std::env::var_os(SEEDS) else { return };
    for (number, seed) in target.corpus().into_iter().enumerate() {
        let path = std::path::Path::new(&folder).join(format!("seed-{number}"));
        if let Err(error) = fs::write(&path, seed) {
            panic!("cannot write {}: {error}", path.display());
        }
    }
}
