//! Cache salts of the chains that have one: on the wire a salt stands at the first block alone.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A salt in a [`SaltTable`]; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SaltId(u32);

impl SaltId {
    pub(super) const NONE: Self = Self(0);
    /// No number is larger.
    pub(super) const MOST: u32 = (1 << 26) - 1;

    /// `number` is at most [`SaltId::MOST`].
    pub(super) fn from_number(number: u32) -> Self {
        debug_assert!(number <= Self::MOST);
        Self(number)
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Debug)]
struct Slot {
    text: Arc<str>,
    /// Names that are under this salt.
    names: usize,
}

/// Salts in use, each once. One goes when its last name does.
#[derive(Clone, Debug, Default)]
pub(super) struct SaltTable {
    ids: FxHashMap<Arc<str>, u32>,
    /// `slots[id - 1]`; `None` where it is free.
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl SaltTable {
    /// The salt's id; `None` when there are too many. Not counted yet: [`SaltTable::hold`] counts whoever needs it,
    /// [`SaltTable::tidy`] takes back an id that nobody does.
    pub(super) fn id(&mut self, salt: &str) -> Option<SaltId> {
        if let Some(&id) = self.ids.get(salt) {
            return Some(SaltId(id));
        }
        if self.free.is_empty() && self.slots.len() == SaltId::MOST as usize {
            return None;
        }
        let text: Arc<str> = salt.into();
        let slot = Some(Slot { text: Arc::clone(&text), names: 0 });
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize - 1] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32
            }
        };
        self.ids.insert(text, id);
        Some(SaltId(id))
    }

    /// Every salt, with its id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SaltId, &str)> {
        self.ids.iter().map(|(text, &id)| (SaltId(id), &**text))
    }

    pub(super) fn text(&self, id: SaltId) -> Option<Arc<str>> {
        let slot = self.slots.get((id.0 as usize).checked_sub(1)?)?.as_ref()?;
        Some(Arc::clone(&slot.text))
    }

    pub(super) fn hold(&mut self, id: SaltId) {
        if let Some(slot) = self.slot(id) {
            slot.names += 1;
        }
    }

    pub(super) fn release(&mut self, id: SaltId) {
        if let Some(slot) = self.slot(id) {
            slot.names = slot.names.saturating_sub(1);
            self.tidy(id);
        }
    }

    /// Forgets the salt if no name is under it.
    pub(super) fn tidy(&mut self, id: SaltId) {
        let Some(index) = (id.0 as usize).checked_sub(1) else { return };
        let unused = self.slots.get_mut(index).and_then(|slot| slot.take_if(|slot| slot.names == 0));
        if let Some(slot) = unused {
            self.ids.remove(&slot.text);
            self.free.push(id.0);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Salts that are kept.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    fn slot(&mut self, id: SaltId) -> Option<&mut Slot> {
        self.slots.get_mut((id.0 as usize).checked_sub(1)?)?.as_mut()
    }
}
