//! What a device did since it was opened.
use zonda_rt::{
    PerThread,
    atomic::{AtomicU64, Ordering},
};

/// Operations and bytes that a device completed since it was opened. Failed operations are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads.
    pub reads: u64,
    /// Bytes read, zeros above a write pointer included.
    pub read_bytes: u64,
    /// Writes and appends.
    pub writes: u64,
    /// Bytes written and appended, and those that the backend wrote ahead of them so that flushes are cheap.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Zones reset.
    pub resets: u64,
    /// Zones finished.
    pub finishes: u64,
    /// Trims.
    pub trims: u64,
}

impl DeviceCounters {
    /// What happened since `earlier`, which must be an older state of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            flushes: self.flushes - earlier.flushes,
            resets: self.resets - earlier.resets,
            finishes: self.finishes - earlier.finishes,
            trims: self.trims - earlier.trims,
        }
    }
}

/// The counters of one device, updated by many threads. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    reads: PerThread<Reads>,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    resets: AtomicU64,
    finishes: AtomicU64,
    trims: AtomicU64,
}

/// What one thread read: reads are many and short, so that threads would wait for each other's counts.
#[derive(Debug, Default)]
struct Reads {
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Counting {
    pub(crate) fn read(&self, bytes: usize) {
        let mine = self.reads.mine();
        add(&mine.reads, 1);
        add(&mine.bytes, bytes as u64);
    }

    pub(crate) fn written(&self, bytes: usize) {
        add(&self.writes, 1);
        add(&self.written_bytes, bytes as u64);
    }

    /// Bytes that were written ahead of the caller's writes.
    pub(crate) fn prepared(&self, bytes: u64) {
        add(&self.written_bytes, bytes);
    }

    pub(crate) fn flushed(&self) {
        add(&self.flushes, 1);
    }

    pub(crate) fn reset(&self) {
        add(&self.resets, 1);
    }

    pub(crate) fn finished(&self) {
        add(&self.finishes, 1);
    }

    pub(crate) fn trimmed(&self) {
        add(&self.trims, 1);
    }

    pub(crate) fn now(&self) -> DeviceCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceCounters {
            reads: self.reads.sum(|mine| load(&mine.reads)),
            read_bytes: self.reads.sum(|mine| load(&mine.bytes)),
            writes: load(&self.writes),
            written_bytes: load(&self.written_bytes),
            flushes: load(&self.flushes),
            resets: load(&self.resets),
            finishes: load(&self.finishes),
            trims: load(&self.trims),
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
