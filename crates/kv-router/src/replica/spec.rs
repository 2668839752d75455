//! What a worker says of itself, as bytes: docs/wire.md has the table.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use kv_router_schedule::{Adapters, Capacity, Taint, WorkerTraits};
use kv_router_transport::{Incarnation, crc32};
use kv_router_types::BlockSize;

use crate::{EventSource, WorkerSpec};

const MAGIC: [u8; 4] = *b"KVRW";
const VERSION: u16 = 1;
const HEADER: usize = 40;

/// A description that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecEncodeError {
    /// A label or a name of more than 65,535 bytes, or more than 65,535 of them.
    TooLong {
        /// Of what: `taints` or `adapters`.
        field: &'static str,
    },
}

impl fmt::Display for SpecEncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { field } => {
                write!(f, "{field}: keep to 65,535 entries of 65,535 bytes each")
            }
        }
    }
}

impl Error for SpecEncodeError {}

/// Bytes that describe no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecDecodeError {
    /// They begin otherwise.
    NotASpec,
    /// They are of a version that this router does not know: update it.
    Version {
        /// Theirs.
        found: u16,
    },
    /// They end too early.
    Truncated,
    /// They were changed on the way.
    Checksum,
    /// A field has a value that it cannot have.
    Invalid {
        /// Which.
        field: &'static str,
    },
    /// There is more than a description.
    TrailingBytes {
        /// How many.
        extra: usize,
    },
}

impl fmt::Display for SpecDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASpec => f.write_str("no description of a worker: announce it with WorkerSpec::encode"),
            Self::Version { found } => {
                write!(f, "a description of version {found}, ours is {VERSION}: update the older side")
            }
            Self::Truncated => f.write_str("the description of a worker ends too early: announce it anew"),
            Self::Checksum => f.write_str("the description of a worker is damaged: announce it anew"),
            Self::Invalid { field } => {
                write!(f, "{field} of a worker's description has no valid value: update the older side")
            }
            Self::TrailingBytes { extra } => {
                write!(f, "{extra} bytes behind the description of a worker: announce it alone")
            }
        }
    }
}

impl Error for SpecDecodeError {}

