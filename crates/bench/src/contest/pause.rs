//! Stops and continues a child process, so that what it does in the background costs nobody else's slice.
//!
//! Signals to a process have no safe equivalent in the standard library.

use crate::{BenchError, Result};

/// Stops `process` where it is; it does not notice.
///
/// # Errors
/// `Io` when there is no such process any more.
pub(super) fn pause(process: u32) -> Result<()> {
    signal(process, libc::SIGSTOP)
}

/// Lets `process` go on.
///
/// # Errors
/// As [`pause`].
pub(super) fn resume(process: u32) -> Result<()> {
    signal(process, libc::SIGCONT)
}

fn signal(process: u32, signal: libc::c_int) -> Result<()> {
    let pid = libc::pid_t::try_from(process).expect("the system's own process numbers fit");
    // SAFETY: kill takes two integers and touches no memory of ours. The process is a child that we have not waited for, so
    // its number is still its own.
    let outcome = unsafe { libc::kill(pid, signal) };
    match outcome {
        0 => Ok(()),
        _ => Err(BenchError::io("signal a child process", std::io::Error::last_os_error())),
    }
}
