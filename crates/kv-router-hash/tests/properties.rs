//! Every way to hash agrees with the most literal one, for any prompt and any options.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::num::NonZeroUsize;

use kv_router_hash::{
    BlockHasher, HashContext, HashScheme, MmHash, MmPair, MmSpan, Prompt, SequenceHasher, Window,
    fold_bigrams_into, next_sequence_hash, sequence_hashes_into,
};
use kv_router_types::{BlockSize, LocalBlockHash, SequenceHash};
use proptest::collection::vec;
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A request, as owned data.
#[derive(Clone, Debug)]
struct Request {
    block_size: u32,
    window: Window,
    tokens: Vec<u32>,
    adapter: String,
    salt: String,
    spans: Vec<MmSpan>,
}

impl Request {
    fn scheme(&self) -> HashScheme {
        HashScheme::new(BlockSize::new(self.block_size).unwrap(), self.window)
    }

    fn context(&self) -> HashContext<'_> {
        HashContext::NONE.with_adapter(&self.adapter).unwrap().with_salt(&self.salt).unwrap()
    }

    fn prompt(&self) -> Prompt<'_> {
        Prompt::new(&self.tokens).in_context(self.context()).with_spans(&self.spans).unwrap()
    }

    fn hash(&self) -> Vec<LocalBlockHash> {
        self.scheme().hash(&self.prompt())
    }

    /// The documented layout, word by word, for one block after another.
    fn literal(&self) -> Vec<LocalBlockHash> {
        let (stride, window) = (self.block_size as usize, self.scheme().window_tokens());
        let mut hashes = Vec::new();
        for start in (0..).step_by(stride).take_while(|start| start + window <= self.tokens.len()) {
            let mut bytes = Vec::new();
            for token in &self.tokens[start..start + window] {
                bytes.extend(token.to_le_bytes());
            }
            if !self.adapter.is_empty() {
                bytes.extend((self.adapter.len() as u32).to_le_bytes());
                bytes.extend(self.adapter.bytes());
            }
            if !self.salt.is_empty() {
                bytes.extend(b"salt");
                bytes.extend((self.salt.len() as u32).to_le_bytes());
                bytes.extend(self.salt.bytes());
            }
            let pairs = self.pairs(start);
            if !pairs.is_empty() {
                bytes.extend(b"mmod");
                bytes.extend((pairs.len() as u32).to_le_bytes());
                for pair in pairs {
                    bytes.extend(pair.content.get().to_le_bytes());
                    bytes.extend(pair.offset.to_le_bytes());
                }
            }
            hashes.push(LocalBlockHash::new(xxh3_64_with_seed(&bytes, 1337)));
        }
        hashes
    }

    /// The items that an engine lists for the block that starts at token `start`.
    fn pairs(&self, start: usize) -> Vec<MmPair> {
        let block = start as i64..(start + self.scheme().window_tokens()) as i64;
        let touches = |span: &&MmSpan| {
            i64::from(span.start) < block.end && i64::from(span.start) + i64::from(span.tokens) > block.start
        };
        let offset = |span: &MmSpan| i32::try_from(i64::from(span.start) - block.start).unwrap();
        self.spans.iter().filter(touches).map(|span| MmPair::new(span.content, offset(span))).collect()
    }
}

/// Gaps and lengths to spans that fit: in order, disjoint, inside the prompt.
fn fit_spans(steps: &[(u32, u32, u64)], tokens: usize) -> Vec<MmSpan> {
    let mut spans = Vec::new();
    let mut start = 0;
    for &(gap, length, content) in steps {
        start += gap;
        if (start + length) as usize <= tokens {
            spans.push(MmSpan::new(start, length, MmHash::new(content)));
        }
        start += length;
    }
    spans
}

fn block_size() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..=70, Just(16), Just(32), Just(64)]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z/-]{1,40}", "\\PC{1,8}"]
}

fn window() -> impl Strategy<Value = Window> {
    prop_oneof![Just(Window::Plain), Just(Window::Eagle)]
}

