//! The memory of all leaf buffers, and which leaf gives its buffer up next.
//!
//! Owned by the tree. `used` is what all buffers in the leaf table are charged; it may pass the limit for a moment, because
//! applying a logged record never fails: writers make room *before* they log (I6).
//!
//! Choice of victims: a clock hand goes round the leaf table. Delta buffers: the first buffer of the largest class in use,
//! or the largest of a sample (largest first: the fuller a buffer, the more pairs share one page write, ZKV 3.3). Mirrored pages:
//! the first that was not used since the hand last passed (second chance).

use zonda_pages::PageId;
use zonda_rt::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{
    buffer::{Buffer, CLASS_BYTES},
    leaf_table::LeafTable,
    options::Design,
};

/// Buffers that one choice looks at when none of the largest class turns up.
const SAMPLE: usize = 48;
/// Words that one choice passes at most before it takes what it has.
const WORDS_MAX: u32 = 1 << 16;

/// Accounts buffers and picks victims.
pub(crate) struct Pool {
    design: Design,
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
    classes: [AtomicU64; CLASS_BYTES.len()],
    hand: AtomicU32,
}

impl Pool {
    /// A pool of `limit_bytes`.
    pub(crate) fn new(design: Design, limit_bytes: u64) -> Self {
        Self {
            design,
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
            classes: std::array::from_fn(|_| AtomicU64::new(0)),
            hand: AtomicU32::new(0),
        }
    }

    /// A buffer entered the table.
    pub(crate) fn charge(&self, buffer: &Buffer) {
        self.used_bytes.fetch_add(buffer.charged_bytes(), Ordering::Relaxed);
        self.classes[buffer.class()].fetch_add(1, Ordering::Relaxed);
    }

    /// A buffer left the table.
    pub(crate) fn discharge(&self, buffer: &Buffer) {
        self.used_bytes.fetch_sub(buffer.charged_bytes(), Ordering::Relaxed);
        self.classes[buffer.class()].fetch_sub(1, Ordering::Relaxed);
    }

    /// Bytes of all buffers.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// What buffers may take.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes what buffers may take.
    pub(crate) fn set_limit_bytes(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Whether a writer must make room before it goes on.
    pub(crate) fn is_over(&self) -> bool {
        self.used_bytes() > self.limit_bytes()
    }

    fn top_class(&self) -> usize {
        (0..self.classes.len()).rev().find(|&class| self.classes[class].load(Ordering::Relaxed) > 0).unwrap_or(0)
    }

    /// A leaf whose buffer should go, or `None` if the sample found none. The buffer may change before the caller
    /// latches the leaf; no latch is held on return.
    pub(crate) fn victim(&self, table: &LeafTable) -> Option<PageId> {
        match self.design {
            Design::Adb => self.largest(table),
            Design::BTree => self.unused(table),
        }
    }

    fn step(&self, table: &LeafTable) -> PageId {
        PageId(self.hand.fetch_add(1, Ordering::Relaxed) % table.len().max(1))
    }

    fn largest(&self, table: &LeafTable) -> Option<PageId> {
        let top = self.top_class();
        let mut best: Option<(usize, PageId)> = None;
        let mut seen = 0;
        for _ in 0..table.len().min(WORDS_MAX) {
            let id = self.step(table);
            if !table.seems_buffered(id) {
                continue;
            }
            let Some(used) = buffer_size(table, id) else { continue };
            if used.class == top {
                return Some(id);
            }
            best = best.max(Some((used.bytes, id)));
            seen += 1;
            if seen >= SAMPLE {
                break;
            }
        }
        best.map(|(_, id)| id)
    }

    fn unused(&self, table: &LeafTable) -> Option<PageId> {
        let mut fallback = None;
        for _ in 0..table.len().min(WORDS_MAX).saturating_mul(2) {
            let id = self.step(table);
            if !table.seems_buffered(id) {
                continue;
            }
            let Some(leaf) = table.try_lock_shared(id) else { continue };
            match leaf.location().buffer() {
                Some(buffer) if !buffer.take_reference() => return Some(id),
                Some(_) => fallback = Some(id),
                None => {}
            }
        }
        fallback
    }
}

struct Size {
    class: usize,
    bytes: usize,
}

fn buffer_size(table: &LeafTable, id: PageId) -> Option<Size> {
    let leaf = table.try_lock_shared(id)?;
    leaf.location().buffer().map(|buffer| Size { class: buffer.class(), bytes: buffer.slots().used_bytes() })
}
