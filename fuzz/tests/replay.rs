//! Every target on its seeds, and on what becomes of them by random damage: what a change must pass where there is no
//! time for more. `cargo xtask fuzz` is the long form, guided by coverage.
#![expect(clippy::unwrap_used, reason = "a test that cannot write its finding fails")]

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use kv_router_fuzz::{Damage, TARGETS, Target};

/// Inputs made of the seeds of each target.
const DAMAGED: u64 = 2_000;

fn check(target: &Target, input: &[u8]) {
    if catch_unwind(|| (target.check)(input)).is_err() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-crash", target.name));
        fs::write(&path, input).unwrap();
        let (name, path) = (target.name, path.display());
        panic!(
            "look at it with `cargo run -p kv-router-fuzz -- {name} {path}`, and keep it in fuzz/seeds/{name}"
        );
    }
}

/// One test, because memory is counted of the whole process.
#[test]
fn every_target_holds_on_its_seeds_and_on_damaged_ones() {
    for target in TARGETS {
        assert_eq!(TARGETS.iter().filter(|other| other.name == target.name).count(), 1, "{}", target.name);
        assert_eq!(Target::named(target.name).unwrap().name, target.name);
        let corpus = target.corpus();
        assert!(!corpus.is_empty() && corpus.iter().all(|seed| !seed.is_empty()), "{}", target.name);
        corpus.iter().for_each(|seed| check(target, seed));
        check(target, &[]);
        let mut damage = Damage::to(&corpus, 1);
        for _ in 0..DAMAGED {
            check(target, damage.input());
        }
    }
}
