//! Wakes a thread that waits for sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// The side that wakes. Cheap to call often: only the first call until the thread looks costs a system call.
#[derive(Debug)]
pub(crate) struct Waker {
    stream: UnixStream,
    pending: AtomicBool,
}

/// The side that waits.
#[derive(Debug)]
pub(crate) struct Sleeper(UnixStream);

pub(crate) fn wake_pair() -> io::Result<(Waker, Sleeper)> {
    let (waker, sleeper) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    sleeper.set_nonblocking(true)?;
    Ok((Waker { stream: waker, pending: AtomicBool::new(false) }, Sleeper(sleeper)))
}

impl Waker {
    pub(crate) fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            // A full pipe is one that wakes already; a closed one has nobody to wake.
            let _ = (&self.stream).write(&[0]);
        }
    }

    /// To be called by the thread before it looks for work.
    pub(crate) fn seen(&self, sleeper: &Sleeper) {
        if !self.pending.load(Ordering::Acquire) {
            return;
        }
        let mut bytes = [0; 64];
        while matches!((&sleeper.0).read(&mut bytes), Ok(count) if count > 0) {}
        // After the pipe is empty: a wake from here on writes again, and the next wait ends at once. A swap and no
        // store, so that the work of whoever found the flag set is seen.
        self.pending.swap(false, Ordering::AcqRel);
    }
}

impl Sleeper {
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
