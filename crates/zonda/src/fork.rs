//! Notices that the process forked. A child shares the parent's files and locks but not its threads: if it wrote to a store
//! that the parent opened, both would write at one write pointer.
//!
//! Safe code is not enough: the only portable sign besides a `getpid` system call per operation is a handler that the C library runs in the
//! child.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

static FORKS: AtomicU64 = AtomicU64::new(0);
static WATCH: Once = Once::new();

/// The process that opened a store.
#[derive(Debug)]
pub(crate) struct Opener {
    pid: u32,
    forks: u64,
}

impl Opener {
    /// This process.
    pub(crate) fn here() -> Self {
        WATCH.call_once(watch);
        Self { pid: std::process::id(), forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether the calling process is a child of the opener's. Costs one relaxed load.
    pub(crate) fn is_forked(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.forks
    }

    /// # Errors
    /// `Forked` in a child of the process that opened the store.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked { opened_by: self.pid, used_by: std::process::id() });
        }
        Ok(())
    }
}

#[cfg(unix)]
fn watch() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler is a static function that only increments an atomic, which is allowed between fork and exec. A
    // failure (out of memory) leaves forks unnoticed, as on systems without the call.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn watch() {}
