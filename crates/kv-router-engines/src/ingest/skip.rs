//! Why a store that could be read does not reach the index.

use crate::reasons::reasons;

reasons! {
    /// Why an event, or the rest of a store from some block on, does not reach the index.
    ///
    /// Skipping only ever makes a rank look emptier than it is.
    Skip,
    /// Events that did not reach the index, by reason.
    Skips;
    /// A block size of 0, or above 65,536, beside tokens.
    BadBlockSize = "bad_block_size",
    /// More names than blocks of tokens.
    MoreHashesThanTokens = "more_hashes_than_tokens",
    /// A name twice in one chain, a block that is its own parent, or other content under a name that known parts of a
    /// block continue.
    RepeatedHash = "repeated_hash",
    /// Not one entry of extra keys a block.
    ExtraKeysLength = "extra_keys_length",
    /// Token pairs that are no chain.
    BrokenPairs = "broken_pairs",
    /// A group that does not keep every block of a prompt, of which nothing is known, or beside which another is indexed.
    OtherGroup = "other_group",
    /// A medium that the table does not have.
    UnknownMedium = "unknown_medium",
    /// A store without tokens, of a name or under a parent that the rank does not hold.
    UnknownPlaceholder = "unknown_placeholder",
    /// The rank does not hold the parent: the stream was joined late, or lost something. Ask for a resync.
    UnknownParent = "unknown_parent",
    /// Fewer names than blocks of tokens: which blocks they name is not said.
    MaskedBlocks = "masked_blocks",
    /// Neither the engine's block size nor ours is a multiple of the other, or blocks of several sizes do not add up to
    /// one of ours.
    BlockSizeRatio = "block_size_ratio",
    /// Pairs where the scheme hashes plain windows, or the other way round.
    WindowMismatch = "window_mismatch",
    /// An adapter's number without its name, see [`IngestConfig::adapters`](crate::IngestConfig::adapters).
    AdapterUnnamed = "adapter_unnamed",
    /// An adapter's name or a salt that is too long.
    NameTooLong = "name_too_long",
    /// A key beside the tokens that we cannot tell a meaning of, or that a request does not have.
    UnclearKeys = "unclear_keys",
    /// Multimodal items in blocks that are not the size of ours: how far an item reaches is not said.
    MediaReblocked = "media_reblocked",
    /// The rank has as many names as it may.
    NamesFull = "names_full",
}

impl Skip {
    /// Whether the event contradicts itself: no engine that works sends it.
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::BadBlockSize
                | Self::MoreHashesThanTokens
                | Self::RepeatedHash
                | Self::ExtraKeysLength
                | Self::BrokenPairs
        )
    }
}
