//! Order, bounds and close of the in-process channel.

use std::thread;

use kv_router_types::{WorkerId, WorkerRank};

use super::*;
use crate::Incarnation;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(1);

fn batch(sequence: u64) -> EventBatch {
    EventBatch {
        from: WorkerRank::from(WorkerId::new(1)),
        incarnation: Incarnation::new(1),
        sequence,
        events: vec![],
    }
}

fn channel(capacity: usize) -> (BatchSender, BatchReceiver) {
    batch_channel(NonZeroUsize::new(capacity).unwrap())
}

#[test]
fn a_full_channel_gives_the_batch_back() {
    let (sender, mut receiver) = channel(2);
    sender.try_send(batch(0)).unwrap();
    sender.try_send(batch(1)).unwrap();
    assert_eq!(sender.try_send(batch(2)), Err(SendError::Full(batch(2))));
    assert_eq!(sender.send_timeout(batch(2), SHORT), Err(SendError::Full(batch(2))));
    assert_eq!((sender.depth(), receiver.depth()), (2, 2));
    assert_eq!(receiver.try_recv(), Ok(batch(0)));
    sender.try_send(batch(2)).unwrap();
    let expected = ChannelCounters { sent: 3, received: 1, refused_full: 2, refused_closed: 0 };
    assert_eq!(sender.counters(), expected);
    assert_eq!(receiver.counters(), expected);
}

#[test]
fn what_was_queued_survives_the_last_sender() {
    let (sender, mut receiver) = channel(4);
    let second = sender.clone();
    sender.try_send(batch(0)).unwrap();
    drop(sender);
    second.try_send(batch(1)).unwrap();
    assert_eq!(receiver.try_recv(), Ok(batch(0)));
    assert_eq!(receiver.try_recv(), Ok(batch(1)));
    assert_eq!(receiver.try_recv(), Err(RecvError::Empty), "a sender is left");
    second.try_send(batch(2)).unwrap();
    drop(second);
    assert_eq!(receiver.recv_timeout(LONG), Ok(batch(2)));
    assert_eq!(receiver.recv_timeout(LONG), Err(RecvError::Closed), "at once, not after the wait");
    assert_eq!(receiver.try_recv(), Err(RecvError::Closed));
}

#[test]
fn a_dropped_receiver_refuses_and_the_counters_tell_what_was_discarded() {
    let (sender, receiver) = channel(4);
    sender.try_send(batch(0)).unwrap();
    drop(receiver);
    assert_eq!(sender.try_send(batch(1)), Err(SendError::Closed(batch(1))));
    assert_eq!(sender.send_timeout(batch(1), LONG), Err(SendError::Closed(batch(1))));
    assert_eq!(sender.send_timeout(batch(1), LONG).unwrap_err().into_batch(), batch(1));
    let counters = sender.counters();
    assert_eq!((counters.sent - counters.received, counters.refused_closed), (1, 3));
}

#[test]
fn a_waiting_sender_is_woken_by_room_and_by_close() {
    let (sender, mut receiver) = channel(1);
    sender.try_send(batch(0)).unwrap();
    let waiting = thread::spawn({
        let sender = sender.clone();
        move || (sender.send_timeout(batch(1), LONG), sender.send_timeout(batch(2), LONG))
    });
    assert_eq!(receiver.recv_timeout(LONG), Ok(batch(0)));
    // Batch 1 took the room, batch 2 waits for more until there is nobody to make it.
    while receiver.depth() == 0 {
        thread::yield_now();
    }
    drop(receiver);
    assert_eq!(waiting.join().unwrap(), (Ok(()), Err(SendError::Closed(batch(2)))));
}

#[test]
fn an_empty_channel_is_told_from_a_closed_one() {
    let (sender, mut receiver) = channel(1);
    assert_eq!(receiver.try_recv(), Err(RecvError::Empty));
    assert_eq!(receiver.recv_timeout(SHORT), Err(RecvError::Empty));
    drop(sender);
    assert_eq!(receiver.recv_timeout(SHORT), Err(RecvError::Closed));
}

#[test]
fn a_drain_is_bounded_and_appends() {
    let (sender, mut receiver) = channel(8);
    (0..5).for_each(|sequence| sender.try_send(batch(sequence)).unwrap());
    let mut out = vec![batch(99)];
    assert_eq!(receiver.drain_into(&mut out, 3), 3);
    assert_eq!(receiver.drain_into(&mut out, 100), 2);
    assert_eq!(receiver.drain_into(&mut out, 100), 0);
    assert_eq!(out.iter().map(|b| b.sequence).collect::<Vec<_>>(), [99, 0, 1, 2, 3, 4]);
}

#[test]
fn each_sender_keeps_its_order_across_threads() {
    let (sender, mut receiver) = channel(4);
    let publishers: Vec<_> = (0..3u64)
        .map(|worker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for sequence in 0..500 {
                    let from = WorkerRank::from(WorkerId::new(worker));
                    sender.send_timeout(EventBatch { from, ..batch(sequence) }, LONG).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut next = [0u64; 3];
    while let Ok(batch) = receiver.recv_timeout(LONG) {
        let worker = usize::try_from(batch.from.worker.get()).unwrap();
        assert_eq!(batch.sequence, next[worker]);
        next[worker] += 1;
    }
    assert_eq!(next, [500; 3]);
    publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
    assert_eq!(receiver.counters().received, 1500);
}

#[test]
fn the_errors_say_what_to_do() {
    assert!(SendError::Full(batch(7)).to_string().contains("batch 7 of 1@0"));
    assert!(SendError::Closed(batch(7)).to_string().contains("stop publishing"));
    assert!(RecvError::Closed.to_string().contains("stop receiving"));
}
