//! Progress on stderr.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::foundation::progress::Progress;
use crate::report::emit;

/// A progress bar with the live metric in its message; silent when stderr is no terminal.
pub struct Bar {
    bar: ProgressBar,
    wanted: bool,
}

impl Bar {
    /// A bar, hidden where nobody would see it or `wanted` is false, and until the first stage.
    pub fn new(wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, wanted: wanted && std::io::stderr().is_terminal() }
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &str, total: u64) {
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_prefix(stage.to_string());
        self.bar.set_message("");
        if self.wanted && self.bar.is_hidden() {
            // Not before there is something to show.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(100));
        }
    }

    fn advance(&self, units: u64) {
        self.bar.inc(units);
    }

    fn reach(&self, units: u64) {
        self.bar.set_position(units);
    }

    fn metric(&self, text: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text.to_string());
        }
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| emit::to_stderr(&format!("{text}\n")));
    }
}

/// Leaves a clean line behind, after success and after an error alike.
impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
