//! A hashed timing wheel: finds the entries that are due without looking at the others.

use super::list::{Links, List};

/// Slots of the wheel: one turn is 256 ticks, more than the default life of 120. An entry that lives for longer is
/// looked at once a turn.
const SLOTS: u64 = 256;

/// When something is due, in ticks from the origin.
pub(super) type Tick = u64;

/// Entries by the tick at which to look at them again.
///
/// Renewing an entry does not touch the wheel: when its slot comes up, whoever asked puts it off to its new deadline.
/// So renewals are free, and each entry costs O(1) a life or a turn, whichever is shorter.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    slots: Vec<List>,
    links: Links,
    /// All slots up to this tick were drained.
    now: Tick,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { slots: vec![List::EMPTY; SLOTS as usize], links: Links::default(), now: 0 }
    }

    pub(super) fn now(&self) -> Tick {
        self.now
    }

    /// Puts an entry that is not in the wheel up for `due`. Returns the slot, which [`cancel`](Self::cancel) needs.
    pub(super) fn schedule(&mut self, id: u32, due: Tick) -> u8 {
        debug_assert!(due > self.now, "what is due is not scheduled");
        let slot = due % SLOTS;
        self.links.cover(id);
        self.links.push_last(&mut self.slots[slot as usize], id);
        slot as u8
    }

    /// Takes an entry out of the slot that it is in.
    pub(super) fn cancel(&mut self, id: u32, slot: u8) {
        self.links.take_out(&mut self.slots[usize::from(slot)], id);
    }

    /// Moves on to `now` and takes every entry out whose slot came up. They are appended to `drained`: all that are
    /// due, and some that are only due in a later turn or were renewed.
    ///
    /// Cost: the slots that came up, a turn at most, and the entries in them.
    pub(super) fn advance(&mut self, now: Tick, drained: &mut Vec<u32>) {
        let turns = now.saturating_sub(self.now).min(SLOTS);
        for step in 1..=turns {
            let slot = &mut self.slots[((self.now + step) % SLOTS) as usize];
            while let Some(id) = self.links.take_first(slot) {
                drained.push(id);
            }
        }
        self.now = self.now.max(now);
    }

    /// Gives the memory of the entries back. None may be left.
    pub(super) fn release(&mut self) {
        debug_assert!(self.slots.iter().all(|slot| slot.first().is_none()));
        self.links.release();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Schedule { id: u32, after: Tick },
        Cancel { id: u32 },
        Advance { by: Tick },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0u32..20, 1u64..1_000).prop_map(|(id, after)| Step::Schedule { id, after }),
            1 => (0u32..20).prop_map(|id| Step::Cancel { id }),
            2 => prop_oneof![0u64..5, 0u64..2_000].prop_map(|by| Step::Advance { by }),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Entries that are not due when their slot comes up are put off again, as the index does.
        #[test]
        fn every_entry_comes_up_at_its_tick(steps in steps()) {
            let mut wheel = Wheel::new();
            let mut model: BTreeMap<u32, (Tick, u8)> = BTreeMap::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Schedule { id, after } => {
                        model.entry(id).or_insert_with(|| (now + after, wheel.schedule(id, now + after)));
                    }
                    Step::Cancel { id } => {
                        if let Some((_, slot)) = model.remove(&id) {
                            wheel.cancel(id, slot);
                        }
                    }
                    Step::Advance { by } => {
                        now += by;
                        let mut drained = vec![];
                        wheel.advance(now, &mut drained);
                        prop_assert_eq!(wheel.now(), now);
                        let mut due = vec![];
                        for id in drained {
                            let (deadline, slot) = model.get_mut(&id).expect("scheduled");
                            if *deadline <= now {
                                due.push(id);
                            } else {
                                *slot = wheel.schedule(id, *deadline);
                            }
                        }
                        due.sort_unstable();
                        let expected: Vec<u32> =
                            model.iter().filter(|(_, (due, _))| *due <= now).map(|(&id, _)| id).collect();
                        prop_assert_eq!(&due, &expected);
                        due.iter().for_each(|id| { model.remove(id); });
                    }
                }
            }
        }
    }
}
