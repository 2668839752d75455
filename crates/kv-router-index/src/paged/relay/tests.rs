//! Names and numbers stay one to one, whatever the engine says.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;

fn name(raw: u64) -> ExternalSequenceHash {
    ExternalSequenceHash::new(raw)
}

fn stored(tier: Tier, parent: Option<u64>, names: &[u64]) -> KvEvent {
    let block = |&raw: &u64| StoredBlock::new(name(raw), LocalBlockHash::new(raw + 7));
    KvEvent::Stored { tier, parent: parent.map(name), blocks: names.iter().map(block).collect() }
}

fn removed(tier: Tier, names: &[u64]) -> KvEvent {
    KvEvent::Removed { tier, blocks: names.iter().map(|&raw| name(raw)).collect() }
}

#[derive(Clone, Debug)]
struct Step {
    what: u8,
    tier: usize,
    parent: Option<u64>,
    names: Vec<u64>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let names = prop_oneof![
        (0u64..120, 1u64..40).prop_map(|(first, len)| (first..first + len).collect::<Vec<_>>()),
        (0u64..120, 1u64..40).prop_map(|(first, len)| (first..first + len).rev().collect()),
        prop::collection::vec(0u64..160, 0..12),
    ];
    let step = (0u8..20, 0usize..6, prop::option::of(0u64..160), names)
        .prop_map(|(what, tier, parent, names)| Step { what, tier, parent, names });
    prop::collection::vec(step, 1..80)
}

proptest! {
    /// A model that knows for each name where its copies are.
    #[test]
    fn names_and_numbers_are_one_to_one(steps in steps(), limit in prop::sample::select(vec![20usize, 64, 90, 1 << 20])) {
        let mut ids = BlockIds::with_limit(limit).unwrap();
        let mut model: BTreeMap<u64, TierSet> = BTreeMap::new();
        for Step { what, tier, parent, names } in steps {
            let tier = Tier::ALL[tier.saturating_sub(2)];
            let before: HashMap<u64, BlockId> =
                model.keys().map(|&raw| (raw, ids.id(name(raw)).unwrap())).collect();
            match what {
                0..10 => {
                    let mut seen: BTreeSet<u64> = parent.into_iter().collect();
                    let repeat = names.iter().find(|&&raw| !seen.insert(raw));
                    let fresh = names.iter().filter(|raw| !model.contains_key(raw)).count();
                    let result = ids.translate(&stored(tier, parent, &names));
                    let expected = if let Some(&raw) = repeat {
                        Err(ApplyError::InvalidBlockSequence { block: name(raw) })
                    } else if let Some(parent) = parent.filter(|raw| !model.contains_key(raw)) {
                        Err(ApplyError::UnknownParent { parent: name(parent) })
                    } else if model.len() + fresh > limit {
                        Err(ApplyError::RankFull { limit })
                    } else {
                        Ok(())
                    };
                    prop_assert_eq!(result.as_ref().map(drop), expected.as_ref().copied());
                    if let Ok(Translated { event, unknown }) = result {
                        let IdEvent::Stored { tier: to, parent: under, runs, locals } = event else { panic!("a store") };
                        prop_assert_eq!((to, unknown), (tier, 0));
                        prop_assert_eq!(under, parent.map(|raw| before[&raw]));
                        prop_assert_eq!(locals, names.iter().map(|raw| LocalBlockHash::new(raw + 7)).collect::<Vec<_>>());
                        let told: Vec<_> = runs.iter().flat_map(|run| run.ids()).map(|id| ids.name(id)).collect();
                        prop_assert_eq!(told, names.iter().map(|&raw| Some(name(raw))).collect::<Vec<_>>());
                        for &raw in &names {
                            let tiers = model.entry(raw).or_default();
                            *tiers = tiers.with(tier);
                        }
                    }
                }
                10..19 => {
                    let translated = ids.translate(&removed(tier, &names)).unwrap();
                    let IdEvent::Removed { tier: from, runs } = translated.event else { panic!("a removal") };
                    prop_assert_eq!(from, tier);
                    let mut expected = BTreeSet::new();
                    for &raw in &names {
                        if let Some(tiers) = model.get_mut(&raw).filter(|tiers| tiers.contains(tier)) {
                            *tiers = tiers.without(tier);
                            expected.insert(before[&raw]);
                            if tiers.is_empty() {
                                model.remove(&raw);
                            }
                        }
                    }
                    prop_assert_eq!(translated.unknown, (names.len() - expected.len()) as u64);
                    let told: Vec<_> = runs.iter().flat_map(|run| run.ids()).collect();
                    prop_assert_eq!(told, expected.iter().copied().collect::<Vec<_>>(), "each once, from the lowest up");
                    prop_assert!(runs.windows(2).all(|pair| pair[0].end() < u64::from(pair[1].first().get())), "as few as can be");
                }
                _ => {
                    ids.translate(&KvEvent::Cleared).unwrap();
                    model.clear();
                }
            }
            prop_assert_eq!(ids.len(), model.len());
            let numbers: BTreeSet<BlockId> = model.keys().map(|&raw| ids.id(name(raw)).unwrap()).collect();
            prop_assert_eq!(numbers.len(), model.len(), "no number twice");
            prop_assert!(numbers.iter().all(|id| (id.get() as usize) < limit));
            prop_assert!(before.iter().all(|(raw, id)| !model.contains_key(raw) || what == 19 || ids.id(name(*raw)) == Some(*id)));
            prop_assert!((0..160).all(|raw| model.contains_key(&raw) || ids.id(name(raw)).is_none()));
        }
    }
}

