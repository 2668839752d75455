//! Mock inference engines with a real prefix cache, and a trace replay in virtual time.
#![forbid(unsafe_code)]
