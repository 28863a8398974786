//! Which records have been updated, so that an engine that loses updates is found out.

use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::{BenchError, Result};

/// One record in so many is followed: a bit for each would be memory that is counted as the engine's.
const ONE_OF: u64 = 16;

/// Records with an update that was acknowledged: whoever begins to read one afterwards must not find what was loaded.
///
/// Two updates of a record at once leave either of them, so that which version is the newest is nobody's to say.
#[derive(Debug)]
pub(super) struct Updated(Box<[AtomicU64]>);

/// What a reader may find, fixed before it reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness {
    was_updated: bool,
}

impl Updated {
    /// No record of up to `capacity`.
    pub(super) fn new(capacity: u64) -> Self {
        let words = capacity.div_ceil(ONE_OF).div_ceil(64);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// An update of `index` was acknowledged.
    pub(super) fn acknowledged(&self, index: u64) {
        if let Some((word, bit)) = self.place(index) {
            word.fetch_or(bit, Ordering::Release);
        }
    }

    /// Somebody is about to read `index`.
    pub(super) fn before_reading(&self, index: u64) -> Freshness {
        let was_updated = self.place(index).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0);
        Freshness::of(was_updated)
    }

    fn place(&self, index: u64) -> Option<(&AtomicU64, u64)> {
        let followed = index / ONE_OF;
        let word = usize::try_from(followed / 64).ok().and_then(|word| self.0.get(word))?;
        index.is_multiple_of(ONE_OF).then_some((word, 1 << (followed % 64)))
    }
}

impl Freshness {
    /// What may be found of a record, as it was when somebody began to read.
    pub(super) fn of(was_updated: bool) -> Self {
        Self { was_updated }
    }

    /// Whether an update had been acknowledged.
    pub(super) fn was_updated(self) -> bool {
        self.was_updated
    }

    /// Judges the version that was read of record `index`.
    ///
    /// # Errors
    /// `Wrong` if it is the one that was loaded and had been replaced.
    pub(super) fn check(self, index: u64, version: u32) -> Result<()> {
        if self.was_updated && version == 0 {
            let what = "holds what was loaded, after an update of it was acknowledged".to_owned();
            return Err(BenchError::Wrong { index, what });
        }
        Ok(())
    }
}
