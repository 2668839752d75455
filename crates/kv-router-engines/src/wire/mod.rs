//! What stands on the wire, before anything is made of it.

mod batch;
mod decode;
mod event;
mod extra;
mod fields;
mod hash;
mod keys;
mod repeat;
mod views;

pub use batch::{TimeUnit, WireBatch};
pub use event::{EventKind, LoraId};
pub use hash::WireHash;
pub use views::{ExtraKey, ExtraKeys, Hashes, Lookahead, WireEvent, WireTokens, string_token};

pub(crate) use decode::MAX_RANK;
pub(crate) use event::{EVERYWHERE, RawEvent, Span, TokenForm};
pub(crate) use hash::RawHash;
pub(crate) use keys::TextField;
