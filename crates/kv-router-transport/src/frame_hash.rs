//! What tells a frame of an engine from another one under the same number.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// XXH3-64, seed 0, of all bytes of a payload.
///
/// Engines that start again count from the same number, and what they write there differs, if only in the time of
/// writing. Two frames that are not the same have equal hashes once in 2^64 times. It is kept in
/// [watermarks](crate::Watermark), so it is the same in every release.
///
/// ```
/// use kv_router_transport::FrameHash;
///
/// assert_eq!(FrameHash::of(b"").get(), 0x2d06_8005_38d3_94c2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameHash(u64);

impl FrameHash {
    /// Of this payload. Costs a fraction of a nanosecond a byte.
    pub fn of(payload: &[u8]) -> Self {
        Self(xxh3_64(payload))
    }

    /// Wraps a raw value.
    #[inline]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FrameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameHash({:016x})", self.0)
    }
}
