//! The process that opened a device.
use crate::{DeviceError, Result};

/// A child after a fork has copies of it, with the same files and rings behind them: it must not change them.
#[derive(Debug)]
pub(crate) struct Owner {
    process: u32,
}

impl Owner {
    /// This process.
    pub(crate) fn new() -> Self {
        Self { process: std::process::id() }
    }

    pub(crate) fn is_here(&self) -> bool {
        std::process::id() == self.process
    }

    /// Fails with `Forked` in any other process.
    pub(crate) fn check(&self) -> Result<()> {
        match std::process::id() {
            now if now == self.process => Ok(()),
            now => Err(DeviceError::Forked { opened_by: self.process, now }),
        }
    }
}
