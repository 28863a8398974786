//! Where foreground writers wait for space.

use std::time::Duration;

use zonda_rt::{Condvar, Mutex};

/// Counts moments at which waiting writers should look again.
#[derive(Default)]
pub(crate) struct Gate {
    moments: Mutex<u64>,
    changed: Condvar,
}

impl Gate {
    /// The present moment: take it before looking, so that no change is missed.
    pub(crate) fn now(&self) -> u64 {
        *self.moments.lock()
    }

    /// Something changed: zones were reset, or waiting makes no sense any more.
    pub(crate) fn wake(&self) {
        *self.moments.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits for a change since `seen`, at most `patience`.
    pub(crate) fn wait(&self, seen: u64, patience: Duration) {
        let moments = self.moments.lock();
        let _woken_or_late = self.changed.wait_timeout_while(moments, patience, |moments| *moments == seen);
    }
}
