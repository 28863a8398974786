//! Makes changes durable: collects what was queued and writes it to the journal, one flush for everybody who waits.

use std::collections::VecDeque;
use std::sync::Arc;

use zonda_device::{cut_label, cut_label_unless_named};
use zonda_rt::atomic::{AtomicU32, AtomicU64, Ordering};
use zonda_rt::{Mutex, MutexGuard};
use zonda_space::{BLOCK_BYTES, Journal, Space, SpaceError};

use crate::names::{Names, Queued};
use crate::options::JOURNAL;
use crate::stop::Stop;
use crate::{FileError, Result, Work};

/// A new snapshot is taken when the records since the last take this many times its bytes, and at least the minimum (or a zone,
/// where zones are smaller).
const SNAPSHOT_FACTOR: u64 = 4;
const SNAPSHOT_BYTES_MIN: u64 = 1 << 20;

/// Free zones that the journal leaves to cleaning: where it takes the last one, what is dead beside what is live is never given back.
const ZONES_FOR_CLEANING: u32 = 1;

/// What is made durable.
pub(crate) struct Source<'a> {
    /// Whose changes.
    pub(crate) names: &'a Names,
    /// What the store did; asked with the names locked.
    pub(crate) work: &'a dyn Fn() -> Work,
    /// Where the bytes are that changes name.
    pub(crate) space: &'a Space,
}

/// The writer of the journal.
///
/// Order of a commit (I3, I4): what the records refer to is flushed first, then they are written, then flushed. So a
/// record that survives a crash never names bytes that did not.
/// Locks: its own over device calls, then [`Names`] briefly; never the content of a file.
#[derive(Debug)]
pub(crate) struct Committer {
    state: Mutex<State>,
    /// As in the state, for those who would not wait for a commit.
    durable: AtomicU64,
    /// Free zones that the journal needs, for those who take some.
    zones_owed: Arc<AtomicU32>,
}

#[derive(Debug)]
struct State {
    /// None in a read-only mount.
    journal: Option<Journal>,
    /// Taken off the queue, not in the journal yet.
    backlog: VecDeque<Vec<u8>>,
    /// Number of the last change that is durable.
    durable: u64,
    /// Number of the last change taken off the queue.
    taken: u64,
    /// Whether a record that was taken off refers to bytes that may not be durable.
    owes_flush: bool,
    /// Whether one that is not durable gives something back.
    gives_back: bool,
    /// Whether one that is not durable is of a file that takes the name of another.
    replaces: bool,
    /// Commits since the mount.
    commits: u64,
}

impl Committer {
    /// Over a journal that is started; without one nothing can be committed. `zones_owed` hears how many free zones it needs.
    pub(crate) fn new(journal: Option<Journal>, zones_owed: Arc<AtomicU32>) -> Self {
        let (backlog, durable, taken, commits) = Default::default();
        let (owes_flush, gives_back, replaces) = Default::default();
        let state = State { journal, backlog, durable, taken, owes_flush, gives_back, replaces, commits };
        zones_owed.store(state.zones_owed(), Ordering::Relaxed);
        Self { state: Mutex::new(state), durable: AtomicU64::new(0), zones_owed }
    }

    /// Returns when change `number` is durable. What the store did is recorded with it.
    ///
    /// # Errors
    /// `Stopped`; `Space` when the journal gets no zone: try again after cleaning.
    pub(crate) fn commit_to(&self, number: u64, from: &Source<'_>, stop: &Stop) -> Result<()> {
        let mut state = self.state.lock();
        if state.durable >= number {
            return Ok(());
        }
        stop.check()?;
        let _label = cut_label_unless_named("journal");
        let outcome = state.commit(from);
        self.durable.store(state.durable, Ordering::Release);
        self.zones_owed.store(state.zones_owed(), Ordering::Relaxed);
        match outcome {
            Err(FileError::Space(error)) if !can_be_tried_again(&error) => Err(stop.set(&error)),
            outcome => outcome,
        }
    }

    /// Whether change `number` is durable. Waits for nobody.
    pub(crate) fn is_durable(&self, number: u64) -> bool {
        self.durable.load(Ordering::Acquire) >= number
    }

    /// Commits since the mount.
    pub(crate) fn commits(&self) -> u64 {
        self.state.lock().commits
    }

    /// Bytes of the journal that recovery would read.
    pub(crate) fn journal_bytes(&self) -> u64 {
        let state: MutexGuard<'_, State> = self.state.lock();
        state.journal.as_ref().map_or(0, |journal| journal.bytes_since_snapshot() + journal.snapshot_bytes())
    }
}

/// Whether nothing was recorded for want of zones, tokens or room on the host.
pub(crate) fn can_be_tried_again(error: &SpaceError) -> bool {
    let lacks =
        matches!(error, SpaceError::NoSpace { .. } | SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. });
    lacks || matches!(error, SpaceError::SnapshotNeeded { .. }) || error.is_host_full()
}

