//! Who takes part in a scenario.

use std::time::Duration;

use crate::policy::{
    BEST_PREFIX, Knobs, KvAware, POLICIES, Policy, PolicyContext, PolicyEntry, PolicyError, Several,
    SharedLoad,
};
use crate::random::mix2;

/// A policy under the name that reports call it.
#[derive(Clone, Debug)]
pub struct Contender {
    name: String,
    make: Make,
}

#[derive(Clone, Debug)]
enum Make {
    Plain(PolicyEntry),
    Tuned(Knobs),
    /// Several of the same that know nothing of each other.
    Alone(PolicyEntry, u32),
    /// Several tuned routers that know nothing of each other.
    AloneTuned(Knobs, u32),
    /// Several tuned routers that tell each other of their load.
    Sharing(Knobs, u32, Duration),
}

impl Contender {
    /// The policies of the demonstration and the yardstick.
    pub(super) fn plain() -> Vec<Self> {
        entries().map(|entry| Self::new(entry.name, Make::Plain(entry))).collect()
    }

    /// The same, `count` of each side by side; routers that look at load share it in one row and not in the other.
    pub(super) fn several(count: u32, interval: Duration) -> Vec<Self> {
        let mut contenders = vec![
            Self::new("kv-aware", Make::Sharing(Knobs::default(), count, interval)),
            Self::new("kv-aware alone", Make::AloneTuned(Knobs::default(), count)),
        ];
        let others = entries().filter(|entry| entry.name != "kv-aware");
        contenders.extend(others.map(|entry| Self::new(entry.name, Make::Alone(entry, count))));
        contenders
    }

    /// The router with other settings, in place of `self`: as many of it, and sharing as it does.
    ///
    /// `None` when `self` is not the router.
    pub(super) fn tuned(&self, knobs: &Knobs) -> Option<Self> {
        let make = match self.make {
            Make::Plain(entry) if entry.name == "kv-aware" => Make::Tuned(knobs.clone()),
            Make::AloneTuned(_, count) => Make::AloneTuned(knobs.clone(), count),
            Make::Sharing(_, count, interval) => Make::Sharing(knobs.clone(), count, interval),
            Make::Plain(_) | Make::Tuned(_) | Make::Alone(..) => return None,
        };
        Some(Self::new(format!("{} {knobs}", self.name), make))
    }

    fn new(name: impl Into<String>, make: Make) -> Self {
        Self { name: name.into(), make }
    }

    /// What reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Builds it.
    ///
    /// # Errors
    ///
    /// Those of the policy.
    pub fn build(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>, PolicyError> {
        let own = |index: u32| PolicyContext { seed: mix2(context.seed, u64::from(index)), ..*context };
        Ok(match &self.make {
            Make::Plain(entry) => (entry.build)(context)?,
            Make::Tuned(knobs) => Box::new(KvAware::tuned(context, knobs, None)?),
            Make::Alone(entry, count) => {
                let members: Result<Vec<_>, _> =
                    (0..*count).map(|index| (entry.build)(&own(index))).collect();
                Box::new(Several::new(self.name.clone(), members?))
            }
            Make::AloneTuned(knobs, count) => {
                let member = |index| KvAware::tuned(&own(index), knobs, None);
                let members: Result<Vec<_>, _> = (0..*count).map(member).collect();
                Box::new(Several::new(self.name.clone(), members?))
            }
            Make::Sharing(knobs, count, interval) => {
                Box::new(SharedLoad::new(self.name.clone(), context, knobs, *count, *interval)?)
            }
        })
    }
}

fn entries() -> impl Iterator<Item = PolicyEntry> {
    POLICIES.iter().copied().chain([BEST_PREFIX])
}
