//! Enums of reasons, each with a counter.

/// Declares a plain enum of reasons, their short names, and a type that counts them.
macro_rules! reasons {
    (
        $(#[$doc:meta])* $name:ident, $(#[$counts_doc:meta])* $counts:ident;
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every reason, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// A short name for metrics, in lower case with underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $(#[$counts_doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $counts {
            /// Indexed by the reason.
            counts: [u64; $name::ALL.len()],
        }

        impl Default for $counts {
            fn default() -> Self {
                Self { counts: [0; $name::ALL.len()] }
            }
        }

        impl $counts {
            pub(crate) fn add(&mut self, reason: $name) {
                self.counts[reason as usize] += 1;
            }

            /// How often for this reason.
            pub fn get(&self, reason: $name) -> u64 {
                self.counts[reason as usize]
            }

            /// How often for any reason.
            pub fn total(&self) -> u64 {
                self.counts.iter().sum()
            }

            /// The reasons that occurred, with how often.
            pub fn iter(&self) -> impl Iterator<Item = ($name, u64)> {
                $name::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, count)| count > 0)
            }
        }

        impl std::ops::AddAssign for $counts {
            fn add_assign(&mut self, other: Self) {
                for (sum, count) in self.counts.iter_mut().zip(other.counts) {
                    *sum += count;
                }
            }
        }

        impl std::fmt::Debug for $counts {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_map().entries(self.iter()).finish()
            }
        }
    };
}

pub(crate) use reasons;
