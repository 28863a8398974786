//! What a host FTL did, and what it costs the host.
use std::time::Duration;

use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_rt::{Time, now};

/// Sums since the volume was opened, and the memory it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFtlStats {
    /// Blocks that the host wrote; one that is overwritten while it is in memory counts once.
    pub host_blocks: u64,
    /// Blocks that cleaning moved.
    pub moved_blocks: u64,
    /// Blocks of headers, and of zones that were finished before they were full.
    pub overhead_blocks: u64,
    /// Zones emptied by cleaning.
    pub cleaned_zones: u64,
    /// Memory of all tables and buffers.
    pub memory_bytes: u64,
    /// Memory of the map alone.
    pub map_bytes: u64,
    /// Time in calls, less that in the device below: looking up, copying, checksums, and waiting for each other.
    pub own_time: Duration,
}

impl HostFtlStats {
    /// What was summed since `before`; memory as it is now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            host_blocks: self.host_blocks - before.host_blocks,
            moved_blocks: self.moved_blocks - before.moved_blocks,
            overhead_blocks: self.overhead_blocks - before.overhead_blocks,
            cleaned_zones: self.cleaned_zones - before.cleaned_zones,
            own_time: self.own_time.saturating_sub(before.own_time),
            ..*self
        }
    }

    /// Blocks written below for each block of the host; 1 before it wrote any.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        if self.host_blocks == 0 {
            return 1.0;
        }
        (self.host_blocks + self.moved_blocks + self.overhead_blocks) as f64 / self.host_blocks as f64
    }
}

/// Time spent in calls and, of it, in the device below. Relaxed: it orders nothing.
#[derive(Debug, Default)]
pub(super) struct Spent {
    calls_ns: AtomicU64,
    device_ns: AtomicU64,
}

impl Spent {
    /// A call that began at `start` is over.
    pub(super) fn call(&self, start: Time) {
        self.calls_ns.fetch_add(nanos(start), Ordering::Relaxed);
    }

    /// A call of the device below.
    pub(super) fn in_device<R>(&self, call: impl FnOnce() -> R) -> R {
        let start = now();
        let result = call();
        self.device_ns.fetch_add(nanos(start), Ordering::Relaxed);
        result
    }

    pub(super) fn own(&self) -> Duration {
        let [calls, device] = [&self.calls_ns, &self.device_ns].map(|sum| sum.load(Ordering::Relaxed));
        Duration::from_nanos(calls.saturating_sub(device))
    }
}

fn nanos(start: Time) -> u64 {
    u64::try_from(now().since(start).as_nanos()).unwrap_or(u64::MAX)
}
