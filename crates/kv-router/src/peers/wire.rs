//! Messages between routers as bytes. All integers little-endian and of fixed width; docs/wire.md has the tables.

use std::ops::Range;
use std::time::Duration;

use kv_router_load::{
    BookingName, BookingsPart, DeltaBatch, LoadDelta, ReplicaId, ReplicaLife, SharedBooking,
};
use kv_router_schedule::{BindingVersion, SessionGossip, SessionId};
use kv_router_transport::crc32;
use kv_router_types::{DpRank, SequenceHash, WorkerId, WorkerRank};

use super::{PeerDecodeError, PeerEncodeError, PeerMessage};

const MAGIC: [u8; 4] = *b"KVRP";
const VERSION: u16 = 2;
const HEADER: usize = 16;

const DELTAS: u8 = 1;
const BOOKINGS: u8 = 2;
const WANT: u8 = 3;
const SESSIONS: u8 = 4;

const BOOKED: u8 = 0;
const PROGRESSED: u8 = 1;
const RELEASED: u8 = 2;

/// The bounds of a message between routers. Give all routers the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Bytes, header included. Default 1 MiB. Give it at least the largest
    /// [`JournalConfig::max_message_bytes`](crate::JournalConfig::max_message_bytes) of any router: none sends more.
    pub max_bytes: usize,
    /// Changes, bookings or sessions. Default 262,144. Give it a ninth of the bytes at least: the smallest change takes
    /// nine, and routers fill their messages by bytes.
    pub max_records: usize,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self { max_bytes: 1 << 20, max_records: 1 << 18 }
    }
}

impl PeerMessage {
    /// Turns the message into bytes, which replace those in `out`.
    ///
    /// # Errors
    ///
    /// [`PeerEncodeError`] above a limit; `out` is then empty.
    pub fn encode(&self, limits: &PeerLimits, out: &mut Vec<u8>) -> Result<(), PeerEncodeError> {
        out.clear();
        let records = match self {
            Self::Deltas(batch) => batch.deltas.len(),
            Self::Bookings(part) => part.bookings.len(),
            Self::WantBookings { .. } => 0,
            Self::Sessions(gossip) => gossip.len(),
        };
        if records > limits.max_records {
            return Err(PeerEncodeError::TooManyRecords { records, limit: limits.max_records });
        }
        let bytes = HEADER + self.body_bytes();
        let body_bytes = u32::try_from(bytes - HEADER).ok().filter(|_| bytes <= limits.max_bytes);
        let too_large = PeerEncodeError::TooLarge { bytes, limit: limits.max_bytes.min(u32::MAX as usize) };
        let body_bytes = body_bytes.ok_or(too_large)?;
        out.reserve(bytes);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.kind(), 0]);
        out.extend_from_slice(&body_bytes.to_le_bytes());
        out.extend_from_slice(&[0; 4]); // the checksum, later
        self.write_body(out);
        debug_assert_eq!(out.len(), bytes);
        let checksum = crc32([&out[..12], &out[HEADER..]]);
        out[12..HEADER].copy_from_slice(&checksum.to_le_bytes());
        Ok(())
    }

    /// Turns the bytes of one message back into it.
    ///
    /// # Errors
    ///
    /// [`PeerDecodeError`].
    pub fn decode(bytes: &[u8], limits: &PeerLimits) -> Result<Self, PeerDecodeError> {
        let (kind, body) = open(bytes, limits)?;
        let mut body = Reader { rest: body, most: limits.max_records };
        let message = match kind {
            DELTAS => {
                let (from, first, count) = (body.life()?, body.u64()?, body.count(9)?);
                let deltas = (0..count).map(|_| body.delta()).collect::<Result<_, _>>()?;
                Self::Deltas(DeltaBatch { from, first, deltas })
            }
            BOOKINGS => {
                let (from, next, names, count) = (body.life()?, body.u64()?, body.names()?, body.count(40)?);
                let bookings = (0..count).map(|_| body.booking()).collect::<Result<_, _>>()?;
                Self::Bookings(BookingsPart { from, next, names, bookings })
            }
            WANT => {
                let (from, of) = (ReplicaId::new(body.u64()?), ReplicaId::new(body.u64()?));
                Self::WantBookings { from, of, names: body.names()? }
            }
            SESSIONS => {
                let count = body.count(SESSION_BYTES)?;
                Self::Sessions((0..count).map(|_| body.session()).collect::<Result<_, _>>()?)
            }
            found => return Err(PeerDecodeError::UnknownKind { found }),
        };
        match body.rest.len() {
            0 => Ok(message),
            extra => Err(PeerDecodeError::TrailingBytes { extra }),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Deltas(_) => DELTAS,
            Self::Bookings(_) => BOOKINGS,
            Self::WantBookings { .. } => WANT,
            Self::Sessions(_) => SESSIONS,
        }
    }

    fn body_bytes(&self) -> usize {
        match self {
            Self::Deltas(batch) => 28 + batch.deltas.iter().map(delta_bytes).sum::<usize>(),
            Self::Bookings(part) => 44 + part.bookings.iter().map(booking_bytes).sum::<usize>(),
            Self::WantBookings { .. } => 32,
            Self::Sessions(gossip) => 4 + SESSION_BYTES * gossip.len(),
        }
    }

    fn write_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Deltas(DeltaBatch { from, first, deltas }) => {
                write_life(*from, out);
                out.extend_from_slice(&first.to_le_bytes());
                write_count(deltas.len(), out);
                deltas.iter().for_each(|delta| write_delta(delta, out));
            }
            Self::Bookings(BookingsPart { from, next, names, bookings }) => {
                write_life(*from, out);
                out.extend_from_slice(&next.to_le_bytes());
                write_names(names, out);
                write_count(bookings.len(), out);
                bookings.iter().for_each(|booking| write_booking(booking, out));
            }
            Self::WantBookings { from, of, names } => {
                out.extend_from_slice(&from.get().to_le_bytes());
                out.extend_from_slice(&of.get().to_le_bytes());
                write_names(names, out);
            }
            Self::Sessions(gossip) => {
                write_count(gossip.len(), out);
                gossip.iter().for_each(|gossip| write_session(gossip, out));
            }
        }
    }
}

