//! The frame of everything that this module writes: magic, format, body, checksum. All numbers little-endian.

use std::error::Error;
use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// The format that this version writes, and the only one that it reads.
const FORMAT: u16 = 1;

const MAGIC_BYTES: usize = 4;
const HEAD_BYTES: usize = MAGIC_BYTES + size_of::<u16>();
const CHECKSUM_BYTES: usize = size_of::<u64>();

/// Why bytes are no frame of the kind that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes end before what they declare.
    Truncated {
        /// Bytes that are missing at least.
        missing: usize,
    },
    /// The bytes go on after what they declare.
    TrailingBytes {
        /// Bytes too many.
        extra: usize,
    },
    /// The first four bytes are those of something else.
    WrongMagic {
        /// The bytes found.
        found: [u8; 4],
    },
    /// A format that this version does not know.
    UnsupportedFormat {
        /// The format found.
        found: u16,
        /// The format that this version reads.
        supported: u16,
    },
    /// The bytes were changed on the way.
    WrongChecksum,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing } => {
                write!(f, "the bytes end {missing} or more too early: fetch them again")
            }
            Self::TrailingBytes { extra } => {
                write!(f, "{extra} bytes follow the end: pass one frame at a time")
            }
            Self::WrongMagic { found } => {
                write!(f, "the bytes begin with {found:02x?}, which is another kind of data")
            }
            Self::UnsupportedFormat { found, supported } => {
                write!(f, "format {found} is not {supported}: run the same version on both sides")
            }
            Self::WrongChecksum => {
                f.write_str("the checksum does not match, the bytes are damaged: fetch them again")
            }
        }
    }
}

impl Error for FrameError {}

/// Writes a frame around what `body` appends.
pub(super) fn seal(magic: [u8; 4], body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&magic);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    body(&mut out);
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Checks the frame around a body, and returns the body.
pub(super) fn open(magic: [u8; 4], bytes: &[u8]) -> Result<Body<'_>, FrameError> {
    let missing = (HEAD_BYTES + CHECKSUM_BYTES).saturating_sub(bytes.len());
    if missing > 0 {
        return Err(FrameError::Truncated { missing });
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let mut body = Body { rest: content };
    let found = body.take()?;
    if found != magic {
        return Err(FrameError::WrongMagic { found });
    }
    let format = body.u16()?;
    if format != FORMAT {
        return Err(FrameError::UnsupportedFormat { found: format, supported: FORMAT });
    }
    if xxh3_64(content).to_le_bytes() != checksum {
        return Err(FrameError::WrongChecksum);
    }
    Ok(body)
}

/// What is left to read of a body.
pub(super) struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    pub(super) fn u16(&mut self) -> Result<u16, FrameError> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, FrameError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FrameError> {
        self.take().map(u64::from_le_bytes)
    }

    /// `count` items of `N` bytes. Fails before anybody allocates for a count that the bytes do not bear out.
    pub(super) fn items<const N: usize>(
        &mut self,
        count: usize,
    ) -> Result<impl ExactSizeIterator<Item = [u8; N]> + use<'a, N>, FrameError> {
        let bytes = count.saturating_mul(N);
        let Some((items, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(FrameError::Truncated { missing: bytes - self.rest.len() });
        };
        self.rest = rest;
        let (items, _) = items.as_chunks::<N>();
        Ok(items.iter().copied())
    }

    pub(super) fn end(self) -> Result<(), FrameError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(FrameError::TrailingBytes { extra }),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let Some((&bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(FrameError::Truncated { missing: N - self.rest.len() });
        };
        self.rest = rest;
        Ok(bytes)
    }
}
