//! What can happen, in words that any state gives a meaning to.

use kv_router_types::Tier;

/// A list of operations on a fleet.
#[derive(Clone, Debug)]
pub struct History {
    /// Ranks in the fleet, 1 to 300.
    pub ranks: u16,
    /// What happens, in order.
    pub ops: Vec<Op>,
    /// Decides in which order everything is removed in the end.
    pub seed: u64,
}

/// One operation: one or more events. Every `rank` is taken modulo the ranks of the fleet.
#[derive(Clone, Debug)]
pub enum Op {
    /// Stores a chain.
    Store {
        /// Whose.
        rank: u16,
        /// What the chain continues.
        under: Under,
        /// Content of the blocks; equal bytes are equal tokens.
        blocks: Vec<u8>,
        /// Where the copies are.
        tier: Tier,
        /// What the engine calls them.
        naming: Naming,
    },
    /// Every `every`-th rank stores the same chain at the root, some of them only a part of it.
    Share {
        /// 1 for all ranks; 0 is taken as 1.
        every: u8,
        /// Content of the blocks.
        path: Vec<u8>,
        /// Where the copies are.
        tier: Tier,
    },
    /// Stores a held block again: a replay, a copy in another tier, or another name.
    Again {
        /// Whose.
        rank: u16,
        /// Which.
        pick: Pick,
        /// Where the copy is.
        tier: Tier,
        /// Under which name; the usual one is its own.
        naming: Naming,
    },
    /// Stores a block that was removed, under the parent that it had.
    Refill {
        /// Whose.
        rank: u16,
        /// Which of those removed, counted from the latest; if some have left a hole, which of those.
        nth: u16,
        /// Where the copy is.
        tier: Tier,
    },
    /// Stores all blocks that were removed, each under the parent that it had, one event each.
    RefillAll {
        /// Whose.
        rank: u16,
        /// In which order.
        order: Order,
    },
    /// Removes some blocks in one event a tier.
    Remove {
        /// Whose.
        rank: u16,
        /// Which; the same may come twice.
        picks: Vec<Pick>,
        /// Which copies.
        copies: Copies,
        /// A name to put in the middle that the rank need not know.
        stranger: Option<u64>,
    },
    /// Removes every block from the root to one.
    RemoveChain {
        /// Whose.
        rank: u16,
        /// The end of the chain.
        pick: Pick,
        /// In which order.
        order: Order,
        /// In how many events.
        packing: Packing,
    },
    /// A store under a name that the rank need not know.
    Orphan {
        /// Whose.
        rank: u16,
        /// The name.
        parent: u64,
        /// Content of the blocks.
        blocks: Vec<u8>,
    },
    /// A store that names a block twice.
    Malformed {
        /// Whose.
        rank: u16,
        /// What the chain continues.
        under: Under,
        /// Content of the blocks.
        blocks: Vec<u8>,
        /// How.
        flaw: Flaw,
    },
    /// The rank forgets everything.
    Clear {
        /// Which.
        rank: u16,
    },
    /// The rank's worker is removed. It returns when one of its ranks stores again.
    RemoveWorker {
        /// One of its ranks.
        rank: u16,
    },
    /// A worker that never stored anything removes, clears and goes.
    Stranger,
    /// A lookup.
    Ask {
        /// Whose block the query leads to.
        rank: u16,
        /// Which.
        pick: Pick,
        /// What is done to the query.
        variation: Variation,
    },
}

/// Chooses one of the names that a rank holds.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// Its number in the order of the names, modulo how many there are.
    pub nth: u16,
    /// Or a block on the way to it, if the rank holds that.
    pub part: Part,
}

/// A block on the way from the root to another, or beyond.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The block itself.
    Itself,
    /// The first.
    Head,
    /// One half way.
    Middle,
    /// The deepest that continues it.
    Tail,
}

/// What a chain continues.
#[derive(Clone, Copy, Debug)]
pub enum Under {
    /// Nothing.
    Root,
    /// What the rank stored last, or nothing if that is gone.
    Tip,
    /// A block that the rank holds, or nothing if it holds none.
    Block(Pick),
}

/// What the engine calls new blocks.
#[derive(Clone, Copy, Debug)]
pub enum Naming {
    /// What it always calls them, so that storing the same again is a replay.
    Usual,
    /// Another name, so that a block that is held gets a second one.
    Twin(u8),
    /// The first block gets a name that is in use; the rest as usual.
    Taken(Pick),
}

/// An order of blocks.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// From the root.
    HeadFirst,
    /// To the root.
    TailFirst,
    /// Any.
    Shuffled(u64),
}

/// How blocks are spread over events.
#[derive(Clone, Copy, Debug)]
pub enum Packing {
    /// All in one.
    OneEvent,
    /// One each.
    OneEach,
}

/// Which copies of a block are removed.
#[derive(Clone, Copy, Debug)]
pub enum Copies {
    /// That of one tier, there or not.
    In(Tier),
    /// All.
    All,
}

/// How a store is malformed.
#[derive(Clone, Copy, Debug)]
pub enum Flaw {
    /// The last block has the name of the first.
    Twice,
    /// The last block has the name of the parent.
    OwnParent,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Variation {
    /// The path to a block.
    Whole,
    /// Its first blocks: this number modulo its length.
    Prefix(u8),
    /// The path and more.
    Longer(Vec<u8>),
    /// The path with another block at this index, modulo its length.
    Altered(u8),
    /// Something else.
    Other(Vec<u8>),
}
