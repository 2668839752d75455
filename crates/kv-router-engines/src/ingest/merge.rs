//! Engine blocks smaller than ours: a block of ours is there when all its parts are.
//!
//! Parts are remembered by name with the tokens of their block so far. A part that is gone stays as a shell while
//! parts after it in the same block are known, so that it completes the block again when it is stored again.

use kv_router_types::{LocalBlockHash, Tier};
use rustc_hash::FxHashMap;

use super::Presence;
use super::salts::SaltId;

/// One block of the engine.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The part before it in the same block of ours; `None` in the first.
    pub(super) before: Option<u64>,
    /// The block of ours that this one continues.
    pub(super) base: Option<u64>,
    /// Tokens of the block of ours up to the end of this part.
    pub(super) tokens: Box<[u32]>,
    /// The content of the block of ours, in its last part.
    pub(super) whole: Option<LocalBlockHash>,
    pub(super) salt: SaltId,
    pub(super) copies: [u32; Tier::COUNT],
    /// Parts that come right after this one in the same block.
    kids: u32,
    /// Last parts of the blocks that this one is in, itself not included.
    wholes: Vec<u64>,
}

impl Part {
    pub(super) fn new(before: Option<u64>, base: Option<u64>, tokens: Box<[u32]>, salt: SaltId) -> Self {
        let (copies, wholes) = ([0; Tier::COUNT], Vec::new());
        Self { before, base, tokens, whole: None, salt, copies, kids: 0, wholes }
    }

    pub(super) fn is_held(&self) -> bool {
        self.copies != [0; Tier::COUNT]
    }

    pub(super) fn is_in(&self, tier: Tier) -> bool {
        self.copies[tier.index()] > 0
    }

    /// Whether the other is the same part of the same block.
    fn equals(&self, other: &Self) -> bool {
        (self.before, self.base, self.salt) == (other.before, other.base, other.salt)
            && self.tokens == other.tokens
    }
}

/// What a store or a removal of a part changed in a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartChange {
    /// The tier has it now, or has it no longer: blocks that it is in change too.
    Tier,
    /// One copy more or less.
    Copy,
    /// There was none.
    Unknown,
}

/// Parts of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    parts: FxHashMap<u64, Part>,
}

impl Parts {
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Part)> {
        self.parts.iter().map(|(&name, part)| (name, part))
    }

    pub(super) fn get(&self, name: u64) -> Option<&Part> {
        self.parts.get(&name)
    }

    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    /// Whether a name is known as something else than `part`.
    pub(super) fn differs(&self, name: u64, part: &Part) -> bool {
        self.get(name).is_some_and(|known| !known.equals(part))
    }

    /// Remembers a part, without a copy yet. Whether it is new.
    pub(super) fn insert(&mut self, name: u64, part: Part) -> bool {
        if self.parts.contains_key(&name) {
            return false;
        }
        if let Some(before) = part.before.and_then(|before| self.parts.get_mut(&before)) {
            before.kids += 1;
        }
        if part.whole.is_some() {
            let mut before = part.before;
            while let Some(step) = before.and_then(|step| self.parts.get_mut(&step)) {
                step.wholes.push(name);
                before = step.before;
            }
        }
        self.parts.insert(name, part);
        true
    }

    pub(super) fn add(&mut self, name: u64, tier: Tier, presence: Presence) -> PartChange {
        let Some(part) = self.parts.get_mut(&name) else { return PartChange::Unknown };
        let copies = &mut part.copies[tier.index()];
        if *copies == 0 {
            *copies = 1;
            return PartChange::Tier;
        }
        if presence == Presence::Copies {
            *copies = copies.saturating_add(1);
        }
        PartChange::Copy
    }

    pub(super) fn take(&mut self, name: u64, tier: Tier) -> PartChange {
        let Some(part) = self.parts.get_mut(&name) else { return PartChange::Unknown };
        let copies = &mut part.copies[tier.index()];
        match *copies {
            0 => PartChange::Unknown,
            1 => {
                *copies = 0;
                PartChange::Tier
            }
            _ => {
                *copies -= 1;
                PartChange::Copy
            }
        }
    }

    /// Takes all copies in a tier. Whether there were any.
    pub(super) fn take_all(&mut self, name: u64, tier: Tier) -> bool {
        let part = self.parts.get_mut(&name);
        part.is_some_and(|part| std::mem::take(&mut part.copies[tier.index()]) > 0)
    }

    /// Last parts of the blocks that a part is in.
    pub(super) fn wholes(&self, name: u64) -> Vec<u64> {
        let Some(part) = self.get(name) else { return Vec::new() };
        let mut wholes = part.wholes.clone();
        wholes.extend(part.whole.map(|_| name));
        wholes
    }

    /// The last part of a block, if the tier has every part of it.
    pub(super) fn complete(&self, whole: u64, tier: Tier) -> Option<&Part> {
        let last = self.get(whole)?;
        let mut step = last;
        loop {
            if !step.is_in(tier) {
                return None;
            }
            match step.before {
                None => return Some(last),
                Some(before) => step = self.get(before)?,
            }
        }
    }

    /// Forgets a part, and those before it, that no tier has and nothing needs. Calls `released` with their salts.
    pub(super) fn forget_dead(&mut self, name: u64, mut released: impl FnMut(SaltId)) {
        let mut next = Some(name);
        while let Some(name) = next {
            let Some(dead) = self.get(name).filter(|part| part.kids == 0 && !part.is_held()) else { return };
            released(dead.salt);
            let (whole, before) = (dead.whole.is_some(), dead.before);
            self.parts.remove(&name);
            let mut step = before.filter(|_| whole);
            while let Some(part) = step.and_then(|step| self.parts.get_mut(&step)) {
                part.wholes.retain(|&whole| whole != name);
                step = part.before;
            }
            if let Some(before) = before.and_then(|before| self.parts.get_mut(&before)) {
                before.kids = before.kids.saturating_sub(1);
            }
            next = before;
        }
    }
}
