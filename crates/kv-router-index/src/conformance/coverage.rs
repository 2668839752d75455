//! Which interesting states a history has reached.

use std::ops::AddAssign;

macro_rules! coverage {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// How often a history reached the states where indexes go wrong. A suite that does not reach them
        /// tests nothing, so its generator is tested for them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Coverage {
            $($(#[$doc])* pub $field: u32,)*
        }

        impl Coverage {
            /// Every count with its name.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, u32)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }

        impl AddAssign for Coverage {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

coverage! {
    /// Blocks removed while the rank held one that continues them.
    holes_made,
    /// Blocks stored again where the rank held one that continues them.
    holes_filled,
    /// The same at the root.
    heads_filled,
    /// Ranks that have a hole when they are dumped.
    dumps_with_holes,
    /// Blocks that got a second name.
    twins,
    /// Blocks still held after one of their names was removed.
    twins_outlived,
    /// Names that moved to another place.
    moves,
    /// Copies stored again.
    replays,
    /// Stores refused for their parent.
    unknown_parents,
    /// Stores refused for their names.
    invalid_sequences,
    /// Names removed that were not held.
    unknown_removals,
    /// Blocks still held after their copy in one tier was removed.
    demotions,
    /// Ranks cleared that held something.
    clears,
    /// Workers removed that held something.
    workers_removed,
    /// Workers that stored again after they were removed.
    workers_returned,
    /// Names that two ranks use for different content.
    names_clashing,
    /// Blocks that two ranks call by different names.
    names_differing,
    /// Lookups answered with overlaps of different depths.
    uneven_answers,
    /// Lookups along which as many ranks hold a block as held the one before it, but not the same.
    swaps,
    /// Lookups answered with more than 64 ranks.
    crowded_answers,
    /// Lookups answered with an overlap of 64 blocks or more.
    deep_answers,
    /// Lookups answered with credit below the device.
    tiered_answers,
    /// Lookups that stopped early.
    early_exits,
}
