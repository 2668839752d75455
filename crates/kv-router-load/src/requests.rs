//! The requests in flight on the ranks of one shard.

use std::time::{Duration, Instant};

use kv_router_types::RequestId;

use crate::prompts::{RunId, Slot};

/// Names one booking for ever: a place is used again, a serial number is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    index: u32,
    serial: u64,
}

/// Who booked a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This tracker's caller.
    Own,
    /// Another replica, which says itself when its requests expire.
    Replica,
}

/// What one request adds to the load of its rank, apart from its prompt.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Option<RequestId>,
    pub(crate) origin: Origin,
    pub(crate) slot: Slot,
    /// Where the prompt ends in the tree.
    pub(crate) end: RunId,
    /// The blocks of its prompt.
    pub(crate) prompt_blocks: u64,
    /// 0 once the prefill has completed.
    pub(crate) prefill_tokens: u64,
    pub(crate) private_blocks: u32,
    pub(crate) output_blocks: u32,
    /// Never goes back, although two threads may report in the wrong order.
    pub(crate) last_activity: Instant,
}

impl RequestKey {
    /// A number that no other booking of the same shard ever has.
    pub(crate) const fn serial(self) -> u64 {
        self.serial
    }
}

impl Request {
    /// Blocks that the request holds alone.
    pub(crate) fn own_blocks(&self) -> u64 {
        u64::from(self.private_blocks) + u64::from(self.output_blocks)
    }

    /// How long nothing has been heard of the request.
    pub(crate) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_activity)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Each with its serial number.
    places: Vec<Option<(u64, Request)>>,
    free: Vec<u32>,
    next_serial: u64,
}

impl Requests {
    pub(crate) fn insert(&mut self, request: Request) -> RequestKey {
        let serial = self.next_serial;
        self.next_serial += 1;
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some((serial, request));
                index
            }
            None => {
                self.places.push(Some((serial, request)));
                // Fits: `LoadConfig::MAX_REQUESTS` bounds our own and those of others, each.
                (self.places.len() - 1) as u32
            }
        };
        RequestKey { index, serial }
    }

    /// The request, unless it was given back.
    pub(crate) fn get(&self, key: RequestKey) -> Option<&Request> {
        match self.places.get(key.index as usize) {
            Some(Some((serial, request))) if *serial == key.serial => Some(request),
            _ => None,
        }
    }

    /// The request, unless it was given back.
    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Request> {
        match self.places.get_mut(key.index as usize) {
            Some(Some((serial, request))) if *serial == key.serial => Some(request),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<Request> {
        self.get(key)?;
        let (_, request) = self.places[key.index as usize].take()?;
        self.free.push(key.index);
        Some(request)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestKey, &Request)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let (serial, request) = place.as_ref()?;
            Some((RequestKey { index: index as u32, serial: *serial }, request))
        })
    }
}
