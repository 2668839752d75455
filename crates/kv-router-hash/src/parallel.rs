//! One long prompt on several threads.

use std::ops::Range;
use std::thread::{self, Builder};

use kv_router_types::LocalBlockHash;

use crate::{BlockHasher, HashScheme, Prompt};

/// Replaces `out` by the local hashes of a prompt, on up to `threads` threads, the caller's among them. `builder` is
/// [`Builder::new`] but in tests.
pub(crate) fn hash_into(
    scheme: HashScheme,
    prompt: &Prompt<'_>,
    threads: usize,
    builder: fn() -> Builder,
    out: &mut Vec<LocalBlockHash>,
) {
    let blocks = scheme.blocks_in(prompt.tokens().len());
    if threads <= 1 || blocks == 0 {
        return scheme.hash_into(prompt, out);
    }
    out.clear();
    out.resize(blocks, LocalBlockHash::default());
    if let Some(lost) = fill_on(scheme, prompt, blocks.div_ceil(threads), builder, out) {
        BlockHasher::new(scheme).fill(prompt, lost.start, &mut out[lost]);
    }
}

/// Gives `share` blocks to each thread, from the end, and the rest to the caller. Returns the share of a thread that
/// the system refused to start, after which no more are asked for.
fn fill_on(
    scheme: HashScheme,
    prompt: &Prompt<'_>,
    share: usize,
    builder: fn() -> Builder,
    out: &mut [LocalBlockHash],
) -> Option<Range<usize>> {
    thread::scope(|scope| {
        let mut mine = out;
        let mut lost = None;
        while mine.len() > share && lost.is_none() {
            let first = mine.len() - share;
            let (rest, theirs) = mine.split_at_mut(first);
            mine = rest;
            let fill = move || BlockHasher::new(scheme).fill(prompt, first, theirs);
            // `thread::scope` alone would panic where the system has no thread to give.
            if builder().spawn_scoped(scope, fill).is_err() {
                lost = Some(first..first + share);
            }
        }
        BlockHasher::new(scheme).fill(prompt, 0, mine);
        lost
    })
}

#[cfg(test)]
mod tests {
    use kv_router_types::BlockSize;

    use super::*;
    use crate::{HashContext, MmHash, MmSpan, Window};

    #[track_caller]
    fn check(window: Window, context: HashContext<'_>, spans: &[MmSpan], builder: fn() -> Builder) {
        let scheme = HashScheme::new(BlockSize::new(4).unwrap(), window);
        for length in [0, 3, 4, 5, 40, 41, 43, 44, 45] {
            let tokens: Vec<u32> = (0..length).collect();
            let spans = spans.iter().take_while(|span| span.end() <= length).copied().collect::<Vec<_>>();
            let prompt = Prompt::new(&tokens).in_context(context).with_spans(&spans).unwrap();
            let expected = scheme.hash(&prompt);
            let mut out = vec![LocalBlockHash::new(7); 99];
            for threads in 0..13 {
                hash_into(scheme, &prompt, threads, builder, &mut out);
                assert_eq!(out, expected, "{length} tokens on {threads} threads");
            }
        }
    }

    const SPANS: [MmSpan; 2] = [MmSpan::new(2, 9, MmHash::new(1)), MmSpan::new(11, 1, MmHash::new(2))];

    #[test]
    fn any_number_of_threads_gives_the_serial_result() {
        let salted = HashContext::NONE.with_salt("a").unwrap();
        check(Window::Plain, HashContext::NONE, &[], Builder::new);
        check(Window::Plain, salted, &SPANS, Builder::new);
        check(Window::Eagle, salted, &SPANS, Builder::new);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_caller_does_the_share_of_a_thread_that_the_system_refuses() {
        let refused = || Builder::new().stack_size(1 << 60); // more than there are addresses
        assert!(refused().spawn(|| ()).is_err());
        check(Window::Plain, HashContext::NONE, &[], refused);
        check(Window::Eagle, HashContext::NONE, &SPANS, refused);
    }
}
