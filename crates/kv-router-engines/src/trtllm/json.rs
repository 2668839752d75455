//! The JSON itself. Private: no type of serde's is in a public signature.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Calls `each` with every event of a list, or with the single event, in one pass and one at a time.
pub(super) fn each_event<'a>(json: &'a [u8], each: impl FnMut(&'a RawValue)) -> serde_json::Result<()> {
    if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        let mut each = each;
        each(serde_json::from_slice(json)?);
        return Ok(());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    deserializer.deserialize_seq(Events(each))?;
    deserializer.end()
}

struct Events<F>(F);

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Events<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element()? {
            (self.0)(event);
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
pub(super) struct Event<'a> {
    pub(super) event_id: Option<u64>,
    #[serde(borrow)]
    pub(super) data: Data<'a>,
    pub(super) window_size: Option<u64>,
    pub(super) attention_dp_rank: Option<u32>,
}

/// The fields of all kinds of events: which of them must be there depends on the kind.
#[derive(serde::Deserialize)]
pub(super) struct Data<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) parent_hash: Option<Hash>,
    #[serde(borrow)]
    pub(super) blocks: Option<Vec<Block<'a>>>,
    pub(super) block_hashes: Option<Vec<Hash>>,
    pub(super) block_hash: Option<Hash>,
    pub(super) cache_level: Option<Diff>,
}

#[derive(serde::Deserialize)]
pub(super) struct Block<'a> {
    pub(super) block_hash: Hash,
    pub(super) tokens: Vec<Token>,
    cache_level: Option<u64>,
    /// Not looked into: it says where in an item the block starts, not where in the block the item does.
    #[serde(borrow)]
    mm_keys: Option<&'a RawValue>,
}

impl Block<'_> {
    pub(super) fn level(&self) -> u64 {
        self.cache_level.unwrap_or(0)
    }

    pub(super) fn has_media(&self) -> bool {
        self.mm_keys.is_some_and(|keys| !matches!(keys.get(), "[]" | "null"))
    }
}

#[derive(serde::Deserialize)]
pub(super) struct Token {
    pub(super) token_id: u32,
    #[serde(default)]
    pub(super) token_extra_id: u64,
}

#[derive(serde::Deserialize)]
pub(super) struct Diff {
    pub(super) old_value: u64,
    pub(super) new_value: u64,
}

/// A name: any integer of 64 bits.
#[derive(Clone, Copy)]
pub(super) struct Hash(pub(super) u64);

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Integer;

        impl Visitor<'_> for Integer {
            type Value = Hash;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer of 64 bits")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Hash, E> {
                Ok(Hash(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Hash, E> {
                Ok(Hash(value.cast_unsigned()))
            }
        }

        deserializer.deserialize_any(Integer)
    }
}
