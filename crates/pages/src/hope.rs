//! Whether writers that wait for space may hope (I9).
//!
//! Reclaim gives up hope for a store as it is at that moment. What dies afterwards, even before reclaim looks again, is room to come: who
//! deleted it and writes at once is not to be refused for what reclaim saw before.

use zonda_rt::atomic::{AtomicU64, Ordering};

/// Live bytes at which there is hope whatever dies.
const NEVER: u64 = u64::MAX;

/// What reclaim says to writers that wait for space.
#[derive(Debug)]
pub(crate) struct Hope {
    /// What was live when hope was given up; [`NEVER`]: it was not.
    given_up_at: AtomicU64,
}

impl Hope {
    pub(crate) fn new() -> Self {
        Self { given_up_at: AtomicU64::new(NEVER) }
    }

    /// Reclaim cannot help while so much is live, for all that it knows. Whether that is news for who waits.
    pub(crate) fn give_up(&self, live_bytes: u64) -> bool {
        self.given_up_at.swap(live_bytes, Ordering::Relaxed) > live_bytes
    }

    /// There is more room than before, or may be.
    pub(crate) fn renew(&self) {
        self.given_up_at.store(NEVER, Ordering::Relaxed);
    }

    /// Whether writers are refused while so much is live. One load.
    pub(crate) fn is_given_up(&self, live_bytes: u64) -> bool {
        live_bytes >= self.given_up_at.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dies_is_hope_before_reclaim_has_looked() {
        let hope = Hope::new();
        assert!(!hope.is_given_up(10));
        assert!(hope.give_up(10));
        assert!(hope.is_given_up(10) && hope.is_given_up(11));
        assert!(!hope.give_up(10), "known");
        assert!(!hope.is_given_up(9), "something died");
        assert!(hope.give_up(9), "reclaim has looked");
        assert!(hope.is_given_up(9));
        hope.renew();
        assert!(!hope.is_given_up(10));
    }
}
