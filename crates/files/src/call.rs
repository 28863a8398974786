//! Calls whoever cleans in the background.

use std::time::Duration;

use zonda_rt::{Condvar, Mutex};

/// Calls, counted, so that one that comes while nobody waits is not missed.
#[derive(Debug, Default)]
pub(crate) struct Call {
    calls: Mutex<u64>,
    called: Condvar,
}

impl Call {
    /// There may be something to do.
    pub(crate) fn call(&self) {
        *self.calls.lock() += 1;
        self.called.notify_all();
    }

    /// Waits for a call after the first `heard`, at most so long; returns how many there were until now.
    pub(crate) fn wait(&self, heard: u64, patience: Duration) -> u64 {
        let calls = self.calls.lock();
        let (calls, _) = self.called.wait_timeout_while(calls, patience, |calls| *calls == heard);
        *calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_before_the_wait_is_heard() {
        let call = Call::default();
        call.call();
        let long = Duration::from_secs(3600);
        assert_eq!(call.wait(0, long), 1);
        assert_eq!(call.wait(1, Duration::ZERO), 1, "nobody called again");
    }
}
