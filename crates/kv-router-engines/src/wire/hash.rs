//! An engine's name for a block, as it stood on the wire.

use kv_router_types::ExternalSequenceHash;

use crate::msgpack::Int;

/// An engine's name for a block. Opaque: only its 64-bit form is ever compared, and only within one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireHash<'a> {
    /// An integer from 0.
    Unsigned(u64),
    /// A negative integer: SGLang, and vLLM up to 0.10.1.
    Negative(i64),
    /// A digest of 1 to 64 bytes: vLLM when told not to shorten its hashes.
    Digest(&'a [u8]),
}

impl WireHash<'_> {
    /// The 64-bit form: the integer in two's complement, or the last 8 bytes of the digest, big-endian. It is what
    /// vLLM itself sends when it shortens a digest, so a stream may change between the two.
    pub fn key(self) -> u64 {
        match self {
            Self::Unsigned(value) => value,
            Self::Negative(value) => value.cast_unsigned(),
            Self::Digest(bytes) => digest_key(bytes),
        }
    }

    /// The 64-bit form as the name that an index uses.
    pub fn external(self) -> ExternalSequenceHash {
        ExternalSequenceHash::new(self.key())
    }
}

pub(super) fn digest_key(bytes: &[u8]) -> u64 {
    match bytes.last_chunk() {
        Some(tail) => u64::from_be_bytes(*tail),
        None => bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
    }
}

/// A name in a batch: 16 bytes, the digest itself elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawHash {
    pub(crate) key: u64,
    pub(super) form: HashForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashForm {
    Unsigned,
    Negative,
    Digest {
        /// Offset in [`WireBatch::bytes`](super::WireBatch).
        at: u32,
        length: u8,
    },
}

impl RawHash {
    pub(crate) const MAX_DIGEST_BYTES: usize = 64;

    #[inline]
    pub(super) fn of(int: Int) -> Self {
        let form = if int.negative { HashForm::Negative } else { HashForm::Unsigned };
        Self { key: int.bits, form }
    }

    pub(crate) fn unsigned(key: u64) -> Self {
        Self { key, form: HashForm::Unsigned }
    }
}
