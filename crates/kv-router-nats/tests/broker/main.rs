//! Everything against a real NATS server, which each test starts for itself.

mod certificates;
mod connections;
mod duty;
mod faults;
mod model;
mod proxy;
mod server;
mod silent;
mod stores;
mod streams;
mod summaries;
