//! The end of writing: after an error of the device that leaves durability unknown, nothing more is written.

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicBool, Ordering};

use crate::{FileError, Result};

/// Set once, never cleared: the store must be mounted again.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_set: AtomicBool,
    cause: Mutex<Option<String>>,
}

impl Stop {
    /// Refuses to go on once it is set.
    ///
    /// # Errors
    /// `Stopped`.
    pub(crate) fn check(&self) -> Result<()> {
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

/// An error with what caused it.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
