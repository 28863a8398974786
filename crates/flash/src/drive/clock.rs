//! How simulated time is told to those who wait.
//!
//! In a simulation of [`zonda_rt::sim`] the simulated time *is* virtual time. Outside, it is the monotonic clock divided
//! by a dilation `k`: a drive that is `k` times slower, to which waking up some tens of microseconds late means little.
//! What it still means is taken back: the model is kept a *window* behind the clock, and what a thread submits right
//! after an answer counts as submitted as much earlier as it heard of the answer late. So lateness up to the window does
//! not add up; a thread that is later, or computes for longer, submits when it submits.
use std::cell::Cell;
use std::time::Duration;

use zonda_rt::{Time, now, sim};

use crate::core::Nanos;

/// How a drive's time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMode {
    /// Not at all for the callers: answers come at once, the model keeps a time of its own.
    Untimed,
    /// `k` times slower than the modelled drive; in a simulation, as virtual time with no dilation.
    Timed {
        /// The dilation; 10 suits a machine of two cores.
        k: u32,
    },
}

/// Real time by which the model stays behind the clock.
const WINDOW: Duration = Duration::from_millis(5);

thread_local! {
    /// How late this thread heard of its last answer: (drive, lateness, when), in the drive's time.
    static LATE: Cell<(u64, Nanos, Nanos)> = const { Cell::new((0, 0, 0)) };
}

/// The clock of one drive.
#[derive(Debug)]
pub(super) struct Clock {
    mode: TimeMode,
    /// Tells drives apart in threads' memory.
    drive: u64,
    origin: Time,
    k: u64,
    window_ns: Nanos,
}

impl Clock {
    pub(super) fn new(mode: TimeMode, drive: u64) -> Self {
        let simulated = sim::active();
        let k = match mode {
            TimeMode::Timed { k } if !simulated => u64::from(k.max(1)),
            _ => 1,
        };
        let window = if simulated { Duration::ZERO } else { WINDOW };
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX) / k;
        Self { mode, drive, origin: now(), k, window_ns }
    }

    pub(super) fn mode(&self) -> TimeMode {
        self.mode
    }

    pub(super) fn dilation(&self) -> u64 {
        self.k
    }

    fn simulated_now(&self) -> Nanos {
        let passed = now().since(self.origin);
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX) / self.k
    }

    /// The time up to which the model may go now.
    pub(super) fn horizon(&self) -> Nanos {
        self.simulated_now().saturating_sub(self.window_ns)
    }

    /// The time at which this thread submits.
    pub(super) fn submission(&self) -> Nanos {
        let at = self.simulated_now();
        let (drive, late, since) = LATE.get();
        let recent = drive == self.drive && at.saturating_sub(since) <= self.window_ns;
        if recent { at - late.min(at) } else { at }
    }

    /// This thread has heard of an answer that was given at `at`.
    pub(super) fn heard(&self, at: Nanos) {
        if self.window_ns > 0 {
            let now = self.simulated_now();
            LATE.set((self.drive, now.saturating_sub(at), now));
        }
    }

    /// Sleeps until the model may go to `at`.
    pub(super) fn sleep_until(&self, at: Nanos) {
        let left = (at + self.window_ns).saturating_sub(self.simulated_now());
        zonda_rt::sleep(Duration::from_nanos(left.max(1).saturating_mul(self.k)));
    }
}
