//! Threads that clean in the background.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use zonda_rt::atomic::Ordering;
use zonda_rt::{JoinHandle, Mutex, now, try_spawn};

use crate::stop::Panicked;
use crate::{FileError, FileStore, Result};

/// Between looks when there is nothing to clean and no writer calls.
const IDLE: Duration = Duration::from_millis(200);
/// After an error.
const AFTER_ERROR: Duration = Duration::from_secs(2);

/// Cleans a store as long as it lives, so that writers find free zones. Writers that find none clean by themselves all the same,
/// and are never held up by its rate. Three threads, so that what dies while one copies is free at once, and
/// nobody who closes a file waits:
///
/// - one empties zones while less is free than the options want, with what the other is about to reset, at the rate of
///   [`FileStore::set_clean_rate`];
/// - one resets zones in which nothing is live, however much is free, up to eight at once;
/// - one finishes zones that are nearly full when their file is closed.
///
/// Life cycle of each: 1 it looks every 200 ms, and when a writer has left less free than the options want -> 2 it does what there is
/// to do -> 1. After an error of the device it waits two seconds; when the store has stopped it ends; if it panics the store stops.
/// Dropping it waits for the steps in progress.
#[derive(Debug)]
pub struct Cleaner {
    store: FileStore,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_ending: bool,
    zones_freed: u64,
    errors: u64,
    last_error: Option<String>,
}

/// Stops the store if its thread panics: what that did is half done, and nobody does the rest.
struct Watch<'a> {
    store: &'a FileStore,
    thread: &'static str,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.store.core.stop.set(&Panicked { thread: self.thread });
        }
    }
}

/// One step of a thread: how many zones are free for it, or `None` if there was nothing to do.
type Step = fn(&FileStore) -> Result<Option<u32>>;

fn empty_one(store: &FileStore) -> Result<Option<u32>> {
    store.clean_in_background()
}

fn reset_some(store: &FileStore) -> Result<Option<u32>> {
    store.reset_in_background()
}

fn finish_one(store: &FileStore) -> Result<Option<u32>> {
    Ok(store.core.lanes.finish_one().then_some(0))
}

const THREADS: [(&str, Step); 3] =
    [("zonda-cleaner", empty_one), ("zonda-resetter", reset_some), ("zonda-finisher", finish_one)];

/// What a cleaner did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanerReport {
    /// Zones that it freed.
    pub zones_freed: u64,
    /// Steps that failed.
    pub errors: u64,
    /// The last failure.
    pub last_error: Option<String>,
}

impl Cleaner {
    /// Starts them for a store.
    ///
    /// # Errors
    /// The operating system's, where it refuses a thread; none of them runs then.
    pub fn start(store: FileStore) -> io::Result<Self> {
        store.core.cleaners.fetch_add(1, Ordering::AcqRel);
        // Where it is dropped on the way, those that were started end.
        let mut cleaner = Self { store, shared: Arc::default(), threads: Vec::new() };
        for (name, step) in THREADS {
            cleaner.threads.push(cleaner.shared.spawn(&cleaner.store, name, step)?);
        }
        Ok(cleaner)
    }

    /// What it did so far.
    #[must_use]
    pub fn report(&self) -> CleanerReport {
        let state = self.shared.state.lock();
        CleanerReport { zones_freed: state.zones_freed, errors: state.errors, last_error: state.last_error.clone() }
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.shared.state.lock().is_ending = true;
        let _no_more_naps = self.store.core.pace.hurry();
        self.store.core.call.call();
        for thread in self.threads.drain(..) {
            // Of one that panicked the store knows: every change says so.
            let _panicked = thread.join();
        }
        // From here on nobody leaves a zone to be finished; what was left is finished now.
        self.store.core.cleaners.fetch_sub(1, Ordering::AcqRel);
        while self.store.core.lanes.finish_one() {}
    }
}

impl Shared {
    fn spawn(self: &Arc<Self>, store: &FileStore, thread: &'static str, step: Step) -> io::Result<JoinHandle<()>> {
        let (shared, store) = (Arc::clone(self), store.clone());
        try_spawn(thread, move || {
            let _watch = Watch { store: &store, thread };
            shared.run(&store, step);
        })
    }

    fn run(&self, store: &FileStore, step: Step) {
        let mut heard = 0;
        while !self.state.lock().is_ending {
            match self.take(store, step) {
                Ok(true) => {}
                Ok(false) => heard = store.core.call.wait(heard, IDLE),
                Err(FileError::Stopped { .. } | FileError::ReadOnly) => return,
                Err(_) => heard = self.wait_out(store, heard),
            }
        }
    }

    /// Waits after an error; only the end cuts it short.
    fn wait_out(&self, store: &FileStore, mut heard: u64) -> u64 {
        let began = now();
        loop {
            let left = AFTER_ERROR.saturating_sub(now().since(began));
            if left.is_zero() || self.state.lock().is_ending {
                return heard;
            }
            heard = store.core.call.wait(heard, left);
        }
    }

    /// Returns whether there may be more to do.
    fn take(&self, store: &FileStore, step: Step) -> Result<bool> {
        let freed = step(store);
        let mut state = self.state.lock();
        match &freed {
            Ok(Some(zones)) => state.zones_freed += u64::from(*zones),
            Ok(None) => {}
            Err(error) => {
                state.errors += 1;
                state.last_error = Some(error.to_string());
            }
        }
        freed.map(|zones| zones.is_some())
    }
}

#[cfg(test)]
mod tests {
    use zonda_device::{Geometry, MemDevice};

    use super::*;
    use crate::{FileKind, FilePath, FileStoreOptions, FileTags, StoreId};

    #[test]
    fn a_thread_that_panics_stops_the_store() {
        let device = MemDevice::new(Geometry::new(64 << 10, 24).with_limits(14, 14)).unwrap();
        let options = FileStoreOptions::default();
        let store = FileStore::format(Arc::new(device), StoreId(1), false, options).unwrap();
        let path = |name| FilePath::parse(name).unwrap();
        let put = |name| store.create(&path(name), FileTags::of(FileKind::Data))?.close();
        put("/a").unwrap();
        let planted = Arc::new(Shared::default()).spawn(&store, "zonda-planted", |_| panic!("planted")).unwrap();
        assert!(planted.join().is_err());
        let refused = put("/b").unwrap_err();
        assert!(
            matches!(&refused, FileError::Stopped { cause } if cause.contains("zonda-planted panicked")),
            "{refused}"
        );
        assert!(store.open(&path("/a")).is_ok(), "reads go on");
    }
}
