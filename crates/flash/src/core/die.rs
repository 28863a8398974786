//! One die: it senses, or moves out what it sensed, or programs, or erases.
//!
//! Reads of the host come first, then reads of collection, then programs and erases; but between two slices of a program
//! at most so many reads, so that neither starves. The decisions are here; the core carries them out.
use std::collections::VecDeque;

use super::{Class, NONE, Nanos, OpKind, op::Op};

/// What a die does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// Sensing pages.
    Sensing,
    /// Holding sensed pages until the channel took them.
    Output,
    /// Programming or erasing.
    Cell,
}

#[derive(Debug)]
pub(super) struct Die {
    pub(super) phase: Phase,
    /// The operation of the phase.
    pub(super) op: u32,
    /// When the phase began.
    pub(super) since: Nanos,
    /// When the program or erase ends if nothing comes between.
    pub(super) cell_end: Nanos,
    /// Class of the program or erase that runs or is interrupted.
    pub(super) cell_class: Class,
    /// An interruption is scheduled.
    pub(super) suspending: bool,
    /// Number of the current stretch of programming; events of others are void.
    pub(super) version: u32,
    /// The interrupted program or erase.
    pub(super) suspended: u32,
    /// Reads that may still come before the next program or slice.
    pub(super) gap_left: u32,
    reads: VecDeque<u32>,
    collects: VecDeque<u32>,
    programs: VecDeque<u32>,
    padding: VecDeque<u32>,
}

/// What a die does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Read(u32),
    Resume(u32),
    Start(u32),
    Nothing,
}

impl Die {
    pub(super) fn new(reads_per_gap: u32) -> Self {
        Self {
            phase: Phase::Idle,
            op: NONE,
            since: 0,
            cell_end: 0,
            cell_class: Class::Host,
            suspending: false,
            version: 0,
            suspended: NONE,
            gap_left: reads_per_gap,
            reads: VecDeque::new(),
            collects: VecDeque::new(),
            programs: VecDeque::new(),
            padding: VecDeque::new(),
        }
    }

    /// Queues an operation.
    pub(super) fn queue(&mut self, id: u32, op: &Op) {
        match (op.kind, op.class) {
            (OpKind::Read, _) if op.in_order => self.programs.push_back(id),
            (OpKind::Read, Class::Host) => self.reads.push_back(id),
            (OpKind::Read, _) => self.collects.push_back(id),
            (_, Class::Padding) => self.padding.push_back(id),
            _ => self.programs.push_back(id),
        }
    }

    pub(super) fn has_reads(&self) -> bool {
        !self.reads.is_empty() || !self.collects.is_empty()
    }

    /// Chooses for an idle die and takes it from its queue.
    pub(super) fn next(&mut self) -> Next {
        let cell_waits = self.suspended != NONE || !self.programs.is_empty() || !self.padding.is_empty();
        if (!cell_waits || self.gap_left > 0)
            && let Some(read) = self.reads.pop_front().or_else(|| self.collects.pop_front())
        {
            self.gap_left -= u32::from(cell_waits);
            return Next::Read(read);
        }
        if self.suspended != NONE {
            return Next::Resume(std::mem::replace(&mut self.suspended, NONE));
        }
        self.programs.pop_front().or_else(|| self.padding.pop_front()).map_or(Next::Nothing, Next::Start)
    }

    /// When the running program or erase can be interrupted next, if before its end.
    pub(super) fn next_gap(&self, now: Nanos, slice_ns: Nanos) -> Option<Nanos> {
        let slices = (now - self.since).div_ceil(slice_ns).max(1);
        Some(self.since.saturating_add(slices.saturating_mul(slice_ns))).filter(|&at| at < self.cell_end)
    }

    /// True if what the die does, or goes on with after reads, is work of collection.
    pub(super) fn is_collecting(&self, ops: impl Fn(u32) -> Class) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Cell => self.cell_class == Class::Collection,
            _ => ops(self.op) == Class::Collection || (self.suspended != NONE && self.cell_class == Class::Collection),
        }
    }

    /// True if a program or erase runs or is interrupted.
    pub(super) fn in_cell(&self) -> bool {
        self.phase == Phase::Cell || self.suspended != NONE
    }
}
