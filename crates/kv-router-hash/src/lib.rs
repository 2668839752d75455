//! Tokens to local block hashes to sequence hashes.
//!
//! A prompt and the engine events about it are hashed by the same code to the same values, so that a router can tell
//! which worker holds how much of a prompt without knowing how engines name their blocks.
//!
//! ```
//! use kv_router_hash::{HashContext, HashScheme, Prompt, Window, sequence_hashes_into};
//! use kv_router_types::BlockSize;
//!
//! let scheme = HashScheme::new(BlockSize::new(4)?, Window::Plain);
//! let tokens: Vec<u32> = (1..=14).collect();
//!
//! let locals = scheme.hash(&Prompt::new(&tokens));
//! assert_eq!(locals.len(), 3); // the trailing 2 tokens fill no block
//!
//! let mut sequence = Vec::new();
//! sequence_hashes_into(&locals, &mut sequence);
//! assert_eq!(sequence[2].get(), 12_583_592_247_330_656_132);
//!
//! // The same tokens under an adapter share nothing with the base model.
//! let adapter = HashContext::NONE.with_adapter("sql-expert")?;
//! let others = scheme.hash(&Prompt::new(&tokens).in_context(adapter));
//! assert!(locals.iter().zip(&others).all(|(base, other)| base != other));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I have | use |
//! |---|---|
//! | a prompt, now and then | [`HashScheme::hash`], or [`HashScheme::hash_into`] with a vector to use again |
//! | a prompt per request, on a thread of my own | [`BlockHasher::hash_into`] |
//! | a prompt that a lookup may stop reading early | [`BlockHasher::lazy`] |
//! | a prompt of hundreds of thousands of tokens | [`HashScheme::hash_parallel_into`] |
//! | one block of an engine event | [`BlockHasher::hash_block`] |
//! | a store event of text blocks | [`BlockHasher::hash_into`], its tokens as the prompt |
//! | token pairs from an EAGLE engine | [`fold_bigrams_into`], then a scheme with [`Window::Eagle`] |
//! | a prompt, for an index that compares in steps of many blocks | [`BlockHasher::hash_keyed_into`] |
//! | local hashes, and I want names for prefixes | [`sequence_hashes_into`], [`SequenceHasher`] |
//!
//! # Byte layout
//!
//! A local hash is XXH3-64 with seed 1337 over the following bytes; integers are little-endian. Absent sections take
//! no bytes, so that plain text hashes to the values that the field already uses. The layout is a contract between
//! routers and publishers: `tests/golden.json` pins it, and changing it is a breaking release.
//!
//! | section | present | bytes |
//! |---|---|---|
//! | tokens | always | each token as u32: block size of them, one more under [`Window::Eagle`] |
//! | adapter | its name is not empty | length in bytes as u32, 1 to 4,096; the name in UTF-8 |
//! | salt | it is not empty | `73 61 6c 74` ("salt"); length in bytes as u32, 1 to 4,096; the salt in UTF-8 |
//! | multimodal | an item touches the window | `6d 6d 6f 64` ("mmod"); count as u32; a pair each, by offset |
//!
//! * Within one scheme no two inputs share their bytes: the number of tokens is fixed, each section states its size,
//!   and the word behind the tokens is at most 4,096 for an adapter and larger for a tag.
//! * A pair is a content hash as u64 and an offset as i32. The offset is the item's first token minus the block's
//!   first token. It is negative in a block that an item continues into, and such a block has the item too.
//! * A [content hash](MmHash::from_identifier) is XXH3-64 with seed 1337 over the identifier's bytes.
//! * A sequence hash is the local hash for the first block, then XXH3-64 with seed 1337 over the previous sequence
//!   hash and the local hash, each as u64.
//!
//! # Guarantees
//!
//! * The eager, lazy, parallel and per-block ways give the same values.
//! * No result and no option is remembered between calls.
//! * Lengths are checked and nothing panics on input. The buffer holds one block and at most 8 KiB of names.
//! * Not a guarantee: secrecy. XXH3 is no cryptographic hash. Who crafts a collision gets a request routed to a
//!   worker that holds nothing useful; what a worker reuses is the engine's decision, made from its own hashes.
//!
//! # Cost
//!
//! On one core of a 2023 server, compiled for plain x86-64, in nanoseconds a block (`examples/hash_speed.rs`):
//!
//! | tokens a block | 16 | 32 | 64 | 512 |
//! |---|--:|--:|--:|--:|
//! | text | 3.2 | 5.9 | 22 | 127 |
//! | text, EAGLE | 8.5 | 18 | 25 | 133 |
//! | with an adapter or a salt | 7.7 | 18 | 24 | 132 |
//! | half of the prompt images | 14 | 18 | 29 | 140 |
//!
//! A sequence hash costs 5.6 ns more a block. Nothing is allocated per block, and nothing per call once a
//! [`BlockHasher`] and the output vector are warm.
#![forbid(unsafe_code)]

mod bigrams;
mod bytes;
mod context;
mod hasher;
mod lazy;
mod multimodal;
mod parallel;
mod prefix_key;
mod prompt;
mod scheme;
mod sequence;
mod xxh;

pub use bigrams::{BrokenBigrams, fold_bigrams_into};
pub use context::{ContextError, HashContext};
pub use hasher::{BlockError, BlockHasher};
pub use lazy::LazyHashes;
pub use multimodal::{EmptyIdentifier, MmHash, MmPair, MmSpan, SpanError};
pub use prefix_key::{KeyStep, KeyedHashes, PrefixKey, PrefixKeyer};
pub use prompt::Prompt;
pub use scheme::{HashScheme, Window};
pub use sequence::{SequenceHasher, next_sequence_hash, sequence_hashes_into};
