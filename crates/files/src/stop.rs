//! The end of writing: after an error of the device that leaves durability unknown, or a panic of a background thread, nothing more is
//! written; and a read-only mount never writes.

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicBool, Ordering};

use crate::{FileError, Result};

/// Set once, never cleared: the store must be mounted again.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_set: AtomicBool,
    cause: Mutex<Option<String>>,
    is_read_only: bool,
}

impl Stop {
    /// Of a store that is mounted for reading.
    pub(crate) fn read_only() -> Self {
        Self { is_read_only: true, ..Self::default() }
    }

    /// Whether nothing may ever be written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Refuses to go on once it is set, and always if the store is read-only.
    ///
    /// # Errors
    /// `Stopped`, `ReadOnly`.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_read_only {
            return Err(FileError::ReadOnly);
        }
        if self.is_set.load(Ordering::Acquire) { Err(self.error()) } else { Ok(()) }
    }

    /// Sets it, unless it is set; returns the error that says the first cause.
    pub(crate) fn set(&self, cause: &dyn std::error::Error) -> FileError {
        self.cause.lock().get_or_insert_with(|| describe(cause));
        self.is_set.store(true, Ordering::Release);
        self.error()
    }

    fn error(&self) -> FileError {
        FileError::Stopped { cause: self.cause.lock().clone().unwrap_or_default() }
    }
}

/// A thread that works for the store panicked.
#[derive(Debug, thiserror::Error)]
#[error("the background thread {thread} panicked, which is a bug")]
pub(crate) struct Panicked {
    /// Its name.
    pub(crate) thread: &'static str,
}

/// An error with what caused it.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
