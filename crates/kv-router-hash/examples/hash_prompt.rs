//! A request and the engine event about it, hashed to the same names:
//! `cargo run -p kv-router-hash --example hash_prompt`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router_hash::{
    BlockHasher, HashContext, HashScheme, MmHash, MmPair, MmSpan, Prompt, SequenceHasher, Window,
};
use kv_router_types::BlockSize;

const PLACEHOLDER: u32 = 32_000;

fn main() -> Result<(), Box<dyn Error>> {
    let scheme = HashScheme::new(BlockSize::new(4)?, Window::Plain);
    let mut hasher = BlockHasher::new(scheme);

    // What the gateway knows: 14 tokens, six of them placeholders for one image, a tenant and an adapter.
    let tokens = [
        101,
        102,
        103,
        PLACEHOLDER,
        PLACEHOLDER,
        PLACEHOLDER,
        PLACEHOLDER,
        PLACEHOLDER,
        PLACEHOLDER,
        104,
        105,
        106,
        107,
        108,
    ];
    let image = MmHash::from_identifier("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")?;
    let spans = [MmSpan::new(3, 6, image)];
    let context = HashContext::NONE.with_adapter("sql-expert")?.with_salt("tenant-a")?;
    let prompt = Prompt::new(&tokens).in_context(context).with_spans(&spans)?;

    let mut locals = Vec::new();
    hasher.hash_into(&prompt, &mut locals);
    println!("{} tokens are {} blocks of {}", tokens.len(), locals.len(), scheme.block_size());
    let mut sequence = SequenceHasher::new();
    for (position, &local) in locals.iter().enumerate() {
        println!("block {position}: local {local}, prefix {}", sequence.push(local));
    }

    // What the engine says of its second and third block: the image began one token, then five tokens before.
    let second = hasher.hash_block(&tokens[4..8], &context, &[MmPair::new(image, -1)])?;
    let third = hasher.hash_block(&tokens[8..12], &context, &[MmPair::new(image, -5)])?;
    println!("the engine's blocks are the request's: {}", [second, third] == locals[1..3]);

    // Somebody else's image behind the same placeholders.
    let other = [MmSpan::new(3, 6, MmHash::from_identifier("cat-picture")?)];
    let others = scheme.hash(&prompt.with_spans(&other)?);
    let shared = locals.iter().zip(&others).take_while(|(mine, theirs)| mine == theirs).count();
    println!("blocks shared with a prompt about another image: {shared}");
    Ok(())
}
