//! Cuts what happened into batches whose frames fit one message.

use kv_router_types::KvEvent;

/// Bytes of a frame with no event in it.
const FRAME_BYTES: usize = 16 + 32;
/// Bytes of an event with no block in it.
const EVENT_BYTES: usize = 16;
/// Bytes of a stored block, and of a removed one.
const STORED_BYTES: usize = 16;
const REMOVED_BYTES: usize = 8;
/// Most events of one batch: below what a reader takes.
const MOST_EVENTS: usize = 1 << 14;

/// The least frame that something can be cut to.
pub(super) const LEAST_FRAME_BYTES: usize = 1024;

/// In order, whole, and each at most `frame_bytes`, which must be at least [`LEAST_FRAME_BYTES`]. A store is
/// continued under its last block. No events are one empty batch.
pub(super) fn split(events: Vec<KvEvent>, frame_bytes: usize) -> Vec<Vec<KvEvent>> {
    let room = frame_bytes - FRAME_BYTES;
    let (mut batches, mut batch, mut used) = (Vec::new(), Vec::new(), 0);
    for event in events {
        for piece in pieces(event, room - EVENT_BYTES) {
            let bytes = event_bytes(&piece);
            if used + bytes > room || batch.len() == MOST_EVENTS {
                batches.push(std::mem::take(&mut batch));
                used = 0;
            }
            used += bytes;
            batch.push(piece);
        }
    }
    if !batch.is_empty() || batches.is_empty() {
        batches.push(batch);
    }
    batches
}

fn event_bytes(event: &KvEvent) -> usize {
    EVENT_BYTES
        + match event {
            KvEvent::Stored { blocks, .. } => blocks.len() * STORED_BYTES,
            KvEvent::Removed { blocks, .. } => blocks.len() * REMOVED_BYTES,
            KvEvent::Cleared => 0,
        }
}

fn pieces(event: KvEvent, room: usize) -> Vec<KvEvent> {
    if event_bytes(&event) <= room + EVENT_BYTES {
        return vec![event];
    }
    match event {
        KvEvent::Stored { tier, mut parent, blocks } => blocks
            .chunks(room / STORED_BYTES)
            .map(|piece| {
                let above = parent;
                parent = piece.last().map(|block| block.external);
                KvEvent::Stored { tier, parent: above, blocks: piece.to_vec() }
            })
            .collect(),
        KvEvent::Removed { tier, blocks } => blocks
            .chunks(room / REMOVED_BYTES)
            .map(|piece| KvEvent::Removed { tier, blocks: piece.to_vec() })
            .collect(),
        KvEvent::Cleared => vec![KvEvent::Cleared],
    }
}

#[cfg(test)]
mod tests {
    use kv_router_transport::{BatchCodec, EventBatch, Incarnation};
    use kv_router_types::{ExternalSequenceHash, LocalBlockHash, StoredBlock, Tier, WorkerId};

    use super::*;

    fn stored(from: u64, count: u64) -> KvEvent {
        let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
        KvEvent::Stored {
            tier: Tier::Device,
            parent: (from > 0).then(|| ExternalSequenceHash::new(from - 1)),
            blocks: (from..from + count).map(block).collect(),
        }
    }

    fn removed(count: u64) -> KvEvent {
        KvEvent::Removed { tier: Tier::Host, blocks: (0..count).map(ExternalSequenceHash::new).collect() }
    }

    /// What the events do, one block an event.
    fn flat(events: &[KvEvent]) -> Vec<KvEvent> {
        let mut all = Vec::new();
        for event in events {
            match event {
                KvEvent::Stored { tier, parent, blocks } => {
                    let mut above = *parent;
                    for block in blocks {
                        all.push(KvEvent::Stored { tier: *tier, parent: above, blocks: vec![*block] });
                        above = Some(block.external);
                    }
                }
                KvEvent::Removed { tier, blocks } => {
                    all.extend(blocks.iter().map(|b| KvEvent::Removed { tier: *tier, blocks: vec![*b] }));
                }
                KvEvent::Cleared => all.push(KvEvent::Cleared),
            }
        }
        all
    }

    #[test]
    fn frames_fit_and_together_say_the_same() {
        let events = vec![stored(0, 500), removed(1000), KvEvent::Cleared, stored(0, 3), stored(3, 59)];
        for frame_bytes in [LEAST_FRAME_BYTES, 1037, 4096, 1 << 18] {
            let batches = split(events.clone(), frame_bytes);
            assert_eq!(flat(&batches.concat()), flat(&events));
            for events in batches {
                let mut frame = Vec::new();
                let (from, incarnation) = (WorkerId::new(1).into(), Incarnation::new(1));
                BatchCodec::default()
                    .encode(&EventBatch { from, incarnation, sequence: 0, events }, &mut frame)
                    .unwrap();
                assert!(frame.len() <= frame_bytes, "{} > {frame_bytes}", frame.len());
            }
        }
    }

    #[test]
    fn nothing_is_one_empty_batch_and_many_events_are_several() {
        assert_eq!(split(vec![], 4096), [vec![]]);
        let batches = split(vec![KvEvent::Cleared; MOST_EVENTS + 1], 1 << 20);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [MOST_EVENTS, 1]);
    }
}
