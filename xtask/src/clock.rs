//! Wall-clock time of the steps.
//!
//! Engine crates take time from `zonda-rt`, so that a simulator can own it; a development task has nothing to simulate
//! and must not depend on the engine it tests, so this file reads the operating system's clock.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "no simulator here, and xtask depends on no crate of the workspace"
)]

use std::time::{Duration, Instant};

/// A running stopwatch.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts it.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits.
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}
