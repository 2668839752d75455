//! The tree against the most literal statement of what it counts.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

impl PromptTree {
    /// Every promise of the module documentation, checked.
    fn check(&self) {
        let live: Vec<RunId> =
            (1..self.runs.len() as u32).map(RunId).filter(|id| !self.free.contains(id)).collect();
        assert_eq!(live.len(), self.run_count());
        assert_eq!(self.edges.len(), live.len(), "every run has one edge to it, and no edge is left over");
        for id in live {
            let run = &self.runs[id.index()];
            assert!(run.ends > 0 || run.children > 1, "a run that neither ends a prompt nor forks: {run:?}");
            assert_eq!(self.edges.get(&(run.parent, run.blocks[0])), Some(&id));
            assert!(run.holders.windows(2).all(|pair| pair[0].slot < pair[1].slot));
            assert!(run.holders.iter().all(|holder| holder.requests > 0));
        }
    }

    fn shared(&self, prompt: &[SequenceHash], slot: Slot) -> u64 {
        let mut blocks = 0;
        self.for_each_share(prompt, |holder, more| {
            blocks += if holder == slot { u64::from(more) } else { 0 }
        });
        blocks
    }
}

fn hashes(raw: &[u64]) -> Vec<SequenceHash> {
    raw.iter().copied().map(SequenceHash::new).collect()
}

/// Rolling, as the real one: equal exactly when everything before is equal.
fn rolling(contents: &[u8]) -> Vec<SequenceHash> {
    let mut state = 7u64;
    let roll = |&content: &u8| {
        state = (state ^ u64::from(content)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) + 1;
        SequenceHash::new(state)
    };
    contents.iter().map(roll).collect()
}

fn add(tree: &mut PromptTree, prompt: &[SequenceHash], slot: Slot) -> (RunId, u64) {
    let fork = tree.find(prompt);
    let added = tree.insert(fork, prompt, slot);
    tree.check();
    added
}

#[test]
fn a_shared_prefix_counts_once_for_a_rank_and_is_stored_once_for_all() {
    let mut tree = PromptTree::new();
    let (a, b) = (Slot(0), Slot(1));
    let (first, gained) = add(&mut tree, &hashes(&[1, 2, 3]), a);
    assert_eq!(gained, 3);
    let (second, gained) = add(&mut tree, &hashes(&[1, 2, 4]), a);
    assert_eq!(gained, 1);
    let (other, gained) = add(&mut tree, &hashes(&[1, 2]), b);
    assert_eq!(gained, 2);
    assert_eq!(tree.remove(first, a), Released { held: 1, stored: 1 });
    assert_eq!(tree.remove(second, a), Released { held: 3, stored: 1 });
    assert_eq!(tree.remove(other, b), Released { held: 2, stored: 2 });
    tree.check();
    assert_eq!(tree.run_count(), 0);
}

#[test]
fn many_short_lived_forks_leave_a_long_prompt_in_one_run() {
    let mut tree = PromptTree::new();
    let long: Vec<u8> = vec![0; 200];
    add(&mut tree, &rolling(&long), Slot(0));
    for at in 0..200 {
        let mut fork = long.clone();
        fork[at] = 1;
        let (end, _) = add(&mut tree, &rolling(&fork), Slot(1));
        tree.remove(end, Slot(1));
        tree.check();
    }
    assert_eq!(tree.run_count(), 1);
}

#[test]
fn the_first_difference_is_found_at_every_place() {
    for len in 1..20u8 {
        let run = rolling(&vec![0; usize::from(len)]);
        for at in 1..usize::from(len) {
            let mut other = vec![0; usize::from(len)];
            other[at] = 1;
            assert_eq!(common_prefix(&run, &rolling(&other)), at, "length {len}");
            assert_eq!(common_prefix(&run, &run[..at]), at);
        }
    }
}

/// A prompt and its rank, and which of the prompts in flight ends before it comes.
type Step = (Vec<u8>, u32, Option<prop::sample::Index>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (prop::collection::vec(0..3u8, 0..10), 0..3u32, prop::option::of(any::<prop::sample::Index>()));
    prop::collection::vec(step, 0..60)
}

fn distinct<'a>(prompts: impl Iterator<Item = &'a Vec<SequenceHash>>) -> u64 {
    prompts.flatten().collect::<BTreeSet<_>>().len() as u64
}

proptest! {
    #[test]
    fn counts_equal_those_of_plain_sets(steps in steps(), query in prop::collection::vec(0..3u8, 0..10)) {
        let mut tree = PromptTree::new();
        let mut flight: Vec<(RunId, Slot, Vec<SequenceHash>)> = Vec::new();
        let mut held = [0u64; 3];
        let mut stored = 0u64;
        let query = rolling(&query);
        for (contents, slot, ends) in steps {
            if let Some(index) = ends && !flight.is_empty() {
                let (end, slot, _) = flight.swap_remove(index.index(flight.len()));
                let released = tree.remove(end, slot);
                held[slot.0 as usize] -= released.held;
                stored -= released.stored;
                tree.check();
            }
            let (prompt, slot) = (rolling(&contents), Slot(slot));
            stored += (prompt.len() - tree.find(&prompt).depth) as u64;
            let (end, gained) = add(&mut tree, &prompt, slot);
            held[slot.0 as usize] += gained;
            flight.push((end, slot, prompt));

            prop_assert_eq!(stored, distinct(flight.iter().map(|(_, _, prompt)| prompt)));
            for slot in (0..3).map(Slot) {
                let mine = || flight.iter().filter(|(_, owner, _)| *owner == slot).map(|(_, _, prompt)| prompt);
                prop_assert_eq!(held[slot.0 as usize], distinct(mine()));
                let blocks: BTreeSet<_> = mine().flatten().collect();
                let shared = query.iter().take_while(|hash| blocks.contains(hash)).count() as u64;
                prop_assert_eq!(tree.shared(&query, slot), shared);
            }
        }
        for (end, slot, _) in flight {
            stored -= tree.remove(end, slot).stored;
        }
        tree.check();
        prop_assert_eq!((tree.run_count(), stored), (0, 0));
    }

    /// Hashes that are not rolling may be miscounted while in flight, but never for longer.
    #[test]
    fn nonsense_leaves_nothing_behind(prompts in prop::collection::vec(prop::collection::vec(0..4u64, 0..12), 0..30)) {
        let mut tree = PromptTree::new();
        let (mut held, mut stored) = (0, 0);
        let mut ends = Vec::new();
        for prompt in prompts {
            let prompt = hashes(&prompt);
            stored += (prompt.len() - tree.find(&prompt).depth) as u64;
            let (end, gained) = add(&mut tree, &prompt, Slot(0));
            held += gained;
            ends.push(end);
        }
        for end in ends {
            let released = tree.remove(end, Slot(0));
            held -= released.held;
            stored -= released.stored;
            tree.check();
        }
        prop_assert_eq!((tree.run_count(), held, stored), (0, 0, 0));
    }
}
