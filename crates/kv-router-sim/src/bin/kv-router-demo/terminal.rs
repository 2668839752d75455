//! The program around a replay: the clock, and a progress bar on stderr where somebody looks.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kv_router_sim::fleet::Host;

/// Real time, and a bar that counts requests.
pub(crate) struct Terminal {
    started: Instant,
    bar: ProgressBar,
    shown: usize,
}

impl Terminal {
    pub(crate) fn new(policy: &str, requests: usize) -> Self {
        let bar = ProgressBar::new(requests as u64).with_message(policy.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{msg:>14} {wide_bar} {pos}/{len} requests") {
            bar.set_style(style);
        }
        Self { started: now(), bar, shown: 0 }
    }
}

impl Host for Terminal {
    fn real_time(&mut self) -> Duration {
        now() - self.started
    }

    fn progress(&mut self, settled: usize, _: usize) {
        // Called at every step of every engine: the bar hears of it once in a hundred requests.
        if settled >= self.shown + 100 {
            self.shown = settled;
            self.bar.set_position(settled as u64);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program may read the clock; it measures decisions, nothing else"
)]
fn now() -> Instant {
    Instant::now()
}
