//! Bursts of evictions: vLLM and TensorRT-LLM send an event for each block, and all the bytes around its name are those
//! of the event before.
//!
//! What is equal byte for byte means the same, so such an event is a copy of the last one with a name of its own. This
//! holds for every form and release, and for fields that nobody knows yet.

use super::WireBatch;
use super::event::{EventKind, RawEvent, Span};
use crate::limits::DecodeLimits;
use crate::msgpack::Reader;

/// The lists of names that an event has had so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HashLists {
    count: u32,
    /// Where the names of the last one start in the payload.
    at: usize,
}

impl HashLists {
    pub(super) fn add(&mut self, at: usize) {
        *self = Self { count: self.count.saturating_add(1), at };
    }
}

/// A removal of one block, and the bytes before and after its name.
#[derive(Debug)]
pub(super) struct Burst<'a> {
    event: RawEvent,
    before: &'a [u8],
    after: &'a [u8],
}

impl WireBatch {
    /// What the next event may repeat, after the one that began at `start` was read without a fault.
    pub(super) fn burst<'a>(&self, reader: &Reader<'a>, start: usize) -> Option<Burst<'a>> {
        let HashLists { count: 1, at } = self.hash_lists else { return None };
        let event = self.events.last().filter(|event| event.kind == EventKind::Removed)?;
        if event.hashes.length != 1 {
            return None;
        }
        let mut name = reader.clone();
        name.rewind(at);
        name.skip().ok()?;
        let all = reader.since(start);
        Some(Burst { event: *event, before: all.get(..at - start)?, after: all.get(name.at() - start..)? })
    }

    /// Reads an event that repeats the last one. `false`, and nothing is read, when it does not.
    #[inline]
    pub(super) fn read_repeated(
        &mut self,
        burst: &Burst<'_>,
        reader: &mut Reader<'_>,
        limits: &DecodeLimits,
    ) -> bool {
        let start = reader.at();
        let at = self.hashes.len();
        if at < limits.hashes && reader.same(burst.before) {
            let hash = self.read_hash(reader);
            if let Ok(hash) = hash
                && reader.same(burst.after)
            {
                self.hashes.push(hash);
                self.events.push(burst.event.with_hashes(Span::new(at, at + 1)));
                return true;
            }
        }
        reader.rewind(start);
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BatchEncoder, EventForm, RemoveFields, WireHash};

    const DIGEST: [u8; 32] = [0xa5; 32];

    /// The bytes of one event, and damage to them: a byte, and what it becomes.
    fn event(form: bool, name: u64, medium: u8, group: bool, damage: Option<(usize, u8)>) -> Vec<u8> {
        let form = if form { EventForm::Map } else { EventForm::ARRAY_WITH_MEDIA };
        let hashes = [match name % 4 {
            0 => WireHash::Unsigned(name % 300),
            1 => WireHash::Negative(-((name % 300) as i64) - 1),
            2 => WireHash::Digest(&DIGEST[..1 + (name % 32) as usize]),
            _ => WireHash::Unsigned(name),
        }];
        let named = if name.is_multiple_of(7) { &[] } else { &hashes[..] };
        let medium = [None, Some("GPU"), Some("CPU")][usize::from(medium % 3)];
        let mut encoder = BatchEncoder::new(form);
        encoder.removed(&RemoveFields { hashes: named, medium, group: group.then_some(3) });
        let mut payload = Vec::new();
        encoder.finish(0.0, None, &mut payload);
        // An array of three with a float, and the head of the list of events; a nil after them.
        let mut body = payload[11..payload.len() - 1].to_vec();
        if let Some((at, byte)) = damage {
            let at = at % body.len();
            body[at] = byte;
        }
        body
    }

    /// Everything that can be seen of a payload with these events.
    fn seen(events: &[Vec<u8>]) -> Option<(Vec<String>, u64)> {
        let mut payload = vec![0x93, 0x00, 0xdc];
        payload.extend((events.len() as u16).to_be_bytes());
        payload.extend(events.concat());
        payload.push(0xc0);
        let mut batch = WireBatch::new();
        batch.decode(&payload, &DecodeLimits::default()).ok()?;
        let events = batch.events().map(|event| {
            let hashes: Vec<_> = event.hashes().iter().collect();
            format!("{:?} {hashes:?} {:?} {:?}", event.kind(), event.medium(), event.group())
        });
        Some((events.collect(), batch.faults().total()))
    }

    proptest! {
        #[test]
        fn a_burst_is_read_as_its_events_are_one_by_one(
            runs in prop::collection::vec((any::<bool>(), 0_u8..3, any::<bool>(), prop::collection::vec(any::<u64>(), 1..6),
                prop::option::weighted(0.3, (any::<usize>(), any::<u8>()))), 1..6),
        ) {
            let events = runs.iter().flat_map(|(form, medium, group, names, damage)| {
                let last = names.len() - 1;
                names.iter().enumerate().map(move |(at, name)| {
                    event(*form, *name, *medium, *group, damage.filter(|_| at == last))
                })
            });
            let (mut bodies, mut expected, mut faults) = (Vec::new(), Vec::new(), 0);
            for body in events {
                // Damage that goes beyond its event is for other tests.
                if let Some((seen, lost)) = seen(std::slice::from_ref(&body)) {
                    bodies.push(body);
                    expected.extend(seen);
                    faults += lost;
                }
            }
            prop_assert_eq!(seen(&bodies), Some((expected, faults)));
        }
    }
}
