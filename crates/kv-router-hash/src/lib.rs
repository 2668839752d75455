//! Tokens to local block hashes to sequence hashes.
#![forbid(unsafe_code)]
