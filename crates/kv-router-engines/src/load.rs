//! SGLang's load stream: what a rank is busy with, pushed when it changes.

use std::error::Error;
use std::fmt;

use kv_router_types::DpRank;

use crate::msgpack::{Broken, Reader, Writer};

const TAG: &str = "LoadStat";

/// What one rank is busy with. Sent on a socket of its own, under the topic `load`.
///
/// The fields up to the rank are in every release; the others are `None` where a release does not send them.
///
/// ```
/// use kv_router_engines::LoadStat;
///
/// let busy = LoadStat { running: 12, waiting: 3, kv_tokens: 4_096, ..LoadStat::default() };
/// let mut payload = Vec::new();
/// busy.encode(&mut payload);
/// assert_eq!(LoadStat::decode(&payload)?, busy);
/// # Ok::<(), kv_router_engines::LoadStatError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStat {
    /// Requests that are computed.
    pub running: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Tokens whose KV cache is in use.
    pub kv_tokens: u64,
    /// Tokens that the KV cache has room for; 0 is unknown.
    pub kv_capacity: u64,
    /// The rank; `None` is the subscription's.
    pub rank: Option<DpRank>,
    /// Tokens of waiting requests that are not cached.
    pub waiting_uncached_tokens: Option<u64>,
    /// Tokens of all requests, waiting ones included.
    pub total_tokens: Option<u64>,
    /// Requests that may be computed at once.
    pub max_running: Option<u64>,
    /// Uncached prompt tokens computed since the start of the engine.
    pub prefill_uncached_tokens: Option<u64>,
    /// Microseconds spent on prompts since the start of the engine.
    pub prefill_busy_us: Option<u64>,
}

impl LoadStat {
    /// Reads a payload. Fields appended by later releases are passed over.
    ///
    /// # Errors
    ///
    /// [`LoadStatError`] when it is anything but a whole report of natural numbers.
    pub fn decode(payload: &[u8]) -> Result<Self, LoadStatError> {
        let mut reader = Reader::new(payload);
        let length = reader.array()?.ok_or(LoadStatError::NotALoadStat)?;
        if length == 0 || reader.str()? != Some(TAG.as_bytes()) {
            return Err(LoadStatError::NotALoadStat);
        }
        if length < 6 {
            return Err(LoadStatError::TooShort { fields: length - 1 });
        }
        let mut field = 0;
        let mut number = |reader: &mut Reader<'_>| {
            field += 1;
            if field >= length {
                return Ok(None);
            }
            match reader.nil()? {
                true => Ok(None),
                false => {
                    let value = reader.int()?.and_then(|int| int.unsigned());
                    value.map(Some).ok_or(LoadStatError::BadField { index: field })
                }
            }
        };
        let mut needed =
            |reader: &mut Reader<'_>, index| number(reader)?.ok_or(LoadStatError::BadField { index });
        let (running, waiting) = (needed(&mut reader, 1)?, needed(&mut reader, 2)?);
        let (kv_tokens, kv_capacity) = (needed(&mut reader, 3)?, needed(&mut reader, 4)?);
        let rank = match number(&mut reader)? {
            None => None,
            Some(rank) => {
                let rank = u16::try_from(rank).map_err(|_| LoadStatError::BadField { index: 5 })?;
                Some(DpRank::new(u32::from(rank)))
            }
        };
        let stat = Self {
            running,
            waiting,
            kv_tokens,
            kv_capacity,
            rank,
            waiting_uncached_tokens: number(&mut reader)?,
            total_tokens: number(&mut reader)?,
            max_running: number(&mut reader)?,
            prefill_uncached_tokens: number(&mut reader)?,
            prefill_busy_us: number(&mut reader)?,
        };
        for _ in 11..length {
            reader.skip()?;
        }
        match reader.left() {
            0 => Ok(stat),
            _ => Err(LoadStatError::Trailing { at: reader.at() }),
        }
    }

    /// Appends the payload that SGLang would send.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let tail = [
            self.waiting_uncached_tokens,
            self.total_tokens,
            self.max_running,
            self.prefill_uncached_tokens,
            self.prefill_busy_us,
        ];
        let sent = tail.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let mut writer = Writer::new(out);
        writer.array(6 + sent);
        writer.str(TAG);
        for value in [self.running, self.waiting, self.kv_tokens, self.kv_capacity] {
            writer.unsigned(value);
        }
        let rank = self.rank.map(|rank| u64::from(rank.get()));
        for value in std::iter::once(rank).chain(tail.into_iter().take(sent)) {
            match value {
                Some(value) => writer.unsigned(value),
                None => writer.nil(),
            }
        }
    }
}

/// Why a payload is no load report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadStatError {
    /// The bytes are not whole, or no MessagePack.
    Damaged {
        /// Offset of the fault in bytes.
        at: usize,
    },
    /// Another message, for instance a batch of cache events.
    NotALoadStat,
    /// Fewer fields than every release sends.
    TooShort {
        /// Fields after the tag.
        fields: usize,
    },
    /// A field that is no natural number, or a rank that is none.
    BadField {
        /// Which field, from 1.
        index: usize,
    },
    /// Bytes follow the report.
    Trailing {
        /// Offset of the first of them.
        at: usize,
    },
}

impl From<Broken> for LoadStatError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Truncated { at } | Broken::Reserved { at } => Self::Damaged { at },
        }
    }
}

impl fmt::Display for LoadStatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { at } => write!(f, "a load report is damaged at byte {at}: keep the last one"),
            Self::NotALoadStat => {
                f.write_str("no load report: check that the endpoint is the engine's load endpoint")
            }
            Self::TooShort { fields } => {
                write!(f, "a load report of {fields} fields, at least 5 are needed: keep the last one")
            }
            Self::BadField { index } => {
                write!(f, "field {index} of a load report is no natural number: keep the last one")
            }
            Self::Trailing { at } => {
                write!(f, "bytes follow the load report at byte {at}: keep the last one")
            }
        }
    }
}

impl Error for LoadStatError {}
