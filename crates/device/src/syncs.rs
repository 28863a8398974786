//! The syncs of one open file, by any number of threads.
//!
//! The system tells only one sync of an open file that data could not be written, and calls the next one a success. So
//! they go one after the other, and after one that failed all fail. Who comes while one runs shares the next.
use std::{io, path::Path, sync::Arc};

use zonda_rt::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{DeviceError, Result};

/// Always: one sync at a time; none succeeds after one that failed.
#[derive(Default)]
pub(crate) struct Syncs {
    /// Syncs asked for so far.
    asked: AtomicU64,
    /// The first of them that no finished sync covers.
    covered: Mutex<u64>,
    failed: AtomicBool,
}

impl Syncs {
    /// Syncs what was written before the call; by another's sync, if one begins after the call.
    pub(crate) fn run(&self, path: &Path, sync: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let mine = self.asked.fetch_add(1, Ordering::AcqRel);
        let mut covered = self.covered.lock();
        self.check(path)?;
        if mine < *covered {
            return Ok(());
        }
        let asked = self.asked.load(Ordering::Acquire);
        sync().map_err(|error| self.fail(path, error))?;
        *covered = asked;
        Ok(())
    }

    /// Fails if an earlier sync failed.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(DeviceError::FlushLost { path: path.to_owned() });
        }
        Ok(())
    }

    /// Remembers that a sync failed.
    pub(crate) fn fail(&self, path: &Path, error: io::Error) -> DeviceError {
        self.failed.store(true, Ordering::Release);
        DeviceError::Io { path: path.to_owned(), action: "flush", source: Arc::new(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: u64 = 8;

    /// A file of the system's, which tells of lost data once.
    #[derive(Default)]
    struct System {
        syncs: Syncs,
        has_lost: AtomicBool,
        calls: AtomicU64,
    }

    impl System {
        fn sync(&self) -> Result<()> {
            self.syncs.run(Path::new("device"), || {
                let has_lost = self.has_lost.swap(false, Ordering::AcqRel);
                self.calls.fetch_add(1, Ordering::AcqRel);
                while self.syncs.asked.load(Ordering::Acquire) < THREADS {
                    zonda_rt::yield_now();
                }
                if has_lost { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
            })
        }

        /// Syncs by many threads, all of which have asked before the first sync ends.
        fn sync_at_once(self: &Arc<Self>) -> Vec<Result<()>> {
            let one = || {
                let system = self.clone();
                move || system.sync()
            };
            let threads: Vec<_> = (0..THREADS).map(|nth| zonda_rt::spawn(format!("syncs {nth}"), one())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        }
    }

    #[test]
    fn lost_data_fails_every_sync_and_not_only_the_one_that_is_told() {
        let system = Arc::new(System::default());
        system.has_lost.store(true, Ordering::Release);
        let outcomes = system.sync_at_once();
        assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
        assert!(matches!(system.sync(), Err(DeviceError::FlushLost { .. })));
    }

    #[test]
    fn who_comes_while_a_sync_runs_shares_the_next() {
        let system = Arc::new(System::default());
        assert!(system.sync_at_once().iter().all(Result::is_ok));
        let calls = system.calls.load(Ordering::Acquire);
        assert!(calls <= 2, "{calls} for {THREADS} threads");
        system.sync().unwrap();
        system.sync().unwrap();
        assert_eq!(system.calls.load(Ordering::Acquire), calls + 2, "what was written between is synced");
    }
}
