//! Every decoder of bytes from outside.

mod engines;
mod feed;
mod fleet;
mod ingest;
mod nats;
mod peers;
mod restore;
mod stream;
mod summaries;
mod transport;
mod zmq;

use crate::Target;

/// All targets, those that read the least tame bytes first.
pub const TARGETS: &[Target] = &[
    Target {
        name: "wire-batch",
        about: "payloads of vLLM, SGLang, TensorRT-LLM and Mooncake, and what an index is told of them",
        check: engines::wire_batch,
        seeds: engines::wire_batch_seeds,
    },
    Target {
        name: "trtllm",
        about: "TensorRT-LLM's JSON",
        check: engines::trtllm,
        seeds: engines::trtllm_seeds,
    },
    Target {
        name: "load-stat",
        about: "SGLang's load reports",
        check: engines::load_stat,
        seeds: engines::load_stat_seeds,
    },
    Target {
        name: "ingest",
        about: "events of an engine that contradicts itself, and a snapshot amid them",
        check: ingest::events,
        seeds: ingest::events_seeds,
    },
    Target {
        name: "ingest-state",
        about: "what an ingest saved, given back",
        check: ingest::state,
        seeds: ingest::state_seeds,
    },
    Target {
        name: "batch-frame",
        about: "frames of batches",
        check: transport::batch,
        seeds: transport::batch_seeds,
    },
    Target { name: "dump", about: "dumps of an index", check: transport::dump, seeds: transport::dump_seeds },
    Target {
        name: "restore",
        about: "snapshots of a router",
        check: restore::restore,
        seeds: restore::restore_seeds,
    },
    Target {
        name: "engine-stream",
        about: "frames of an engine in any order, with replays, deadlines and restarts",
        check: stream::frames,
        seeds: stream::frames_seeds,
    },
    Target {
        name: "rank-feed",
        about: "batches, answers, connections and states restored, told to the feed of a rank in any order",
        check: feed::calls,
        seeds: feed::calls_seeds,
    },
    Target {
        name: "peer-message",
        about: "messages between routers, as bytes",
        check: peers::message,
        seeds: peers::message_seeds,
    },
    Target {
        name: "peer-talk",
        about: "messages between routers, taken in by one",
        check: peers::talk,
        seeds: peers::talk_seeds,
    },
    Target {
        name: "summary",
        about: "cuckoo filters, their snapshots and deltas",
        check: summaries::summary,
        seeds: summaries::summary_seeds,
    },
    Target {
        name: "zmq-message",
        about: "messages of ZeroMQ, live and replayed",
        check: zmq::message,
        seeds: zmq::message_seeds,
    },
    Target {
        name: "nats-replay",
        about: "questions and pages of replays, subjects, and snapshots over NATS",
        check: nats::replay,
        seeds: nats::replay_seeds,
    },
];
