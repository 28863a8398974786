//! Opening after a cut, with more cuts during recovery.

use std::sync::Arc;

use zonda_device::CutAt;
use zonda_rt::Rng;

use crate::{Outcome, Subject, World};

/// Openings of which some are cut short; the last is not.
const ATTEMPTS: u32 = 3;

/// Device operations of an opening, as far as is known before the first.
pub(crate) const OPERATIONS: u64 = 20;

/// A run whose openings are cut short now and then.
pub(crate) trait Openings {
    /// Its device.
    fn world(&mut self) -> &mut World;
    /// What decides.
    fn rng(&mut self) -> &mut Rng;
    /// Device operations of the last opening: where to cut the next.
    fn opening(&mut self) -> &mut u64;
    /// What it counts.
    fn outcome(&mut self) -> &mut Outcome;
    /// Turns the power off, unless it is, and on again, and counts that.
    fn restart(&mut self);

    /// Opens the store until an opening is not cut short, and no call fails meanwhile.
    ///
    /// # Errors
    /// One that failed with the power on.
    fn open_between_cuts(&mut self) -> Result<Arc<dyn Subject>, String> {
        for attempt in 0..=ATTEMPTS {
            if attempt < ATTEMPTS && self.rng().chance(0.2) {
                let operations = (*self.opening()).max(1);
                let at = CutAt::Operation(1 + self.rng().below(operations));
                self.world().arm(at);
            }
            let opened = self.world().open(attempt < ATTEMPTS);
            self.world().arm(None);
            self.world().heal();
            match opened {
                Ok(subject) if !self.world().excuse().holds() => {
                    *self.opening() = self.world().power().operations();
                    return Ok(subject);
                }
                Err(error) if !self.world().excuse().holds() => {
                    return Err(format!("open failed with the power on: {error}"));
                }
                _ => {}
            }
            // Asked without a lock, which would make older seeds another run.
            let has_failed = self.world().failed() > 0;
            self.restart();
            if !has_failed {
                self.outcome().hit("recovery");
            }
        }
        unreachable!("the last opening is not cut short")
    }
}
