//! The private structs that are on the wire, and the only use of serde and bincode.
//!
//! All are flat and of one size: little-endian, fixed-width, no padding. bincode never sees a length. Asked for
//! a `Vec`, it hands the declared count on to serde unchecked, which allocates up to a mebibyte on the word of a
//! frame of ten bytes, and its size limit counts what was read, not what was declared. So counts are read as
//! plain numbers here and checked against the limits and against the bytes left before anything is allocated.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{DecodeError, WireField};

/// The longest struct is a batch head; nothing here may grow above this.
const LONGEST: usize = 32;

const FORMAT: Configuration<LittleEndian, Fixint, Limit<LONGEST>> =
    bincode::config::standard().with_little_endian().with_fixed_int_encoding().with_limit::<LONGEST>();

pub(crate) const HEADER_BYTES: usize = Header::BYTES;
pub(crate) const RECORD_BYTES: usize = RecordHead::BYTES;
pub(crate) const BLOCK_BYTES: usize = Block::BYTES;
pub(crate) const NAME_BYTES: usize = Name::BYTES;

/// A struct that is always as long.
pub(crate) trait Flat: Serialize + DeserializeOwned {
    /// Its bytes on the wire.
    const BYTES: usize;
}

macro_rules! flat {
    ($bytes:literal, $(#[$doc:meta])* struct $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }

        impl Flat for $name {
            const BYTES: usize = $bytes;
        }

        const _: () = assert!($bytes <= LONGEST && $bytes == 0 $(+ size_of::<$type>())*);
    };
}

flat! { 16,
    /// What every frame begins with.
    struct Header {
        magic: [u8; 4],
        version: u16,
        kind: u8,
        flags: u8,
        body_bytes: u32,
        checksum: u32,
    }
}

flat! { 32,
    /// What the body of a batch begins with.
    struct BatchHead {
        worker: u64,
        rank: u32,
        incarnation: u64,
        sequence: u64,
        events: u32,
    }
}

flat! { 16,
    /// What every record begins with. `number` and `name` mean what `kind` makes of them.
    struct RecordHead {
        kind: u8,
        tier: u8,
        has_parent: u8,
        reserved: u8,
        number: u32,
        name: u64,
    }
}

flat! { 16,
    /// A block of a store.
    struct Block {
        external: u64,
        local: u64,
    }
}

flat! { 8,
    /// A block of a removal.
    struct Name {
        external: u64,
    }
}

flat! { 24,
    /// What follows the record head of a watermark. `frame` means something if the head says so.
    struct Mark {
        incarnation: u64,
        sequence: u64,
        frame: u64,
    }
}

flat! { 8,
    /// The body of a dump's first frame.
    struct DumpStart {
        fingerprint: u64,
    }
}

flat! { 8,
    /// What the body of a dump's chunk begins with.
    struct ChunkHead {
        index: u64,
    }
}

flat! { 24,
    /// The body of a dump's last frame.
    struct DumpEnd {
        chunks: u64,
        events: u64,
        watermarks: u64,
    }
}

/// Appends a struct.
#[inline]
pub(crate) fn put<T: Flat>(value: &T, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + T::BYTES, 0);
    put_at(value, out, at);
}

/// Writes a struct over the bytes at `at`, which must be there.
#[inline]
pub(crate) fn put_at<T: Flat>(value: &T, out: &mut [u8], at: usize) {
    let written = bincode::serde::encode_into_slice(value, &mut out[at..at + T::BYTES], FORMAT);
    debug_assert!(written.is_ok_and(|bytes| bytes == T::BYTES), "a flat struct fills its bytes");
}

/// Reads a struct from exactly its bytes.
#[inline]
pub(crate) fn read<T: Flat>(bytes: &[u8], field: WireField) -> Result<T, DecodeError> {
    let truncated = || DecodeError::Truncated { field, needed: T::BYTES as u64, left: bytes.len() as u64 };
    match bincode::serde::decode_from_slice(bytes, FORMAT) {
        Ok((value, _)) => Ok(value),
        Err(_) => Err(truncated()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use serde::Deserializer;
    use serde::de::{SeqAccess, Visitor};

    use super::*;

    #[track_caller]
    fn check<T: Flat + PartialEq + fmt::Debug>(value: T, hex: &str) {
        let mut out = vec![0xEE];
        put(&value, &mut out);
        assert_eq!(out.len(), 1 + T::BYTES);
        let written: String = out[1..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex);
        assert_eq!(read::<T>(&out[1..], WireField::Body), Ok(value));
        for cut in 0..T::BYTES {
            let error = read::<T>(&out[1..=cut], WireField::Body).unwrap_err();
            let (needed, left) = (T::BYTES as u64, cut as u64);
            assert_eq!(error, DecodeError::Truncated { field: WireField::Body, needed, left });
        }
    }

    #[test]
    fn structs_are_their_fields_in_little_endian() {
        let header =
            Header { magic: *b"KVRT", version: 1, kind: 2, flags: 3, body_bytes: 4, checksum: 0x0A0B_0C0D };
        check(header, "4b56525401000203040000000d0c0b0a");
        let record = RecordHead {
            kind: 1,
            tier: 2,
            has_parent: 3,
            reserved: 4,
            number: 5,
            name: 0x0102_0304_0506_0708,
        };
        check(record, "01020304050000000807060504030201");
        let head = BatchHead { worker: 1, rank: 2, incarnation: 3, sequence: u64::MAX, events: 4 };
        check(head, "0100000000000000020000000300000000000000ffffffffffffffff04000000");
        check(Block { external: 1, local: 2 }, "01000000000000000200000000000000");
        check(Name { external: 251 }, "fb00000000000000");
    }

    /// Why no `Vec` is decoded here: eight bytes that claim 2^40 elements get a visitor that believes them.
    #[test]
    fn bincode_hands_a_declared_count_on_unchecked() {
        struct Claimed(Option<usize>);

        impl<'de> Deserialize<'de> for Claimed {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                struct Ask;
                impl<'de> Visitor<'de> for Ask {
                    type Value = Claimed;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a sequence")
                    }
                    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Claimed, A::Error> {
                        Ok(Claimed(seq.size_hint()))
                    }
                }
                input.deserialize_seq(Ask)
            }
        }

        let frame = (1u64 << 40).to_le_bytes();
        let (claimed, _) = bincode::serde::decode_from_slice::<Claimed, _>(&frame, FORMAT).unwrap();
        assert_eq!(claimed.0, Some(1 << 40), "the limit of 32 bytes did not object");
    }
}
