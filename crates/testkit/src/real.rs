//! Lives of a store on a real device: what the virtual machine runs, and what needs a drive to be meant seriously.
//!
//! [`crash`] is one life between two resets of the machine; [`overwrite`] makes reclaim work and reads everything after
//! reopening; [`record`] and [`replay`] show that the flushes a store asks for are enough on a drive that loses its cache.
pub mod crash;
pub mod overwrite;
pub mod record;
pub mod replay;
pub mod script;

use std::io;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The store refused.
    #[error("store: {0}")]
    Store(#[from] zonda::Error),
    /// The device refused.
    #[error("device: {0}")]
    Device(#[from] zonda_device::DeviceError),
    /// The system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The store does not hold what it must.
    #[error("wrong: {0}")]
    Wrong(String),
}

pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> RealError {
    move |source| RealError::Io { action, source }
}
