//! The batches of one rank that can be had again: numbers new ones, forgets old ones. Pure.

use std::collections::VecDeque;

use bytes::Bytes;
use kv_router_transport::{BatchCodec, EventBatch, Incarnation};
use kv_router_types::{KvEvent, WorkerRank};

use crate::error::RequestError;
use crate::replay::{Ask, FRAME_HEAD_BYTES, PAGE_HEAD_BYTES, Page};

/// Memory of a kept frame beside its bytes.
const ENTRY_BYTES: usize = 64;

/// The last batches of one life of a rank. Their numbers have no gaps.
#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    from: WorkerRank,
    incarnation: Incarnation,
    next: u64,
    frames: VecDeque<Bytes>,
    bytes: usize,
    limit: usize,
}

impl ReplayBuffer {
    pub(crate) fn new(from: WorkerRank, incarnation: Incarnation, limit: usize) -> Self {
        Self { from, incarnation, next: 0, frames: VecDeque::new(), bytes: 0, limit }
    }

    /// Numbers a batch and keeps its frame. Frames that no longer fit go, the oldest first; the newest stays.
    pub(crate) fn push(&mut self, events: Vec<KvEvent>) -> Result<Bytes, RequestError> {
        // The last number is what engines end a replay with, and the one before has no successor.
        if self.next >= u64::MAX - 1 {
            return Err(RequestError::Exhausted);
        }
        let (from, incarnation, sequence) = (self.from, self.incarnation, self.next);
        let mut frame = Vec::new();
        BatchCodec::default().encode(&EventBatch { from, incarnation, sequence, events }, &mut frame)?;
        frame.shrink_to_fit(); // it may be kept for long
        let frame = Bytes::from(frame);
        self.next += 1;
        self.bytes += ENTRY_BYTES + frame.len();
        self.frames.push_back(frame.clone());
        while self.bytes > self.limit && self.frames.len() > 1 {
            let oldest = self.frames.pop_front().map_or(0, |frame| ENTRY_BYTES + frame.len());
            self.bytes -= oldest;
        }
        Ok(frame)
    }

    /// The newest frame.
    pub(super) fn newest(&self) -> Option<&Bytes> {
        self.frames.back()
    }

    /// The number of the next batch.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The earliest batches asked for that are still there, as many as fit into `page_bytes`, one at least.
    pub(crate) fn page(&self, ask: &Ask, page_bytes: usize) -> Page {
        let oldest = self.next - self.frames.len() as u64;
        let (from, to) = if ask.incarnation == self.incarnation { (ask.from, ask.to) } else { (0, u64::MAX) };
        let skipped = usize::try_from(from.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let wanted = to.saturating_sub(from.max(oldest)).saturating_add(1);
        let wanted = if to < from.max(oldest) { 0 } else { usize::try_from(wanted).unwrap_or(usize::MAX) };
        let mut bytes = PAGE_HEAD_BYTES;
        let frames = self.frames.iter().skip(skipped).take(wanted);
        let fitting = frames.enumerate().take_while(|(at, frame)| {
            bytes += FRAME_HEAD_BYTES + frame.len();
            *at == 0 || bytes <= page_bytes
        });
        Page {
            incarnation: self.incarnation,
            next: self.next,
            frames: fitting.map(|(_, frame)| frame.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kv_router_types::WorkerId;

    use super::*;

    fn buffer(batches: u64, limit: usize) -> ReplayBuffer {
        let mut buffer = ReplayBuffer::new(WorkerId::new(1).into(), Incarnation::new(4), limit);
        for _ in 0..batches {
            buffer.push(vec![KvEvent::Cleared]).unwrap();
        }
        buffer
    }

    #[track_caller]
    fn check(buffer: &ReplayBuffer, life: u64, from: u64, to: u64, page_bytes: usize, expected: &[u64]) {
        let page = buffer.page(&Ask { incarnation: Incarnation::new(life), from, to }, page_bytes);
        let codec = BatchCodec::default();
        let found: Vec<u64> = page.frames.iter().map(|frame| codec.decode(frame).unwrap().sequence).collect();
        assert_eq!(found, expected);
        assert_eq!(page.next, buffer.next());
    }

    #[test]
    fn a_page_has_what_was_asked_for() {
        let buffer = buffer(6, usize::MAX);
        check(&buffer, 4, 2, 3, 1 << 20, &[2, 3]);
        check(&buffer, 4, 4, u64::MAX, 1 << 20, &[4, 5]);
        check(&buffer, 4, 6, u64::MAX, 1 << 20, &[]);
        check(&buffer, 4, 3, 2, 1 << 20, &[]);
        check(&buffer, 4, 1, 5, 1, &[1]);
        check(&buffer, 3, 5, 5, 1 << 20, &[0, 1, 2, 3, 4, 5]);
        check(&buffer, 4, u64::MAX, u64::MAX, 1 << 20, &[]);
    }

    #[test]
    fn a_frame_takes_no_more_memory_than_is_counted() {
        let mut buffer = buffer(0, usize::MAX);
        for count in [0, 1, 5, 300] {
            buffer.push(vec![KvEvent::Cleared; count]).unwrap();
            let frame = buffer.frames.pop_back().unwrap();
            let bytes = frame.len();
            let memory = frame.try_into_mut().unwrap().capacity();
            assert!(memory <= bytes + ENTRY_BYTES, "{memory} for {bytes}");
        }
    }

    #[test]
    fn the_oldest_go_and_the_newest_stays() {
        let one = buffer(1, usize::MAX).bytes;
        let kept = buffer(6, 2 * one);
        check(&kept, 4, 0, u64::MAX, 1 << 20, &[4, 5]);
        check(&kept, 4, 1, 3, 1 << 20, &[]);
        let kept = buffer(6, 0);
        check(&kept, 4, 0, u64::MAX, 1 << 20, &[5]);
        assert_eq!(kept.bytes, one);
    }
}
