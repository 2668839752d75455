//! Every interleaving of the hand-over of tickets, on the types that ship: `cargo xtask loom`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use loom::sync::Notify;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::bell::Bell;
use super::slot::Slot;
use crate::sync::Mutex;

/// Runs every interleaving of `run` and says how many there were.
#[expect(clippy::disallowed_methods, reason = "how long a model takes is worth knowing")]
fn model(name: &str, run: impl Fn() + Send + Sync + 'static) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3); // or what LOOM_MAX_PREEMPTIONS says
    let (before, started) = (RUNS.load(Ordering::Relaxed), Instant::now());
    builder.check(move || {
        RUNS.fetch_add(1, Ordering::Relaxed);
        run();
    });
    println!("{name}: {} interleavings in {:.1?}", RUNS.load(Ordering::Relaxed) - before, started.elapsed());
}

/// A task that sleeps until it is woken.
struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

#[test]
fn slot_filled_beside_a_poll() {
    model("slot_filled_beside_a_poll", || {
        let slot = loom::sync::Arc::new(Slot::new());
        let filler = thread::spawn({
            let slot = loom::sync::Arc::clone(&slot);
            move || slot.fill(7)
        });
        let task = Arc::new(Task(Notify::new()));
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let value = loop {
            match slot.poll_take(&mut context) {
                Poll::Ready(value) => break value,
                Poll::Pending => task.0.wait(), // for ever, if it is not woken: loom tells
            }
        };
        assert_eq!(value, 7);
        filler.join().unwrap();
        assert_eq!(slot.try_take(), None);
    });
}

#[test]
fn slot_filled_beside_a_wait() {
    model("slot_filled_beside_a_wait", || {
        let slot = loom::sync::Arc::new(Slot::new());
        let filler = thread::spawn({
            let slot = loom::sync::Arc::clone(&slot);
            move || slot.fill(7)
        });
        assert_eq!(slot.wait_take(None), Some(7));
        filler.join().unwrap();
    });
}

#[test]
fn bell_answers_every_ring() {
    model("bell_answers_every_ring", || {
        let shared = loom::sync::Arc::new((Bell::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let ring = |(bell, rung, seen): &(Bell, AtomicUsize, AtomicUsize)| {
            rung.fetch_add(1, Ordering::Relaxed);
            bell.ring(|| seen.store(rung.load(Ordering::Relaxed), Ordering::Relaxed));
        };
        let other = thread::spawn({
            let shared = loom::sync::Arc::clone(&shared);
            move || ring(&shared)
        });
        ring(&shared);
        other.join().unwrap();
        assert_eq!(shared.2.load(Ordering::Relaxed), 2, "somebody rang and nobody looked");
    });
}

/// Work that begins anew by itself answers the rings that it took, and no others.
#[test]
fn bell_rings_taken_amid_the_work_are_answered() {
    model("bell_rings_taken_amid_the_work_are_answered", || {
        let shared = loom::sync::Arc::new((Bell::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let ring = |(bell, rung, seen): &(Bell, AtomicUsize, AtomicUsize)| {
            rung.fetch_add(1, Ordering::Relaxed);
            bell.ring(|| {
                seen.store(rung.load(Ordering::Relaxed), Ordering::Relaxed);
                if bell.take_ring() {
                    seen.store(rung.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            });
        };
        let other = thread::spawn({
            let shared = loom::sync::Arc::clone(&shared);
            move || ring(&shared)
        });
        ring(&shared);
        other.join().unwrap();
        assert_eq!(shared.2.load(Ordering::Relaxed), 2, "somebody rang and nobody looked");
    });
}

/// Room comes up on one thread while another begins to wait: whichever is first, it is served.
#[test]
fn nobody_waits_beside_room() {
    struct Door {
        bell: Bell,
        waiting: Mutex<u32>,
        room: Mutex<u32>,
    }

    impl Door {
        fn serve(&self) {
            loop {
                let is_empty = *self.waiting.lock() == 0;
                if is_empty || *self.room.lock() == 0 {
                    return;
                }
                *self.room.lock() -= 1;
                *self.waiting.lock() -= 1;
            }
        }
    }

    model("nobody_waits_beside_room", || {
        let door = Door { bell: Bell::new(), waiting: Mutex::new(0), room: Mutex::new(0) };
        let door = loom::sync::Arc::new(door);
        let leaver = thread::spawn({
            let door = loom::sync::Arc::clone(&door);
            move || {
                *door.room.lock() += 1;
                // As the doorbell does: who finds nobody does not ring.
                let is_empty = *door.waiting.lock() == 0;
                if !is_empty {
                    door.bell.ring(|| door.serve());
                }
            }
        });
        *door.waiting.lock() += 1;
        door.bell.ring(|| door.serve());
        leaver.join().unwrap();
        assert_eq!((*door.waiting.lock(), *door.room.lock()), (0, 0));
    });
}
