//! Monotonic time that a simulator can own.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::sim;

/// An instant in nanoseconds since an arbitrary origin; it never goes back.
///
/// The origin is the first call of [`now`] in the process, or the start of the simulation. Instants
/// of different simulations, or of a simulation and the real clock, must not be mixed. 2^64 ns are
/// 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Time = Time(0);

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at the end of the clock, so that "wait for ever" is a very long [`Duration`].
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    /// Saturates at the origin.
    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(duration)))
    }
}

/// `duration` in nanoseconds, at most `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The current time: the operating system's monotonic clock, or the virtual clock inside a
/// simulation.
///
/// Under shuttle, which has no time, it counts context switches as microseconds: monotonic and
/// replayable.
pub fn now() -> Time {
    if sim::possible()
        && let sim::Entry::Inside(here) = sim::enter()
    {
        return here.now();
    }
    real_now()
}

#[cfg(not(feature = "shuttle"))]
fn real_now() -> Time {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    Time::ZERO + ORIGIN.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(feature = "shuttle")]
fn real_now() -> Time {
    Time(shuttle::current::context_switches() as u64 * 1_000)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn real_time_moves_forward() {
        let start = now();
        crate::sleep(Duration::from_millis(2));
        assert!(now().since(start) >= Duration::from_millis(2));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(5) + Duration::MAX, Time(u64::MAX));
        assert_eq!(Time(5) - Duration::from_secs(1), Time::ZERO);
        assert_eq!((Time(5) + Duration::from_nanos(7)).as_nanos(), 12);
    }
}
