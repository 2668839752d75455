//! How much one payload may ask of its reader.

/// What one payload may hold. More is refused, see [`BatchError`](crate::BatchError).
///
/// With the defaults a batch keeps at most some 200 MiB, for the most wasteful payload there is, and a few hundred
/// kilobytes for real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes. Default: 16 MiB. Never more than 1 GiB, whatever is asked for.
    pub payload_bytes: usize,
    /// Events. Default: 65,536.
    pub events: usize,
    /// Block hashes of all events together. Default: 1,048,576.
    pub hashes: usize,
}

impl DecodeLimits {
    /// Offsets inside a payload are kept in 32 bits, with room to spare.
    const MOST_BYTES: usize = 1 << 30;

    /// Bytes that are accepted.
    pub(crate) fn bytes(&self) -> usize {
        self.payload_bytes.min(Self::MOST_BYTES)
    }
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { payload_bytes: 16 << 20, events: 1 << 16, hashes: 1 << 20 }
    }
}
