//! Why a trace was refused, down to the line and the field.

use std::error::Error;
use std::fmt;
use std::io;

use crate::prompt::{PIECE_TOKENS, PromptError};

/// A field of a trace line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `timestamp`: arrival in milliseconds.
    Timestamp,
    /// `input_length`: tokens of the prompt.
    InputLength,
    /// `output_length`: tokens to generate.
    OutputLength,
    /// `hash_ids`: one id a 512-token piece.
    HashIds,
}

impl Field {
    /// The name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::InputLength => "input_length",
            Self::OutputLength => "output_length",
            Self::HashIds => "hash_ids",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is wrong with one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineFault {
    /// Longer than [`ReadOptions::max_line_bytes`](crate::trace::ReadOptions::max_line_bytes).
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Not a JSON object.
    NotAnObject {
        /// Where parsing stopped, in bytes from 1; 0 when the line is JSON of another kind.
        column: usize,
    },
    /// A field is not there.
    Missing {
        /// Which one.
        field: Field,
    },
    /// A field is not of its type: a whole number from 0, or a list of such numbers.
    WrongType {
        /// Which one.
        field: Field,
    },
    /// A number is outside its range.
    OutOfRange {
        /// Which one.
        field: Field,
        /// The smallest value accepted.
        min: u64,
        /// The largest value accepted.
        max: u64,
    },
    /// Arrives before the line above it.
    Unsorted {
        /// The earlier line's arrival, in milliseconds.
        previous_ms: u64,
        /// This line's, in milliseconds.
        found_ms: u64,
    },
    /// `hash_ids` does not cover `input_length`.
    Coverage {
        /// Ids that the length calls for.
        needed: usize,
        /// Ids found.
        found: usize,
    },
}

impl LineFault {
    /// The field at fault, when it is one.
    pub const fn field(&self) -> Option<Field> {
        match *self {
            Self::TooLong { .. } | Self::NotAnObject { .. } => None,
            Self::Missing { field } | Self::WrongType { field } | Self::OutOfRange { field, .. } => {
                Some(field)
            }
            Self::Unsorted { .. } => Some(Field::Timestamp),
            Self::Coverage { .. } => Some(Field::HashIds),
        }
    }
}

impl From<PromptError> for LineFault {
    fn from(error: PromptError) -> Self {
        match error {
            PromptError::Empty => {
                Self::OutOfRange { field: Field::InputLength, min: 1, max: u64::from(u32::MAX) }
            }
            PromptError::Coverage { needed, found } => Self::Coverage { needed, found },
        }
    }
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "longer than {limit} bytes: split it, or raise the limit"),
            Self::NotAnObject { column: 0 } => f.write_str("not a JSON object: write one object a line"),
            Self::NotAnObject { column } => {
                write!(f, "not JSON from byte {column} on: write one object a line")
            }
            Self::Missing { field } => write!(f, "no `{field}`: add it"),
            Self::WrongType { field: Field::HashIds } => {
                f.write_str("`hash_ids` is not a list of whole numbers from 0")
            }
            Self::WrongType { field } => write!(f, "`{field}` is not a whole number from 0"),
            Self::OutOfRange { field, min, max } => write!(f, "`{field}` is outside {min}..={max}"),
            Self::Unsorted { previous_ms, found_ms } => {
                write!(f, "`timestamp` {found_ms} comes after {previous_ms}: sort the lines by time")
            }
            Self::Coverage { needed, found } => write!(
                f,
                "{found} `hash_ids` where `input_length` needs {needed}: one for every {PIECE_TOKENS} tokens begun"
            ),
        }
    }
}

/// Why a trace could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The bytes could not be read or unpacked.
    Read {
        /// The line being read, from 1.
        line: u64,
        /// What the reader said.
        source: io::Error,
    },
    /// A line is broken, and the allowance for broken lines is used up.
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        fault: LineFault,
    },
    /// More requests than [`ReadOptions::max_requests`](crate::trace::ReadOptions::max_requests).
    TooManyRequests {
        /// The limit.
        limit: u32,
    },
    /// No request at all.
    Empty,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { line, source } => write!(f, "trace line {line}: cannot be read: {source}"),
            Self::Line { line, fault } => write!(f, "trace line {line}: {fault}"),
            Self::TooManyRequests { limit } => {
                write!(f, "more than {limit} requests: cut the trace, or raise the limit")
            }
            Self::Empty => f.write_str("the trace has no request: give a file with one JSON object a line"),
        }
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
