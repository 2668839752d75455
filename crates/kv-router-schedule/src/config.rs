//! The knobs, their units, defaults and effects.

use std::error::Error;
use std::fmt;

use crate::StreamFreshness;

/// The largest number accepted in any field. Far above all sense, and low enough that no cost overflows.
const HIGHEST: f64 = 1e9;

/// How load and overlap become a cost. Every field takes 0 to 1e9.
#[derive(Clone, Debug, PartialEq)]
pub struct CostConfig {
    /// Credit for a block in device memory, in blocks. Default 1: a cached block costs nothing. Above 1 it chases
    /// hits onto busier workers; 0 for all tiers is pure load balancing.
    pub device_weight: f64,
    /// Credit for a block whose best copy is in host memory, in blocks. Default 0.75: the rest is the transfer.
    pub host_weight: f64,
    /// Credit for a block whose best copy is on a local disk, in blocks. Default 0.25.
    pub disk_weight: f64,
    /// Credit for a block whose best copy is in object storage, in blocks. Default 0.
    pub object_weight: f64,
    /// Cost of a prompt block to compute, in blocks to hold. Default 1. Above 1 it favours short queues and warm
    /// caches, that is time to first token; below 1 it favours an even spread of memory.
    pub prefill_load_scale: f64,
    /// Cost of a request in flight, whatever its size, in blocks. Default 0. Above 0 it evens out batch sizes.
    pub decode_active_request_weight: f64,
    /// How fast a prefill backlog devalues device credit, without unit. Default 0: not at all. The credit is
    /// divided by `1 + credit_decay * active_prefill_blocks / incoming_prompt_blocks`, so at 1 a queue as long as
    /// the request itself halves it. The formula is our own: it falls steadily with the backlog, needs no scale of
    /// the fleet, and never makes a worker look better for being busier.
    pub credit_decay: f64,
    /// How far a choice may stray from the lowest cost, in ranges of cost. Default 0: never, ties apart. Above 0
    /// it draws with probability proportional to `exp(-((cost - lowest) / (highest - lowest)) / temperature)`:
    /// 0.1 prefers the best clearly, 1 is close to uniform.
    pub temperature: f64,
}

impl CostConfig {
    /// Weights for the shortest time to first token, where device memory suffices for the requests in flight: the
    /// default, but `prefill_load_scale` 32, `device_weight` 1.1, and full credit for every other tier.
    ///
    /// A block to compute keeps an engine busy many times longer than a block to hold, which the default counts alike; and
    /// a block that is pulled from a lower tier keeps one request waiting where a block to compute keeps all. A little more
    /// than full credit stands for those behind a prompt that is computed again. Any scale from 16 to 64 does as well. Where memory and not prefill is what engines lack, take the default; where a lower tier
    /// is slower than computing, lower its weight.
    pub fn for_first_token() -> Self {
        Self {
            prefill_load_scale: 32.0,
            device_weight: 1.1,
            host_weight: 1.0,
            disk_weight: 1.0,
            object_weight: 1.0,
            ..Self::default()
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that is not a number from 0 to 1e9.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fields = [
            ("device_weight", self.device_weight),
            ("host_weight", self.host_weight),
            ("disk_weight", self.disk_weight),
            ("object_weight", self.object_weight),
            ("prefill_load_scale", self.prefill_load_scale),
            ("decode_active_request_weight", self.decode_active_request_weight),
            ("credit_decay", self.credit_decay),
            ("temperature", self.temperature),
        ];
        fields.into_iter().try_for_each(|(field, value)| at_most(field, value, HIGHEST))
    }
}

impl Default for CostConfig {
    fn default() -> Self {
        Self {
            device_weight: 1.0,
            host_weight: 0.75,
            disk_weight: 0.25,
            object_weight: 0.0,
            prefill_load_scale: 1.0,
            decode_active_request_weight: 0.0,
            credit_decay: 0.0,
            temperature: 0.0,
        }
    }
}

/// What to do with a rank whose cache is not known for certain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StaleRule {
    /// Multiply its overlap credit by this factor, 0 to 1. At 0 it is judged by load alone.
    Credit(f64),
    /// Leave it out.
    Exclude,
}

/// Who is not considered at all. The default leaves nobody out.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterConfig {
    /// A rank is busy while its prompt tokens in flight are above this fraction of the tokens that it computes in
    /// one batch. Default `None`: never. Above 1 it lets a queue build up. Ranks of unknown capacity are not busy.
    pub busy_prefill: Option<f64>,
    /// A rank is busy while its blocks in flight are above this fraction of its device cache. Default `None`:
    /// never. Ranks of unknown capacity are not busy.
    pub busy_decode: Option<f64>,
    /// A request has to wait while every rank that it could go to has more prompt tokens in flight than this fraction
    /// of the tokens that it computes in one batch. Default `None`: never. Ranks of unknown capacity are never above.
    /// Nobody is left out for it: as soon as one rank is at or below, all are judged by their cost.
    pub wait_prefill: Option<f64>,
    /// For a rank that is catching up with its events. Default: full credit.
    pub recovering: StaleRule,
    /// For a rank whose cache had to be forgotten. Default: full credit, of what has been seen since.
    pub cold: StaleRule,
    /// For a rank whose cache is a guess, because no events are heard of it. Default: full credit.
    pub predicted: StaleRule,
}

