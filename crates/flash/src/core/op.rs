//! A flash operation: one command to one die.
use super::{Attribution, NONE, Nanos};

/// For whom a die works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The host's data.
    Host,
    /// Collection: moving data that the host did not ask to move.
    Collection,
    /// Padding of finished zones: only when a die has nothing better to do.
    Padding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Read,
    Program,
    Erase,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) kind: OpKind,
    pub(super) class: Class,
    pub(super) die: u16,
    /// Of reads: waits for its turn among programs and erases.
    pub(super) in_order: bool,
    /// Waits behind work of collection rather than of the host.
    pub(super) behind_collection: bool,
    /// Waits for a program or erase.
    pub(super) behind_cell: bool,
    /// The host request it belongs to, or `NONE`.
    pub(super) owner: u32,
    /// The next read of the same request.
    pub(super) next: u32,
    /// What to answer to whom issued it.
    pub(super) tag: u64,
    /// Bytes that cross the channel.
    pub(super) bytes: u64,
    /// Bytes that have not crossed it yet (programs).
    pub(super) bytes_left: u64,
    /// Room in the write buffer that comes free at its end.
    pub(super) buffer_bytes: u64,
    /// Time in the cells that is left.
    pub(super) cell_ns: Nanos,
    /// When it joined the queue where it is.
    pub(super) queued_at: Nanos,
    /// Of reads: where its time went so far.
    pub(super) times: Attribution,
}

impl Op {
    pub(super) fn new(kind: OpKind, die: u16, cell_ns: Nanos, bytes: u64) -> Self {
        Self {
            kind,
            class: Class::Host,
            die,
            in_order: false,
            behind_collection: false,
            behind_cell: false,
            owner: NONE,
            next: NONE,
            tag: 0,
            bytes,
            bytes_left: bytes,
            buffer_bytes: 0,
            cell_ns,
            queued_at: 0,
            times: Attribution::default(),
        }
    }
}
