//! What an [`Ingest`] remembers, as bytes: for snapshots that a stream can go on from.
//!
//! The events of an index do not say it all: how many copies there are, under which salt a chain runs, which blocks
//! of ours an engine's block is. The bytes come in pieces of bounded size, each of whole records, to be handed back in
//! the same order. `docs/wire.md` has every byte.

use std::error::Error;
use std::fmt;

use kv_router_types::{LocalBlockHash, SequenceHash, Tier};
use rustc_hash::FxHashMap;

use super::groups::{GroupUse, Groups};
use super::merge::Part;
use super::names::Place;
use super::salts::SaltId;
use super::{Ingest, IngestConfig, Sizes};

const VERSION: u8 = 1;

const HEAD: u8 = 0;
const SALT: u8 = 1;
const NAMES: u8 = 2;
const PARTS: u8 = 3;

const ROOT: u8 = 1;
/// One copy, in device memory, of a block that is one of ours and has no salt: no more is written.
const PLAIN: u8 = 2;
const LAST: u8 = 4;

/// A piece is handed out once it is this long.
const PIECE_BYTES: usize = 32 << 10;

impl Ingest {
    /// Hands out what it remembers, in pieces of some tens of kilobytes (a salt is a piece of its own length), for an
    /// [`IngestLoader`]. Counters are not part of it. Cost: some 30 bytes and 10 ns a name.
    pub fn save(&self, emit: &mut dyn FnMut(&[u8])) {
        let mut piece = vec![VERSION, HEAD];
        let (sizes, size) = match self.sizes {
            Sizes::None => (0, 0),
            Sizes::One(parts) => (1, parts),
            Sizes::Mixed => (2, 0),
        };
        piece.push(sizes);
        piece.extend(size.to_le_bytes());
        piece.extend(self.engine_block_size.unwrap_or(0).to_le_bytes());
        for count in [self.names.salt_count(), self.names.len(), self.parts.len()] {
            piece.extend((count as u64).to_le_bytes());
        }
        for &(group, used) in &self.groups.known {
            piece.extend(group.to_le_bytes());
            piece.push(u8::from(used == GroupUse::Indexed));
        }
        emit(&piece);
        for (id, text) in self.names.all_salts() {
            piece.truncate(1);
            piece.push(SALT);
            piece.extend(id.number().to_le_bytes());
            piece.extend(text.as_bytes());
            emit(&piece);
        }
        let mut names = Pieces::new(NAMES, emit);
        for entry in self.names.iter() {
            let plain = entry.copies == [1, 0, 0, 0] && entry.parts == 1 && entry.salt == SaltId::NONE;
            let parent = entry.parent;
            let flags = if parent.is_none() { ROOT } else { 0 } | if plain { PLAIN } else { 0 };
            names.bytes.push(flags);
            for word in [Some(entry.name), Some(entry.local.get()), Some(entry.path.get()), parent] {
                names.bytes.extend(word.into_iter().flat_map(u64::to_le_bytes));
            }
            if !plain {
                names.bytes.extend(entry.copies.into_iter().flat_map(u32::to_le_bytes));
                names.bytes.extend(entry.salt.number().to_le_bytes());
                names.bytes.extend(entry.parts.to_le_bytes());
            }
            names.next();
        }
        names.end();
        // A part comes after the one before it, which has fewer tokens.
        let mut order: Vec<_> = self.parts.iter().collect();
        order.sort_unstable_by_key(|&(name, part)| (part.tokens.len(), name));
        let mut parts = Pieces::new(PARTS, emit);
        for (name, part) in order {
            let flags = if part.before.is_none() { ROOT } else { 0 }
                | if part.base.is_none() { PLAIN } else { 0 }
                | if part.whole.is_some() { LAST } else { 0 };
            parts.bytes.push(flags);
            for word in [Some(name), part.before, part.base, part.whole.map(LocalBlockHash::get)] {
                parts.bytes.extend(word.into_iter().flat_map(u64::to_le_bytes));
            }
            parts.bytes.extend(part.copies.into_iter().flat_map(u32::to_le_bytes));
            parts.bytes.extend(part.salt.number().to_le_bytes());
            parts.bytes.extend((part.tokens.len() as u32).to_le_bytes());
            parts.bytes.extend(part.tokens.iter().flat_map(|token| token.to_le_bytes()));
            parts.next();
        }
        parts.end();
    }

    /// For what another ingest of this configuration has saved.
    pub fn loader(&self) -> IngestLoader {
        IngestLoader::new(self.config.clone())
    }
}

/// Records, cut into pieces.
struct Pieces<'a> {
    kind: u8,
    bytes: Vec<u8>,
    emit: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Pieces<'a> {
    fn new(kind: u8, emit: &'a mut dyn FnMut(&[u8])) -> Self {
        Self { kind, bytes: vec![VERSION, kind], emit }
    }

    /// A record is complete.
    fn next(&mut self) {
        if self.bytes.len() >= PIECE_BYTES {
            (self.emit)(&self.bytes);
            self.bytes.clear();
            self.bytes.extend([VERSION, self.kind]);
        }
    }

    fn end(self) {
        if self.bytes.len() > 2 {
            (self.emit)(&self.bytes);
        }
    }
}

