//! The names of a live store: the catalogue, which of its files are open, and the changes that wait for the journal.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use zonda_rt::{Mutex, MutexGuard};

use crate::catalogue::{Catalogue, Dropped};
use crate::change::Change;
use crate::file::FileState;
use crate::ground::Ground;
use crate::{FileId, Result, Work};

/// Names, open files and queued changes, changed together under one lock, which is never held over a device call.
#[derive(Debug)]
pub(crate) struct Names {
    state: Mutex<NamesState>,
}

/// What [`Names::lock`] gives access to.
#[derive(Debug, Default)]
pub(crate) struct NamesState {
    /// What is recorded, or queued to be.
    pub(crate) catalogue: Catalogue,
    open: HashMap<FileId, Weak<FileState>>,
    /// Open files that lost their last name.
    nameless: Vec<Weak<FileState>>,
    queue: Vec<Vec<u8>>,
    names_new_bytes: bool,
    gives_back: bool,
    replaces: bool,
    last: u64,
    /// Files that lost their last name.
    gone: Vec<FileId>,
}

/// Changes on their way to the journal.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    /// Their records, in order.
    pub(crate) records: Vec<Vec<u8>>,
    /// Number of the last change ever queued.
    pub(crate) last: u64,
    /// Whether a record refers to bytes that may not be durable.
    pub(crate) names_new_bytes: bool,
    /// Whether names or bytes are given back once they are durable.
    pub(crate) gives_back: bool,
    /// Whether a file takes the name of another, as a new CURRENT does.
    pub(crate) replaces: bool,
}

impl Names {
    /// Of a store that was just mounted.
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        Self { state: Mutex::new(NamesState { catalogue, ..NamesState::default() }) }
    }

    /// Access to everything.
    pub(crate) fn lock(&self) -> MutexGuard<'_, NamesState> {
        self.state.lock()
    }

    /// Number of the last change.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last_change()
    }

    /// Takes the queue, and behind it what the store did, if that changed.
    pub(crate) fn take_queue(&self, work: &dyn Fn() -> Work) -> Queued {
        let mut state = self.lock();
        state.note(work());
        state.take_queue()
    }

    /// Takes the queue, and records that make the whole state, the queue's effect included.
    pub(crate) fn snapshot(&self) -> (Queued, Vec<Vec<u8>>) {
        let mut state = self.lock();
        let mut items = Vec::new();
        let put = &mut |change: &Change| {
            items.push(change.encode());
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = state.catalogue.snapshot(put);
        (state.take_queue(), items)
    }
}

impl NamesState {
    /// Applies a change and queues its record; returns its number.
    ///
    /// # Errors
    /// Why it does not apply; nothing was changed then.
    pub(crate) fn change(&mut self, change: &Change, ground: &Ground) -> Result<u64> {
        let replaces = matches!(change, Change::Rename { to, .. } if self.catalogue.entry(to).is_some());
        let dropped = self.catalogue.apply(change)?;
        self.queue.push(change.encode());
        self.names_new_bytes |= matches!(change, Change::Extend { .. } | Change::Move { .. });
        self.gives_back |= change.gives_back();
        self.replaces |= replaces;
        self.last += 1;
        if !matches!(change, Change::Truncate { .. } | Change::Move { .. }) {
            self.release(&dropped, ground);
        }
        Ok(self.last)
    }

    /// Queues the record of what the store did; nobody waits for it, so it has no number.
    fn note(&mut self, work: Work) {
        if work != *self.catalogue.work() {
            let change = Change::Work { work };
            self.catalogue.apply(&change).expect("it always applies");
            self.queue.push(change.encode());
        }
    }

    /// The bytes of a file without a name die at once, or when its last user is gone.
    fn release(&mut self, dropped: &Dropped, ground: &Ground) {
        self.gone.extend(dropped.file);
        let open = dropped.file.and_then(|file| self.open.remove(&file)).and_then(|file| file.upgrade());
        match open {
            Some(file) => {
                file.set_gone();
                self.nameless.retain(|file| file.strong_count() > 0);
                self.nameless.push(Arc::downgrade(&file));
            }
            None => ground.bury(&dropped.extents),
        }
    }

    /// Files that lost their last name since this was asked.
    pub(crate) fn take_gone(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.gone)
    }

    /// Number of the last change.
    pub(crate) fn last_change(&self) -> u64 {
        self.last
    }

    /// The file, if somebody has it open.
    pub(crate) fn open_file(&self, file: FileId) -> Option<Arc<FileState>> {
        self.open.get(&file).and_then(Weak::upgrade)
    }

    /// All files with names that somebody has open, in the order of their numbers.
    pub(crate) fn open_files(&self) -> Vec<Arc<FileState>> {
        let mut open: Vec<_> = self.open.values().filter_map(Weak::upgrade).collect();
        open.sort_by_key(|file| file.id());
        open
    }

    /// All files that somebody has open although they have no name any more.
    pub(crate) fn nameless_files(&self) -> Vec<Arc<FileState>> {
        self.nameless.iter().filter_map(Weak::upgrade).collect()
    }

    /// The file, opened if nobody has it open; `None` if it does not exist.
    pub(crate) fn open(&mut self, file: FileId, ground: &Ground) -> Option<Arc<FileState>> {
        if let Some(open) = self.open_file(file) {
            return Some(open);
        }
        let inode = self.catalogue.inode(file)?;
        let opened = Arc::new(FileState::recorded(file, inode, ground.clone()));
        self.insert(&opened);
        Some(opened)
    }

    /// Makes an open file known.
    pub(crate) fn insert(&mut self, file: &Arc<FileState>) {
        if self.open.len() >= 64 && self.open.len().is_power_of_two() {
            self.open.retain(|_, file| file.strong_count() > 0);
        }
        self.open.insert(file.id(), Arc::downgrade(file));
    }

    fn take_queue(&mut self) -> Queued {
        Queued {
            records: std::mem::take(&mut self.queue),
            last: self.last,
            names_new_bytes: std::mem::take(&mut self.names_new_bytes),
            gives_back: std::mem::take(&mut self.gives_back),
            replaces: std::mem::take(&mut self.replaces),
        }
    }
}
