//! Engines that speak their own wire format to routers: what they say, what gets lost, what the truth is.

use std::collections::BTreeMap;

use kv_router::{BlockSize, EngineFrame, EngineStream, ReplayRequest, WorkerRank};
use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, RemoveFields, StoreFields, WireBatch,
    WireHash, WireTokens,
};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::oracle::Oracle;
use kv_router_index::{ApplyEvents, PrefixIndex};
use std::time::Instant;

/// Tokens a block of the router.
pub(crate) const OURS: u32 = 16;

pub(crate) fn scheme() -> HashScheme {
    HashScheme::new(BlockSize::new(OURS).unwrap(), Window::Plain)
}

/// What an engine says in one batch.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// Blocks `from..until` of a conversation.
    Store {
        conversation: u32,
        from: u32,
        until: u32,
        host: bool,
    },
    Remove {
        conversation: u32,
        from: u32,
        until: u32,
        host: bool,
    },
    Clear,
}

/// An engine with a replay buffer, and the oracle of what it holds.
#[derive(Debug)]
pub(crate) struct MockEngine {
    pub(crate) rank: WorkerRank,
    /// Tokens a block of its own.
    pub(crate) block_size: u32,
    pub(crate) sent: BTreeMap<u64, Vec<u8>>,
    pub(crate) next: u64,
    ingest: Ingest,
    pub(crate) oracle: Oracle,
}

pub(crate) fn conversation(number: u32, tokens: u32) -> Vec<u32> {
    // Pairs of conversations begin alike.
    (0..tokens)
        .map(|at| if at < 64 { number / 2 * 1_000_000 + at } else { number * 1_000_000 + at })
        .collect()
}

impl MockEngine {
    pub(crate) fn new(rank: WorkerRank, block_size: u32) -> Self {
        let ingest = Ingest::new(IngestConfig::new(scheme()));
        Self { rank, block_size, sent: BTreeMap::new(), next: 0, ingest, oracle: Oracle::new() }
    }

    /// The process dies and comes back empty.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.rank, self.block_size);
    }

    fn name(&self, number: u32, block: u32) -> WireHash<'static> {
        let owner = if (block + 1) * self.block_size <= 64 { number / 2 } else { 500 + number };
        WireHash::Unsigned(
            u64::from(owner) * 100_000 + u64::from(block) + self.rank.worker.get() * 1_000_000_000,
        )
    }

    pub(crate) fn encode(&self, encoder: &mut BatchEncoder, say: &Say) {
        let medium = |host: bool| Some(if host { "CPU" } else { "GPU" });
        match *say {
            Say::Store { conversation: number, from, until, host } => {
                let tokens = conversation(number, until * self.block_size);
                let hashes: Vec<_> = (from..until).map(|block| self.name(number, block)).collect();
                encoder.stored(&StoreFields {
                    hashes: &hashes,
                    parent: from.checked_sub(1).map(|block| self.name(number, block)),
                    tokens: WireTokens::Flat(&tokens[(from * self.block_size) as usize..]),
                    block_size: Some(u64::from(self.block_size)),
                    medium: medium(host),
                    ..StoreFields::default()
                });
            }
            Say::Remove { conversation: number, from, until, host } => {
                let hashes: Vec<_> = (from..until).map(|block| self.name(number, block)).collect();
                encoder.removed(&RemoveFields { hashes: &hashes, medium: medium(host), group: None });
            }
            Say::Clear => encoder.cleared(),
        }
    }

    /// Publishes a batch, whether or not anybody hears of it.
    pub(crate) fn say(&mut self, says: &[Say]) -> u64 {
        let mut encoder = BatchEncoder::new(EventForm::Map);
        says.iter().for_each(|say| self.encode(&mut encoder, say));
        let mut payload = Vec::new();
        encoder.finish(1_000.0 + self.next as f64, Some(self.rank.rank), &mut payload);
        self.publish(payload)
    }

    pub(crate) fn publish(&mut self, payload: Vec<u8>) -> u64 {
        let (mut batch, mut events) = (WireBatch::new(), Vec::new());
        if batch.decode(&payload, &DecodeLimits::default()).is_ok() {
            self.ingest.apply(&batch, &mut events);
        }
        for event in &events {
            self.oracle.apply(self.rank, event).unwrap();
        }
        self.sent.insert(self.next, payload);
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn frame(&self, sequence: u64) -> EngineFrame<'_> {
        EngineFrame::new(sequence, &self.sent[&sequence])
    }

    /// Sends a batch live, and answers what is asked for.
    pub(crate) fn deliver(&self, sequence: u64, stream: &mut EngineStream, now: Instant) {
        let report = stream.frame(self.frame(sequence), now).unwrap();
        self.answer(report.ask, stream, now);
    }

    pub(crate) fn answer(&self, ask: Option<ReplayRequest>, stream: &mut EngineStream, now: Instant) {
        let mut next = ask;
        while let Some(ask) = next.take() {
            // As engines do: from there to the end.
            for &sequence in self.sent.range(ask.from..).map(|(sequence, _)| sequence) {
                next = stream.replayed(ask.id, self.frame(sequence), now).unwrap().ask.or(next);
            }
            next = stream.replay_ended(ask.id, now).unwrap().ask.or(next);
        }
    }

    /// Blocks of a conversation that it holds, of ours.
    pub(crate) fn truth(&self, number: u32) -> u32 {
        let tokens = conversation(number, 256);
        let locals = scheme().hash(&kv_router::Prompt::new(&tokens));
        self.oracle.find(&locals).blocks(self.rank)
    }
}
