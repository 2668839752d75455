//! Reads values from a slice, one after the other.
//!
//! A typed read gives `None`, and does not move, when the next value has another type: the caller decides whether
//! that loses an event. [`Broken`] is for bytes after which no value can be found any more.
//!
//! A declared length is believed only if the bytes that are left could hold it, and never reserves memory.

use super::Broken;

/// An integer as it stood on the wire: MessagePack has both all of `u64` and all of `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Int {
    /// Two's complement.
    pub(crate) bits: u64,
    /// Whether `bits` is below zero as an `i64`.
    pub(crate) negative: bool,
}

impl Int {
    /// The value, if it is not negative.
    pub(crate) fn unsigned(self) -> Option<u64> {
        (!self.negative).then_some(self.bits)
    }

    /// The nearest floating-point number.
    pub(crate) fn to_f64(self) -> f64 {
        if self.negative { self.bits.cast_signed() as f64 } else { self.bits as f64 }
    }
}

/// What the next value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nil,
    Bool,
    Int,
    Float,
    Str,
    Bin,
    Array,
    Map,
    Ext,
}

/// A position in a slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Never beyond `bytes.len()`.
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Goes back to where the reader was when [`Reader::at`] said `at`.
    pub(crate) fn rewind(&mut self, at: usize) {
        debug_assert!(at <= self.at);
        self.at = at.min(self.at);
    }

    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes between an earlier position and this one.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    #[inline]
    fn marker(&self) -> Result<u8, Broken> {
        self.bytes.get(self.at).copied().ok_or(Broken::Truncated { at: self.at })
    }

    /// Big-endian bytes at `offset` from here, without moving.
    #[inline]
    fn peek<const N: usize>(&self, offset: usize) -> Result<[u8; N], Broken> {
        self.bytes
            .get(self.at + offset..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .ok_or(Broken::Truncated { at: self.at })
    }

    pub(crate) fn kind(&self) -> Result<Kind, Broken> {
        Ok(match self.marker()? {
            0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff => Kind::Int,
            0x80..=0x8f | 0xde | 0xdf => Kind::Map,
            0x90..=0x9f | 0xdc | 0xdd => Kind::Array,
            0xa0..=0xbf | 0xd9..=0xdb => Kind::Str,
            0xc0 => Kind::Nil,
            0xc1 => return Err(Broken::Reserved { at: self.at }),
            0xc2 | 0xc3 => Kind::Bool,
            0xc4..=0xc6 => Kind::Bin,
            0xc7..=0xc9 | 0xd4..=0xd8 => Kind::Ext,
            0xca | 0xcb => Kind::Float,
        })
    }

    /// Whether the next value is nil; then it is read.
    #[inline]
    pub(crate) fn nil(&mut self) -> Result<bool, Broken> {
        let nil = self.marker()? == 0xc0;
        self.at += usize::from(nil);
        Ok(nil)
    }

    /// A token: an integer that fits 32 bits. The commonest value by far.
    #[inline]
    pub(crate) fn small(&mut self) -> Result<Option<u32>, Broken> {
        match self.marker()? {
            fix @ 0..=0x7f => {
                self.at += 1;
                Ok(Some(u32::from(fix)))
            }
            0xcd => {
                let value = u16::from_be_bytes(self.peek(1)?);
                self.at += 3;
                Ok(Some(u32::from(value)))
            }
            0xce => {
                let value = u32::from_be_bytes(self.peek(1)?);
                self.at += 5;
                Ok(Some(value))
            }
            _ => {
                let start = self.at;
                let value = self.int()?.and_then(Int::unsigned).and_then(|value| u32::try_from(value).ok());
                if value.is_none() {
                    self.at = start;
                }
                Ok(value)
            }
        }
    }

    /// Fills `out` with tokens for as long as they come in one of the forms that encoders choose for them, and says how
    /// many did. The rest, the last few bytes of the payload, and every fault are left to [`Reader::small`].
    pub(crate) fn smalls(&mut self, out: &mut [u32]) -> usize {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut filled = 0;
        for slot in out {
            // One load for the marker and whatever follows it; the commonest form is asked for first.
            let Some(&word) = rest.first_chunk() else { break };
            let word = u64::from_be_bytes(word);
            let marker = word >> 56;
            let (value, size) = if marker == 0xcd {
                (word >> 40 & 0xffff, 3)
            } else if marker <= 0x7f {
                (marker, 1)
            } else if marker == 0xce {
                (word >> 24 & 0xffff_ffff, 5)
            } else if marker == 0xcc {
                (word >> 48 & 0xff, 2)
            } else {
                break;
            };
            *slot = value as u32;
            rest = &rest[size..];
            filled += 1;
        }
        self.at = self.bytes.len() - rest.len();
        filled
    }

    /// An integer in nine bytes, which is how hashes stand, in two's complement, and whether it is negative. `None`, and
    /// nothing is read, when the next value is anything else, or damaged.
    #[inline]
    pub(crate) fn wide(&mut self) -> Option<Int> {
        let (&marker, bits) = self.bytes.get(self.at..)?.first_chunk::<9>()?.split_first()?;
        let bits = u64::from_be_bytes(*bits.first_chunk()?);
        let negative = match marker {
            0xcf => false,
            0xd3 => bits.cast_signed() < 0,
            _ => return None,
        };
        self.at += 9;
        Some(Int { bits, negative })
    }

    /// Reads nils, up to `most`; how many there were.
    pub(crate) fn nils(&mut self, most: usize) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let nils = rest.iter().take(most).take_while(|&&byte| byte == 0xc0).count();
        self.at += nils;
        nils
    }

    /// Passes over these very bytes, if they come next.
    #[inline]
    pub(crate) fn same(&mut self, bytes: &[u8]) -> bool {
        let same = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(bytes));
        self.at += if same { bytes.len() } else { 0 };
        same
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Result<Option<Int>, Broken> {
        let (bits, negative, size) = match self.marker()? {
            fix @ 0..=0x7f => (u64::from(fix), false, 1),
            fix @ 0xe0..=0xff => (i64::from(fix.cast_signed()).cast_unsigned(), true, 1),
            0xcc => (u64::from(u8::from_be_bytes(self.peek(1)?)), false, 2),
            0xcd => (u64::from(u16::from_be_bytes(self.peek(1)?)), false, 3),
            0xce => (u64::from(u32::from_be_bytes(self.peek(1)?)), false, 5),
            0xcf => (u64::from_be_bytes(self.peek(1)?), false, 9),
            signed @ 0xd0..=0xd3 => {
                let (value, size) = match signed {
                    0xd0 => (i64::from(i8::from_be_bytes(self.peek(1)?)), 2),
                    0xd1 => (i64::from(i16::from_be_bytes(self.peek(1)?)), 3),
                    0xd2 => (i64::from(i32::from_be_bytes(self.peek(1)?)), 5),
                    _ => (i64::from_be_bytes(self.peek(1)?), 9),
                };
                (value.cast_unsigned(), value < 0, size)
            }
            _ => return Ok(None),
        };
        self.at += size;
        Ok(Some(Int { bits, negative }))
    }

    /// A float, or an integer as the nearest one.
    pub(crate) fn number(&mut self) -> Result<Option<f64>, Broken> {
        let (value, size) = match self.marker()? {
            0xca => (f64::from(f32::from_be_bytes(self.peek(1)?)), 5),
            0xcb => (f64::from_be_bytes(self.peek(1)?), 9),
            _ => return Ok(self.int()?.map(Int::to_f64)),
        };
        self.at += size;
        Ok(Some(value))
    }

    /// The bytes of a string; whether they are UTF-8 is the caller's question.
    #[inline]
    pub(crate) fn str(&mut self) -> Result<Option<&'a [u8]>, Broken> {
        let (head, length) = match self.marker()? {
            fix @ 0xa0..=0xbf => (1, usize::from(fix & 0x1f)),
            0xd9 => (2, usize::from(u8::from_be_bytes(self.peek(1)?))),
            0xda => (3, usize::from(u16::from_be_bytes(self.peek(1)?))),
            0xdb => (5, u32::from_be_bytes(self.peek(1)?) as usize),
            _ => return Ok(None),
        };
        self.take(head, length).map(Some)
    }

    #[inline]
    pub(crate) fn bin(&mut self) -> Result<Option<&'a [u8]>, Broken> {
        let (head, length) = match self.marker()? {
            0xc4 => (2, usize::from(u8::from_be_bytes(self.peek(1)?))),
            0xc5 => (3, usize::from(u16::from_be_bytes(self.peek(1)?))),
            0xc6 => (5, u32::from_be_bytes(self.peek(1)?) as usize),
            _ => return Ok(None),
        };
        self.take(head, length).map(Some)
    }

    /// The number of elements of an array, which follow.
    #[inline]
    pub(crate) fn array(&mut self) -> Result<Option<usize>, Broken> {
        let (head, length) = match self.marker()? {
            fix @ 0x90..=0x9f => (1, usize::from(fix & 0x0f)),
            0xdc => (3, usize::from(u16::from_be_bytes(self.peek(1)?))),
            0xdd => (5, u32::from_be_bytes(self.peek(1)?) as usize),
            _ => return Ok(None),
        };
        self.enter(head, length, length)
    }

    /// The number of pairs of a map; keys and values follow in turn.
    #[inline]
    pub(crate) fn map(&mut self) -> Result<Option<usize>, Broken> {
        let (head, length) = match self.marker()? {
            fix @ 0x80..=0x8f => (1, usize::from(fix & 0x0f)),
            0xde => (3, usize::from(u16::from_be_bytes(self.peek(1)?))),
            0xdf => (5, u32::from_be_bytes(self.peek(1)?) as usize),
            _ => return Ok(None),
        };
        self.enter(head, length, length.saturating_mul(2))
    }

    /// Passes over one value and everything in it. Constant memory whatever the nesting: only the number of values
    /// still to come is kept.
    pub(crate) fn skip(&mut self) -> Result<(), Broken> {
        let mut pending: usize = 1;
        while pending > 0 {
            pending -= 1;
            pending += self.step()?;
            if pending > self.left() {
                return Err(Broken::Truncated { at: self.at });
            }
        }
        Ok(())
    }

    /// The same, unless the value nests deeper than `LEVELS`; then the reader does not move and says no.
    pub(crate) fn skip_shallow<const LEVELS: usize>(&mut self) -> Result<bool, Broken> {
        let start = self.at;
        let mut open = [0usize; LEVELS];
        let mut depth = 0;
        loop {
            let inside = self.step()?;
            if inside > 0 {
                let Some(level) = open.get_mut(depth) else {
                    self.at = start;
                    return Ok(false);
                };
                *level = inside;
                depth += 1;
                continue;
            }
            loop {
                let Some(last) = depth.checked_sub(1) else { return Ok(true) };
                open[last] -= 1;
                if open[last] > 0 {
                    break;
                }
                depth = last;
            }
        }
    }

    /// Passes over one value's own bytes; the values in it follow, and their number is returned.
    #[inline]
    fn step(&mut self) -> Result<usize, Broken> {
        let marker = self.marker()?;
        let (head, body) = match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (1, 0),
            0xc1 => return Err(Broken::Reserved { at: self.at }),
            0x90..=0x9f | 0xdc | 0xdd => return Ok(self.array()?.unwrap_or(0)),
            0x80..=0x8f | 0xde | 0xdf => return Ok(self.map()?.unwrap_or(0) * 2),
            0xa0..=0xbf => (1, usize::from(marker & 0x1f)),
            0xc4 | 0xd9 => (2, usize::from(u8::from_be_bytes(self.peek(1)?))),
            0xc5 | 0xda => (3, usize::from(u16::from_be_bytes(self.peek(1)?))),
            0xc6 | 0xdb => (5, u32::from_be_bytes(self.peek(1)?) as usize),
            0xc7 => (3, usize::from(u8::from_be_bytes(self.peek(1)?))),
            0xc8 => (4, usize::from(u16::from_be_bytes(self.peek(1)?))),
            0xc9 => (6, u32::from_be_bytes(self.peek(1)?) as usize),
            0xcc | 0xd0 => (1, 1),
            0xcd | 0xd1 => (1, 2),
            0xca | 0xce | 0xd2 => (1, 4),
            0xcb | 0xcf | 0xd3 => (1, 8),
            0xd4..=0xd8 => (2, 1 << (marker - 0xd4)),
        };
        self.take(head, body)?;
        Ok(0)
    }

    #[inline]
    fn take(&mut self, head: usize, length: usize) -> Result<&'a [u8], Broken> {
        let start = self.at + head;
        let body = start.checked_add(length).and_then(|end| self.bytes.get(start..end));
        let body = body.ok_or(Broken::Truncated { at: self.at })?;
        self.at = start + length;
        Ok(body)
    }

    /// Enters a collection, if its `values`, a byte each at the least, can still come.
    #[inline]
    fn enter(&mut self, head: usize, length: usize, values: usize) -> Result<Option<usize>, Broken> {
        if values > self.left() - head {
            return Err(Broken::Truncated { at: self.at });
        }
        self.at += head;
        Ok(Some(length))
    }
}
