//! What went wrong in routers before this one, each as a test of what must happen instead.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashSet;

use kv_router_hash::{
    BlockError, BlockHasher, HashContext, HashScheme, MmHash, MmPair, MmSpan, Prompt, Window,
    fold_bigrams_into,
};
use kv_router_types::{BlockSize, BlockSizeError, LocalBlockHash};

fn scheme(block_size: u32, window: Window) -> HashScheme {
    HashScheme::new(BlockSize::new(block_size).unwrap(), window)
}

fn plain(block_size: u32) -> HashScheme {
    scheme(block_size, Window::Plain)
}

fn context<'a>(adapter: &'a str, salt: &'a str) -> HashContext<'a> {
    HashContext::NONE.with_adapter(adapter).unwrap().with_salt(salt).unwrap()
}

fn item(identifier: &str) -> MmHash {
    MmHash::from_identifier(identifier).unwrap()
}

#[track_caller]
fn assert_disjoint(lists: &[Vec<LocalBlockHash>]) {
    let all: Vec<LocalBlockHash> = lists.concat();
    assert!(!all.is_empty());
    let distinct: HashSet<LocalBlockHash> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "{lists:?}");
}

/// Same tokens under the base model and two adapters.
#[test]
fn adapters_and_the_base_model_share_no_block() {
    let tokens: Vec<u32> = (0..64).collect();
    for size in [4, 16, 32, 64] {
        let lists =
            ["", "a", "b"].map(|name| plain(size).hash(&Prompt::new(&tokens).in_context(context(name, ""))));
        assert_disjoint(&lists);
    }
}

/// Same tokens for two tenants; and a salt is not an adapter of the same name.
#[test]
fn salts_share_no_block_with_each_other_or_with_adapters() {
    let tokens: Vec<u32> = (0..64).collect();
    for size in [4, 16, 32, 64] {
        let contexts = [
            context("", ""),
            context("", "a"),
            context("", "b"),
            context("a", ""),
            context("a", "a"),
            context("a", "b"),
            context("b", "a"),
            context("", "aa"),
            context("aa", ""),
            context("ab", ""),
        ];
        let lists = contexts.map(|context| plain(size).hash(&Prompt::new(&tokens).in_context(context)));
        assert_disjoint(&lists);
    }
}

/// A name that spells the salt's section is still a name.
#[test]
fn an_adapter_cannot_pose_as_a_salt() {
    let tokens = [1, 2, 3, 4];
    let forged = "salt\u{1}\0\0\0a";
    let lists = [context(forged, ""), context("", "a"), context("", forged)]
        .map(|context| plain(4).hash(&Prompt::new(&tokens).in_context(context)));
    assert_disjoint(&lists);
}

/// An option changed on one request object, hashed again by the same hasher.
#[test]
fn no_hash_outlives_a_change_of_options() {
    let tokens: Vec<u32> = (0..64).collect();
    let prompt = Prompt::new(&tokens);
    let spans = [MmSpan::new(3, 20, item("img-1"))];
    let variants = [
        prompt.in_context(context("a", "")),
        prompt.in_context(context("b", "")),
        prompt.in_context(context("", "a")),
        prompt.with_spans(&spans).unwrap(),
        prompt,
    ];
    for size in [4, 16, 64] {
        let mut hasher = BlockHasher::new(plain(size));
        let mut out = Vec::new();
        for _ in 0..2 {
            for variant in &variants {
                let expected = plain(size).hash(variant);
                assert_eq!(hasher.lazy(*variant, &mut out).all(), expected);
                out.rotate_left(1); // leave something that belongs to no variant
                hasher.hash_into(variant, &mut out);
                assert_eq!(out, expected);
            }
        }
        let first = variants.map(|variant| vec![plain(size).hash(&variant)[0]]);
        assert_disjoint(&first);
    }
}

