//! When writers are slowed down or held up, by the rules of `RocksDB`, which drops them where automatic compactions are off: by tables of
//! level 0, and by the bytes that compactions still have to write. What it does for memtables it does itself.

use std::time::Duration;

use zonda_rt::{Condvar, Mutex, Time, now, sleep};

/// `RocksDB`'s options of the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StallLimits {
    pub(crate) level0_trigger: usize,
    pub(crate) level0_slowdown: usize,
    pub(crate) level0_stop: usize,
    pub(crate) soft_bytes: u64,
    pub(crate) hard_bytes: u64,
    /// Bytes a second with which slowing down begins.
    pub(crate) delayed_rate: u64,
}

/// What writers may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Condition {
    #[default]
    Free,
    /// So many bytes a second.
    Delayed(u64),
    Stopped,
}

/// No slower than this.
const RATE_MIN: u64 = 16 << 10;

impl StallLimits {
    /// What follows from the tree, and from what was before it: the condition and the bytes to compact.
    pub(crate) fn next(&self, level0: usize, bytes: u64, (before, bytes_before): (Condition, u64)) -> Condition {
        if level0 >= self.level0_stop || bytes >= self.hard_bytes {
            return Condition::Stopped;
        }
        if level0 < self.level0_slowdown && bytes < self.soft_bytes {
            return Condition::Free;
        }
        let is_near =
            level0 + 2 >= self.level0_stop || bytes >= self.hard_bytes - (self.hard_bytes - self.soft_bytes) / 4;
        let rate = match before {
            Condition::Free => self.delayed_rate,
            // Coming from a stop is punished like coming near one.
            Condition::Stopped => percent(self.delayed_rate, 60),
            Condition::Delayed(rate) if is_near => percent(rate, 60),
            Condition::Delayed(rate) if bytes_before <= bytes => percent(rate, 80),
            Condition::Delayed(rate) => percent(rate, 125),
        };
        Condition::Delayed(rate.clamp(RATE_MIN.min(self.delayed_rate), self.delayed_rate))
    }

    /// Whether more than one compaction may run: `RocksDB` begins to hurry long before it slows writers down.
    pub(crate) fn is_pressed(&self, level0: usize, bytes: u64) -> bool {
        let quarter = self.level0_trigger + self.level0_slowdown.saturating_sub(self.level0_trigger) / 4;
        level0 >= (2 * self.level0_trigger).min(quarter) || bytes >= self.soft_bytes / 4
    }
}

fn percent(rate: u64, percent: u64) -> u64 {
    rate / 100 * percent + rate % 100 * percent / 100
}

/// What writers pass through.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    condition: Condition,
    bytes: u64,
    /// When the next delayed write may begin.
    next: Option<Time>,
    stopped_at: Option<Time>,
    stalled: Duration,
}

impl Gate {
    /// The tree has changed.
    pub(crate) fn update(&self, limits: &StallLimits, level0: usize, bytes: u64) {
        let mut state = self.state.lock();
        let next = limits.next(level0, bytes, (state.condition, state.bytes));
        match (next == Condition::Stopped, state.stopped_at) {
            (true, None) => state.stopped_at = Some(now()),
            (false, Some(since)) => {
                state.stalled += now().since(since);
                state.stopped_at = None;
            }
            _ => {}
        }
        (state.condition, state.bytes) = (next, bytes);
        drop(state);
        self.changed.notify_all();
    }

    /// Lets everybody through, for ever.
    pub(crate) fn open(&self) {
        self.state.lock().condition = Condition::Free;
        self.changed.notify_all();
    }

    /// Waits until `bytes` may be written.
    pub(crate) fn pass(&self, bytes: u64) {
        let mut state = self.state.lock();
        while state.condition == Condition::Stopped {
            state = self.changed.wait(state);
        }
        let Condition::Delayed(rate) = state.condition else {
            state.next = None;
            return;
        };
        let cost = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
        let at = state.next.filter(|next| *next > now()).unwrap_or_else(now);
        state.next = Some(Time(at.0.saturating_add(u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX))));
        state.stalled += cost;
        drop(state);
        let wait = at.since(now().min(at));
        if wait > Duration::ZERO {
            sleep(wait);
        }
    }

    /// For how long writers were slowed down or held up.
    pub(crate) fn stalled(&self) -> Duration {
        self.state.lock().stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StallLimits = StallLimits {
        level0_trigger: 4,
        level0_slowdown: 20,
        level0_stop: 36,
        soft_bytes: 1000,
        hard_bytes: 2000,
        delayed_rate: 100_000,
    };

    #[test]
    fn writers_are_slowed_down_and_held_up_where_rocksdb_does() {
        let next = |level0, bytes| LIMITS.next(level0, bytes, (Condition::Free, 0));
        assert_eq!(
            (next(19, 999), next(36, 0), next(0, 2000)),
            (Condition::Free, Condition::Stopped, Condition::Stopped)
        );
        assert_eq!((next(20, 0), next(0, 1000)), (Condition::Delayed(100_000), Condition::Delayed(100_000)));
    }

    #[test]
    fn the_rate_follows_what_is_to_be_compacted() {
        let next = |bytes, before| LIMITS.next(20, bytes, (Condition::Delayed(50_000), before));
        assert_eq!(next(1200, 1100), Condition::Delayed(40_000));
        assert_eq!(next(1100, 1200), Condition::Delayed(62_500));
        assert_eq!(next(1800, 1900), Condition::Delayed(30_000), "near the end");
        assert_eq!(LIMITS.next(20, 0, (Condition::Delayed(90_000), 1)), Condition::Delayed(100_000), "no faster");
        assert_eq!(LIMITS.next(20, 1, (Condition::Delayed(16_400), 0)), Condition::Delayed(RATE_MIN));
    }

    #[test]
    fn compactions_run_side_by_side_under_pressure_only() {
        assert!(!LIMITS.is_pressed(7, 249));
        assert!(LIMITS.is_pressed(8, 0) && LIMITS.is_pressed(0, 250));
    }

    #[test]
    fn a_free_gate_costs_nothing_and_a_slow_one_is_counted() {
        let gate = Gate::default();
        gate.pass(1 << 30);
        assert_eq!(gate.stalled(), Duration::ZERO);
        gate.update(&LIMITS, 20, 0);
        gate.pass(100);
        assert_eq!(gate.stalled(), Duration::from_millis(1));
    }
}
