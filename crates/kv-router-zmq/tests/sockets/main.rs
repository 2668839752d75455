//! Subscriber, feed and publisher on real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot have its sockets has nothing to say")]
#![expect(clippy::disallowed_methods, reason = "real sockets run on the real clock")]

mod common;
mod live;
mod pyzmq;
mod replay;
