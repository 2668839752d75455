//! Settings of the router, by name: what a program is told on its command line.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use kv_router::{CostConfig, Spread};

/// Settings that differ from [`CostConfig::for_first_token`], such as `prefill_load_scale=4,temperature=0.1`, or from the
/// router's defaults, such as `defaults,temperature=0.1`.
///
/// The names are those of [`CostConfig`], and `two_choices`: the margin of [`Spread::TwoChoices`] in blocks. The scenarios
/// are judged by the time to first token, so what is not set has the weights for that.
///
/// ```
/// use kv_router_sim::policy::Knobs;
///
/// let knobs: Knobs = "prefill_load_scale=4,two_choices=64".parse()?;
/// assert_eq!(knobs.cost().prefill_load_scale, 4.0);
/// assert_eq!(knobs.to_string(), "prefill_load_scale=4,two_choices=64");
/// # Ok::<(), kv_router_sim::policy::KnobError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    cost: CostConfig,
    spread: Spread,
    /// Whether the router's own defaults hold for what is not set.
    base: Base,
    /// In the order given.
    set: Vec<(&'static str, f64)>,
}

/// What holds for what is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Base {
    /// [`CostConfig::for_first_token`].
    #[default]
    FirstToken,
    /// [`CostConfig::default`].
    Defaults,
}

/// The word for the router's defaults.
const DEFAULTS: &str = "defaults";

impl Default for Knobs {
    fn default() -> Self {
        Self {
            cost: CostConfig::for_first_token(),
            spread: Spread::default(),
            base: Base::default(),
            set: Vec::new(),
        }
    }
}

/// The margin of two choices, the one knob that is not a cost.
const TWO_CHOICES: &str = "two_choices";

/// Every knob of the cost, and the field that it sets.
type Field = fn(&mut CostConfig) -> &mut f64;
const COSTS: [(&str, Field); 8] = [
    ("device_weight", |cost| &mut cost.device_weight),
    ("host_weight", |cost| &mut cost.host_weight),
    ("disk_weight", |cost| &mut cost.disk_weight),
    ("object_weight", |cost| &mut cost.object_weight),
    ("prefill_load_scale", |cost| &mut cost.prefill_load_scale),
    ("decode_active_request_weight", |cost| &mut cost.decode_active_request_weight),
    ("credit_decay", |cost| &mut cost.credit_decay),
    ("temperature", |cost| &mut cost.temperature),
];

impl Knobs {
    /// The router's own defaults.
    pub fn router_defaults() -> Self {
        Self { cost: CostConfig::default(), base: Base::Defaults, ..Self::default() }
    }

    /// The weights.
    pub fn cost(&self) -> &CostConfig {
        &self.cost
    }

    /// What becomes of near equals.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), KnobError> {
        let number = |knob| text.trim().parse::<f64>().map_err(|_| KnobError::NotANumber { knob });
        if name == TWO_CHOICES {
            let within_blocks =
                text.trim().parse().map_err(|_| KnobError::NotANumber { knob: TWO_CHOICES })?;
            self.spread = Spread::TwoChoices { within_blocks };
            self.set.push((TWO_CHOICES, f64::from(within_blocks)));
            return Ok(());
        }
        let &(knob, field) = COSTS.iter().find(|(knob, _)| *knob == name).ok_or(KnobError::UnknownName)?;
        let value = number(knob)?;
        *field(&mut self.cost) = value;
        self.cost.validate().map_err(|_| KnobError::OutOfRange { knob, value })?;
        self.set.push((knob, value));
        Ok(())
    }
}

impl FromStr for Knobs {
    type Err = KnobError;

    fn from_str(text: &str) -> Result<Self, KnobError> {
        let mut parts = text.split(',').filter(|part| !part.trim().is_empty()).peekable();
        let mut knobs = match parts.next_if(|part| part.trim() == DEFAULTS) {
            Some(_) => Self::router_defaults(),
            None => Self::default(),
        };
        for part in parts {
            let (name, value) = part.split_once('=').ok_or(KnobError::UnknownName)?;
            knobs.set(name.trim(), value)?;
        }
        Ok(knobs)
    }
}

impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        if self.base == Base::Defaults {
            f.write_str(DEFAULTS)?;
            comma = ",";
        }
        for (name, value) in &self.set {
            write!(f, "{comma}{name}={value}")?;
            comma = ",";
        }
        Ok(())
    }
}

/// Text that is no setting.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum KnobError {
    /// Not a `name=value` pair, or no knob of this name.
    UnknownName,
    /// The value is no number.
    NotANumber {
        /// Of which knob.
        knob: &'static str,
    },
    /// The router does not take the value.
    OutOfRange {
        /// Of which knob.
        knob: &'static str,
        /// The value.
        value: f64,
    },
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName => {
                f.write_str("write NAME=VALUE, more than one with commas between, `defaults` before them; the names are")?;
                COSTS.iter().try_for_each(|(knob, _)| write!(f, " {knob}"))?;
                write!(f, " {TWO_CHOICES}")
            }
            Self::NotANumber { knob } => write!(f, "{knob} takes a number"),
            Self::OutOfRange { knob, value } => write!(f, "{knob} = {value} is outside 0..=1e9"),
        }
    }
}

impl Error for KnobError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_sets_its_field_and_no_other() {
        for (name, field) in COSTS {
            let knobs: Knobs = format!("{name}=7.5").parse().unwrap();
            let mut expected = CostConfig::for_first_token();
            *field(&mut expected) = 7.5;
            assert_eq!((knobs.cost(), knobs.spread()), (&expected, Spread::Lowest), "{name}");
        }
        let knobs: Knobs = "two_choices=9".parse().unwrap();
        assert_eq!(knobs.spread(), Spread::TwoChoices { within_blocks: 9 });
        assert_eq!("".parse(), Ok(Knobs::default()));
        let knobs: Knobs = " defaults, temperature=0.5".parse().unwrap();
        assert_eq!(*knobs.cost(), CostConfig { temperature: 0.5, ..CostConfig::default() });
        assert_eq!(knobs.to_string(), "defaults,temperature=0.5");
        assert_eq!("defaults".parse(), Ok(Knobs::router_defaults()));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, error) in [
            ("prefill", KnobError::UnknownName),
            ("prefil=1", KnobError::UnknownName),
            ("temperature=1,defaults", KnobError::UnknownName),
            ("temperature=warm", KnobError::NotANumber { knob: "temperature" }),
            ("two_choices=-1", KnobError::NotANumber { knob: TWO_CHOICES }),
            ("device_weight=-1", KnobError::OutOfRange { knob: "device_weight", value: -1.0 }),
        ] {
            assert_eq!(text.parse::<Knobs>(), Err(error), "{text}");
        }
        assert!(KnobError::UnknownName.to_string().contains("prefill_load_scale"));
    }
}
