//! Three hashes that must never be mixed up, each its own type.

use std::fmt;

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw 64-bit value.
            #[inline]
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The raw 64-bit value.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:016x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }
    };
}

hash_type! {
    /// Hash of what is inside one block: its tokens, and the adapter, salt and images that change their meaning.
    ///
    /// Independent of position: the same tokens give the same value wherever they stand. Two requests share a
    /// prefix exactly when their leading local hashes are equal.
    LocalBlockHash
}

hash_type! {
    /// Rolling hash of the whole prefix up to and including a block, computed by us from local hashes.
    SequenceHash
}

hash_type! {
    /// The engine's own name for a block, as its events carry it.
    ///
    /// Opaque: never recomputed, and never compared between workers. Two workers may use one name for different
    /// content, or two names for the same content.
    ExternalSequenceHash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_hexadecimal_and_names_the_type() {
        assert_eq!(format!("{:?}", LocalBlockHash::new(0xab)), "LocalBlockHash(00000000000000ab)");
        assert_eq!(format!("{}", ExternalSequenceHash::new(u64::MAX)), "ffffffffffffffff");
    }
}
