//! Back-pressure: foreground writers wait for cleaning instead of failing.

use std::time::Duration;

use crate::{Result, Space, SpaceUsage, StreamId};

impl Space {
    /// Waits until a foreground writer may open a zone: until more zones are free than the reserve. Whenever space may
    /// have come back, and at least every `patience`, asks `hopeless` with the numbers of the moment; if it says so,
    /// gives up. Usual answers are `live_bytes > usable_bytes`, or that the cleaner has died.
    ///
    /// Call it with no lock or latch held that a cleaner may want.
    ///
    /// # Errors
    /// `NoSpace` with the numbers.
    pub fn wait_for_free(&self, patience: Duration, hopeless: &dyn Fn(&SpaceUsage) -> bool) -> Result<()> {
        loop {
            let wakes = self.core.table.lock().wakes;
            let usage = self.usage();
            if usage.free_zones > usage.reserve_zones {
                return Ok(());
            }
            if hopeless(&usage) {
                return Err(usage.no_space());
            }
            let table = self.core.table.lock();
            let _woken = self.core.wakeup.wait_timeout_while(table, patience, |table| table.wakes == wakes);
        }
    }

    /// Whether a stream that was refused a zone for want of a token should ask again: it has one now, or one of its zones is just being
    /// finished or reset; [`wait_for_change`](Self::wait_for_change) before that.
    #[must_use]
    pub fn will_have_token(&self, stream: StreamId) -> bool {
        self.core.table.lock().will_have_token(stream)
    }

    /// Waits until space may have come back, `patience` at most.
    pub fn wait_for_change(&self, patience: Duration) {
        let table = self.core.table.lock();
        let wakes = table.wakes;
        let _woken = self.core.wakeup.wait_timeout_while(table, patience, |table| table.wakes == wakes);
    }

    /// Wakes waiting writers, so that they ask again: after deletes, or when cleaning stops for good.
    pub fn notify(&self) {
        self.core.table.lock().wakes += 1;
        self.core.wakeup.notify_all();
    }
}