fn request() -> impl Strategy<Value = Request> {
    let spans = prop_oneof![
        Just(Vec::new()),
        vec((0u32..30, 1u32..6, 0u64..3), 0..40),
        vec((0u32..100, 1u32..90, any::<u64>()), 0..8),
    ];
    (block_size(), window(), vec(any::<u32>(), 0..500), name(), name(), spans).prop_map(
        |(block_size, window, tokens, adapter, salt, steps)| {
            let spans = fit_spans(&steps, tokens.len());
            Request { block_size, window, tokens, adapter, salt, spans }
        },
    )
}

fn count(up_to: usize) -> impl Strategy<Value = NonZeroUsize> {
    (1..=up_to).prop_map(|count| NonZeroUsize::new(count).unwrap())
}

/// Blocks of `changed` that differ from those of `base`, by position.
fn differing(base: &[LocalBlockHash], changed: &[LocalBlockHash]) -> Vec<bool> {
    assert_eq!(base.len(), changed.len());
    base.iter().zip(changed).map(|(base, changed)| base != changed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn eager_and_reused_buffers_equal_the_literal_layout(requests in vec(request(), 1..4)) {
        let Request { block_size, window, .. } = requests[0];
        let mut out = vec![LocalBlockHash::new(7); 3];
        for request in &requests {
            let expected = request.literal();
            prop_assert_eq!(expected.len(), request.scheme().blocks_in(request.tokens.len()));
            request.scheme().hash_into(&request.prompt(), &mut out);
            prop_assert_eq!(&out, &expected);
            // One hasher for different prompts of one scheme, with everything and with nothing behind the tokens.
            let mut hasher = BlockHasher::new(requests[0].scheme());
            for _ in 0..2 {
                hasher.hash_into(&request.prompt(), &mut out);
                prop_assert_eq!(&out, &Request { block_size, window, ..request.clone() }.literal());
                hasher.hash_into(&Prompt::new(&request.tokens), &mut out);
            }
        }
    }

    #[test]
    fn lazy_equals_eager_however_it_is_asked(
        request in request(),
        chunk in count(80),
        asked in vec(0usize..300, 0..6),
    ) {
        let expected = request.literal();
        let mut hasher = BlockHasher::new(request.scheme());
        let mut buffer = vec![LocalBlockHash::new(7); 3];
        let mut lazy = hasher.lazy(request.prompt(), &mut buffer).in_chunks_of(chunk);
        prop_assert_eq!(lazy.total(), expected.len());
        prop_assert!(lazy.hashed().is_empty());
        let mut deepest = 0;
        for blocks in asked {
            let wanted = blocks.min(expected.len());
            prop_assert_eq!(lazy.prefix(blocks), &expected[..wanted]);
            deepest = deepest.max(wanted);
            let rounded = deepest.next_multiple_of(chunk.get()).min(expected.len());
            prop_assert!((deepest..=rounded).contains(&lazy.hashed().len()), "no more than a chunk ahead");
        }
        prop_assert_eq!(lazy.all(), expected);
    }

    #[test]
    fn an_event_block_hashes_as_the_request_does(request in request()) {
        let mut hasher = BlockHasher::new(request.scheme());
        for (block, expected) in request.hash().into_iter().enumerate() {
            let start = block * request.block_size as usize;
            let tokens = &request.tokens[start..start + request.scheme().window_tokens()];
            let event = hasher.hash_block(tokens, &request.context(), &request.pairs(start));
            prop_assert_eq!(event, Ok(expected));
        }
    }

    #[test]
    fn any_change_of_a_name_changes_every_block(request in request(), other in name(), swap in any::<bool>()) {
        let base = request.hash();
        let mut changed = request.clone();
        *if swap { &mut changed.adapter } else { &mut changed.salt } = other;
        let differs = (&changed.adapter, &changed.salt) != (&request.adapter, &request.salt);
        prop_assert!(differing(&base, &changed.hash()).iter().all(|&block| block == differs));

        let mirrored = Request { adapter: request.salt.clone(), salt: request.adapter.clone(), ..request.clone() };
        let differs = request.adapter != request.salt;
        prop_assert!(differing(&base, &mirrored.hash()).iter().all(|&block| block == differs));
    }

    #[test]
    fn any_change_of_a_span_changes_the_blocks_it_touches_and_no_other(
        request in request().prop_filter("has spans", |request| !request.spans.is_empty()),
        which in any::<prop::sample::Index>(),
        change in 0..3,
    ) {
        let base = request.hash();
        let mut changed = request.clone();
        let index = which.index(changed.spans.len());
        match change {
            0 => { changed.spans.remove(index); }
            1 => {
                let content = changed.spans[index].content.get();
                changed.spans[index].content = MmHash::new(content ^ 1 << 63);
            }
            // Two items change places: every span keeps its tokens.
            _ => {
                let last = changed.spans.len() - 1;
                let contents = [changed.spans[index].content, changed.spans[last].content];
                [changed.spans[last].content, changed.spans[index].content] = contents;
            }
        }
        let expected: Vec<bool> = (0..base.len())
            .map(|block| block * request.block_size as usize)
            .map(|start| request.pairs(start) != changed.pairs(start))
            .collect();
        prop_assert_eq!(differing(&base, &changed.hash()), expected);
    }

    #[test]
    fn any_changed_token_changes_the_blocks_that_cover_it(
        request in request().prop_filter("has tokens", |request| !request.tokens.is_empty()),
        which in any::<prop::sample::Index>(),
        bit in 0u32..32,
    ) {
        let base = request.hash();
        let mut changed = request.clone();
        let index = which.index(changed.tokens.len());
        changed.tokens[index] ^= 1 << bit;
        let covers = |block: usize| {
            let start = block * request.block_size as usize;
            (start..start + request.scheme().window_tokens()).contains(&index)
        };
        let expected: Vec<bool> = (0..base.len()).map(covers).collect();
        prop_assert_eq!(differing(&base, &changed.hash()), expected);
    }

    #[test]
    fn sequence_hashes_name_prefixes(locals in vec(0u64..4, 0..40), split in any::<prop::sample::Index>()) {
        let locals: Vec<LocalBlockHash> = locals.into_iter().map(LocalBlockHash::new).collect();
        let mut whole = vec![SequenceHash::new(7)];
        sequence_hashes_into(&locals, &mut whole);
        prop_assert_eq!(whole.len(), locals.len());

        let mut parent = None;
        for (&local, &expected) in locals.iter().zip(&whole) {
            let next = next_sequence_hash(parent, local);
            prop_assert_eq!(next, expected);
            parent = Some(next);
        }

        let at = split.index(locals.len() + 1);
        let mut rest = match at.checked_sub(1) {
            None => SequenceHasher::new(),
            Some(last) => SequenceHasher::after(whole[last]),
        };
        let continued: Vec<SequenceHash> = locals[at..].iter().map(|&local| rest.push(local)).collect();
        prop_assert_eq!(&continued, &whole[at..]);
        prop_assert_eq!(rest.last(), whole.last().copied());
    }

    #[test]
    fn folded_bigrams_are_the_tokens_they_came_from(tokens in vec(any::<u32>(), 2..80)) {
        let mut folded = Vec::new();
        fold_bigrams_into(tokens.windows(2).map(|pair| [pair[0], pair[1]]), &mut folded).unwrap();
        prop_assert_eq!(folded, tokens);
    }
}

/// Prompts long enough for a second thread are too long for a property; here is one, with everything in it.
#[test]
fn parallel_equals_eager_on_a_long_prompt() {
    let tokens: Vec<u32> = (0..3 * HashScheme::TOKENS_PER_THREAD as u32 + 5).collect();
    let spans = fit_spans(&[(100, 300_000, 1), (7, 90, 2), (200_000, 250_000, 3)], tokens.len());
    assert_eq!(spans.len(), 3);
    let request = Request {
        block_size: 16,
        window: Window::Eagle,
        tokens,
        adapter: "a".into(),
        salt: "b".into(),
        spans,
    };
    let expected = request.hash();
    let mut out = Vec::new();
    for threads in [1, 2, 3, 64].map(|threads| NonZeroUsize::new(threads).unwrap()) {
        request.scheme().hash_parallel_into(&request.prompt(), threads, &mut out);
        assert!(out == expected, "{threads} threads");
    }
}
