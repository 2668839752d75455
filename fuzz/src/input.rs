//! Choices, read from the bytes of an input: where they end, every choice is the first one.

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// A number below `limit`, which must not be 0.
    pub(crate) fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    /// Mostly a small number, sometimes one at the end of its range or anywhere.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX - u64::from(self.byte() % 4),
            254 => self.word(),
            253 => u64::from(u32::MAX) + u64::from(self.byte()) - 128,
            small => u64::from(small),
        }
    }

    pub(crate) fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// One of a list, which must not be empty.
    pub(crate) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::from(self.byte()) % list.len()]
    }

    /// Some of the bytes as they are, by a length in front of them: two bytes, little-endian.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let wanted = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        let (taken, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Puts a length in front of `bytes`, as [`Choices::bytes`] reads it.
pub(crate) fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len().min(usize::from(u16::MAX));
    [&(length as u16).to_le_bytes(), &bytes[..length]].concat()
}
