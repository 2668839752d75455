//! The bytes of a replay: what is asked, and one page of the answer. `docs/wire.md` has them too.

use bytes::Bytes;
use kv_router_transport::{Incarnation, crc32};

const ASK: [u8; 4] = *b"KVRQ";
const PAGE: [u8; 4] = *b"KVRG";
const VERSION: [u8; 2] = 1_u16.to_le_bytes();
/// Bytes of a question, checksum included.
pub(crate) const ASK_BYTES: usize = 36;
/// Bytes of a page before its frames.
pub(crate) const PAGE_HEAD_BYTES: usize = 32;
/// Bytes before each frame of a page.
pub(crate) const FRAME_HEAD_BYTES: usize = 4;

/// Which batches are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Whose; of another life the relay gives all that it has.
    pub(crate) incarnation: Incarnation,
    pub(crate) from: u64,
    /// The last one; `u64::MAX` for all there are.
    pub(crate) to: u64,
}

impl Ask {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ASK_BYTES);
        bytes.extend(ASK);
        bytes.extend(VERSION);
        bytes.extend([0; 2]);
        for number in [self.incarnation.get(), self.from, self.to] {
            bytes.extend(number.to_le_bytes());
        }
        let checksum = crc32([&bytes, &[]]);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Input::open(bytes, ASK, ASK_BYTES)?;
        let asked =
            Self { incarnation: Incarnation::new(input.u64()?), from: input.u64()?, to: input.u64()? };
        let _checksum = input.u32()?;
        input.0.is_empty().then_some(asked)
    }
}

/// Some of the batches asked for, in order, as frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The life that the relay is in.
    pub(crate) incarnation: Incarnation,
    /// The number that the next new batch will have.
    pub(crate) next: u64,
    pub(crate) frames: Vec<Bytes>,
}

impl Page {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let frames: usize = self.frames.iter().map(|frame| FRAME_HEAD_BYTES + frame.len()).sum();
        let mut bytes = Vec::with_capacity(PAGE_HEAD_BYTES + frames);
        bytes.extend(PAGE);
        bytes.extend(VERSION);
        bytes.extend([0; 2]);
        bytes.extend(self.incarnation.get().to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
        bytes.extend((self.frames.len() as u32).to_le_bytes());
        let checksum = crc32([&bytes, &[]]);
        bytes.extend(checksum.to_le_bytes());
        for frame in &self.frames {
            bytes.extend((frame.len() as u32).to_le_bytes());
            bytes.extend(frame);
        }
        bytes
    }

    /// The frames share the memory of `bytes`.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut input = Input::open(bytes, PAGE, PAGE_HEAD_BYTES)?;
        let (incarnation, next) = (Incarnation::new(input.u64()?), input.u64()?);
        let (count, _checksum) = (input.u32()? as usize, input.u32()?);
        // Nothing is allocated on the word of a count.
        if count.checked_mul(FRAME_HEAD_BYTES)? > input.0.len() {
            return None;
        }
        let mut frames = Vec::with_capacity(count);
        for _ in 0..count {
            let length = input.u32()? as usize;
            frames.push(bytes.slice_ref(input.take(length)?));
        }
        input.0.is_empty().then_some(Self { incarnation, next, frames })
    }
}

/// Bytes read from the front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Behind magic, version and zeros, whose head of `head` bytes has its checksum at its end.
    fn open(bytes: &'a [u8], magic: [u8; 4], head: usize) -> Option<Self> {
        let (checked, stated) = bytes.get(..head)?.split_at(head - 4);
        let sound = checked[..4] == magic
            && checked[4..6] == VERSION
            && checked[6..8] == [0; 2]
            && crc32([checked, &[]]).to_le_bytes() == stated;
        sound.then(|| Self(&bytes[8..]))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let frames = vec![Bytes::from_static(b"one"), Bytes::new(), Bytes::from_static(b"three")];
        Page { incarnation: Incarnation::new(9), next: 12, frames }
    }

    #[test]
    fn what_was_said_is_what_is_heard() {
        let ask = Ask { incarnation: Incarnation::new(3), from: 5, to: u64::MAX };
        assert_eq!(Ask::decode(&ask.encode()), Some(ask));
        assert_eq!(Page::decode(&Bytes::from(page().encode())), Some(page()));
    }

    #[test]
    fn any_change_of_a_question_and_of_the_head_of_a_page_is_noticed() {
        let ask = Ask { incarnation: Incarnation::new(3), from: 5, to: 8 }.encode();
        for at in 0..ask.len() {
            let mut bad = ask.clone();
            bad[at] ^= 0x20;
            assert_eq!(Ask::decode(&bad), None, "byte {at}");
            assert_eq!(Ask::decode(&ask[..at]), None);
        }
        let good = page().encode();
        for at in 0..PAGE_HEAD_BYTES {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            assert_eq!(Page::decode(&Bytes::from(bad)), None, "byte {at}");
        }
        for at in 0..good.len() {
            assert_eq!(Page::decode(&Bytes::copy_from_slice(&good[..at])), None);
        }
    }

    #[test]
    fn a_huge_count_and_a_huge_length_cost_nothing() {
        let mut bytes = Page { frames: vec![], ..page() }.encode();
        bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        let checksum = crc32([&bytes[..28], &[]]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Page::decode(&Bytes::from(bytes)), None);
        let mut bytes = page().encode();
        bytes[PAGE_HEAD_BYTES..PAGE_HEAD_BYTES + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Page::decode(&Bytes::from(bytes)), None);
    }
}
