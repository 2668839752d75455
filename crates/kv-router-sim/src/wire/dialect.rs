//! How releases of engines write their events.

use kv_router_engines::{EventForm, Presence};
use kv_router_zmq::ReplayFraming;

/// How an engine writes the names of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashForm {
    /// Natural numbers: vLLM.
    Unsigned,
    /// Whole numbers: SGLang, and vLLM up to 0.10.1.
    Signed,
    /// Digests of 32 bytes: vLLM when told not to shorten them.
    Digest,
}

/// What an engine calls its tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Media {
    /// It has no words for them, and announces the device alone.
    Unnamed,
    /// `GPU`, and this for host memory.
    Named(&'static str),
}

/// One way to write events that some release has.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The engine, and a release.
    pub name: &'static str,
    /// Events.
    pub form: EventForm,
    /// Replays.
    pub framing: ReplayFraming,
    /// Names.
    pub hashes: HashForm,
    /// Tiers.
    pub media: Media,
    /// What a repeated store means.
    pub presence: Presence,
}

const fn dialect(name: &'static str, form: EventForm, hashes: HashForm, media: Media) -> Dialect {
    let framing = ReplayFraming::WithoutTopic;
    Dialect { name, form, framing, hashes, media, presence: Presence::Copies }
}

const fn sglang(dialect: Dialect) -> Dialect {
    Dialect { presence: Presence::Logical, ..dialect }
}

/// Every form that the field has, oldest first.
pub const DIALECTS: [Dialect; 10] = [
    dialect("vllm 0.9", EventForm::ARRAY_WITHOUT_MEDIA, HashForm::Signed, Media::Unnamed),
    dialect("vllm 0.10.2", EventForm::ARRAY_WITH_MEDIA, HashForm::Unsigned, Media::Named("CPU")),
    dialect("vllm 0.13, digests", EventForm::ARRAY_WITH_MEDIA, HashForm::Digest, Media::Named("CPU")),
    dialect("vllm 0.14", EventForm::ARRAY_WITH_ADAPTERS, HashForm::Unsigned, Media::Named("CPU")),
    dialect("vllm 0.24", EventForm::Map, HashForm::Unsigned, Media::Named("CPU")),
    Dialect {
        framing: ReplayFraming::WithTopic,
        ..dialect("vllm 0.33", EventForm::Map, HashForm::Unsigned, Media::Named("CPU"))
    },
    Dialect {
        framing: ReplayFraming::WithTopic,
        ..dialect("vllm 0.33, digests", EventForm::Map, HashForm::Digest, Media::Named("CPU"))
    },
    sglang(dialect("sglang 0.5.8", EventForm::ARRAY_WITHOUT_MEDIA, HashForm::Signed, Media::Unnamed)),
    sglang(dialect(
        "sglang 0.5.16",
        EventForm::ARRAY_WITH_MEDIA,
        HashForm::Signed,
        Media::Named("CPU_PINNED"),
    )),
    Dialect {
        framing: ReplayFraming::WithTopic,
        ..sglang(dialect("sglang 0.5.23", EventForm::Map, HashForm::Signed, Media::Named("CPU_PINNED")))
    },
];