/// Puts together what [`Ingest::save`] handed out.
///
/// ```
/// use kv_router_engines::{Ingest, IngestConfig, IngestLoader};
/// use kv_router_hash::{HashScheme, Window};
/// use kv_router_types::BlockSize;
///
/// let config = IngestConfig::new(HashScheme::new(BlockSize::new(16)?, Window::Plain));
/// let mut pieces = Vec::new();
/// Ingest::new(config.clone()).save(&mut |piece| pieces.push(piece.to_vec()));
///
/// let mut loader = IngestLoader::new(config);
/// for piece in &pieces {
///     loader.piece(piece)?;
/// }
/// assert_eq!(loader.finish()?.name_count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IngestLoader {
    ingest: Ingest,
    salts: FxHashMap<u32, SaltId>,
    /// Salts, names and parts that there are to be. `None` before the head.
    wanted: Option<[u64; 3]>,
}

impl IngestLoader {
    /// For a rank whose events are understood this way. Block size and window must be the saver's; what else differs
    /// counts from the next event on.
    pub fn new(config: IngestConfig) -> Self {
        Self { ingest: Ingest::new(config), salts: FxHashMap::default(), wanted: None }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    ///
    /// [`IngestStateError`]; the loader is of no use then.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), IngestStateError> {
        let mut input = Input(piece);
        let [version, kind] = input.take()?;
        if version != VERSION {
            return Err(IngestStateError::UnknownVersion { version });
        }
        match (kind, self.wanted) {
            (HEAD, None) => self.head(input),
            (SALT, Some(_)) => self.salt(input),
            (NAMES, Some(_)) => self.names(input),
            (PARTS, Some(_)) => self.parts(input),
            _ => Err(IngestStateError::Misplaced { kind }),
        }
    }

    /// The rank's ingest, as it was saved.
    ///
    /// # Errors
    ///
    /// [`IngestStateError::Incomplete`] when pieces are missing.
    pub fn finish(mut self) -> Result<Ingest, IngestStateError> {
        let ingest = &mut self.ingest;
        for &id in self.salts.values() {
            ingest.names.salts().tidy(id);
        }
        let found = [ingest.names.salt_count(), ingest.names.len(), ingest.parts.len()];
        match self.wanted {
            Some(wanted) if wanted == found.map(|count| count as u64) => Ok(self.ingest),
            _ => Err(IngestStateError::Incomplete),
        }
    }

    fn head(&mut self, mut input: Input<'_>) -> Result<(), IngestStateError> {
        let [sizes] = input.take()?;
        let parts = u16::from_le_bytes(input.take()?);
        self.ingest.sizes = match sizes {
            0 => Sizes::None,
            1 => Sizes::One(parts),
            2 => Sizes::Mixed,
            _ => return Err(IngestStateError::BadRecord { kind: HEAD }),
        };
        let size = input.u32()?;
        self.ingest.engine_block_size = (size > 0).then_some(size);
        self.wanted = Some([input.u64()?, input.u64()?, input.u64()?]);
        let mut groups = Groups::default();
        while !input.0.is_empty() {
            let group = input.u32()?;
            let used = match input.take()? {
                [0] => GroupUse::Other,
                [1] => GroupUse::Indexed,
                [_] => return Err(IngestStateError::BadRecord { kind: HEAD }),
            };
            // Several are indexed in what older versions wrote: nobody could tell whose a block is.
            let second =
                used == GroupUse::Indexed && groups.known.iter().any(|(_, used)| *used == GroupUse::Indexed);
            if second || groups.known.len() == Groups::MOST {
                return Err(IngestStateError::BadRecord { kind: HEAD });
            }
            groups.known.push((group, used));
        }
        self.ingest.groups = groups;
        Ok(())
    }

    fn salt(&mut self, mut input: Input<'_>) -> Result<(), IngestStateError> {
        let bad = IngestStateError::BadRecord { kind: SALT };
        let id = input.u32()?;
        let text = std::str::from_utf8(input.0).map_err(|_| bad)?;
        let is_room = self.salts.len() < self.ingest.config.max_names;
        if id == 0 || text.is_empty() || !is_room {
            return Err(bad);
        }
        let salt = self.ingest.names.salts().id(text).ok_or(bad)?;
        if self.salts.insert(id, salt).is_some() { Err(bad) } else { Ok(()) }
    }

