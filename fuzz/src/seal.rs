//! Checksums and lengths put right: without them damage stays on the threshold of a decoder.

use kv_router_transport::{DecodeError, DumpReadError, DumpReader, WireField, crc32};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before the body of a frame of `kv-router-transport`, and of a message between routers.
const HEADER: usize = 16;
/// Where its length and its checksum stand.
const LENGTH: usize = 8;
const CHECKSUM: usize = 12;

/// One frame of everything there is.
pub(crate) fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(body) = bytes.len().checked_sub(HEADER) {
        bytes[LENGTH..CHECKSUM].copy_from_slice(&(body as u32).to_le_bytes());
        checksum(&mut bytes);
    }
    bytes
}

fn checksum(frame: &mut [u8]) {
    let checksum = crc32([&frame[..CHECKSUM], &frame[HEADER..]]);
    frame[CHECKSUM..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

/// Frame after frame, as their lengths say; chunks get their numbers, and the end the totals that a reader counts.
pub(crate) fn dump(bytes: &[u8]) -> Vec<u8> {
    const CHUNK: u8 = 3;
    const END: u8 = 4;
    let mut bytes = bytes.to_vec();
    let (mut at, mut chunks) = (0, 0_u64);
    let mut end = None;
    while let Some(header) = bytes.get(at..at + HEADER) {
        let kind = header[6];
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let length = length.min(bytes.len() - at - HEADER);
        bytes[at + LENGTH..at + CHECKSUM].copy_from_slice(&(length as u32).to_le_bytes());
        let frame = &mut bytes[at..at + HEADER + length];
        if matches!(kind, CHUNK | END) && length >= 8 {
            frame[HEADER..HEADER + 8].copy_from_slice(&chunks.to_le_bytes());
        }
        chunks += u64::from(kind == CHUNK);
        if kind == END && length == 24 {
            end = Some(at);
        }
        checksum(frame);
        at += HEADER + length;
    }
    // The reader tells one total at a time.
    for _ in 0..2 {
        let Some(at) = end else { break };
        let Some((field, counted)) = miscounted(&bytes) else { break };
        let field = at + HEADER + if field == WireField::EventCount { 8 } else { 16 };
        bytes[field..field + 8].copy_from_slice(&counted.to_le_bytes());
        checksum(&mut bytes[at..at + HEADER + 24]);
    }
    bytes
}

fn miscounted(dump: &[u8]) -> Option<(WireField, u64)> {
    match DumpReader::new(dump).ok()?.find_map(Result::err)? {
        DumpReadError::Malformed { source: DecodeError::CountMismatch { field, counted, .. }, .. }
            if matches!(field, WireField::EventCount | WireField::WatermarkCount) =>
        {
            Some((field, counted))
        }
        _ => None,
    }
}

/// The checksum of a question or of the head of a page of `kv-router-nats`, at the end of `head` bytes.
pub(crate) fn head(bytes: &[u8], head: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= head {
        let checksum = crc32([&bytes[..head - 4], &[]]);
        bytes[head - 4..head].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

/// The checksum behind a summary of `kv-router-approx`.
pub(crate) fn summary(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(content) = bytes.len().checked_sub(8) {
        let checksum = xxh3_64(&bytes[..content]);
        bytes[content..].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}
