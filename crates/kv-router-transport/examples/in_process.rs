//! A publisher that loses a batch, and a subscriber that gets it back:
//! `cargo run -p kv-router-transport --example in_process`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
#![expect(clippy::disallowed_methods, reason = "a program reads the clock")]

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kv_router_transport::{
    Action, BatchSender, EventBatch, Incarnation, Numbered, RecoveryId, RecvError, ReplayRequest,
    ReplayWaits, SequencerConfig, StreamSequencer, batch_channel,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

/// One batch of an answer; `None` ends it.
type Answer = (RecoveryId, Option<EventBatch>);

fn batch(sequence: u64) -> EventBatch {
    let block = StoredBlock::new(ExternalSequenceHash::new(sequence), LocalBlockHash::new(sequence * 31));
    let parent = sequence.checked_sub(1).map(ExternalSequenceHash::new);
    EventBatch {
        from: WorkerRank::from(WorkerId::new(7)),
        incarnation: Incarnation::new(1),
        sequence,
        events: vec![KvEvent::Stored { tier: Tier::Device, parent, blocks: vec![block] }],
    }
}

/// An engine: publishes, keeps what it published, and sends it again when asked.
fn publish(live: BatchSender, asked: mpsc::Receiver<ReplayRequest>, answers: mpsc::Sender<Answer>) {
    let history: Vec<EventBatch> = (0..6).map(batch).collect();
    for batch in &history {
        if batch.sequence == 3 {
            println!("publisher: batch 3 is lost on the way");
        } else if live.send_timeout(batch.clone(), Duration::from_secs(1)).is_err() {
            return;
        }
    }
    for request in asked {
        println!("publisher: asked for {} to {:?}", request.from, request.to);
        let wanted = request.from..=request.to.unwrap_or(u64::MAX);
        for batch in history.iter().filter(|batch| wanted.contains(&batch.sequence)) {
            if answers.send((request.id, Some(batch.clone()))).is_err() {
                return;
            }
        }
        if answers.send((request.id, None)).is_err() {
            return;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (sender, mut receiver) = batch_channel(NonZeroUsize::MIN.saturating_add(63));
    let (ask, asked) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    let publisher = thread::spawn(move || publish(sender, asked, answer));

    let config = SequencerConfig { replay: Some(ReplayWaits::default()), ..SequencerConfig::default() };
    let mut sequencer = StreamSequencer::new(config)?;
    let mut actions = Vec::new();
    while sequencer.counters().applied < 6 {
        match receiver.recv_timeout(Duration::from_millis(10)) {
            Ok(batch) => sequencer.live(Instant::now(), Numbered::from(batch), &mut actions),
            Err(RecvError::Empty) => sequencer.tick(Instant::now(), &mut actions),
            Err(RecvError::Closed) => break,
        }
        for (id, batch) in answers.try_iter() {
            match batch {
                Some(batch) => sequencer.replayed(Instant::now(), id, Numbered::from(batch), &mut actions),
                None => sequencer.replay_ended(Instant::now(), id, &mut actions),
            }
        }
        for action in actions.drain(..) {
            match action {
                Action::Apply(batch) => println!("apply batch {}: {:?}", batch.sequence, batch.events),
                Action::Forget(reason) => println!("forget the rank: {reason:?}"),
                Action::RequestReplay(request) => ask.send(request)?,
                Action::RequestSnapshot(_) => {} // no peer is configured
                Action::Skip { sequence, reason } => println!("skip batch {sequence}: {reason:?}"),
            }
        }
    }
    println!("the rank is {:?} up to {:?}", sequencer.standing(), sequencer.watermark());
    drop(ask);
    publisher.join().map_err(|_| "the publisher panicked")?;
    Ok(())
}
