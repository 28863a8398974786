//! How simulated time is told to those who wait.
//!
//! In a simulation of [`zonda_rt::sim`] the simulated time *is* virtual time. Outside, it is the monotonic clock divided
//! by a dilation `k`: a drive that is `k` times slower, to which waking up some tens of microseconds late means little.
//! What it still means is taken back by [`super::timing`].
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

/// Real time for which the model waits for a thread that is late.
const PATIENCE: Duration = Duration::from_millis(5);

/// The clock of one drive.
#[derive(Debug)]
pub(super) struct Clock {
    mode: TimeMode,
    simulated: bool,
    origin: Time,
    k: u64,
}

impl Clock {
    pub(super) fn new(mode: TimeMode) -> Self {
        let simulated = sim::active();
        let k = match mode {
            TimeMode::Timed { k } if !simulated => u64::from(k.max(1)),
            _ => 1,
        };
        Self { mode, simulated, origin: now(), k }
    }

    pub(super) fn mode(&self) -> TimeMode {
        self.mode
    }

    pub(super) fn dilation(&self) -> u64 {
        self.k
    }

    /// True if time is real, so that threads may be late.
    pub(super) fn is_real(&self) -> bool {
        !self.simulated && self.mode != TimeMode::Untimed
    }

    /// The drive's time now.
    pub(super) fn now(&self) -> Nanos {
        let passed = now().since(self.origin);
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX) / self.k
    }

    /// The drive's time for which the model waits for a late thread.
    pub(super) fn patience(&self) -> Nanos {
        u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX) / self.k
    }

    /// The caller's time for a time of the drive.
    pub(super) fn dilated(&self, time: Nanos) -> Duration {
        Duration::from_nanos(time.saturating_mul(self.k))
    }
}
