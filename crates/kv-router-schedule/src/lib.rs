//! Which worker gets the request: filters, cost, sampling, explanation.
#![forbid(unsafe_code)]
