//! Bugs seeded on purpose: each a decorator that misbehaves where the engine relies on it. A harness that does not find them proves
//! nothing when it finds nothing.

mod batch;
mod flush;
mod store;

use std::{fmt, str::FromStr};

pub use batch::HalfBatch;
pub use flush::DroppedFlush;
pub(crate) use store::{ResetEarly, Sound, StaleCache, WriteAhead};

/// A seeded bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The device acknowledges flushes and forgets them.
    FlushDropped,
    /// Zones are reset before the records of the moves out of them are durable, and without waiting for readers.
    ResetEarly,
    /// Address records become durable before the pages that they name.
    WriteAhead,
    /// A batch is two writes.
    HalfBatch,
    /// Pages are cached by address, and stay so when their zone is reset.
    StaleCache,
    /// Nothing is wrong: the decorator that the bugs of page stores are made from, alone. What is found with it is no bug's.
    None,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::FlushDropped, Self::ResetEarly, Self::WriteAhead, Self::HalfBatch, Self::StaleCache, Self::None];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlushDropped => "flush-dropped",
            Self::ResetEarly => "reset-early",
            Self::WriteAhead => "write-ahead",
            Self::HalfBatch => "half-batch",
            Self::StaleCache => "stale-cache",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|bug| bug.name() == text)
            .ok_or_else(|| format!("no bug '{text}'; there are {}", known()))
    }
}