/// Flushes what records refer to, if that is owed.
fn flush_owed(owes_flush: &mut bool, space: &Space) -> std::result::Result<(), SpaceError> {
    if *owes_flush {
        space.flush()?;
    }
    *owes_flush = false;
    Ok(())
}

impl State {
    fn commit(&mut self, Source { names, work, space }: &Source<'_>) -> Result<()> {
        self.take(names.take_queue(work), space)?;
        let _label = self.replaces.then(|| cut_label("rename over"));
        let recorded = self.record();
        if let Err(FileError::Space(error @ (SpaceError::NoSpace { .. } | SpaceError::SnapshotNeeded { .. }))) =
            &recorded
        {
            // What there is may take less room than all that led to it: names that are gone again.
            let is_needed = matches!(error, SpaceError::SnapshotNeeded { .. });
            let is_told = self.snapshot(names, space, is_needed)?;
            self.commits += u64::from(is_told);
            return if is_told { Ok(()) } else { recorded };
        }
        recorded?;
        self.commits += 1;
        self.all_is_durable();
        self.snapshot_if_due(names, space)
    }

    /// Whatever was taken off the queue.
    fn all_is_durable(&mut self) {
        (self.durable, self.gives_back, self.replaces) = (self.taken, false, false);
    }

    /// Writes what was taken off the queue to the journal.
    fn record(&mut self) -> Result<()> {
        let journal = self.journal.as_mut().ok_or(FileError::ReadOnly)?;
        while let Some(record) = self.backlog.front() {
            journal.append(record)?;
            self.backlog.pop_front();
        }
        Ok(journal.sync()?)
    }

    fn zones_owed(&self) -> u32 {
        self.journal.as_ref().map_or(0, Journal::zones_owed)
    }

    fn take(&mut self, queued: Queued, space: &Space) -> Result<()> {
        self.backlog.extend(queued.records);
        self.taken = self.taken.max(queued.last);
        self.owes_flush |= queued.names_new_bytes;
        self.gives_back |= queued.gives_back;
        self.replaces |= queued.replaces;
        Ok(flush_owed(&mut self.owes_flush, space)?)
    }

    /// It is where the journal does not say which zones went offline. A journal gives zones back early while there are zones for a snapshot
    /// beside it, but not many more.
    fn is_snapshot_due(journal: &Journal, space: &Space) -> bool {
        let zone_bytes = space.zone_blocks() * BLOCK_BYTES as u64;
        let (records, snapshot) = (journal.bytes_since_snapshot(), journal.snapshot_bytes());
        // Asked at every commit: without a pass over the zones.
        let counts = space.zone_counts(JOURNAL);
        let snapshot_zones = (snapshot + records).div_ceil(zone_bytes.max(1)) + 1;
        let is_short = u64::from(counts.free) < u64::from(counts.reserve) + snapshot_zones;
        let short_limit = snapshot.max(zone_bytes / 2);
        let limit = (SNAPSHOT_FACTOR * snapshot).max(SNAPSHOT_BYTES_MIN.min(zone_bytes));
        // Where zones are short, what the journal says of those that are lost can wait.
        let is_outdated = || counts.lost > 0 && journal.is_outdated();
        records >= limit || if is_short { records >= short_limit } else { is_outdated() }
    }

    fn snapshot_if_due(&mut self, names: &Names, space: &Space) -> Result<()> {
        if self.journal.as_ref().is_some_and(|journal| Self::is_snapshot_due(journal, space)) {
            self.snapshot(names, space, false)?;
        }
        Ok(())
    }

    /// Begins the journal anew, with what there is; whether all of that is durable. Where it finds no room, the journal goes on without; if
    /// nothing is given back by it, and nothing needs it, it leaves room to those who clean.
    fn snapshot(&mut self, names: &Names, space: &Space, is_needed: bool) -> Result<bool> {
        let Some(journal) = &mut self.journal else { return Ok(false) };
        let _label = cut_label("journal roll");
        let (queued, items) = names.snapshot();
        self.owes_flush |= queued.names_new_bytes;
        self.gives_back |= queued.gives_back;
        self.replaces |= queued.replaces;
        self.taken = self.taken.max(queued.last);
        let for_others = if self.gives_back || is_needed { 0 } else { ZONES_FOR_CLEANING };
        if !journal.has_room_for(items.iter().map(Vec::len), for_others) {
            self.backlog.extend(queued.records);
            return Ok(false);
        }
        let written = flush_owed(&mut self.owes_flush, space)
            .and_then(|()| journal.snapshot(&mut |writer| items.iter().try_for_each(|item| writer.put(item))));
        match written {
            // If not, all of it is in the journal, and is flushed with the next commit.
            Ok(is_durable) => {
                self.backlog.clear();
                if is_durable {
                    self.all_is_durable();
                }
                Ok(is_durable)
            }
            // What was taken off the queue is still owed.
            Err(error) if can_be_tried_again(&error) => {
                self.backlog.extend(queued.records);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}
