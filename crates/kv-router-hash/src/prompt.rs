//! A request as the hash sees it.

use std::fmt;

use crate::{HashContext, MmSpan, SpanError};

/// A request as the hash sees it: its tokens, and what else decides whose cache it may use.
///
/// Borrows everything and copies nothing, so it is cheap to build again when an option of the request changes.
///
/// ```
/// use kv_router_hash::{HashContext, MmHash, MmSpan, Prompt};
///
/// let tokens = [7, 7, 32_000, 32_000, 32_000, 9];
/// let image = MmSpan::new(2, 3, MmHash::from_identifier("img-1")?);
/// let prompt = Prompt::new(&tokens)
///     .in_context(HashContext::NONE.with_salt("tenant-a")?)
///     .with_spans(std::slice::from_ref(&image))?;
/// assert_eq!(prompt.spans().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Prompt<'a> {
    tokens: &'a [u32],
    context: HashContext<'a>,
    /// Not empty, in order, disjoint, and inside both `tokens` and the range of `i32`.
    spans: &'a [MmSpan],
}

impl<'a> Prompt<'a> {
    /// A text prompt for the base model, without a salt.
    #[inline]
    pub const fn new(tokens: &'a [u32]) -> Self {
        Self { tokens, context: HashContext::NONE, spans: &[] }
    }

    /// The same prompt under an adapter or a salt.
    #[inline]
    #[must_use]
    pub const fn in_context(self, context: HashContext<'a>) -> Self {
        Self { context, ..self }
    }

    /// The same prompt with multimodal items, in the order in which they stand.
    ///
    /// # Errors
    ///
    /// [`SpanError`] for the first span that is empty, out of order, overlapping, or past the end of the prompt.
    pub fn with_spans(self, spans: &'a [MmSpan]) -> Result<Self, SpanError> {
        let tokens = self.tokens.len();
        let last_end = tokens.min(i32::MAX as usize);
        let mut free_from = 0;
        for (index, span) in spans.iter().enumerate() {
            if span.tokens == 0 {
                return Err(SpanError::Empty { index });
            }
            if span.start < free_from {
                return Err(SpanError::OutOfOrder { index });
            }
            if span.end() as usize > last_end {
                return Err(SpanError::PastEnd { index, tokens });
            }
            free_from = span.end();
        }
        Ok(Self { spans, ..self })
    }

    /// The tokens.
    #[inline]
    pub const fn tokens(&self) -> &'a [u32] {
        self.tokens
    }

    /// The adapter and the salt.
    #[inline]
    pub const fn context(&self) -> &HashContext<'a> {
        &self.context
    }

    /// The multimodal items, in order.
    #[inline]
    pub const fn spans(&self) -> &'a [MmSpan] {
        self.spans
    }
}

/// Shows how many tokens there are, not which: they are what somebody wrote.
impl fmt::Debug for Prompt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("token_count", &self.tokens.len())
            .field("context", &self.context)
            .field("spans", &self.spans)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MmHash;

    #[test]
    fn debug_keeps_the_prompt_private() {
        let prompt = format!("{:?}", Prompt::new(&[77_777; 3]));
        assert!(prompt.contains("token_count: 3") && !prompt.contains("77777"), "{prompt}");
    }

    #[track_caller]
    fn check(spans: &[(u32, u32)], expected: Option<SpanError>) {
        let tokens = [0; 100];
        let spans: Vec<MmSpan> =
            spans.iter().map(|&(start, length)| MmSpan::new(start, length, MmHash::new(1))).collect();
        assert_eq!(Prompt::new(&tokens).with_spans(&spans).err(), expected);
    }

    #[test]
    fn spans_are_checked_once_at_the_edge() {
        check(&[], None);
        check(&[(0, 100)], None);
        check(&[(0, 10), (10, 10), (99, 1)], None);
        check(&[(5, 1), (7, 0)], Some(SpanError::Empty { index: 1 }));
        check(&[(10, 5), (0, 5)], Some(SpanError::OutOfOrder { index: 1 }));
        check(&[(10, 5), (14, 5)], Some(SpanError::OutOfOrder { index: 1 }));
        check(&[(10, 5), (10, 5)], Some(SpanError::OutOfOrder { index: 1 }));
        check(&[(0, 101)], Some(SpanError::PastEnd { index: 0, tokens: 100 }));
        check(&[(0, 1), (100, 1)], Some(SpanError::PastEnd { index: 1, tokens: 100 }));
        check(&[(u32::MAX, u32::MAX)], Some(SpanError::PastEnd { index: 0, tokens: 100 }));
    }
}
