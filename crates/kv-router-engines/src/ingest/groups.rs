//! The cache groups of a hybrid model, learned from stores: removals name only the group's number.
//!
//! One group is indexed, the first whose blocks say how much of a prompt is cached. A model may have several such, each
//! for some of its layers, with the same names for the same content. A prompt is cached as far as all of them have it, so
//! a block that only one of them still has must not be found. What one of them says is never more than what two would say
//! together, and an engine gives up blocks of the first before those of the others.

/// Whether the blocks of a group say how much of a prompt is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupUse {
    /// The group that is indexed. It keeps every block of a prompt: full, latent (MLA) or sink attention.
    Indexed,
    /// A group that drops blocks by design (windows, recurrent state), of which nothing is known, or beside which another
    /// one is indexed.
    Other,
}

/// Groups of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// Few: a model has a handful. One of them is indexed at most.
    pub(super) known: Vec<(u32, GroupUse)>,
}

impl Groups {
    /// More are not remembered, and not indexed.
    pub(super) const MOST: usize = 64;

    /// What a store says about its group. Engines before hybrid groups do not name one: it is group 0.
    pub(super) fn learn(&mut self, group: u32, kind: Option<&str>) -> GroupUse {
        let Some(kind) = kind else { return self.get(group) };
        let keeps_all = matches!(kind, "full_attention" | "mla_attention" | "sink_full_attention");
        let is_first = self.known.iter().all(|&(other, used)| other == group || used == GroupUse::Other);
        let used = if keeps_all && is_first { GroupUse::Indexed } else { GroupUse::Other };
        match self.known.iter().position(|(known, _)| *known == group) {
            Some(index) => self.known[index].1 = used,
            None if self.known.len() == Self::MOST => return GroupUse::Other,
            None => self.known.push((group, used)),
        }
        used
    }

    /// What is known of the group of a removal.
    pub(super) fn get(&self, group: u32) -> GroupUse {
        if self.indexed() == Some(group) { GroupUse::Indexed } else { GroupUse::Other }
    }

    /// The group that is indexed. vLLM 0.20 and 0.21 number groups without saying what they are; the first is the main
    /// one.
    pub(super) fn indexed(&self) -> Option<u32> {
        let named = self.known.iter().find(|(_, used)| *used == GroupUse::Indexed);
        let first_is_unnamed = || self.known.iter().all(|(group, _)| *group != 0).then_some(0);
        named.map(|(group, _)| *group).or_else(first_is_unnamed)
    }
}
