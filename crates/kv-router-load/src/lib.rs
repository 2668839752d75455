//! What every worker is working on.
#![forbid(unsafe_code)]
