//! How fast cleaning in the background copies.

use std::time::Duration;

use zonda_rt::atomic::{AtomicU32, AtomicU64, Ordering};
use zonda_rt::sleep;

/// The longest that a writer waits for a cleaner that sleeps, or before it looks again.
pub(crate) const NAP: Duration = Duration::from_millis(10);

/// A rate that can be changed at any time, and who is in a hurry.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// 0: as fast as it goes.
    bytes_per_second: AtomicU64,
    hurried: AtomicU32,
}

/// Somebody needs what is being cleaned: nobody sleeps while it lives.
#[derive(Debug)]
pub(crate) struct Hurry<'a> {
    pace: &'a Pace,
}

impl Pace {
    /// Sets the rate; 0 for none.
    pub(crate) fn set(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Release);
    }

    /// The rate; 0 for none.
    pub(crate) fn get(&self) -> u64 {
        self.bytes_per_second.load(Ordering::Acquire)
    }

    /// Nobody sleeps until this is dropped.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::AcqRel);
        Hurry { pace: self }
    }

    /// Whether somebody is in a hurry.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Acquire) > 0
    }

    /// Sleeps as long as `bytes` take at the rate, which may change meanwhile.
    pub(crate) fn after(&self, bytes: u64) {
        let mut slept = Duration::ZERO;
        while !self.is_hurried() {
            let due = time_for(bytes, self.get());
            if slept >= due {
                return;
            }
            let nap = NAP.min(due - slept);
            sleep(nap);
            slept += nap;
        }
    }
}

fn time_for(bytes: u64, bytes_per_second: u64) -> Duration {
    if bytes_per_second == 0 {
        return Duration::ZERO;
    }
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.pace.hurried.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_bytes_over_time() {
        assert_eq!(time_for(1 << 20, 0), Duration::ZERO);
        assert_eq!(time_for(3_000, 1_000), Duration::from_secs(3));
        assert_eq!(time_for(u64::MAX, 1), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn who_is_in_a_hurry_does_not_wait() {
        let pace = Pace::default();
        pace.set(1);
        let _hurry = pace.hurry();
        pace.after(u64::MAX);
    }
}
