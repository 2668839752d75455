//! KV-cache events of vLLM, SGLang, TensorRT-LLM and Mooncake: from their bytes to ours, and back to theirs.
//!
//! ```
//! use kv_router_engines::{BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, StoreFields, WireBatch};
//! use kv_router_engines::{WireHash, WireTokens};
//! use kv_router_hash::{HashScheme, Prompt, Window};
//! use kv_router_types::{BlockSize, KvEvent};
//!
//! // What an engine with blocks of 8 tokens sends...
//! let mut encoder = BatchEncoder::new(EventForm::Map);
//! encoder.stored(&StoreFields {
//!     hashes: &[WireHash::Unsigned(0xa1)],
//!     tokens: WireTokens::Flat(&[1, 2, 3, 4, 5, 6, 7, 8]),
//!     block_size: Some(8),
//!     medium: Some("GPU"),
//!     ..StoreFields::default()
//! });
//! let mut payload = Vec::new();
//! encoder.finish(1_717_171_717.25, None, &mut payload);
//!
//! // ...is two blocks of 4 tokens to a router that hashes such.
//! let scheme = HashScheme::new(BlockSize::new(4)?, Window::Plain);
//! let (mut batch, mut events) = (WireBatch::new(), Vec::new());
//! batch.decode(&payload, &DecodeLimits::default())?;
//! Ingest::new(IngestConfig::new(scheme)).apply(&batch, &mut events);
//! let KvEvent::Stored { blocks, .. } = &events[0] else { return Err("no store".into()) };
//! let locals = scheme.hash(&Prompt::new(&[1, 2, 3, 4, 5, 6, 7, 8]));
//! assert_eq!(blocks.iter().map(|block| block.local).collect::<Vec<_>>(), locals);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I have | type |
//! |---|---|
//! | a payload of an event stream | [`WireBatch`], to be filled again and again |
//! | events of a rank, in order, and an index | [`Ingest`], one a rank, with an [`IngestConfig`] |
//! | JSON of TensorRT-LLM | [`TrtllmDecoder`], or its [`frames`](TrtllmDecoder::frames) for what takes a publisher's |
//! | a payload of SGLang's load socket | [`LoadStat`] |
//! | a snapshot to write, and to go on from | [`Ingest::save`], [`IngestLoader`] |
//! | no engine, and somebody who wants its events | [`BatchEncoder`] |
//!
//! # What becomes of a payload
//!
//! 1. [`WireBatch::decode`] reads it: arrays or maps, fields in any order, whatever release. A payload that is
//!    damaged is refused whole ([`BatchError`]); an event that is not understood is lost alone and counted
//!    ([`EventFault`]), and the batch is then [lossy](WireBatch::is_lossy), which makes its rank suspect.
//! 2. The sequence machine of `kv-router-transport` puts batches in order.
//! 3. [`Ingest::apply`] hashes tokens, counts copies and tells the index what is new. What it cannot use it passes over
//!    and counts ([`Skip`]): a rank may look emptier than it is, never fuller.
//!
//! # Guarantees
//!
//! * Names of engines stay opaque: content is what our own hash of the tokens says.
//! * No recursion, no panic on input, no memory on the word of a length. Limits: [`DecodeLimits`],
//!   [`IngestConfig::max_names`].
//! * Every event that comes out is one that an index takes: its parent is held, no name is in it twice, each removed
//!   name was there. Where a store's parent is unknown nothing comes out, because the salt of its chain is unknown too.
//! * An engine's block may be several of ours, or a part of one: a block of ours is in a tier when all its parts are.
//!   One that is completed while the block before it is not is found once it is stored again.
//! * A salt stands at the first block of a chain alone, and counts for all of it.
//! * Of several cache groups that keep every block, the first is indexed: never the sum of them.
//!
//! SGLang before 0.5.6 names a page by its own tokens alone, and 0.5.3 mostly without the page before it: what such an
//! engine says is taken at its word, and pages from the middle of prompts stand as first ones. Use a later one.
//!
//! What this crate does not do: no sockets, no clock, no parking of stores whose parent is unknown, no scoring of
//! windowed or recurrent cache groups, whose blocks it passes over.
//!
//! # Cost
//!
//! A block costs its tokens (about a nanosecond each), its hash, and one access to the table of names, asked for in
//! advance. An eviction that repeats the bytes of the one before, as they do in bursts, is compared and copied.
//! `examples/decode_speed.rs` prints blocks a second for a small fleet's worth of memory; `cargo xtask bench --streams` for
//! a large one.
#![forbid(unsafe_code)]

mod encode;
mod error;
mod ingest;
mod limits;
mod load;
mod msgpack;
mod reasons;
#[cfg(feature = "soak")]
pub mod soak;
mod trtllm;
mod wire;

pub use encode::{BatchEncoder, EventForm, RemoveFields, StoreFields};
pub use error::{BatchError, EventFault, EventFaults};
pub use ingest::{
    Ingest, IngestConfig, IngestCounters, IngestLoader, IngestStateError, MediaTable, Presence, Skip, Skips,
};
pub use limits::DecodeLimits;
pub use load::{LoadStat, LoadStatError};
pub use trtllm::{PulledFrame, TrtllmDecoder};
pub use wire::{
    EventKind, ExtraKey, ExtraKeys, Hashes, Lookahead, LoraId, TimeUnit, WireBatch, WireEvent, WireHash,
    WireTokens, string_token,
};
