//! Records: an event, and in a dump also whose it is and up to where it goes.

use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::frame::Input;
use super::layout::{BLOCK_BYTES, Block, Mark, NAME_BYTES, Name, RECORD_BYTES, RecordHead, put};
use super::{DecodeError, EncodeError, WireField, WireLimits};
use crate::{FrameHash, Incarnation, Watermark};

const STORED: u8 = 0;
const REMOVED: u8 = 1;
const CLEARED: u8 = 2;
const RANK: u8 = 16;
const WATERMARK: u8 = 17;
const NOTE: u8 = 18;

const EMPTY: RecordHead = RecordHead { kind: 0, tier: 0, has_parent: 0, reserved: 0, number: 0, name: 0 };

/// One record of a dump's chunk.
#[derive(Debug)]
pub(crate) enum Record {
    Event(KvEvent),
    /// The records that follow belong to this rank.
    Rank(WorkerRank),
    Watermark(WorkerRank, Watermark),
    Note(Vec<u8>),
}

/// Appends an event.
pub(crate) fn put_event(event: &KvEvent, limits: &WireLimits, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let blocks = event.block_count();
    let too_large = EncodeError::TooLarge {
        field: WireField::Blocks,
        found: blocks as u64,
        limit: limits.blocks.min(u32::MAX as usize) as u64,
    };
    let number = u32::try_from(blocks).map_err(|_| too_large)?;
    if blocks > limits.blocks {
        return Err(too_large);
    }
    match event {
        KvEvent::Stored { tier, parent, blocks } => {
            out.reserve(RECORD_BYTES + blocks.len() * BLOCK_BYTES);
            let head = RecordHead {
                kind: STORED,
                tier: *tier as u8,
                has_parent: u8::from(parent.is_some()),
                number,
                name: parent.map_or(0, ExternalSequenceHash::get),
                ..EMPTY
            };
            put(&head, out);
            for block in blocks {
                put(&Block { external: block.external.get(), local: block.local.get() }, out);
            }
        }
        KvEvent::Removed { tier, blocks } => {
            out.reserve(RECORD_BYTES + blocks.len() * NAME_BYTES);
            put(&RecordHead { kind: REMOVED, tier: *tier as u8, number, ..EMPTY }, out);
            for block in blocks {
                put(&Name { external: block.get() }, out);
            }
        }
        KvEvent::Cleared => put(&RecordHead { kind: CLEARED, ..EMPTY }, out),
    }
    Ok(())
}

/// Appends whose the next records are.
pub(crate) fn put_rank(rank: WorkerRank, out: &mut Vec<u8>) {
    put(&about(RANK, rank), out);
}

/// Appends a watermark.
pub(crate) fn put_watermark(rank: WorkerRank, watermark: Watermark, out: &mut Vec<u8>) {
    let Watermark { incarnation, sequence, frame } = watermark;
    put(&RecordHead { has_parent: u8::from(frame.is_some()), ..about(WATERMARK, rank) }, out);
    let frame = frame.map_or(0, FrameHash::get);
    put(&Mark { incarnation: incarnation.get(), sequence, frame }, out);
}

/// Appends bytes of whoever feeds the rank.
pub(crate) fn put_note(note: &[u8], limits: &WireLimits, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let limit = note_limit(limits);
    let found = note.len();
    match u32::try_from(found) {
        Ok(number) if found <= limit => put(&RecordHead { kind: NOTE, number, ..EMPTY }, out),
        _ => {
            let (found, limit) = (found as u64, limit as u64);
            return Err(EncodeError::TooLarge { field: WireField::Note, found, limit });
        }
    }
    out.extend_from_slice(note);
    Ok(())
}

/// A note is not longer than the longest event.
pub(crate) fn note_limit(limits: &WireLimits) -> usize {
    limits.blocks.saturating_mul(BLOCK_BYTES)
}

fn about(kind: u8, rank: WorkerRank) -> RecordHead {
    RecordHead { kind, number: rank.rank.get(), name: rank.worker.get(), ..EMPTY }
}

/// Takes an event.
pub(crate) fn take_event(input: &mut Input<'_>, limits: &WireLimits) -> Result<KvEvent, DecodeError> {
    let head = input.take::<RecordHead>(WireField::RecordHead)?;
    event_after(head, input, limits)
}

