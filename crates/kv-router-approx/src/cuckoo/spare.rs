//! Numbers of a few bits each, packed.

/// `len` numbers of `width` bits (0 to 32), all 0 at first.
///
/// Bits that belong to no number are 0, so that equal contents are equal words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackedBits {
    words: Vec<u64>,
    width: u32,
    len: usize,
}

impl PackedBits {
    pub(super) fn new(width: u32, len: usize) -> Self {
        debug_assert!(width <= 32);
        Self { words: vec![0; Self::words_for(width, len)], width, len }
    }

    /// Numbers from the words of [`words`](Self::words); `None` when they are too few or too many, or a bit
    /// that belongs to no number is set.
    pub(super) fn from_words(width: u32, len: usize, words: Vec<u64>) -> Option<Self> {
        let used = width as usize * len % 64;
        let padding_is_zero = used == 0 || words.last().is_none_or(|last| last >> used == 0);
        let fits = words.len() == Self::words_for(width, len) && padding_is_zero;
        fits.then_some(Self { words, width, len })
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn words_for(width: u32, len: usize) -> usize {
        (width as usize * len).div_ceil(64)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    pub(super) fn get(&self, index: usize) -> u32 {
        if self.width == 0 {
            return 0;
        }
        let (word, shift) = self.locate(index);
        let mut bits = self.words[word] >> shift;
        if shift + self.width > 64 {
            bits |= self.words[word + 1] << (64 - shift);
        }
        (bits & self.mask()) as u32
    }

    pub(super) fn set(&mut self, index: usize, value: u32) {
        debug_assert!(u64::from(value) <= self.mask(), "{value} has more than {} bits", self.width);
        if self.width == 0 {
            return;
        }
        let (word, shift) = self.locate(index);
        let (mask, value) = (self.mask(), u64::from(value));
        self.words[word] = self.words[word] & !(mask << shift) | value << shift;
        if shift + self.width > 64 {
            let shift = 64 - shift;
            self.words[word + 1] = self.words[word + 1] & !(mask >> shift) | value >> shift;
        }
    }

    /// Makes room for `len` numbers in all, the new ones 0. Allocates what is needed and no more.
    pub(super) fn grow(&mut self, len: usize) {
        let words = Self::words_for(self.width, len);
        self.words.reserve_exact(words.saturating_sub(self.words.len()));
        self.words.resize(words, 0);
        self.len = len;
    }

    /// The same numbers at another width, which each of them must fit.
    pub(super) fn at_width(&self, width: u32) -> Self {
        let mut packed = Self::new(width, self.len);
        for index in 0..self.len {
            packed.set(index, self.get(index));
        }
        packed
    }

    fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    fn locate(&self, index: usize) -> (usize, u32) {
        debug_assert!(index < self.len);
        let bit = index * self.width as usize;
        (bit / 64, (bit % 64) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_numbers_are_an_array(
            width in 0u32..=32,
            writes in prop::collection::vec((0usize..100, any::<u32>()), 0..200),
        ) {
            let keep = ((1u64 << width) - 1) as u32;
            let mut model = vec![0u32; 60];
            let mut packed = PackedBits::new(width, 60);
            for (index, value) in writes {
                if index >= model.len() {
                    model.resize(index + 1, 0);
                    packed.grow(index + 1);
                }
                model[index] = value & keep;
                packed.set(index, value & keep);
            }
            for (index, &value) in model.iter().enumerate() {
                prop_assert_eq!(packed.get(index), value);
            }
            let wider = packed.at_width(32);
            prop_assert_eq!((0..model.len()).map(|i| wider.get(i)).collect::<Vec<_>>(), model.clone());
            prop_assert_eq!(&wider.at_width(width), &packed);
            let back = PackedBits::from_words(width, model.len(), packed.words().to_vec());
            prop_assert_eq!(back, Some(packed));
        }
    }

    #[test]
    fn words_that_do_not_fit_are_refused() {
        assert!(PackedBits::from_words(3, 4, vec![0xFFF]).is_some());
        assert!(PackedBits::from_words(3, 4, vec![0x1FFF]).is_none(), "a bit of padding is set");
        assert!(PackedBits::from_words(3, 4, vec![]).is_none());
        assert!(PackedBits::from_words(3, 4, vec![0, 0]).is_none());
        assert!(PackedBits::from_words(0, 4, vec![]).is_some());
    }
}