#[test]
fn a_chain_is_one_run_and_its_tail_too() {
    let mut ids = BlockIds::new();
    let names: Vec<u64> = (0..100).map(|at| at * 977).collect();
    let runs = |event| match event {
        IdEvent::Stored { runs, .. } | IdEvent::Removed { runs, .. } => runs,
        IdEvent::Cleared => vec![],
    };
    let run = |first, len| BlockRun::new(BlockId::new(first), len);
    let mut translate = |event: KvEvent| runs(ids.translate(&event).unwrap().event);
    assert_eq!(translate(stored(Tier::Device, None, &names[..50])), [run(0, 50)]);
    assert_eq!(translate(stored(Tier::Device, None, &[3, 4])), [run(64, 2)]);
    assert_eq!(translate(stored(Tier::Device, Some(names[49]), &names[50..51])), [run(50, 1)]);
    let tail: Vec<u64> = names[20..51].iter().rev().copied().collect();
    assert_eq!(translate(removed(Tier::Device, &tail)), [run(20, 31)]);
    assert_eq!(translate(stored(Tier::Device, Some(names[19]), &names[60..70])), [run(20, 10)]);
    assert_eq!(translate(KvEvent::Cleared), []);
    assert_eq!(translate(stored(Tier::Device, None, &names)), [run(0, 100)]);
}

#[test]
fn nothing_is_left_of_what_is_removed() {
    let mut ids = BlockIds::new();
    let names: Vec<u64> = (0..50_000).collect();
    for tier in [Tier::Device, Tier::Host] {
        ids.translate(&stored(tier, None, &names)).unwrap();
    }
    assert!(ids.bytes() > 50_000 * 13);
    assert_eq!(ids.translate(&removed(Tier::Device, &names)).unwrap().unknown, 0);
    assert_eq!(ids.len(), 50_000);
    assert_eq!(ids.translate(&removed(Tier::Host, &names)).unwrap().unknown, 0);
    assert_eq!((ids.len(), ids.bytes()), (0, 0));
}

#[test]
fn limits_are_checked() {
    for limit in [0, MAX_NAMES + 1] {
        assert_eq!(BlockIds::with_limit(limit).unwrap_err().field, "max_ids_per_rank");
    }
    assert!(BlockIds::with_limit(MAX_NAMES).is_ok());
}

#[test]
fn events_may_be_counted_round() {
    let mut ids = BlockIds::new();
    ids.translate(&stored(Tier::Device, None, &[1, 2])).unwrap();
    ids.event = u32::MAX;
    assert!(ids.translate(&stored(Tier::Device, None, &[1, 2])).is_ok());
    assert_eq!(ids.event, 1);
    assert!(ids.translate(&stored(Tier::Device, None, &[2, 1])).is_ok());
}
