//! Reading a trace: plain or gzip, told apart by its first bytes, one bounded line at a time.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::error::{LineFault, TraceError};
use super::{Trace, line};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Limits for [`Trace::read_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Longest line accepted, in bytes. Default 1 MiB: a prompt of some 60 million tokens.
    pub max_line_bytes: usize,
    /// Most requests accepted. Default 1,000,000.
    pub max_requests: u32,
    /// Broken lines that are counted and left out before reading fails. Default 0: the first one fails it.
    pub max_skipped: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_line_bytes: 1 << 20, max_requests: 1_000_000, max_skipped: 0 }
    }
}

impl Trace {
    /// Reads a trace that must be whole: [`Trace::read_with`] under default limits.
    ///
    /// # Errors
    ///
    /// As [`Trace::read_with`].
    pub fn read(from: impl Read) -> Result<Self, TraceError> {
        Self::read_with(from, ReadOptions::default())
    }

    /// Reads one JSON object a line, plain or gzip. Empty lines are passed over.
    ///
    /// Memory is bounded by the limits whatever the bytes say; time is linear in the unpacked bytes.
    ///
    /// # Errors
    ///
    /// [`TraceError`] with the number of the line at fault; [`TraceError::Empty`] when no request is left.
    pub fn read_with(mut from: impl Read, options: ReadOptions) -> Result<Self, TraceError> {
        let broken = |source| TraceError::Read { line: 1, source };
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        from.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head).map_err(broken)?;
        let packed = head == GZIP_MAGIC;
        let whole = BufReader::new(Cursor::new(head).chain(from));
        if packed {
            read_lines(BufReader::new(MultiGzDecoder::new(whole)), options)
        } else {
            read_lines(whole, options)
        }
    }
}

fn read_lines(mut from: impl BufRead, options: ReadOptions) -> Result<Trace, TraceError> {
    let mut trace = Trace { records: Vec::new(), skipped: 0 };
    let mut buffer = Vec::new();
    let mut previous_ms = 0;
    for number in 1.. {
        let read = read_line(&mut from, options.max_line_bytes, &mut buffer)
            .map_err(|source| TraceError::Read { line: number, source })?;
        let parsed = match read {
            ReadLine::End => break,
            ReadLine::TooLong => Err(LineFault::TooLong { limit: options.max_line_bytes }),
            ReadLine::Whole if buffer.trim_ascii().is_empty() => continue,
            ReadLine::Whole => line::parse(&buffer, previous_ms),
        };
        match parsed {
            Ok(_) if trace.records.len() >= options.max_requests as usize => {
                return Err(TraceError::TooManyRequests { limit: options.max_requests });
            }
            Ok(record) => {
                previous_ms = record.timestamp_ms;
                trace.records.push(record);
            }
            Err(_) if trace.skipped < options.max_skipped => trace.skipped += 1,
            Err(fault) => return Err(TraceError::Line { line: number, fault }),
        }
    }
    if trace.records.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

enum ReadLine {
    Whole,
    TooLong,
    End,
}

/// Reads up to the next newline into `buffer`. A line over `limit` is passed over without being kept.
fn read_line(from: &mut impl BufRead, limit: usize, buffer: &mut Vec<u8>) -> io::Result<ReadLine> {
    buffer.clear();
    let allowed = (limit as u64).saturating_add(1); // the newline does not count
    let taken = from.by_ref().take(allowed).read_until(b'\n', buffer)?;
    if taken == 0 {
        return Ok(ReadLine::End);
    }
    if buffer.last() == Some(&b'\n') || taken <= limit {
        return Ok(ReadLine::Whole);
    }
    from.skip_until(b'\n')?;
    Ok(ReadLine::TooLong)
}