/// A speculative engine announces bigrams; the request has flat tokens.
#[test]
fn eagle_bigrams_equal_flat_tokens_under_an_eagle_window_only() {
    let mut tokens = Vec::new();
    fold_bigrams_into([[1, 2], [2, 3], [3, 4], [4, 5]], &mut tokens).unwrap();

    let flat = [1, 2, 3, 4, 5];
    let eagle = scheme(4, Window::Eagle);
    let request = eagle.hash(&Prompt::new(&flat));
    let event = BlockHasher::new(eagle).hash_block(&tokens, &HashContext::NONE, &[]).unwrap();
    assert_eq!(request, [event]);

    let without_the_flag = plain(4).hash(&Prompt::new(&flat));
    assert_eq!(without_the_flag.len(), 1);
    assert_ne!(without_the_flag[0], event);
    assert_eq!(
        BlockHasher::new(plain(4)).hash_block(&tokens, &HashContext::NONE, &[]),
        Err(BlockError::WrongLength { tokens: 5, expected: 4 })
    );
}

/// Eight bigrams are two blocks, the second of which starts where the first one's pairs end.
#[test]
fn eagle_windows_share_a_token_with_the_next_block() {
    let eagle = scheme(4, Window::Eagle);
    let mut tokens = Vec::new();
    fold_bigrams_into((1..=8).map(|token| [token, token + 1]), &mut tokens).unwrap();
    let locals = eagle.hash(&Prompt::new(&tokens));
    let mut hasher = BlockHasher::new(eagle);
    assert_eq!(locals.len(), 2);
    assert_eq!(locals[0], hasher.hash_block(&[1, 2, 3, 4, 5], &HashContext::NONE, &[]).unwrap());
    assert_eq!(locals[1], hasher.hash_block(&[5, 6, 7, 8, 9], &HashContext::NONE, &[]).unwrap());
}

/// Placeholder tokens are equal for every image, so only the content hash tells the blocks apart.
#[test]
fn an_image_contributes_to_every_block_it_spans_and_to_no_other() {
    let tokens = [9; 20];
    let text = plain(4).hash(&Prompt::new(&tokens));
    let spans = ["img-1", "img-2"].map(|name| [MmSpan::new(6, 9, item(name))]); // blocks 1 to 3
    let [one, two] =
        spans.each_ref().map(|spans| plain(4).hash(&Prompt::new(&tokens).with_spans(spans).unwrap()));
    for block in [0, 4] {
        assert_eq!((one[block], two[block]), (text[block], text[block]));
    }
    for block in 1..=3 {
        assert_disjoint(&[vec![one[block], two[block], text[block]]]);
    }
    assert_disjoint(&[one[1..=3].to_vec()]); // the same image at three offsets
}

/// An image that ends with its block, and one that begins with the next.
#[test]
fn an_image_at_a_block_border_stays_on_its_side() {
    let tokens = [9; 12];
    let text = plain(4).hash(&Prompt::new(&tokens));
    let spans = [MmSpan::new(4, 4, item("img-1"))];
    let locals = plain(4).hash(&Prompt::new(&tokens).with_spans(&spans).unwrap());
    assert_eq!((locals[0], locals[2]), (text[0], text[2]));
    assert_ne!(locals[1], text[1]);

    // Under an EAGLE window block 0 reads the image's first placeholder.
    let tokens = [9; 13];
    let eagle = scheme(4, Window::Eagle);
    let text = eagle.hash(&Prompt::new(&tokens));
    let locals = eagle.hash(&Prompt::new(&tokens).with_spans(&spans).unwrap());
    assert_ne!(locals[0], text[0]);
    assert_ne!(locals[1], text[1]);
    assert_eq!(locals[2], text[2]);
}

#[test]
fn swapped_images_do_not_collide() {
    let tokens = [9; 8];
    let one_block = ["img-1", "img-2", "img-1"].map(item);
    let spans = |first, second| [MmSpan::new(0, 4, first), MmSpan::new(4, 4, second)];
    for size in [4, 8] {
        let ahead = spans(one_block[0], one_block[1]);
        let swapped = spans(one_block[1], one_block[2]);
        let lists =
            [ahead, swapped].map(|spans| plain(size).hash(&Prompt::new(&tokens).with_spans(&spans).unwrap()));
        assert_ne!(lists[0][0], lists[1][0], "block size {size}");
    }
}

