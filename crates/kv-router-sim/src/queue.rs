//! What happens next: a queue in virtual time. Ties happen in the order they were scheduled.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::SimTime;

/// A queue in virtual time. Push and pop cost O(log n).
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Entry<T>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: SimTime,
    /// Counts what was scheduled: the order among equal times.
    order: u64,
    item: T,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0 }
    }

    pub(crate) fn schedule(&mut self, at: SimTime, item: T) {
        self.heap.push(Entry { at, order: self.scheduled, item });
        self.scheduled += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(SimTime, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.item))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed, because `BinaryHeap` pops its greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_insertion() {
        let mut queue = EventQueue::new();
        for (at, item) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b'), (2, 'e')] {
            queue.schedule(SimTime::from_nanos(at), item);
        }
        let order: String = std::iter::from_fn(|| queue.next()).map(|(_, item)| item).collect();
        assert_eq!(order, "abcde");
    }
}
