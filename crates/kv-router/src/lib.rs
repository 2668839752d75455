//! Route LLM requests to the worker that already holds their KV cache.
#![forbid(unsafe_code)]
