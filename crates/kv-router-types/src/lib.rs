//! The words every kv-router crate shares: ids, hashes, block sizes, tiers and cache events.
//!
//! ```
//! use kv_router_types::{BlockSize, DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier};
//! use kv_router_types::{WorkerId, WorkerRank};
//!
//! let size = BlockSize::new(16)?;
//! assert_eq!(size.blocks_in(100), 6); // the trailing 4 tokens fill no block
//!
//! let rank = WorkerRank::new(WorkerId::new(7), DpRank::new(0));
//! let event = KvEvent::Stored {
//!     tier: Tier::Device,
//!     parent: None,
//!     blocks: vec![StoredBlock::new(ExternalSequenceHash::new(0xA1), LocalBlockHash::new(0x11))],
//! };
//! assert_eq!(rank.to_string(), "7@0");
//! assert_eq!(event.block_count(), 1);
//! # Ok::<(), kv_router_types::BlockSizeError>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I have | type |
//! |---|---|
//! | tokens of one block, hashed | [`LocalBlockHash`] |
//! | the whole prefix up to a block, hashed by us | [`SequenceHash`] |
//! | the name an engine gave a block | [`ExternalSequenceHash`] |
//! | one cache | [`WorkerRank`] |
//! | where a copy lives | [`Tier`], several at once: [`TierSet`] |
//! | what an engine said | [`KvEvent`] |
//!
//! # Guarantees
//!
//! No dependencies, no allocation but the vectors of [`KvEvent`], no serialisation: a wire format owns its own
//! structs and converts. The three hash types never convert into each other by accident.
#![forbid(unsafe_code)]

mod block_size;
mod event;
mod hash;
mod id;
mod tier;

pub use block_size::{BlockSize, BlockSizeError};
pub use event::{KvEvent, StoredBlock};
pub use hash::{ExternalSequenceHash, LocalBlockHash, SequenceHash};
pub use id::{DpRank, RequestId, WorkerId, WorkerRank};
pub use tier::{Tier, TierSet};