impl WorkerSpec {
    /// Turns the description into bytes, for a registry of workers to carry.
    ///
    /// ```
    /// use kv_router::{BlockSize, WorkerSpec};
    ///
    /// let spec = WorkerSpec::new(BlockSize::new(16)?).with_ranks(8);
    /// assert_eq!(WorkerSpec::decode(&spec.encode()?)?, spec);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SpecEncodeError`].
    pub fn encode(&self) -> Result<Vec<u8>, SpecEncodeError> {
        let (all, adapters): (u8, &[Arc<str>]) = match &self.traits.adapters {
            Adapters::All => (0, &[]),
            Adapters::Only(names) => (1, names),
        };
        let taints = &self.traits.taints;
        let number = |value: Option<NonZeroU32>| value.map_or(0, NonZeroU32::get).to_le_bytes();
        let mut out = Vec::with_capacity(HEADER);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([u8::from(self.events == EventSource::Off), all]);
        out.extend(self.block_size.get().to_le_bytes());
        out.extend(self.ranks.to_le_bytes());
        out.extend(self.incarnation.get().to_le_bytes());
        out.extend(number(self.capacity.batched_tokens));
        out.extend(number(self.capacity.total_blocks));
        out.extend(length("taints", taints.len())?);
        out.extend(length("adapters", adapters.len())?);
        out.extend([0; 4]); // the checksum, later
        for taint in taints {
            out.extend(length("taints", taint.as_str().len())?);
            out.extend(taint.as_str().as_bytes());
        }
        for name in adapters {
            out.extend(length("adapters", name.len())?);
            out.extend(name.as_bytes());
        }
        let checksum = crc32([&out[..HEADER - 4], &out[HEADER..]]);
        out[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// Turns the bytes of one description back into it. Whether a router can take such a worker is for
    /// [`Router::join`](crate::Router::join) to say.
    ///
    /// # Errors
    ///
    /// [`SpecDecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SpecDecodeError> {
        let (head, rest) = bytes.split_at_checked(HEADER).ok_or(SpecDecodeError::Truncated)?;
        let mut head = Reader(head);
        if head.take::<4>()? != MAGIC {
            return Err(SpecDecodeError::NotASpec);
        }
        let found = u16::from_le_bytes(head.take()?);
        if found != VERSION {
            return Err(SpecDecodeError::Version { found });
        }
        if bytes[HEADER - 4..HEADER] != crc32([&bytes[..HEADER - 4], rest]).to_le_bytes() {
            return Err(SpecDecodeError::Checksum);
        }
        let invalid = |field| SpecDecodeError::Invalid { field };
        let [events, adapters] = head.take()?;
        let events = match events {
            0 => EventSource::On,
            1 => EventSource::Off,
            _ => return Err(invalid("events")),
        };
        let block_size = BlockSize::new(head.u32()?).map_err(|_| invalid("block_size"))?;
        let ranks = head.u32()?;
        let incarnation = Incarnation::new(u64::from_le_bytes(head.take()?));
        let capacity = Capacity {
            batched_tokens: NonZeroU32::new(head.u32()?),
            total_blocks: NonZeroU32::new(head.u32()?),
        };
        let (taint_count, adapter_count) = (head.u16()?, head.u16()?);
        let mut rest = Reader(rest);
        // Nothing is allocated on the word of a count: each entry has to be there.
        let taints = (0..taint_count).map(|_| rest.text("taints").map(Taint::new));
        let taints = taints.collect::<Result<Vec<_>, _>>()?;
        let names = (0..adapter_count).map(|_| rest.text("adapters").map(Arc::from));
        let names = names.collect::<Result<Vec<Arc<str>>, _>>()?;
        let adapters = match adapters {
            0 if names.is_empty() => Adapters::All,
            1 => Adapters::Only(names),
            _ => return Err(invalid("adapters")),
        };
        if !rest.0.is_empty() {
            return Err(SpecDecodeError::TrailingBytes { extra: rest.0.len() });
        }
        let traits = WorkerTraits { taints, adapters, ..WorkerTraits::default() };
        Ok(Self { block_size, ranks, traits, capacity, incarnation, events })
    }
}

fn length(field: &'static str, length: usize) -> Result<[u8; 2], SpecEncodeError> {
    u16::try_from(length).map(u16::to_le_bytes).map_err(|_| SpecEncodeError::TooLong { field })
}

/// Bytes read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&mut self, count: usize) -> Result<&'a [u8], SpecDecodeError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SpecDecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], SpecDecodeError> {
        self.slice(N)?.try_into().map_err(|_| SpecDecodeError::Truncated)
    }

    fn u16(&mut self) -> Result<u16, SpecDecodeError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, SpecDecodeError> {
        self.take().map(u32::from_le_bytes)
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, SpecDecodeError> {
        let length = self.u16()?;
        std::str::from_utf8(self.slice(length.into())?).map_err(|_| SpecDecodeError::Invalid { field })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn specs() -> impl Strategy<Value = WorkerSpec> {
        let adapters = prop_oneof![Just(None), vec(".{0,9}", 0..4).prop_map(Some)];
        let numbers = (1_u32..=65_536, any::<u32>(), any::<u64>(), any::<u32>(), any::<u32>());
        (numbers, vec(".{0,9}", 0..4), adapters, any::<bool>()).prop_map(
            |(numbers, taints, adapters, off)| {
                let (block_size, ranks, life, batched, total) = numbers;
                let mut spec = WorkerSpec::new(BlockSize::new(block_size).unwrap());
                spec.ranks = ranks;
                spec.incarnation = Incarnation::new(life);
                spec.capacity = Capacity {
                    batched_tokens: NonZeroU32::new(batched),
                    total_blocks: NonZeroU32::new(total),
                };
                spec.traits.taints = taints.into_iter().map(Taint::new).collect();
                if let Some(names) = adapters {
                    spec.traits.adapters = Adapters::Only(names.into_iter().map(Arc::from).collect());
                }
                if off { spec.without_events() } else { spec }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_said_is_what_is_heard(spec in specs()) {
            prop_assert_eq!(WorkerSpec::decode(&spec.encode().unwrap()), Ok(spec));
        }

        #[test]
        fn damage_is_noticed(spec in specs(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let good = spec.encode().unwrap();
            let mut bad = good.clone();
            bad[at.index(good.len())] ^= 1_u8 << bit;
            prop_assert!(WorkerSpec::decode(&bad).is_err());
            prop_assert!(WorkerSpec::decode(&good[..at.index(good.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(mut bytes in vec(any::<u8>(), HEADER..100)) {
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
            let checksum = crc32([&bytes[..HEADER - 4], &bytes[HEADER..]]);
            bytes[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(spec) = WorkerSpec::decode(&bytes) {
                prop_assert_eq!(spec.encode().unwrap(), bytes, "one value has one encoding");
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused_by_name() {
        let mut spec = WorkerSpec::new(BlockSize::new(16).unwrap());
        spec.traits.taints = vec![Taint::new("x".repeat(65_536))];
        assert_eq!(spec.encode(), Err(SpecEncodeError::TooLong { field: "taints" }));
    }
}
