//! How far a stream is behind, told without a common clock.

use std::time::{Duration, Instant};

/// A window is dropped after the next one: clocks drift.
const WINDOW: Duration = Duration::from_secs(600);

/// Compares when a batch was written with when it came. The two clocks have nothing in common, so the batch that came
/// fastest of late is taken to be in time; a stream that was late from the start on does not show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lag {
    /// When the present window began, and the origin of arrivals.
    window: Option<(Instant, Instant)>,
    /// The least difference in the window before and in this one, in seconds.
    least: [Option<f64>; 2],
    now: Duration,
}

impl Lag {
    pub(super) fn measure(&mut self, now: Instant, written: f64) {
        let (mut began, origin) = self.window.unwrap_or((now, now));
        if now.saturating_duration_since(began) >= WINDOW {
            self.least = [self.least[1], None];
            began = now;
        }
        self.window = Some((began, origin));
        let difference = now.saturating_duration_since(origin).as_secs_f64() - written;
        self.least[1] = Some(self.least[1].map_or(difference, |least| least.min(difference)));
        let least = self.least.into_iter().flatten().fold(difference, f64::min);
        self.now = Duration::try_from_secs_f64(difference - least).unwrap_or_default();
    }

    /// Of the last batch.
    pub(super) fn now(&self) -> Duration {
        self.now
    }
}