pub(super) const SESSION_BYTES: usize = 56;

/// Bytes of a message of sessions beside the sessions.
pub(super) const SESSIONS_HEAD: usize = HEADER + 4;

fn booking_bytes(booking: &SharedBooking) -> usize {
    40 + 8 * booking.prompt_blocks.len()
}

fn delta_bytes(delta: &LoadDelta) -> usize {
    match delta {
        LoadDelta::Booked(booking) => 1 + booking_bytes(booking),
        LoadDelta::Progressed { .. } => 21,
        LoadDelta::Released { .. } => 9,
    }
}

/// Counts fit: the limit on bytes is below `u32::MAX`, and so is any number of records in them.
fn write_count(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn write_life(from: ReplicaLife, out: &mut Vec<u8>) {
    out.extend_from_slice(&from.replica.get().to_le_bytes());
    out.extend_from_slice(&from.life.to_le_bytes());
}

fn write_names(names: &Range<BookingName>, out: &mut Vec<u8>) {
    out.extend_from_slice(&names.start.get().to_le_bytes());
    out.extend_from_slice(&names.end.get().to_le_bytes());
}

fn write_delta(delta: &LoadDelta, out: &mut Vec<u8>) {
    match delta {
        LoadDelta::Booked(booking) => {
            out.push(BOOKED);
            write_booking(booking, out);
        }
        LoadDelta::Progressed { name, prefill_tokens, output_blocks } => {
            out.push(PROGRESSED);
            out.extend_from_slice(&name.get().to_le_bytes());
            out.extend_from_slice(&prefill_tokens.to_le_bytes());
            out.extend_from_slice(&output_blocks.to_le_bytes());
        }
        LoadDelta::Released { name } => {
            out.push(RELEASED);
            out.extend_from_slice(&name.get().to_le_bytes());
        }
    }
}

fn write_booking(booking: &SharedBooking, out: &mut Vec<u8>) {
    let SharedBooking { name, worker, prefill_tokens, prompt_blocks, private_blocks, output_blocks } =
        booking;
    out.extend_from_slice(&name.get().to_le_bytes());
    out.extend_from_slice(&worker.worker.get().to_le_bytes());
    out.extend_from_slice(&worker.rank.get().to_le_bytes());
    out.extend_from_slice(&prefill_tokens.to_le_bytes());
    out.extend_from_slice(&private_blocks.to_le_bytes());
    out.extend_from_slice(&output_blocks.to_le_bytes());
    write_count(prompt_blocks.len(), out);
    prompt_blocks.iter().for_each(|block| out.extend_from_slice(&block.get().to_le_bytes()));
}

fn write_session(gossip: &SessionGossip, out: &mut Vec<u8>) {
    let SessionGossip { session, worker, version, idle } = gossip;
    let idle = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
    out.extend_from_slice(&session.get().to_le_bytes());
    out.extend_from_slice(&version.count.to_le_bytes());
    out.extend_from_slice(&version.replica.to_le_bytes());
    out.extend_from_slice(&idle.to_le_bytes());
    let bound = worker.unwrap_or_default();
    out.extend_from_slice(&[u8::from(worker.is_some()), 0, 0, 0]);
    out.extend_from_slice(&bound.worker.get().to_le_bytes());
    out.extend_from_slice(&bound.rank.get().to_le_bytes());
}

/// Checks the frame; gives the kind and the body.
fn open<'b>(bytes: &'b [u8], limits: &PeerLimits) -> Result<(u8, &'b [u8]), PeerDecodeError> {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(PeerDecodeError::Truncated { missing: HEADER - bytes.len() });
    };
    let [m0, m1, m2, m3, v0, v1, kind, flags, b0, b1, b2, b3, c0, c1, c2, c3] = *header;
    let found = [m0, m1, m2, m3];
    if found != MAGIC {
        return Err(PeerDecodeError::WrongMagic { found });
    }
    let found = u16::from_le_bytes([v0, v1]);
    if found != VERSION {
        return Err(PeerDecodeError::UnsupportedVersion { found });
    }
    let declared = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    if declared > limits.max_bytes.saturating_sub(HEADER) {
        return Err(PeerDecodeError::TooLarge {
            bytes: declared.saturating_add(HEADER),
            limit: limits.max_bytes,
        });
    }
    if body.len() < declared {
        return Err(PeerDecodeError::Truncated { missing: declared - body.len() });
    }
    if body.len() > declared {
        return Err(PeerDecodeError::TrailingBytes { extra: body.len() - declared });
    }
    if crc32([&header[..12], body]) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(PeerDecodeError::WrongChecksum);
    }
    if flags != 0 {
        return Err(PeerDecodeError::ReservedNotZero);
    }
    Ok((kind, body))
}