    fn names(&mut self, mut input: Input<'_>) -> Result<(), IngestStateError> {
        let bad = IngestStateError::BadRecord { kind: NAMES };
        // At most what the bytes that came can hold.
        self.ingest.names.reserve(input.0.len() / 25);
        while !input.0.is_empty() {
            let [flags] = input.take()?;
            if flags & !(ROOT | PLAIN) != 0 {
                return Err(bad);
            }
            let name = input.u64()?;
            let local = LocalBlockHash::new(input.u64()?);
            let path = SequenceHash::new(input.u64()?);
            let parent = if flags & ROOT == 0 { Some(input.u64()?) } else { None };
            let (copies, salt, parts) = match flags & PLAIN {
                0 => {
                    (input.copies()?, self.known_salt(input.u32()?, bad)?, u16::from_le_bytes(input.take()?))
                }
                _ => ([1, 0, 0, 0], SaltId::NONE, 1),
            };
            let place = Place { name, parent, local, path, salt, parts };
            self.room()?;
            if parts == 0 || !self.ingest.names.restore(place, copies) {
                return Err(bad);
            }
        }
        Ok(())
    }

    fn parts(&mut self, mut input: Input<'_>) -> Result<(), IngestStateError> {
        let bad = IngestStateError::BadRecord { kind: PARTS };
        while !input.0.is_empty() {
            let [flags] = input.take()?;
            if flags & !(ROOT | PLAIN | LAST) != 0 {
                return Err(bad);
            }
            let mut word = |absent| if absent { Ok(None) } else { input.u64().map(Some) };
            let name = word(false)?.unwrap_or_default();
            let (before, base) = (word(flags & ROOT != 0)?, word(flags & PLAIN != 0)?);
            let whole = word(flags & LAST == 0)?.map(LocalBlockHash::new);
            let copies = input.copies()?;
            let salt = self.known_salt(input.u32()?, bad)?;
            let length = input.u32()? as usize;
            let bytes = length.checked_mul(4).and_then(|length| input.slice(length)).ok_or(bad)?;
            let tokens = bytes
                .chunks_exact(4)
                .map(|token| u32::from_le_bytes([token[0], token[1], token[2], token[3]]));
            let mut part = Part::new(before, base, tokens.collect(), salt);
            (part.copies, part.whole) = (copies, whole);
            // Whoever walks along `before` comes to shorter and shorter parts, and so to an end.
            let shorter = match before {
                None => 0,
                Some(before) => self.ingest.parts.get(before).ok_or(bad)?.tokens.len(),
            };
            let block = self.ingest.config.scheme.block_size().as_usize();
            let fits = shorter < length && length <= block && whole.is_some() == (length == block);
            self.room()?;
            if !fits || !self.ingest.parts.insert(name, part) {
                return Err(bad);
            }
            self.ingest.names.salts().hold(salt);
        }
        Ok(())
    }

    fn known_salt(&self, number: u32, bad: IngestStateError) -> Result<SaltId, IngestStateError> {
        if number == 0 { Ok(SaltId::NONE) } else { self.salts.get(&number).copied().ok_or(bad) }
    }

    fn room(&self) -> Result<(), IngestStateError> {
        let limit = self.ingest.config.max_names;
        if self.ingest.name_count() < limit { Ok(()) } else { Err(IngestStateError::TooManyNames { limit }) }
    }
}

/// Bytes that are left of a piece.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], IngestStateError> {
        let (taken, left) = self.0.split_first_chunk().ok_or(IngestStateError::Truncated)?;
        self.0 = left;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, IngestStateError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, IngestStateError> {
        self.take().map(u64::from_le_bytes)
    }

    fn copies(&mut self) -> Result<[u32; Tier::COUNT], IngestStateError> {
        let mut copies = [0; Tier::COUNT];
        for count in &mut copies {
            *count = self.u32()?;
        }
        Ok(copies)
    }
}

/// Why a saved ingest was not loaded. Rebuild the rank from its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IngestStateError {
    /// Written by another version.
    UnknownVersion {
        /// The version that it names.
        version: u8,
    },
    /// A piece of a kind that is unknown, or that does not belong here.
    Misplaced {
        /// The kind that it names.
        kind: u8,
    },
    /// A record says what cannot be.
    BadRecord {
        /// The kind of its piece.
        kind: u8,
    },
    /// A piece ends within a record.
    Truncated,
    /// More names than [`IngestConfig::max_names`].
    TooManyNames {
        /// The limit.
        limit: usize,
    },
    /// Pieces are missing.
    Incomplete,
}

impl fmt::Display for IngestStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion { version } => {
                write!(f, "version {version} of a saved ingest is unknown: rebuild the rank from its stream")
            }
            Self::Misplaced { kind } => {
                write!(f, "a piece of kind {kind} does not belong here: rebuild the rank")
            }
            Self::BadRecord { kind } => {
                write!(f, "a record of kind {kind} says what cannot be: rebuild the rank")
            }
            Self::Truncated => f.write_str("a piece ends within a record: rebuild the rank from its stream"),
            Self::TooManyNames { limit } => write!(f, "more than {limit} names: raise max_names"),
            Self::Incomplete => f.write_str("pieces are missing: rebuild the rank from its stream"),
        }
    }
}

impl Error for IngestStateError {}
