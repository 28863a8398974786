//! A thread that cleans in the background.

use std::sync::Arc;
use std::time::Duration;

use zonda_rt::{Condvar, JoinHandle, Mutex, spawn};

use crate::{FileError, FileStore, Result};

/// Between looks when there is nothing to clean.
const IDLE: Duration = Duration::from_millis(200);
/// After an error.
const AFTER_ERROR: Duration = Duration::from_secs(2);

/// Cleans a store step by step ([`FileStore::clean_step`]) as long as it lives. Writers that find no zone clean by themselves all
/// the same, and are never held up by its rate.
///
/// Life cycle: 1 it looks every 200 ms -> 2 less is free than the options want: it empties zones, at the rate of
/// [`FileStore::set_clean_rate`] -> 1. After an error of the device it waits two seconds; when the store has stopped it ends.
/// Dropping it waits for the step in progress.
#[derive(Debug)]
pub struct Cleaner {
    store: FileStore,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
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
        self.shared.wake.notify_all();
        let _no_more_naps = self.store.core.pace.hurry();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nobody here who could do more.
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, store: &FileStore) {
        loop {
            let pause = match self.step(store) {
                Ok(true) => Duration::ZERO,
                Ok(false) => IDLE,
                Err(FileError::Stopped { .. } | FileError::ReadOnly) => return,
                Err(_) => AFTER_ERROR,
            };
            if self.is_to_end(pause) {
                return;
            }
        }
    }

    /// Returns whether there may be more to do.
    fn step(&self, store: &FileStore) -> Result<bool> {
        let cleaned = store.clean_step();
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

    /// Waits, but not past the end.
    fn is_to_end(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !pause.is_zero() && !state.is_ending {
            (state, _) = self.wake.wait_timeout(state, pause);
        }
        state.is_ending
    }
}
