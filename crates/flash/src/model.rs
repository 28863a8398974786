//! What both kinds of modelled drive have in common: commands go in, answers come out, time is an argument.
use crate::core::{Attribution, Core, Nanos, RequestId};
use crate::zns::ReadOrigin;

/// A command to a drive. Addresses and lengths are in bytes from the start of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read `bytes` from `at`.
    Read {
        /// First byte.
        at: u64,
        /// How many.
        bytes: u64,
    },
    /// Write `bytes` at `at`.
    Write {
        /// First byte.
        at: u64,
        /// How many.
        bytes: u64,
        /// Stream or placement id; drives without streams ignore it.
        stream: u32,
    },
    /// Append `bytes` to a zone.
    Append {
        /// The zone.
        zone: u32,
        /// How many.
        bytes: u64,
    },
    /// Make durable what is answered.
    Flush,
    /// Forget `bytes` from `at` (conventional drives).
    Trim {
        /// First byte.
        at: u64,
        /// How many.
        bytes: u64,
    },
    /// Open a zone.
    Open {
        /// The zone.
        zone: u32,
    },
    /// Close a zone.
    Close {
        /// The zone.
        zone: u32,
    },
    /// Fill the rest of a zone.
    Finish {
        /// The zone.
        zone: u32,
    },
    /// Empty a zone.
    Reset {
        /// The zone.
        zone: u32,
    },
    /// Read, by somebody who says who it is: only drives that split zones look at that.
    ReadTold {
        /// First byte.
        at: u64,
        /// How many.
        bytes: u64,
        /// Who reads.
        origin: ReadOrigin,
    },
    /// Split an empty zone.
    Split {
        /// The zone.
        zone: u32,
    },
    /// Append `bytes` to a subzone.
    AppendSubzone {
        /// The split zone.
        zone: u32,
        /// Which of its subzones.
        index: u16,
        /// How many.
        bytes: u64,
    },
    /// Make a subzone full.
    FinishSubzone {
        /// The split zone.
        zone: u32,
        /// Which of its subzones.
        index: u16,
    },
    /// Empty a subzone.
    ResetSubzone {
        /// The split zone.
        zone: u32,
        /// Which of its subzones.
        index: u16,
    },
    /// Give the resources of a split zone back.
    FinishSplit {
        /// The split zone.
        zone: u32,
    },
    /// Make an ordinary zone of a split one.
    Join {
        /// The split zone.
        zone: u32,
    },
    /// Write to the window of a zone; so many bytes are committed by it.
    WriteWindow {
        /// The zone.
        zone: u32,
        /// How many are written.
        bytes: u64,
        /// How many leave the window.
        committed_bytes: u64,
    },
    /// Commit bytes of a window.
    CommitWindow {
        /// The zone.
        zone: u32,
        /// How many.
        bytes: u64,
    },
    /// Say what state zones are in.
    Report,
}

/// An answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The token of the command.
    pub token: u64,
    /// When it was given.
    pub at: Nanos,
    /// Where the time went.
    pub attribution: Attribution,
}

/// A command on its way, as long as it is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// A request of the core.
    Request(RequestId),
    /// Work of several flash operations.
    Job,
}

/// Tokens of callers are below this.
pub const TOKEN_MAX: u64 = 1 << 62;

/// A modelled drive: the timing of a device, without its data.
///
/// Contract as for the core: time only goes forward; before `submit` at a time, `advance` to it.
pub trait Model: Send + std::fmt::Debug {
    /// Takes a command. `token` comes back with its answer and is below [`TOKEN_MAX`].
    fn submit(&mut self, now: Nanos, token: u64, command: Command) -> Ticket;

    /// Does everything up to `to` and adds what was answered to `out`, in order of time.
    fn advance(&mut self, to: Nanos, out: &mut Vec<Answer>);

    /// Time of the next event; `None` if nothing is going on.
    fn next_event(&self) -> Option<Nanos> {
        self.core().next_event()
    }

    /// A time before which a command that is on its way is certainly not answered.
    fn not_before(&self, ticket: Ticket) -> Nanos {
        match ticket {
            Ticket::Request(request) => self.core().not_before(request),
            Ticket::Job => self.next_event().unwrap_or_else(|| self.core().now()),
        }
    }

    /// The core, for its statistics.
    fn core(&self) -> &Core;

    /// The core, to watch it.
    fn core_mut(&mut self) -> &mut Core;

    /// Bytes written to flash, by cause.
    fn flash_writes(&self) -> FlashWrites;

    /// Bytes from zone to zone; 0 for a conventional drive.
    fn zone_size_bytes(&self) -> u64 {
        0
    }
}

impl Model for Box<dyn Model> {
    fn submit(&mut self, now: Nanos, token: u64, command: Command) -> Ticket {
        (**self).submit(now, token, command)
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Answer>) {
        (**self).advance(to, out);
    }

    fn core(&self) -> &Core {
        (**self).core()
    }

    fn core_mut(&mut self) -> &mut Core {
        (**self).core_mut()
    }

    fn zone_size_bytes(&self) -> u64 {
        (**self).zone_size_bytes()
    }

    fn flash_writes(&self) -> FlashWrites {
        (**self).flash_writes()
    }
}

/// Bytes programmed, by cause, and blocks erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWrites {
    /// What the host wrote.
    pub host_bytes: u64,
    /// What was programmed with that because a conventional drive maps whole units: the rest of those that the host wrote in part.
    pub rounding_bytes: u64,
    /// What collection moved.
    pub collection_bytes: u64,
    /// What was filled up: the rest of finished zones. A unit that was programmed before it was full gets its rest by another program, and
    /// no padding.
    pub padding_bytes: u64,
    /// Erase commands to dies.
    pub erases: u64,
}

impl FlashWrites {
    /// Bytes written to flash for each byte of the host; 1 before it wrote any.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        if self.host_bytes == 0 {
            return 1.0;
        }
        let programmed = self.host_bytes + self.rounding_bytes + self.collection_bytes + self.padding_bytes;
        programmed as f64 / self.host_bytes as f64
    }

    /// What happened since `earlier`, an older state of the same sums.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_bytes: self.host_bytes - earlier.host_bytes,
            rounding_bytes: self.rounding_bytes - earlier.rounding_bytes,
            collection_bytes: self.collection_bytes - earlier.collection_bytes,
            padding_bytes: self.padding_bytes - earlier.padding_bytes,
            erases: self.erases - earlier.erases,
        }
    }
}
