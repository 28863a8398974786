//! Progress bars on a terminal, silence elsewhere.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for one phase; draws on standard error, and only when that is a terminal.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for `total` steps of `phase`.
    ///
    /// # Panics
    /// Never: the template is a constant that a test draws.
    #[must_use]
    pub fn new(phase: &str, total: u64) -> Self {
        let style = "{prefix:12} [{bar:36}] {human_pos}/{human_len} {per_sec}, {eta} left";
        let style = ProgressStyle::with_template(style).expect("the template is a constant that is right");
        let bar = ProgressBar::new(total).with_style(style.progress_chars("=> "));
        bar.set_prefix(phase.to_owned());
        Self(bar)
    }

    /// A bar that is never drawn.
    #[must_use]
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// `done` steps are done.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_right() {
        Progress::new("load", 10).set(5);
        Progress::hidden().set(1);
    }
}
