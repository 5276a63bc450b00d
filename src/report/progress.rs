//! Progress on stderr.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::foundation::progress::Progress;

/// A progress bar with the live metric in its message; silent when stderr is no terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar, hidden where nobody would see it or `wanted` is false.
    pub fn new(wanted: bool) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix:22} {bar:30} {pos}/{len} {eta:>4}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &str, total: u64) {
        self.0.reset();
        self.0.set_length(total);
        self.0.set_prefix(stage.to_string());
        self.0.set_message("");
    }

    fn advance(&self, units: u64) {
        self.0.inc(units);
    }

    fn metric(&self, text: &str) {
        if !self.0.is_hidden() {
            self.0.set_message(text.to_string());
        }
    }
}

/// Leaves a clean line behind, after success and after an error alike.
impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
