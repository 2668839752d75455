//! A filter, a scorer and a picker of one's own: `cargo run -p kv-router-schedule --example custom`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router_schedule::{
    Candidate, Contender, CostConfig, CustomRules, Entropy, Filter, FilterConfig, Picker, Scorer, Scratch,
    SelectRequest, Selector, SplitMix64, Taint, WorkerTraits,
};
use kv_router_types::{BlockSize, WorkerId};

/// Keeps long prompts off small workers.
struct LongPrompts {
    most_blocks: u32,
    small: Taint,
}

impl Filter for LongPrompts {
    fn name(&self) -> &'static str {
        "long prompts"
    }

    fn admits(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> bool {
        request.prompt_blocks <= self.most_blocks || !candidate.traits.taints.contains(&self.small)
    }
}

/// What a request costs on hardware that is paid by the hour.
struct Rent;

impl Scorer for Rent {
    fn name(&self) -> &'static str {
        "rent"
    }

    fn cost(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
        if candidate.traits.taints.iter().any(|taint| taint.as_str() == "rented") { 8.0 } else { 0.0 }
    }
}

/// Sends every so many a request to anybody at all, to learn how the others are doing.
struct Explorer {
    one_in: u64,
}

impl Picker for Explorer {
    fn name(&self) -> &'static str {
        "explorer"
    }

    fn pick(
        &self,
        _: &SelectRequest<'_>,
        contenders: &[Contender],
        entropy: &mut dyn Entropy,
    ) -> Option<usize> {
        let explores = entropy.next_u64().is_multiple_of(self.one_in);
        explores.then(|| (entropy.next_u64() % contenders.len() as u64) as usize)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rules = CustomRules::new()
        .filter(LongPrompts { most_blocks: 50, small: Taint::new("small") })
        .scorer(2.0, Rent)
        .picker(Explorer { one_in: 4 });
    let selector = Selector::new(CostConfig::default(), FilterConfig::default())?.with_custom(rules)?;

    let labelled = |label| WorkerTraits { taints: vec![Taint::new(label)], ..WorkerTraits::default() };
    let (small, rented, own) = (labelled("small"), labelled("rented"), labelled("own"));
    let mut fleet = [(1, &small), (2, &rented), (3, &own)]
        .map(|(id, traits)| Candidate::idle(WorkerId::new(id).into(), traits));
    fleet[2].active_blocks = 10;

    let (mut entropy, mut scratch) = (SplitMix64::new(7), Scratch::new());
    for prompt_blocks in [20, 60, 60] {
        let request = SelectRequest::new(prompt_blocks, BlockSize::new(16)?);
        println!(
            "{prompt_blocks} blocks: {}\n",
            selector.explain(&request, fleet, &mut entropy, &mut scratch)
        );
    }
    Ok(())
}