/// What is left of a body.
struct Reader<'b> {
    rest: &'b [u8],
    /// The most records of any kind.
    most: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], PeerDecodeError> {
        let Some((&bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(PeerDecodeError::Truncated { missing: N - self.rest.len() });
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, PeerDecodeError> {
        self.take().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, PeerDecodeError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, PeerDecodeError> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number of items of `least` bytes or more, all of which the bytes that are left could hold.
    fn items(&mut self, least: usize) -> Result<usize, PeerDecodeError> {
        let count = self.u32()? as usize;
        let missing = count.saturating_mul(least).saturating_sub(self.rest.len());
        if missing > 0 { Err(PeerDecodeError::Truncated { missing }) } else { Ok(count) }
    }

    fn count(&mut self, least: usize) -> Result<usize, PeerDecodeError> {
        let records = self.items(least)?;
        let limit = self.most;
        if records > limit { Err(PeerDecodeError::TooManyRecords { records, limit }) } else { Ok(records) }
    }

    fn life(&mut self) -> Result<ReplicaLife, PeerDecodeError> {
        Ok(ReplicaLife { replica: ReplicaId::new(self.u64()?), life: self.u64()? })
    }

    fn rank(&mut self) -> Result<WorkerRank, PeerDecodeError> {
        Ok(WorkerRank::new(WorkerId::new(self.u64()?), DpRank::new(self.u32()?)))
    }

    fn name(&mut self) -> Result<BookingName, PeerDecodeError> {
        self.u64().map(BookingName::new)
    }

    fn names(&mut self) -> Result<Range<BookingName>, PeerDecodeError> {
        Ok(self.name()?..self.name()?)
    }

    fn delta(&mut self) -> Result<LoadDelta, PeerDecodeError> {
        match self.u8()? {
            BOOKED => self.booking().map(LoadDelta::Booked),
            PROGRESSED => Ok(LoadDelta::Progressed {
                name: self.name()?,
                prefill_tokens: self.u64()?,
                output_blocks: self.u32()?,
            }),
            RELEASED => Ok(LoadDelta::Released { name: self.name()? }),
            found => Err(PeerDecodeError::UnknownRecord { found }),
        }
    }

    fn booking(&mut self) -> Result<SharedBooking, PeerDecodeError> {
        let (name, worker, prefill_tokens) = (self.name()?, self.rank()?, self.u64()?);
        let (private_blocks, output_blocks) = (self.u32()?, self.u32()?);
        let blocks = self.items(8)?;
        let prompt_blocks =
            (0..blocks).map(|_| self.u64().map(SequenceHash::new)).collect::<Result<_, _>>()?;
        Ok(SharedBooking { name, worker, prefill_tokens, prompt_blocks, private_blocks, output_blocks })
    }

    fn session(&mut self) -> Result<SessionGossip, PeerDecodeError> {
        let session = SessionId::new(u128::from_le_bytes(self.take()?));
        let version = BindingVersion { count: self.u64()?, replica: self.u64()? };
        let idle = Duration::from_nanos(self.u64()?);
        let bound: [u8; 4] = self.take()?;
        let worker = self.rank()?;
        let worker = match bound {
            [1, 0, 0, 0] => Some(worker),
            [0, 0, 0, 0] if worker == WorkerRank::default() => None,
            _ => return Err(PeerDecodeError::ReservedNotZero),
        };
        Ok(SessionGossip { session, worker, version, idle })
    }
}
