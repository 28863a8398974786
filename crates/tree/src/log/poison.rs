//! The memory of a failure after which nothing may be written.

use std::sync::{Arc, OnceLock};

use zonda_pages::PageError;

use crate::TreeError;

/// Set once by the first failed write or flush; from then on every caller gets the same cause.
///
/// `NoSpace` and `Busy` do not set it (I9): nothing was written, and the caller may try again. Nor does `BatchTooLong`.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<Arc<TreeError>>,
}

impl Poison {
    /// Refuses if something failed before. Cost: one acquire load.
    ///
    /// # Errors
    /// `Poisoned` with the first cause.
    pub(crate) fn check(&self) -> Result<(), TreeError> {
        self.cause.get().map_or(Ok(()), |cause| Err(TreeError::Poisoned(Arc::clone(cause))))
    }

    /// Remembers the error of a write or flush, unless it is one after which one may go on.
    ///
    /// # Errors
    /// The error of `result`.
    pub(crate) fn watch<T>(&self, result: Result<T, TreeError>) -> Result<T, TreeError> {
        result.inspect_err(|error| {
            if !can_go_on(error) {
                self.set(error.clone());
            }
        })
    }

    /// Remembers `error`, whatever it is, and gives it back. If somebody else's failure came first, that one stays.
    pub(crate) fn set(&self, error: TreeError) -> TreeError {
        let _ = self.cause.set(Arc::new(error.clone()));
        error
    }
}

/// Whether nothing was written or lost: the store is full, the caller must pump, the log takes no batch as long, the poison is old, or
/// the tree was closed before.
pub(crate) fn can_go_on(error: &TreeError) -> bool {
    match error {
        TreeError::Poisoned(_) | TreeError::BatchTooLong { .. } | TreeError::Closed => true,
        TreeError::Store(error) => matches!(**error, PageError::NoSpace { .. } | PageError::Busy),
        _ => false,
    }
}
