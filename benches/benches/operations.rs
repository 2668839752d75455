//! Single operations: hashing, a lookup, a store and its removal, a decision.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kv_router::{BlockSize, RouteRequest, Router, RouterConfig, WorkerId, WorkerSpec};
use kv_router_hash::{BlockHasher, HashScheme, Prompt, Window};
use kv_router_index::{ApplyEvents, FindOptions, Overlaps, PrefixIndex, RadixTree};
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

criterion_group!(operations, hashing, radix, decision);
criterion_main!(operations);
