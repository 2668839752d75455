//! Everything against a real NATS server, which each test starts for itself.

mod accounts;
mod certificates;
mod connections;
mod duty;
mod faults;
mod keys;
mod model;
mod proxy;
mod server;
mod silent;
mod stores;
mod streams;
mod summaries;