/// A digest, a short id and the same id in another spelling are different items; no identifier is refused.
#[test]
fn identifier_forms_are_different_items() {
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let upper = digest.to_uppercase();
    let tokens = [9; 4];
    let lists = [digest, &digest[..16], &upper, "img-1"].map(|name| {
        let spans = [MmSpan::new(0, 4, item(name))];
        plain(4).hash(&Prompt::new(&tokens).with_spans(&spans).unwrap())
    });
    assert_disjoint(&lists);
    assert!(MmHash::from_identifier("").is_err());
}

/// The extra keys of a captured event: one image that began three tokens before the first block ... and one more in
/// the second.
#[test]
fn offsets_from_an_engine_are_the_offsets_of_the_request() {
    let tokens: Vec<u32> = (0..48).collect();
    let context = context("lora-a", "salt-1");
    let spans = [MmSpan::new(13, 4, item("mmhash-aaaa")), MmSpan::new(25, 10, item("mmhash-bbbb"))];
    let request = plain(16).hash(&Prompt::new(&tokens).in_context(context).with_spans(&spans).unwrap());

    let mut hasher = BlockHasher::new(plain(16));
    let pairs: [&[MmPair]; 3] = [
        &[MmPair::new(item("mmhash-aaaa"), 13)],
        &[MmPair::new(item("mmhash-aaaa"), -3), MmPair::new(item("mmhash-bbbb"), 9)],
        &[MmPair::new(item("mmhash-bbbb"), -7)],
    ];
    for (block, pairs) in pairs.into_iter().enumerate() {
        let event = hasher.hash_block(&tokens[block * 16..][..16], &context, pairs).unwrap();
        assert_eq!(event, request[block], "block {block}");
    }
}

/// A router at 16 tokens and an engine at 32 must notice, not match nothing for ever.
#[test]
fn a_block_size_mismatch_is_an_error() {
    let tokens: Vec<u32> = (0..32).collect();
    let mut hasher = BlockHasher::new(plain(16));
    for length in [0, 15, 17, 32] {
        assert_eq!(
            hasher.hash_block(&tokens[..length], &HashContext::NONE, &[]),
            Err(BlockError::WrongLength { tokens: length, expected: 16 })
        );
    }
    assert_eq!(BlockSize::new(2_662_439_576), Err(BlockSizeError { tokens: 2_662_439_576 }));
}

#[test]
fn impossible_pairs_are_refused() {
    let pair = |offset| MmPair::new(item("img-1"), offset);
    let mut hasher = BlockHasher::new(plain(4));
    let mut check = |pairs: &[MmPair], expected| {
        assert_eq!(hasher.hash_block(&[1, 2, 3, 4], &HashContext::NONE, pairs).err(), expected);
    };
    check(&[pair(i32::MIN), pair(0), pair(3)], None);
    check(&[pair(2), pair(2)], None); // audio inside a video: both start where the video does
    check(&[pair(4)], Some(BlockError::PairPastEnd { index: 0, offset: 4, tokens: 4 }));
    check(
        &[pair(0), pair(i32::MAX)],
        Some(BlockError::PairPastEnd { index: 1, offset: i32::MAX, tokens: 4 }),
    );
    check(&[pair(2), pair(1)], Some(BlockError::PairsOutOfOrder { index: 1 }));
    check(&[pair(0); 5], Some(BlockError::TooManyPairs { pairs: 5, limit: 4 }));
}

/// Local hashes name content, not places.
#[test]
fn equal_blocks_have_equal_local_hashes_wherever_they_stand() {
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4];
    let locals = plain(4).hash(&Prompt::new(&tokens));
    assert_eq!(locals[0], locals[2]);
    assert_ne!(locals[0], locals[1]);
}
