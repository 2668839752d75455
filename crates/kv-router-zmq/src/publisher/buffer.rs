//! The last batches, for whoever missed some.

use std::collections::VecDeque;
use std::sync::Arc;

/// A run of batches without holes: bounded in number and in bytes, the oldest leave.
pub(super) struct ReplayBuffer {
    batches: VecDeque<Arc<[u8]>>,
    /// The number of the oldest.
    first: u64,
    bytes: usize,
    max_batches: usize,
    max_bytes: usize,
}

impl ReplayBuffer {
    pub(super) fn new(max_batches: usize, max_bytes: usize) -> Self {
        Self { batches: VecDeque::new(), first: 0, bytes: 0, max_batches, max_bytes }
    }

    /// Adds the next batch. One that is larger than the buffer empties it.
    pub(super) fn push(&mut self, payload: Arc<[u8]>) {
        self.bytes += payload.len();
        self.batches.push_back(payload);
        while self.batches.len() > self.max_batches || self.bytes > self.max_bytes {
            let Some(oldest) = self.batches.pop_front() else { return };
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// The batch of this number, or the oldest after it.
    pub(super) fn at_or_after(&self, sequence: u64) -> Option<(u64, &Arc<[u8]>)> {
        let sequence = sequence.max(self.first);
        let place = usize::try_from(sequence - self.first).ok()?;
        Some((sequence, self.batches.get(place)?))
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leave_by_number_and_by_bytes() {
        let mut buffer = ReplayBuffer::new(3, 10);
        assert!(buffer.at_or_after(0).is_none());
        for byte in 0..5_u8 {
            buffer.push(Arc::from([byte]));
        }
        assert_eq!((buffer.len(), buffer.bytes()), (3, 3));
        let at = |buffer: &ReplayBuffer, sequence| buffer.at_or_after(sequence).map(|(at, b)| (at, b[0]));
        assert_eq!(at(&buffer, 0), Some((2, 2)));
        assert_eq!(at(&buffer, 3), Some((3, 3)));
        assert_eq!(at(&buffer, 5), None);
        assert_eq!(at(&buffer, u64::MAX), None);
        buffer.push(Arc::from([5; 9]));
        assert_eq!((buffer.len(), at(&buffer, 0)), (2, Some((4, 4))));
        buffer.push(Arc::from([6; 11])); // larger than all
        assert_eq!((buffer.len(), buffer.bytes(), at(&buffer, 0)), (0, 0, None));
        buffer.push(Arc::from([7]));
        assert_eq!(at(&buffer, 0), Some((7, 7)));
    }
}
