//! One line of a trace, checked field by field.

use serde_json::{Map, Value};

use super::TraceRecord;
use super::error::{Field, LineFault};
use crate::prompt::Prompt;

/// 31 years: above it, nanoseconds since the start would not fit once the trace is stretched.
const MAX_TIMESTAMP_MS: u64 = 1_000_000_000_000;

/// Above any model's context; one request may not occupy the simulation for ever.
const MAX_OUTPUT_TOKENS: u64 = 1 << 24;

/// Reads one line. `previous_ms` is the arrival of the request before it.
pub(super) fn parse(line: &[u8], previous_ms: u64) -> Result<TraceRecord, LineFault> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| LineFault::NotAnObject { column: error.column().max(1) })?;
    let Value::Object(fields) = value else { return Err(LineFault::NotAnObject { column: 0 }) };

    let timestamp_ms = number(&fields, Field::Timestamp, 0, MAX_TIMESTAMP_MS)?;
    if timestamp_ms < previous_ms {
        return Err(LineFault::Unsorted { previous_ms, found_ms: timestamp_ms });
    }
    let input_tokens = number(&fields, Field::InputLength, 1, u64::from(u32::MAX))?;
    let output_tokens = number(&fields, Field::OutputLength, 1, MAX_OUTPUT_TOKENS)?;
    let prompt = Prompt::new(ids(&fields)?, input_tokens as u32)?; // range checked above
    Ok(TraceRecord { timestamp_ms, prompt, output_tokens: output_tokens as u32 })
}

fn number(fields: &Map<String, Value>, field: Field, min: u64, max: u64) -> Result<u64, LineFault> {
    let value = fields.get(field.name()).ok_or(LineFault::Missing { field })?;
    let number = value.as_u64().ok_or(LineFault::WrongType { field })?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(LineFault::OutOfRange { field, min, max }) }
}

fn ids(fields: &Map<String, Value>) -> Result<Vec<u64>, LineFault> {
    let field = Field::HashIds;
    let value = fields.get(field.name()).ok_or(LineFault::Missing { field })?;
    let list = value.as_array().ok_or(LineFault::WrongType { field })?;
    list.iter().map(|id| id.as_u64().ok_or(LineFault::WrongType { field })).collect()
}