/// Takes any record.
pub(crate) fn take_record(input: &mut Input<'_>, limits: &WireLimits) -> Result<Record, DecodeError> {
    let head = input.take::<RecordHead>(WireField::RecordHead)?;
    let rank = WorkerRank::new(WorkerId::new(head.name), DpRank::new(head.number));
    match head.kind {
        RANK => {
            unused(&head, &[(WireField::Tier, head.tier), (WireField::HasParent, head.has_parent)])?;
            Ok(Record::Rank(rank))
        }
        WATERMARK => {
            unused(&head, &[(WireField::Tier, head.tier)])?;
            let mark = input.take::<Mark>(WireField::Watermark)?;
            Ok(Record::Watermark(rank, watermark(head.has_parent, mark)?))
        }
        NOTE => {
            unused(&head, &[(WireField::Tier, head.tier), (WireField::HasParent, head.has_parent)])?;
            no_name(&head)?;
            let count = input.count(head.number, 1, note_limit(limits), WireField::Note)?;
            Ok(Record::Note(input.bytes(count).to_vec()))
        }
        _ => event_after(head, input, limits).map(Record::Event),
    }
}

fn watermark(has_frame: u8, mark: Mark) -> Result<Watermark, DecodeError> {
    let Mark { incarnation, sequence, frame } = mark;
    let frame = match (has_frame, frame) {
        (0, 0) => None,
        (0, found) => return Err(DecodeError::InvalidValue { field: WireField::FrameHash, found }),
        (1, frame) => Some(FrameHash::new(frame)),
        (found, _) => return Err(DecodeError::InvalidTag { field: WireField::HasFrame, found }),
    };
    Ok(Watermark { frame, ..Watermark::new(Incarnation::new(incarnation), sequence) })
}

fn event_after(head: RecordHead, input: &mut Input<'_>, limits: &WireLimits) -> Result<KvEvent, DecodeError> {
    match head.kind {
        STORED => {
            unused(&head, &[])?;
            let tier = tier(head.tier)?;
            let parent = parent(&head)?;
            let count = input.count(head.number, BLOCK_BYTES, limits.blocks, WireField::Blocks)?;
            let mut blocks = Vec::with_capacity(count.get());
            for block in input.take_many::<Block>(count, WireField::Blocks) {
                let Block { external, local } = block?;
                blocks
                    .push(StoredBlock::new(ExternalSequenceHash::new(external), LocalBlockHash::new(local)));
            }
            Ok(KvEvent::Stored { tier, parent, blocks })
        }
        REMOVED => {
            unused(&head, &[(WireField::HasParent, head.has_parent)])?;
            no_name(&head)?;
            let tier = tier(head.tier)?;
            let count = input.count(head.number, NAME_BYTES, limits.blocks, WireField::Blocks)?;
            let mut blocks = Vec::with_capacity(count.get());
            for name in input.take_many::<Name>(count, WireField::Blocks) {
                blocks.push(ExternalSequenceHash::new(name?.external));
            }
            Ok(KvEvent::Removed { tier, blocks })
        }
        CLEARED => {
            unused(&head, &[(WireField::Tier, head.tier), (WireField::HasParent, head.has_parent)])?;
            no_name(&head)?;
            match head.number {
                0 => Ok(KvEvent::Cleared),
                number => {
                    Err(DecodeError::InvalidValue { field: WireField::Blocks, found: u64::from(number) })
                }
            }
        }
        found => Err(DecodeError::InvalidTag { field: WireField::RecordKind, found }),
    }
}

/// One value has one encoding: what a kind of record does not use is 0.
fn unused(head: &RecordHead, fields: &[(WireField, u8)]) -> Result<(), DecodeError> {
    let reserved = (WireField::Reserved, head.reserved);
    match fields.iter().chain([&reserved]).find(|(_, value)| *value != 0) {
        Some(&(field, value)) => Err(DecodeError::InvalidValue { field, found: u64::from(value) }),
        None => Ok(()),
    }
}

fn no_name(head: &RecordHead) -> Result<(), DecodeError> {
    match head.name {
        0 => Ok(()),
        found => Err(DecodeError::InvalidValue { field: WireField::Parent, found }),
    }
}

fn tier(tag: u8) -> Result<Tier, DecodeError> {
    match Tier::ALL.get(usize::from(tag)) {
        Some(&tier) => Ok(tier),
        None => Err(DecodeError::InvalidTag { field: WireField::Tier, found: tag }),
    }
}

fn parent(head: &RecordHead) -> Result<Option<ExternalSequenceHash>, DecodeError> {
    match head.has_parent {
        0 => no_name(head).map(|()| None),
        1 => Ok(Some(ExternalSequenceHash::new(head.name))),
        found => Err(DecodeError::InvalidTag { field: WireField::HasParent, found }),
    }
}
