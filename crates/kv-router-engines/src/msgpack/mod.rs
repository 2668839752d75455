//! The subset of MessagePack that engines speak: a reader over a slice and a writer into a vector.
//!
//! Why not a crate: docs/decisions/0013. Neither side recurses, so nesting costs no stack.

mod reader;
mod writer;

pub(crate) use reader::{Int, Kind, Reader};
pub(crate) use writer::Writer;

/// Bytes that are no MessagePack document, or only the start of one: nothing after the fault can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A value, or a length that it declares, goes beyond the end.
    Truncated {
        /// Where the value starts.
        at: usize,
    },
    /// Byte `c1`, which no encoder writes.
    Reserved {
        /// Where it stands.
        at: usize,
    },
}

#[cfg(test)]
mod tests;
