//! A recorded trace on a fleet: prompts and lengths from the trace, caches and decoded blocks from the engines.
//!
//! Time is stretched so that a worker sees the same load at every fleet size. Decoded blocks are private and stored one
//! by one while the request runs, so requests interleave as they do in engines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kv_router_sim::prompt::{PIECE_TOKENS, Prompt, TraceBlockSize};
use kv_router_sim::random::SeededRandom;
use kv_router_sim::trace::{Trace, TraceRecord};
use kv_router_types::{ExternalSequenceHash, LocalBlockHash};

use super::fleet::{Fleet, fresh, names};
use super::{BrokenStream, Corpus, Routing};

/// Share of the requests that fill the caches.
const WARM_UP_PER_CENT: usize = 30;
/// Workers whose load the trace is as it stands.
const TRACE_WORKERS: u64 = 8;
/// A block of a piece's size makes few of them, so the trace is replayed this often side by side, without common blocks.
const COPIES: u64 = 8;
/// The copies start this far apart.
const COPY_OFFSET_MS: u64 = 137;
const PREFILL_US: u64 = 300_000;
const TOKEN_US: u64 = 25_000;

struct Request {
    at_us: u64,
    locals: Vec<LocalBlockHash>,
    decodes: u32,
}

/// What happens next: by time, then in the order in which it was decided.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Arrive { request: usize },
    Decode { request: usize, left: u32 },
}

/// A request under way.
#[derive(Clone, Debug, Default)]
struct Running {
    worker: usize,
    names: Vec<ExternalSequenceHash>,
}

/// Records the trace on a fleet of `workers`.
pub(super) fn record(
    trace: &Trace,
    block_size: TraceBlockSize,
    routing: Routing,
    workers: u32,
) -> Result<Corpus, BrokenStream> {
    let requests = requests(trace, block_size, workers);
    let token_count = u64::from(block_size.get().get());
    let warm_up = requests.len() * WARM_UP_PER_CENT / 100;
    let mut fleet = Fleet::new(workers);
    let mut random = SeededRandom::new(u64::from(workers));
    let mut running = vec![Running::default(); requests.len()];
    let mut agenda = BinaryHeap::new();
    let mut decided = 0_u64;
    let mut plan = |agenda: &mut BinaryHeap<_>, at_us: u64, next: Next| {
        decided += 1;
        agenda.push(Reverse((at_us, decided, next)));
    };
    for (request, asked) in requests.iter().enumerate() {
        plan(&mut agenda, asked.at_us, Next::Arrive { request });
    }
    while let Some(Reverse((now, _, next))) = agenda.pop() {
        match next {
            Next::Arrive { request } => {
                if request == warm_up {
                    fleet.out.end_warm_up();
                }
                let locals = &requests[request].locals;
                let names = names(locals);
                fleet.out.find(locals);
                let worker = match routing {
                    Routing::Prefix => best_worker(&fleet, &names),
                    Routing::Random => random.below(workers as usize),
                };
                if fleet.admit(worker, locals, &names) {
                    running[request] = Running { worker, names };
                    let left = requests[request].decodes;
                    plan(&mut agenda, now + PREFILL_US, Next::Decode { request, left });
                }
            }
            Next::Decode { request, left } => {
                let Running { worker, names } = &mut running[request];
                if left > 0 && fleet.decode(*worker, fresh(&mut random), names) {
                    let at = now + TOKEN_US * token_count;
                    plan(&mut agenda, at, Next::Decode { request, left: left - 1 });
                } else {
                    fleet.engines[*worker].release(names);
                    *names = Vec::new();
                }
            }
        }
    }
    fleet.out.finish()
}

fn requests(trace: &Trace, block_size: TraceBlockSize, workers: u32) -> Vec<Request> {
    let tokens = block_size.get().get();
    let copies = if tokens == PIECE_TOKENS { COPIES } else { 1 };
    let mut requests = Vec::new();
    for copy in 0..copies {
        for record in trace.records() {
            let locals = copied(record, copy).local_hashes(block_size);
            if locals.is_empty() {
                continue;
            }
            let at_us = (record.timestamp_ms + copy * COPY_OFFSET_MS) * 1_000 * TRACE_WORKERS;
            let rest = record.prompt.token_count() % tokens;
            let decodes = (rest + record.output_tokens) / tokens;
            requests.push(Request { at_us: at_us / u64::from(workers), locals, decodes });
        }
    }
    requests.sort_by_key(|request| request.at_us);
    requests
}

/// The prompt of a copy: the same shape under ids of its own.
fn copied(record: &TraceRecord, copy: u64) -> Prompt {
    let ids = record.prompt.piece_ids().iter().map(|id| id ^ (copy << 48)).collect();
    // The ids are as many as before, so this is never refused.
    Prompt::new(ids, record.prompt.token_count()).unwrap_or_else(|_| record.prompt.clone())
}

/// The worker with the least to compute and to hold; among equals the one that served fewest.
fn best_worker(fleet: &Fleet, names: &[ExternalSequenceHash]) -> usize {
    let cost = |&worker: &usize| {
        let engine = &fleet.engines[worker];
        (names.len() - engine.hit(names) + engine.pinned(), engine.served, worker)
    };
    (0..fleet.engines.len()).min_by_key(cost).unwrap_or(0)
}
