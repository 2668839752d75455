//! The cache groups of a hybrid model, learned from stores: removals name only the group's number.

/// Whether the blocks of a group say how much of a prompt is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupUse {
    /// A group that keeps every block of a prompt: full, latent (MLA) or sink attention.
    Indexed,
    /// A group that drops blocks by design (windows, recurrent state), or of which nothing is known.
    Other,
}

/// Groups of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// Few: a model has a handful.
    pub(super) known: Vec<(u32, GroupUse)>,
}

impl Groups {
    /// More are not remembered, and not indexed.
    pub(super) const MOST: usize = 64;

    /// What a store says about its group. Engines before hybrid groups do not name one: it is group 0.
    pub(super) fn learn(&mut self, group: u32, kind: Option<&str>) -> GroupUse {
        let Some(kind) = kind else { return self.get(group) };
        let used = match kind {
            "full_attention" | "mla_attention" | "sink_full_attention" => GroupUse::Indexed,
            _ => GroupUse::Other,
        };
        match self.known.iter().position(|(known, _)| *known == group) {
            Some(index) => self.known[index].1 = used,
            None if self.known.len() == Self::MOST => return GroupUse::Other,
            None => self.known.push((group, used)),
        }
        used
    }

    /// What is known of the group of a removal.
    pub(super) fn get(&self, group: u32) -> GroupUse {
        let found = self.known.iter().find(|(known, _)| *known == group);
        found.map_or(unnamed(group), |&(_, used)| used)
    }
}

/// vLLM 0.20 and 0.21 number groups without saying what they are; the first is the main one.
fn unnamed(group: u32) -> GroupUse {
    if group == 0 { GroupUse::Indexed } else { GroupUse::Other }
}
