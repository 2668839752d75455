//! Single operations: hashing, a lookup, a store and its removal, a decision.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kv_router::{BlockSize, RouteRequest, Router, RouterConfig, WorkerId, WorkerSpec};
use kv_router_hash::{BlockHasher, HashScheme, Prompt, Window};
use kv_router_index::{ApplyEvents, FindOptions, Overlaps, PrefixIndex, RadixTree};
use kv_router_schedule::{
    Candidate, CostConfig, FilterConfig, Holding, Scratch, SelectRequest, Selector, Slate, SplitMix64,
    WorkerTraits,
};
use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerRank};

const PROMPT_TOKENS: usize = 12_000;

fn hashing(criterion: &mut Criterion) {
    let tokens: Vec<u32> = (0..PROMPT_TOKENS as u32).collect();
    let mut group = criterion.benchmark_group("hash 12,000 tokens");
    group.throughput(Throughput::Elements(PROMPT_TOKENS as u64));
    for size in [16, 64, 512] {
        let Ok(block_size) = BlockSize::new(size) else { continue };
        let mut hasher = BlockHasher::new(HashScheme::new(block_size, Window::Plain));
        let mut out = Vec::new();
        group.bench_function(format!("blocks of {size}"), |bencher| {
            bencher.iter(|| hasher.hash_into(&Prompt::new(&tokens), &mut out));
        });
    }
    group.finish();
}

fn chain(length: u64) -> Vec<StoredBlock> {
    (0..length).map(|n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n))).collect()
}

fn store(blocks: Vec<StoredBlock>) -> KvEvent {
    KvEvent::Stored { tier: Tier::Device, parent: None, blocks }
}

fn radix(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("radix, 750 blocks");
    group.throughput(Throughput::Elements(750));
    let query: Vec<LocalBlockHash> = (0..750).map(LocalBlockHash::new).collect();
    for holders in [1, 64] {
        let mut tree = RadixTree::new();
        for worker in 0..holders {
            let _ = tree.apply(WorkerId::new(worker).into(), &store(chain(750)));
        }
        let mut overlaps = Overlaps::new();
        group.bench_function(format!("lookup, {holders} holders"), |bencher| {
            bencher.iter(|| tree.find_into(&query, FindOptions::new(), &mut overlaps));
        });
    }
    let rank = WorkerRank::from(WorkerId::new(1));
    let names = chain(750).iter().rev().map(|block| block.external).collect();
    let remove = KvEvent::Removed { tier: Tier::Device, blocks: names };
    let stored = store(chain(750));
    group.bench_function("store", |bencher| {
        bencher.iter_batched_ref(RadixTree::new, |tree| tree.apply(rank, &stored), BatchSize::LargeInput);
    });
    group.bench_function("store and remove", |bencher| {
        let mut tree = RadixTree::new();
        bencher.iter(|| (tree.apply(rank, &stored), tree.apply(rank, &remove)));
    });
    group.finish();
}

fn decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("route 12,000 tokens");
    let tokens: Vec<u32> = (0..PROMPT_TOKENS as u32).collect();
    let Ok(block_size) = BlockSize::new(16) else { return };
    for workers in [8, 64, 512] {
        let Ok(router) = Router::builder(RouterConfig::new(block_size)).build() else { return };
        for worker in 0..workers {
            let _ = router.join(WorkerId::new(worker), WorkerSpec::new(block_size));
        }
        group.bench_function(format!("{workers} workers"), |bencher| {
            bencher.iter(|| router.route(&RouteRequest::from_tokens(&tokens)));
        });
    }
    group.finish();
}

/// The choice alone, among ranks of which one in a hundred holds something.
fn choice(criterion: &mut Criterion) {
    let Ok(block_size) = BlockSize::new(16) else { return };
    let Ok(selector) = Selector::new(CostConfig::default(), FilterConfig::default()) else { return };
    let (request, traits) = (SelectRequest::new(60, block_size), WorkerTraits::default());
    let (mut entropy, mut scratch) = (SplitMix64::new(1), Scratch::new());
    for ranks in [8, 64, 512, 4_000] {
        let rank = |id: u64| Candidate {
            overlap: [if id.is_multiple_of(100) { 20 } else { 0 }, 0, 0, 0],
            active_blocks: id.wrapping_mul(2_654_435_761) % 300,
            incoming_blocks: 60,
            ..Candidate::idle(WorkerId::new(id).into(), &traits)
        };
        let fleet: Vec<Candidate<'_>> = (0..ranks).map(rank).collect();
        let mut slate = Slate::new(selector.clone(), block_size);
        fleet.iter().enumerate().for_each(|(position, rank)| slate.set(position, Some(rank)));
        let mut group = criterion.benchmark_group(format!("choose among {ranks}"));
        group.bench_function("candidate by candidate", |bencher| {
            bencher.iter(|| selector.select(&request, fleet.iter().copied(), &mut entropy, &mut scratch));
        });
        group.bench_function("slate", |bencher| {
            bencher.iter(|| {
                let holding = |position| Holding { position, overlap: [20, 0, 0, 0], incoming_blocks: 60 };
                let holdings = (0..fleet.len()).step_by(100).map(holding);
                let rank = |position: usize| fleet.get(position).copied();
                slate.select(&request, 60, holdings, rank, &mut entropy, &mut scratch)
            });
        });
        group.finish();
    }
}

criterion_group!(operations, hashing, radix, choice, decision);
criterion_main!(operations);
