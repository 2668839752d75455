//! Token pairs of EAGLE engines, folded to the tokens that they are windows of.

use std::error::Error;
use std::fmt;

/// Replaces `out` by the tokens that a chain of pairs stands for: the first of each pair and the second of the last.
///
/// EAGLE engines announce blocks as pairs, each sharing a token with the next. The result is one token longer than
/// the chain: what a [`HashScheme`](crate::HashScheme) with the window [`Eagle`](crate::Window::Eagle) hashes to one
/// block per block size of pairs.
///
/// ```
/// use kv_router_hash::fold_bigrams_into;
///
/// let mut tokens = Vec::new();
/// fold_bigrams_into([[1, 2], [2, 3], [3, 4], [4, 5]], &mut tokens)?;
/// assert_eq!(tokens, [1, 2, 3, 4, 5]);
/// # Ok::<(), kv_router_hash::BrokenBigrams>(())
/// ```
///
/// # Errors
///
/// [`BrokenBigrams`] when a pair does not start with the second token of the one before it; `out` is then empty.
pub fn fold_bigrams_into(
    pairs: impl IntoIterator<Item = [u32; 2]>,
    out: &mut Vec<u32>,
) -> Result<(), BrokenBigrams> {
    out.clear();
    let mut expected = None;
    for (index, [first, second]) in pairs.into_iter().enumerate() {
        if expected.is_some_and(|token| token != first) {
            out.clear();
            return Err(BrokenBigrams { index });
        }
        out.push(first);
        expected = Some(second);
    }
    out.extend(expected);
    Ok(())
}

/// Token pairs that are no chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenBigrams {
    /// The first pair that does not start with the second token of the one before it.
    pub index: usize,
}

impl fmt::Display for BrokenBigrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "token pair {} does not continue the one before it: these are no EAGLE bigrams, drop the event",
            self.index
        )
    }
}

impl Error for BrokenBigrams {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[[u32; 2]], expected: Result<&[u32], usize>) {
        let mut out = vec![9];
        let result = fold_bigrams_into(pairs.iter().copied(), &mut out);
        assert_eq!(result, expected.map(|_| ()).map_err(|index| BrokenBigrams { index }));
        assert_eq!(out, expected.unwrap_or_default());
    }

    #[test]
    fn only_a_chain_folds() {
        check(&[], Ok(&[]));
        check(&[[1, 2]], Ok(&[1, 2]));
        check(&[[1, 2], [2, 2], [2, 3]], Ok(&[1, 2, 2, 3]));
        check(&[[1, 2], [3, 4]], Err(1));
        check(&[[1, 2], [2, 3], [2, 4]], Err(2));
    }
}
