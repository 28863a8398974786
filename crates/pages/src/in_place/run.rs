//! One segment of an area: chunks one behind the other.

use crate::{AreaKind, BLOCK_BYTES};

/// Life of a run: 1 open: chunks are appended -> 2 sealed, or open again after a reopening -> 3 released (log, MetaLog: nobody needs it) or
/// condemned (values: nothing in it is live) -> reset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    kind: AreaKind,
    first: u64,
    next: u64,
    chunks: u32,
    phase: Phase,
    /// Of values: bytes of chunks that are referred to.
    live_bytes: u64,
    /// They come from an earlier life, so all counts as live.
    estimated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Sealed,
    Released,
    Condemned,
}

impl Run {
    /// An empty one whose first chunk will lie at block `first`.
    pub(crate) fn new(kind: AreaKind, first: u64) -> Self {
        Self { kind, first, next: first, chunks: 0, phase: Phase::Open, live_bytes: 0, estimated: false }
    }

    /// One of an earlier life that ends before block `next`: nothing is appended to it, unless it [goes on](Self::go_on).
    pub(crate) fn recovered(kind: AreaKind, first: u64, next: u64) -> Self {
        Self { next, phase: Phase::Sealed, ..Self::new(kind, first) }
    }

    /// One of an earlier life is appended to again. Each of its chunks took a block, so the number of the next is none that is there.
    pub(crate) fn go_on(&mut self) {
        self.phase = Phase::Open;
        self.chunks = u32::try_from(self.written_blocks()).expect("blocks of a segment");
    }

    pub(crate) fn kind(&self) -> AreaKind {
        self.kind
    }

    /// Where the next chunk goes, and its number.
    pub(crate) fn next(&self) -> (u64, u32) {
        (self.next, self.chunks)
    }

    /// A chunk of `blocks` blocks was written.
    pub(crate) fn wrote(&mut self, blocks: u64) {
        self.next += blocks;
        self.chunks += 1;
    }

    pub(crate) fn written_blocks(&self) -> u64 {
        self.next - self.first
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_blocks() * BLOCK_BYTES as u64
    }

    pub(crate) fn seal(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Sealed;
        }
    }

    pub(crate) fn release(&mut self) {
        self.phase = Phase::Released;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether recovery may read it.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Sealed)
    }

    pub(crate) fn is_released(&self) -> bool {
        self.phase == Phase::Released
    }

    pub(crate) fn is_condemned(&self) -> bool {
        self.phase == Phase::Condemned
    }

    /// Whether it holds values that nobody appends to.
    pub(crate) fn is_sealed_values(&self) -> bool {
        self.phase == Phase::Sealed && self.kind == AreaKind::Values
    }

    /// Gives it up; returns the bytes that were counted as live.
    pub(crate) fn condemn(&mut self) -> u64 {
        self.phase = Phase::Condemned;
        self.estimated = false;
        std::mem::take(&mut self.live_bytes)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) fn add_live(&mut self, bytes: u64) {
        self.live_bytes += bytes;
    }

    /// Counts `bytes` as dead; returns how many were counted as live.
    pub(crate) fn sub_live(&mut self, bytes: u64) -> u64 {
        let dead = bytes.min(self.live_bytes);
        self.live_bytes -= dead;
        dead
    }

    /// Counts all that is written as live, for want of knowledge. Returns the bytes.
    pub(crate) fn estimate(&mut self) -> u64 {
        (self.live_bytes, self.estimated) = (self.written_bytes(), self.written_bytes() > 0);
        self.live_bytes
    }

    /// Somebody has looked: what counts as live is.
    pub(crate) fn set_known(&mut self) {
        self.estimated = false;
    }

    pub(crate) fn is_estimated(&self) -> bool {
        self.estimated
    }
}