impl FilterConfig {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first fraction that is not a number from 0 to 1e9, or factor that is not one from 0 to 1.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fractions = [
            ("busy_prefill", self.busy_prefill),
            ("busy_decode", self.busy_decode),
            ("wait_prefill", self.wait_prefill),
        ];
        for (field, fraction) in fractions {
            at_most(field, fraction.unwrap_or(0.0), HIGHEST)?;
        }
        let rules = [("recovering", self.recovering), ("cold", self.cold), ("predicted", self.predicted)];
        for (field, rule) in rules {
            if let StaleRule::Credit(factor) = rule {
                at_most(field, factor, 1.0)?;
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn stale_rule(&self, stream: StreamFreshness) -> StaleRule {
        match stream {
            StreamFreshness::Fresh => StaleRule::Credit(1.0),
            StreamFreshness::Recovering => self.recovering,
            StreamFreshness::Cold => self.cold,
            StreamFreshness::Predicted => self.predicted,
        }
    }
}

impl Default for FilterConfig {
    fn default() -> Self {
        let full = StaleRule::Credit(1.0);
        Self {
            busy_prefill: None,
            busy_decode: None,
            wait_prefill: None,
            recovering: full,
            cold: full,
            predicted: full,
        }
    }
}

pub(crate) fn at_most(field: &'static str, value: f64, highest: f64) -> Result<(), ConfigError> {
    if (0.0..=highest).contains(&value) { Ok(()) } else { Err(ConfigError { field, value, highest }) }
}

/// A field of [`CostConfig`] or [`FilterConfig`], or the weight of a custom [`Scorer`](crate::Scorer), outside its range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The name of the field, or of the scorer.
    pub field: &'static str,
    /// The refused value.
    pub value: f64,
    /// The largest value accepted; the smallest is 0.
    pub highest: f64,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, highest } = self;
        write!(f, "{field} is {value}: choose a number from 0 to {highest}")
    }
}

impl Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_field_refuses_what_is_no_weight() {
        type Field = fn(&mut CostConfig) -> &mut f64;
        let fields: [(&str, Field); 8] = [
            ("device_weight", |c| &mut c.device_weight),
            ("host_weight", |c| &mut c.host_weight),
            ("disk_weight", |c| &mut c.disk_weight),
            ("object_weight", |c| &mut c.object_weight),
            ("prefill_load_scale", |c| &mut c.prefill_load_scale),
            ("decode_active_request_weight", |c| &mut c.decode_active_request_weight),
            ("credit_decay", |c| &mut c.credit_decay),
            ("temperature", |c| &mut c.temperature),
        ];
        for (name, field) in fields {
            for bad in [f64::NAN, f64::INFINITY, -0.001, f64::NEG_INFINITY, 1.1e9] {
                let mut config = CostConfig::default();
                *field(&mut config) = bad;
                assert_eq!(config.validate().unwrap_err().field, name);
            }
            let mut config = CostConfig::default();
            *field(&mut config) = 7.5;
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn every_filter_field_is_checked() {
        let check = |change: fn(&mut FilterConfig), expected: Option<&str>| {
            let mut config = FilterConfig::default();
            change(&mut config);
            assert_eq!(config.validate().err().map(|error| error.field), expected);
        };
        check(|_| (), None);
        check(|c| c.busy_prefill = Some(4.0), None);
        check(|c| c.busy_prefill = Some(f64::NAN), Some("busy_prefill"));
        check(|c| c.busy_decode = Some(-1.0), Some("busy_decode"));
        check(|c| c.wait_prefill = Some(f64::INFINITY), Some("wait_prefill"));
        check(|c| c.recovering = StaleRule::Credit(1.1), Some("recovering"));
        check(|c| c.cold = StaleRule::Credit(f64::NAN), Some("cold"));
        check(|c| c.cold = StaleRule::Exclude, None);
        check(|c| c.predicted = StaleRule::Credit(-0.1), Some("predicted"));
    }

    #[test]
    fn the_preset_is_valid_and_the_default_is_that_of_the_contract() {
        assert_eq!(CostConfig::for_first_token().validate(), Ok(()));
        let default = CostConfig::default();
        let weights =
            [default.device_weight, default.host_weight, default.disk_weight, default.object_weight];
        assert_eq!(weights, [1.0, 0.75, 0.25, 0.0]);
        let terms = [default.prefill_load_scale, default.decode_active_request_weight];
        assert_eq!((terms, default.credit_decay, default.temperature), ([1.0, 0.0], 0.0, 0.0));
    }

    #[test]
    fn the_error_names_the_field_and_says_what_to_do() {
        let error = ConfigError { field: "cold", value: 2.0, highest: 1.0 }.to_string();
        assert_eq!(error, "cold is 2: choose a number from 0 to 1");
    }
}
