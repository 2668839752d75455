//! The trace that travels with the crate. `data/README.md` says where it comes from and under which licence.

use super::{Trace, TraceError};

static SAMPLE: &[u8] = include_bytes!("../../data/mooncake_conversation_sample.jsonl.gz");

impl Trace {
    /// The first 6,000 requests of the Mooncake conversation trace: 31 minutes, about 12,000 prompt tokens
    /// each.
    ///
    /// # Errors
    ///
    /// [`TraceError`] only if the crate was built with a damaged sample.
    pub fn sample() -> Result<Self, TraceError> {
        Self::read(SAMPLE)
    }
}
