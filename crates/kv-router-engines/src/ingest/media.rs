//! Engines' words for where a copy is, and our tiers.

use kv_router_types::Tier;

/// Which tier an engine's medium is.
///
/// Upper and lower case are the same. A medium that the table does not have is counted and its events passed over:
/// it is never filed under [`Tier::Device`], which would make a slow copy look like a fast one.
///
/// ```
/// use kv_router_engines::MediaTable;
/// use kv_router_types::Tier;
///
/// let media = MediaTable::default().with("NVME", Some(Tier::Disk)).with("OBJ", None);
/// assert_eq!(media.tier(Some("nvme")), Some(Tier::Disk));
/// assert_eq!(media.tier(Some("OBJ")), None); // passed over now
/// assert_eq!(media.tier(None), Some(Tier::Device)); // engines without tiers do not say
/// ```
#[derive(Clone, Debug)]
pub struct MediaTable {
    /// Earlier entries win.
    entries: Vec<(Box<str>, Option<Tier>)>,
}

impl MediaTable {
    /// The same with one word more, or with another meaning for a word; `None` passes its events over.
    #[must_use]
    pub fn with(mut self, medium: &str, tier: Option<Tier>) -> Self {
        self.entries.insert(0, (medium.into(), tier));
        self
    }

    /// The tier of a medium; `None` for one that is not known. No medium at all is the device.
    pub fn tier(&self, medium: Option<&str>) -> Option<Tier> {
        let Some(medium) = medium.filter(|&medium| medium != "GPU") else { return Some(Tier::Device) };
        self.entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(medium)).and_then(|&(_, tier)| tier)
    }
}

impl Default for MediaTable {
    /// What vLLM, SGLang, TensorRT-LLM and Mooncake say: storage of which nothing is known is the lowest tier.
    fn default() -> Self {
        let known = [
            ("GPU", Tier::Device),
            ("CPU", Tier::Host),
            ("CPU_PINNED", Tier::Host),
            ("DISK", Tier::Disk),
            ("FS", Tier::Object),
            ("OBJ", Tier::Object),
            ("STORAGE", Tier::Object),
            ("EXTERNAL", Tier::Object),
        ];
        Self { entries: known.into_iter().map(|(name, tier)| (name.into(), Some(tier))).collect() }
    }
}
