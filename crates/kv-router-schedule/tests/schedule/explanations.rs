//! The evidence agrees with the decision, and reads well.

use kv_router_schedule::{
    Draw, Excluded, Preference, Scratch, SplitMix64, StreamFreshness, Verdict, WorkerTraits,
};

use crate::common::{candidate, capacity, request, selector, taints, with_cost, with_filters};

#[test]
fn an_explanation_reads_well() {
    let traits = WorkerTraits::default();
    let selector = with_filters(|filters| filters.busy_decode = Some(0.8));
    let mut candidates = [
        candidate(&traits, 1, 48, 2, 44),
        candidate(&traits, 2, 20, 0, 8),
        candidate(&traits, 3, 60, 0, 900),
        candidate(&traits, 4, 0, 60, 0),
    ];
    candidates[1].overlap[1] = 4;
    candidates[1].stream = StreamFreshness::Recovering;
    candidates[2].capacity = capacity(8192, 1000);
    let explanation =
        selector.explain(&request(60), candidates, &mut SplitMix64::new(1), &mut Scratch::new());
    let expected = "\
2@0 at 45.00 blocks, among 3 eligible; no draw needed; excluded: 1 busy
  1@0: cost 58.00 = prefill 14.00 (2.00 queued + 60 new - 48.00 credit) + decode 44.00 + requests 0.00; \
chance 0.0000; cached 48 device
  2@0: cost 45.00 = prefill 37.00 (0.00 queued + 60 new - 23.00 credit) + decode 8.00 + requests 0.00; \
chance 1.0000; cached 20 device 4 host; stream recovering
  3@0: excluded, busy, 900 blocks in flight are above 800
  4@0: cost 120.00 = prefill 120.00 (60.00 queued + 60 new - 0.00 credit) + decode 0.00 + requests 0.00; \
chance 0.0000; cached nothing";
    assert_eq!(explanation.to_string(), expected);

    let none = selector.explain(&request(60), [candidates[2]], &mut SplitMix64::new(1), &mut Scratch::new());
    assert!(none.to_string().starts_with("nobody: every worker that matches is busy (1 busy)"), "{none}");
}

#[test]
fn the_draw_is_shown() {
    let traits = WorkerTraits::default();
    let candidates = [10, 20, 30].map(|load| candidate(&traits, load, 0, 0, load));
    let warm = with_cost(|cost| cost.temperature = 0.5);
    let explanation = warm.explain(&request(60), candidates, &mut SplitMix64::new(1), &mut Scratch::new());
    let chances: Vec<String> = explanation
        .candidates
        .iter()
        .map(|candidate| match candidate.verdict {
            Verdict::Scored { probability, .. } => format!("{probability:.4}"),
            Verdict::Excluded(reason) => reason.to_string(),
        })
        .collect();
    assert_eq!(chances, ["0.6652", "0.2447", "0.0900"]);
    let Ok(selection) = &explanation.outcome else { panic!("{explanation}") };
    let Draw::Sampled { contenders: 3, point } = selection.draw else { panic!("{explanation}") };
    let expected = if point < 0.6652 { 0 } else { usize::from(point >= 0.9099) + 1 };
    assert_eq!(selection.position, expected);

    let equal = [1, 2].map(|worker| candidate(&traits, worker, 0, 0, 0));
    let tie = selector().explain(&request(60), equal, &mut SplitMix64::new(1), &mut Scratch::new());
    let Ok(selection) = &tie.outcome else { panic!("{tie}") };
    assert_eq!(selection.draw, Draw::Tie { contenders: 2, drawn: selection.position as u32 });
    assert!(tie.to_string().contains("among 2 equals"), "{tie}");
}

#[test]
fn preferences_are_explained() {
    let near = WorkerTraits { taints: taints(&["zone=a"]), ..WorkerTraits::default() };
    let far = WorkerTraits::default();
    let preferred = taints(&["zone=a"]);
    let mut wanted = request(60);
    wanted.constraints.preferred_taints = &preferred;
    let both = [candidate(&far, 1, 60, 0, 0), candidate(&near, 2, 0, 0, 0)];
    let met = selector().explain(&wanted, both, &mut SplitMix64::new(1), &mut Scratch::new());
    assert_eq!(met.candidates[0].verdict, Verdict::Excluded(Excluded::NotPreferred));
    let relaxed = selector().explain(&wanted, [both[0]], &mut SplitMix64::new(1), &mut Scratch::new());
    assert_eq!(relaxed.outcome.map(|selection| selection.preference), Ok(Preference::Relaxed));
    assert!(matches!(relaxed.candidates[0].verdict, Verdict::Scored { probability: 1.0, .. }));
    assert!(relaxed.to_string().contains("nobody has the preferred taints"), "{relaxed}");
}
