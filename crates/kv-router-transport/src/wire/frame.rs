//! The envelope of every frame, and a cursor over what is in it.

use super::crc::crc32;
use super::layout::{Flat, HEADER_BYTES, Header, put_at, read};
use super::{DecodeError, EncodeError, WireField, WireLimits};

pub(crate) const MAGIC: [u8; 4] = *b"KVRT";
pub(crate) const VERSION: u16 = 2;
/// Header bytes that the checksum covers: all but the checksum.
const CHECKED_HEADER: usize = 12;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Batch = 1,
    DumpStart = 2,
    DumpChunk = 3,
    DumpEnd = 4,
}

impl FrameKind {
    fn from_wire(tag: u8) -> Result<Self, DecodeError> {
        match tag {
            1 => Ok(Self::Batch),
            2 => Ok(Self::DumpStart),
            3 => Ok(Self::DumpChunk),
            4 => Ok(Self::DumpEnd),
            found => Err(DecodeError::InvalidTag { field: WireField::Kind, found }),
        }
    }
}

/// Appends room for a header; [`close`] fills it in.
pub(crate) fn open(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.resize(at + HEADER_BYTES, 0);
    at
}

/// Fills in the header of the frame that was opened at `at` and ends where `out` ends.
pub(crate) fn close(
    kind: FrameKind,
    at: usize,
    limits: &WireLimits,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    let frame_bytes = out.len() - at;
    let too_large = EncodeError::TooLarge {
        field: WireField::Frame,
        found: frame_bytes as u64,
        limit: limits.frame_bytes as u64,
    };
    let body_bytes = u32::try_from(frame_bytes - HEADER_BYTES).map_err(|_| too_large)?;
    if frame_bytes > limits.frame_bytes {
        return Err(too_large);
    }
    let mut header =
        Header { magic: MAGIC, version: VERSION, kind: kind as u8, flags: 0, body_bytes, checksum: 0 };
    put_at(&header, out, at);
    let frame = &out[at..];
    header.checksum = crc32([&frame[..CHECKED_HEADER], &frame[HEADER_BYTES..]]);
    put_at(&header, out, at);
    Ok(())
}

/// A header that was found to be in order, its checksum still to be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedHeader {
    pub(crate) kind: FrameKind,
    pub(crate) body_bytes: usize,
    checksum: u32,
}

/// Checks the first bytes of a frame, whatever is behind them.
pub(crate) fn check_header(bytes: &[u8], limits: &WireLimits) -> Result<CheckedHeader, DecodeError> {
    // Foreign bytes are called foreign even when there are too few of them.
    let shown = bytes.len().min(MAGIC.len());
    if bytes[..shown] != MAGIC[..shown] {
        let mut found = [0; 4];
        found[..shown].copy_from_slice(&bytes[..shown]);
        return Err(DecodeError::BadMagic { found });
    }
    let header: Header = read(&bytes[..bytes.len().min(HEADER_BYTES)], WireField::Header)?;
    if header.version != VERSION {
        return Err(DecodeError::UnsupportedVersion { found: header.version, supported: VERSION });
    }
    let kind = FrameKind::from_wire(header.kind)?;
    if header.flags != 0 {
        return Err(DecodeError::InvalidValue { field: WireField::Flags, found: u64::from(header.flags) });
    }
    let frame_bytes = u64::from(header.body_bytes) + HEADER_BYTES as u64;
    let limit = limits.frame_bytes as u64;
    if frame_bytes > limit {
        return Err(DecodeError::TooLarge { field: WireField::Frame, found: frame_bytes, limit });
    }
    Ok(CheckedHeader { kind, body_bytes: header.body_bytes as usize, checksum: header.checksum })
}

impl CheckedHeader {
    /// Compares the checksum of the whole frame, which must be as long as the header says.
    pub(crate) fn verify(&self, frame: &[u8]) -> Result<(), DecodeError> {
        let computed = crc32([&frame[..CHECKED_HEADER], &frame[HEADER_BYTES..]]);
        if computed != self.checksum {
            return Err(DecodeError::ChecksumMismatch { stated: self.checksum, computed });
        }
        Ok(())
    }
}

/// Checks that `bytes` are one whole frame of `kind`, and gives its body.
pub(crate) fn check_frame<'a>(
    kind: FrameKind,
    bytes: &'a [u8],
    limits: &WireLimits,
) -> Result<Input<'a>, DecodeError> {
    let header = check_header(bytes, limits)?;
    let body = &bytes[HEADER_BYTES..];
    if body.len() < header.body_bytes {
        return Err(DecodeError::Truncated {
            field: WireField::Body,
            needed: header.body_bytes as u64,
            left: body.len() as u64,
        });
    }
    if body.len() > header.body_bytes {
        let count = (body.len() - header.body_bytes) as u64;
        return Err(DecodeError::TrailingBytes { field: WireField::Frame, count });
    }
    header.verify(bytes)?;
    if header.kind != kind {
        return Err(DecodeError::InvalidValue { field: WireField::Kind, found: header.kind as u64 });
    }
    Ok(Input::new(body))
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

/// A declared number of elements for which the bytes are there. Only such a number is ever allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(usize);

impl Count {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn take<T: Flat>(&mut self, field: WireField) -> Result<T, DecodeError> {
        let value = read(&self.rest[..self.left().min(T::BYTES)], field)?;
        self.rest = &self.rest[T::BYTES..];
        Ok(value)
    }

    /// Takes `count` structs as they are.
    pub(crate) fn take_many<T: Flat>(
        &mut self,
        count: Count,
        field: WireField,
    ) -> impl Iterator<Item = Result<T, DecodeError>> {
        let (taken, rest) = self.rest.split_at((count.0 * T::BYTES).min(self.left()));
        self.rest = rest;
        taken.chunks(T::BYTES).map(move |bytes| read(bytes, field))
    }

    /// Takes `count` bytes as they are.
    pub(crate) fn bytes(&mut self, count: Count) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.0.min(self.left()));
        self.rest = rest;
        taken
    }

    /// Checks a declared number of elements of at least `each` bytes.
    pub(crate) fn count(
        &self,
        declared: u32,
        each: usize,
        limit: usize,
        field: WireField,
    ) -> Result<Count, DecodeError> {
        let (found, limit) = (u64::from(declared), limit as u64);
        if found > limit {
            return Err(DecodeError::TooLarge { field, found, limit });
        }
        let (needed, left) = (found * each as u64, self.left() as u64);
        if needed > left {
            return Err(DecodeError::Truncated { field, needed, left });
        }
        Ok(Count(declared as usize))
    }

    /// Checks that all was read.
    pub(crate) fn end(&self, field: WireField) -> Result<(), DecodeError> {
        match self.left() as u64 {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { field, count }),
        }
    }
}
