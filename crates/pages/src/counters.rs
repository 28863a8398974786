//! What a store counts: bytes written by cause, reads, live bytes.

use zonda_rt::PerThread;
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::group::{Content, Group};
use crate::{AreaKind, Heat, WrittenBy};

/// Counters since open. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    flush: AtomicU64,
    relocation: AtomicU64,
    log: AtomicU64,
    meta: AtomicU64,
    values: AtomicU64,
    reads: PerThread<Reads>,
    live_page_bytes: AtomicU64,
    live_value_bytes: AtomicU64,
}

/// What one thread read from the device.
#[derive(Debug, Default)]
struct Reads {
    pages: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    /// Counts a group that was written.
    pub(crate) fn written(&self, group: &Group) {
        match group.content() {
            Content::Chunk(kind) => self.chunk_written(*kind, group.bytes().len()),
            Content::Pages(pages) => pages.iter().for_each(|page| self.page_written(page.heat, page.at.len_bytes())),
        }
    }

    /// Counts a chunk that was written.
    pub(crate) fn chunk_written(&self, kind: AreaKind, bytes: usize) {
        let counter = match kind {
            AreaKind::Log => &self.log,
            AreaKind::Meta => &self.meta,
            AreaKind::Values => &self.values,
        };
        add(counter, bytes as u64);
    }

    /// Counts a page that was written.
    pub(crate) fn page_written(&self, heat: Heat, bytes: u64) {
        match heat {
            Heat::Hot | Heat::Cold => add(&self.flush, bytes),
            Heat::Relocated => add(&self.relocation, bytes),
        }
    }

    /// Counts a page read from the device.
    pub(crate) fn page_read(&self, bytes: usize) {
        add(&self.reads.mine().pages, 1);
        self.read(bytes);
    }

    /// Counts another read from the device.
    pub(crate) fn read(&self, bytes: usize) {
        add(&self.reads.mine().bytes, bytes as u64);
    }

    pub(crate) fn add_live_pages(&self, bytes: u64) {
        add(&self.live_page_bytes, bytes);
    }

    pub(crate) fn sub_live_pages(&self, bytes: u64) {
        sub(&self.live_page_bytes, bytes);
    }

    pub(crate) fn add_live_values(&self, bytes: u64) {
        add(&self.live_value_bytes, bytes);
    }

    pub(crate) fn sub_live_values(&self, bytes: u64) {
        sub(&self.live_value_bytes, bytes);
    }

    /// Live bytes of pages and values.
    pub(crate) fn live(&self) -> (u64, u64) {
        (load(&self.live_page_bytes), load(&self.live_value_bytes))
    }

    /// All live bytes.
    pub(crate) fn live_bytes(&self) -> u64 {
        let (pages, values) = self.live();
        pages + values
    }

    /// (Page reads, bytes of all reads).
    pub(crate) fn reads(&self) -> (u64, u64) {
        (self.reads.sum(|mine| load(&mine.pages)), self.reads.sum(|mine| load(&mine.bytes)))
    }

    /// Bytes written by cause; `headers` is counted by the zone manager.
    pub(crate) fn written_by(&self, headers: u64) -> WrittenBy {
        WrittenBy {
            flush: load(&self.flush),
            relocation: load(&self.relocation),
            log: load(&self.log),
            meta: load(&self.meta),
            values: load(&self.values),
            headers,
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Stops at zero: a counter that went below would refuse every write.
fn sub(counter: &AtomicU64, by: u64) {
    let _always_some = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |live| Some(live.saturating_sub(by)));
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
