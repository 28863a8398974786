//! A thread that cleans in the background.

use std::sync::Arc;
use std::time::Duration;

use zonda_rt::{JoinHandle, Mutex, now, spawn};

use crate::{FileError, FileStore, Result};

/// Between looks when there is nothing to clean and no writer calls.
const IDLE: Duration = Duration::from_millis(200);
/// After an error.
const AFTER_ERROR: Duration = Duration::from_secs(2);

/// Cleans a store as long as it lives, so that writers find free zones. Writers that find none clean by themselves all the same,
/// and are never held up by its rate.
///
/// Life cycle: 1 it looks every 200 ms, and when a writer has left less free than the options want -> 2 it resets zones in which
/// nothing is live, however much is free -> 3 less is free than the options want: it empties zones, a few before they are reset
/// together, at the rate of [`FileStore::set_clean_rate`] -> 1. After an error of the device it waits two seconds; when the store
/// has stopped it ends. Dropping it waits for the step in progress.
#[derive(Debug)]
pub struct Cleaner {
    store: FileStore,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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
    /// Starts one for a store.
    #[must_use]
    pub fn start(store: FileStore) -> Self {
        let shared = Arc::new(Shared::default());
        let (of_thread, in_thread) = (Arc::clone(&shared), store.clone());
        let thread = spawn("zonda-cleaner", move || of_thread.run(&in_thread));
        Self { store, shared, thread: Some(thread) }
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
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nobody here who could do more.
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, store: &FileStore) {
        let mut heard = 0;
        while !self.state.lock().is_ending {
            match self.step(store) {
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
    fn step(&self, store: &FileStore) -> Result<bool> {
        let cleaned = store.clean_in_background();
        let mut state = self.state.lock();
        match &cleaned {
            Ok(Some(cleaned)) => state.zones_freed += u64::from(cleaned.zones_freed),
            Ok(None) => {}
            Err(error) => {
                state.errors += 1;
                state.last_error = Some(error.to_string());
            }
        }
        cleaned.map(|cleaned| cleaned.is_some())
    }
}
