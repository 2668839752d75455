//! What no policy can beat: one cache without limit, shared by the whole fleet, warm the moment a request
//! arrives.

use rustc_hash::FxHashMap;

use crate::prompt::TraceBlockSize;
use crate::random::mix2;
use crate::trace::Trace;

/// Prompt blocks of a workload, and how many of them an unlimited shared cache would have held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitBound {
    /// Blocks that an earlier request had computed, by the rules of the engine: the block with the last
    /// prompt token is never reused.
    pub hit_blocks: u64,
    /// Whole blocks of all prompts.
    pub prompt_blocks: u64,
}

impl HitBound {
    /// Walks the trace once. Costs O(ids), whatever the block size.
    pub fn of(trace: &Trace, size: TraceBlockSize) -> Self {
        const ROOT: u64 = 1;
        let mut bound = Self::default();
        // By content of a prefix of pieces: the most blocks of its last piece that anyone computed.
        let mut computed: FxHashMap<u64, u32> = FxHashMap::default();
        for record in trace.records() {
            let prompt = &record.prompt;
            let blocks = prompt.block_count(size);
            let (mut key, mut left, mut hits, mut unbroken) = (ROOT, blocks, 0, true);
            for &id in prompt.piece_ids() {
                key = mix2(key, id);
                let here = left.min(size.blocks_per_piece());
                left -= here;
                let known = computed.entry(key).or_default();
                if unbroken {
                    hits += here.min(*known);
                    unbroken = *known >= size.blocks_per_piece();
                }
                *known = here.max(*known);
            }
            let reusable = (prompt.token_count() - 1) / size.get().get();
            bound.hit_blocks += u64::from(hits.min(reusable));
            bound.prompt_blocks += u64::from(blocks);
        }
        bound
    }

    /// Hit blocks per prompt block; 0 when there is none.
    pub fn ratio(&self) -> f64 {
        if self.prompt_blocks == 0 { 0.0 } else { self.hit_blocks as f64 / self.prompt_blocks as f64 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The same thing, block by block.
    fn literal(trace: &Trace, size: TraceBlockSize) -> HitBound {
        let mut bound = HitBound::default();
        let mut seen = HashSet::new();
        for record in trace.records() {
            let blocks = record.prompt.local_hashes(size);
            let held = (0..blocks.len()).take_while(|&end| seen.contains(&blocks[..=end])).count();
            bound.hit_blocks +=
                held.min((record.prompt.token_count() as usize - 1) / size.get().as_usize()) as u64;
            bound.prompt_blocks += blocks.len() as u64;
            seen.extend((0..blocks.len()).map(|end| blocks[..=end].to_vec()));
        }
        bound
    }

    #[test]
    fn agrees_with_counting_block_by_block() {
        let line = |tokens: u32, ids: &[u64]| {
            format!(
                "{{\"timestamp\":0,\"input_length\":{tokens},\"output_length\":1,\"hash_ids\":{ids:?}}}\n"
            )
        };
        let text = [
            line(700, &[1, 2]),
            line(1_024, &[1, 2]),
            line(1_024, &[1, 2]),
            line(1_500, &[1, 2, 3]),
            line(40, &[9]),
            line(512, &[9]),
            line(1_024, &[9, 2]),
            line(10, &[1]),
        ]
        .concat();
        let trace = Trace::read(text.as_bytes()).unwrap();
        for tokens in [16, 128, 512] {
            let size = TraceBlockSize::new(tokens).unwrap();
            let bound = HitBound::of(&trace, size);
            assert_eq!(bound, literal(&trace, size));
            assert!(bound.hit_blocks > 0 && bound.hit_blocks < bound.prompt_blocks);
        }
    }
}
