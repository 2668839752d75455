//! What an engine's prefix cache looks blocks up by, and what it calls them to the outside.

use kv_router_types::{ExternalSequenceHash, LocalBlockHash};

use crate::random::{mix, mix2};

/// Content of a whole prefix: the key of the prefix cache. Never leaves the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChainKey(u64);

impl ChainKey {
    /// The empty prefix.
    pub(super) const ROOT: Self = Self(0x726f_6f74_0000_0001);

    /// The prefix one block longer.
    #[inline]
    pub(super) const fn then(self, local: LocalBlockHash) -> Self {
        Self(mix2(self.0, local.get()))
    }
}

/// How an engine names its blocks in events. A router must not be able to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// By content: engines that hold the same prefix name it the same way.
    #[default]
    Content,
    /// By content and a salt: engines with different salts share no name.
    Salted(u64),
    /// By a counter from 0: engines use the same names for different content, and a block that comes back has
    /// a new name.
    Serial,
}

/// Hands out names.
#[derive(Debug)]
pub(super) struct Namer {
    naming: Naming,
    handed_out: u64,
}

impl Namer {
    pub(super) const fn new(naming: Naming) -> Self {
        Self { naming, handed_out: 0 }
    }

    /// A name for a block that enters the cache.
    pub(super) fn name(&mut self, key: ChainKey) -> ExternalSequenceHash {
        let serial = self.handed_out;
        self.handed_out += 1;
        ExternalSequenceHash::new(match self.naming {
            Naming::Content => mix(key.0), // mixed, so that the key itself stays inside
            Naming::Salted(salt) => mix2(salt, key.0),
            Naming::Serial => serial,
        })
    }
}

/// The local hash of a block with generated tokens in it: no prompt of a trace has it, nor another request.
#[inline]
pub(super) const fn private_block(request: u32, position: u32) -> LocalBlockHash {
    const DOMAIN: u64 = 0x6465_636f_6465_0001;
    LocalBlockHash::new(mix2(DOMAIN, (request as u64) << 32 | position as u64))
}
