//! Which worker holds a prompt, as its engines store, demote and lose blocks:
//! `cargo run -p kv-router-index --example who_holds_it`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use kv_router_index::{ApplyError, ApplyEvents, FindOptions, Overlaps, PrefixIndex, RadixTree};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

fn main() -> Result<(), ApplyError> {
    let [one, two] = [1, 2].map(|id| WorkerRank::from(WorkerId::new(id)));
    let prompt: Vec<LocalBlockHash> = (1..=6).map(LocalBlockHash::new).collect();
    let mut index = RadixTree::new();
    let mut overlaps = Overlaps::new(); // reused from lookup to lookup

    // The engines name the same content differently.
    index.apply(one, &stored(Tier::Device, None, &prompt[..6], 100))?;
    index.apply(two, &stored(Tier::Device, None, &prompt[..4], 200))?;
    show("both have stored", &index, &prompt, &mut overlaps);

    index.apply(one, &removed(Tier::Device, &[101]))?;
    show("1 has lost block 1", &index, &prompt, &mut overlaps);

    index.apply(one, &stored(Tier::Device, Some(100), &prompt[1..2], 101))?;
    show("1 has it again: the rest never left", &index, &prompt, &mut overlaps);

    index.apply(two, &stored(Tier::Host, Some(202), &prompt[3..4], 203))?;
    index.apply(two, &removed(Tier::Device, &[203]))?;
    show("2 has moved block 3 to host memory", &index, &prompt, &mut overlaps);

    match index.apply(two, &stored(Tier::Device, Some(999), &prompt[4..], 204)) {
        Ok(applied) => println!("unexpected: {applied:?}"),
        Err(error) => println!("refused: {error}"),
    }
    index.remove_worker(one.worker);
    show("1 is gone", &index, &prompt, &mut overlaps);
    Ok(())
}

fn stored(tier: Tier, parent: Option<u64>, content: &[LocalBlockHash], first_name: u64) -> KvEvent {
    let names = (first_name..).map(ExternalSequenceHash::new);
    KvEvent::Stored {
        tier,
        parent: parent.map(ExternalSequenceHash::new),
        blocks: names.zip(content).map(|(name, &local)| StoredBlock::new(name, local)).collect(),
    }
}

fn removed(tier: Tier, names: &[u64]) -> KvEvent {
    KvEvent::Removed { tier, blocks: names.iter().copied().map(ExternalSequenceHash::new).collect() }
}

fn show(what: &str, index: &RadixTree, prompt: &[LocalBlockHash], overlaps: &mut Overlaps) {
    index.find_into(prompt, FindOptions::new(), overlaps);
    println!("{what}:");
    for overlap in overlaps.iter() {
        let device = overlap.credited_at(Tier::Device);
        println!(
            "  {} holds {} of {} blocks, {device} of them on the device",
            overlap.worker(),
            overlap.blocks(),
            prompt.len()
        );
    }
}
