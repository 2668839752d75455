//! Many ring, one answers, and no ring is lost.

use crate::sync::atomic::{AtomicU8, Ordering};

/// Nobody works.
const IDLE: u8 = 0;
/// Somebody works, and nothing happened since it looked.
const BUSY: u8 = 1;
/// Somebody works, and has to look once more.
const AGAIN: u8 = 2;

/// Makes a piece of work run after every ring, on the thread of whoever rings first; the others go on at once.
#[derive(Debug)]
pub(crate) struct Bell(AtomicU8);

impl Bell {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Runs `work` at least once from its beginning after this call began: here, or on the thread that is at it.
    pub(crate) fn ring(&self, mut work: impl FnMut()) {
        // Release for what happened before the ring; acquire for what the last worker did.
        if self.0.swap(AGAIN, Ordering::AcqRel) != IDLE {
            return;
        }
        // Should work panic after all, the next ring must not find somebody at work for ever.
        let rest = Rest(&self.0);
        loop {
            // Acquire: what was done before the rings so far is seen by the work. Only this thread writes BUSY.
            self.0.swap(BUSY, Ordering::AcqRel);
            work();
            if self.0.compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                std::mem::forget(rest);
                return;
            }
        }
    }

    /// For the work alone, when it begins anew by itself: whether anybody rang since it began. Those rings are answered
    /// then.
    pub(crate) fn take_ring(&self) -> bool {
        self.0.compare_exchange(AGAIN, BUSY, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Lets go of the work when it panics.
struct Rest<'a>(&'a AtomicU8);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.store(IDLE, Ordering::Release);
    }
}
