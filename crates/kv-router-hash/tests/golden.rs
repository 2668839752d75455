//! Hash values that other routers, publishers and replicas rely on. Changing one is a breaking release.
//!
//! `golden.json` was computed with the reference XXH3 implementation from the byte layout in the crate's
//! documentation, not by this crate. Token `i` of a case is `(first + i * step) % modulus`; hashes are hexadecimal.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use kv_router_hash::{
    BlockHasher, HashContext, HashScheme, MmHash, MmSpan, Prompt, Window, sequence_hashes_into,
};
use kv_router_types::BlockSize;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn tokens(recipe: &Value) -> Vec<u32> {
    let [first, step, modulus, count] =
        ["first", "step", "modulus", "count"].map(|key| recipe[key].as_u64().unwrap());
    (0..count).map(|i| u32::try_from((first + i * step) % modulus).unwrap()).collect()
}

fn hashes(values: &Value) -> Vec<String> {
    values.as_array().unwrap().iter().map(|hash| hash.as_str().unwrap().to_owned()).collect()
}

fn check(case: &Value) {
    let name = &case["name"];
    let window = match case["window"].as_str().unwrap() {
        "plain" => Window::Plain,
        "eagle" => Window::Eagle,
        other => panic!("{name}: window {other}"),
    };
    let scheme = HashScheme::new(BlockSize::new(number(&case["block_size"])).unwrap(), window);
    let tokens = tokens(&case["tokens"]);
    let context = HashContext::NONE
        .with_adapter(case["adapter"].as_str().unwrap())
        .unwrap()
        .with_salt(case["salt"].as_str().unwrap())
        .unwrap();
    let spans: Vec<MmSpan> = case["spans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|span| {
            let content = MmHash::from_identifier(span["identifier"].as_str().unwrap()).unwrap();
            MmSpan::new(number(&span["start"]), number(&span["tokens"]), content)
        })
        .collect();
    let prompt = Prompt::new(&tokens).in_context(context).with_spans(&spans).unwrap();

    let locals = scheme.hash(&prompt);
    let local_names: Vec<String> = locals.iter().map(ToString::to_string).collect();
    assert_eq!(local_names, hashes(&case["local"]), "{name}");

    let mut lazy_out = Vec::new();
    let mut hasher = BlockHasher::new(scheme);
    assert_eq!(hasher.lazy(prompt, &mut lazy_out).all(), locals, "{name}");

    let mut sequence = Vec::new();
    sequence_hashes_into(&locals, &mut sequence);
    let sequence_names: Vec<String> = sequence.iter().map(ToString::to_string).collect();
    assert_eq!(sequence_names, hashes(&case["sequence"]), "{name}");
}

#[test]
fn every_case_has_its_published_hashes() {
    let golden = golden();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 28);
    cases.iter().for_each(check);
}

#[test]
fn identifiers_have_their_published_content_hashes() {
    for entry in golden()["identifiers"].as_array().unwrap() {
        let identifier = entry["identifier"].as_str().unwrap();
        let content = MmHash::from_identifier(identifier).unwrap();
        assert_eq!(content.to_string(), entry["content"].as_str().unwrap(), "{identifier}");
    }
}

/// The one vector that everybody publishes, in the decimal form in which they publish it.
#[test]
fn the_public_vector() {
    let scheme = HashScheme::new(BlockSize::new(4).unwrap(), Window::Plain);
    let tokens: Vec<u32> = (1..=12).collect();
    let locals = scheme.hash(&Prompt::new(&tokens));
    let mut sequence = Vec::new();
    sequence_hashes_into(&locals, &mut sequence);
    assert_eq!(
        locals.iter().map(|hash| hash.get()).collect::<Vec<_>>(),
        [14643705804678351452, 16777012769546811212, 483935686894639516]
    );
    assert_eq!(
        sequence.iter().map(|hash| hash.get()).collect::<Vec<_>>(),
        [14643705804678351452, 4945711292740353085, 12583592247330656132]
    );
}
