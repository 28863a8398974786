//! The file store that users hold.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use zonda_device::{Queues, cut_label};
use zonda_rt::atomic::{AtomicU32, AtomicU64, Ordering};
use zonda_rt::{Mutex, Time, now};
use zonda_space::{Space, SpaceError, StreamId, Urgency};

use crate::call::Call;
use crate::catalogue::Entry;
use crate::change::Change;
use crate::claim::Claim;
use crate::commit::{Committer, Source};
use crate::file::FileState;
use crate::follow::Follow;
use crate::ground::Ground;
use crate::lanes::{Lanes, Lease, Request};
use crate::names::{Names, NamesState};
use crate::options::{RELOCATED, stream_of};
use crate::pace::Pace;
use crate::policy::{Candidate, Choices, OpenZoneView, Rule, SubzoneWish, TableKeys};
use crate::put_off::{PutOff, ZoneOf};
use crate::stop::Stop;
use crate::subzones::{SplitUsage, SubzoneCounters};
use crate::trace::TraceEvent;
use crate::{
    Extent, FileError, FileId, FileKind, FilePath, FileReader, FileStoreOptions, FileTags, FileUsage, FileWriter,
    LEVELS_COUNTED, MountReport, Result, Work, ZoneId,
};

/// Rounds of cleaning after which a writer that still finds no zone is refused.
const ROUNDS_MAX: u32 = 1000;

/// Files on zones: names, directories and appended bytes. A handle; clones share one store. All calls may come from any
/// thread.
///
/// **Files** are written at their end by one writer and read by any number of readers, writers' buffered bytes included.
/// **Durability**: what a [`FileWriter::sync`] or [`sync_names`](Self::sync_names) that returned covers survives a power cut.
/// Changes of names become durable in their order, with the next sync of anything at the latest; a rename is atomic. After
/// a crash a file has at least its synced bytes and at most what was appended, and never other bytes.
/// **Space**: a compaction is refused first, then flushed tables and logs, then meta files; deletes never (I9). A writer that needs a zone
/// cleans, rather than fail with space that could be freed.
/// **After an error** of the device that leaves durability unknown every change is `Stopped`; reads go on.
///
/// Lock order: one file's content, the journal, names, lanes, then those of the zone manager. `cleaning` comes before all, then
/// `claiming`; `emptied` and `unresettable` come before the zone manager's.
#[derive(Clone, Debug)]
pub struct FileStore {
    pub(crate) core: Arc<Core>,
}

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) ground: Ground,
    pub(crate) options: FileStoreOptions,
    /// Why the policy is not the one that was asked for.
    pub(crate) fallback: Option<&'static str>,
    pub(crate) names: Names,
    pub(crate) committer: Committer,
    pub(crate) lanes: Lanes,
    pub(crate) stop: Stop,
    /// One cleaner at a time.
    pub(crate) cleaning: Mutex<()>,
    /// Held while zones are claimed, to be emptied or reset.
    pub(crate) claiming: Mutex<()>,
    /// Zones that cleaning emptied and that were not reset since.
    pub(crate) emptied: Mutex<HashSet<ZoneId>>,
    /// Zones and subzones whose last reset failed. It is tried again, but nobody counts on them.
    pub(crate) unresettable: Mutex<HashSet<ZoneId>>,
    /// [`Cleaner`](crate::Cleaner)s of it.
    pub(crate) cleaners: AtomicU32,
    /// Of cleaning in the background.
    pub(crate) pace: Pace,
    /// Calls a cleaner in the background.
    pub(crate) call: Call,
    /// Zones that cleaning found damaged, each with the file and the first block of an extent that is. Before it: names.
    pub(crate) spoiled: Mutex<HashMap<ZoneOf, (FileId, u64)>>,
    /// Zones that cleaning could not read for now.
    pub(crate) put_off: PutOff,
    pub(crate) counters: Counters,
    /// Held while subzones are reset; names, journal and content are not taken under it.
    pub(crate) merging: Mutex<()>,
    pub(crate) subzones: SubzoneCounters,
    /// Before it: names and lanes.
    pub(crate) follow: Follow,
    /// Bytes of tables that wait for their keys.
    pub(crate) held_bytes: AtomicU64,
    /// Since the mount. The last lock of all.
    pub(crate) allocations: Mutex<BTreeMap<(Rule, Option<u8>), u64>>,
    /// What the journal had at the mount.
    pub(crate) work_before: Work,
    /// What the mount found.
    pub(crate) found: MountReport,
    /// For reads that are in flight together.
    pub(crate) queues: Queues,
}

/// Bytes since the mount, and what else is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Appended by users and written.
    pub(crate) written: AtomicU64,
    /// Device writes of files to zones, by [`FileKind`].
    pub(crate) writes: [AtomicU64; 4],
    /// Copied by cleaning.
    pub(crate) copied: AtomicU64,
    /// Of these, of tables by [level](crate::FileUsage::copied_of_levels).
    pub(crate) copied_of_levels: [AtomicU64; LEVELS_COUNTED],
    /// Of write-ahead logs, written to blocks because no zone in front was left for them.
    pub(crate) spilled: AtomicU64,
    /// Zones reset after what was live had been copied.
    pub(crate) resets_with_copy: AtomicU64,
    /// Zones reset with nothing to copy.
    pub(crate) resets_without_copy: AtomicU64,
    /// Nanoseconds that writers of files waited for another's write to the same zone.
    pub(crate) zone_wait: AtomicU64,
    /// Nanoseconds that writers waited for zones.
    pub(crate) waiting_nanos: AtomicU64,
    /// Nanoseconds that emptying zones took, resets not counted.
    pub(crate) copying_nanos: AtomicU64,
    /// Nanoseconds that callers waited for the journal.
    pub(crate) committing_nanos: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds what cleaning copied of a file, which may be a table of a level.
    pub(crate) fn add_copied(&self, level: Option<u8>, bytes: u64) {
        Self::add(&self.copied, bytes);
        if let Some(level) = level {
            Self::add(&self.copied_of_levels[usize::from(level).min(LEVELS_COUNTED - 1)], bytes);
        }
    }

    /// Adds the time since `began`, in nanoseconds.
    pub(crate) fn add_since(counter: &AtomicU64, began: Time) {
        Self::add(counter, u64::try_from(now().since(began).as_nanos()).unwrap_or(u64::MAX));
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Whether it is a directory; the rest is then 0.
    pub is_directory: bool,
    /// Number of the file: two names of one file have the same.
    pub file: FileId,
    /// Bytes, buffered ones included.
    pub size_bytes: u64,
    /// Names.
    pub links: u32,
    /// When bytes were last recorded, in seconds since 1970.
    pub modified_seconds: u64,
    /// What it is.
    pub tags: FileTags,
}

impl FileStore {
    /// Makes a file and its writer. A file that has the name loses it; whoever reads it goes on.
    ///
    /// # Errors
    /// `NotFound` or `WrongKind` for the directory, `WrongKind` for a directory of this name, `Stopped`.
    pub fn create(&self, path: &FilePath, tags: FileTags) -> Result<FileWriter> {
        let core = &self.core;
        core.stop.check()?;
        let mut names = core.names.lock();
        let file = names.catalogue.next_file();
        let modified_seconds = (core.options.clock_seconds)();
        let change = Change::Create { file, tags, modified_seconds, path: path.clone() };
        let mut number = core.change_under(&mut names, &change)?;
        if tags.kind.is_chunked() && !core.ground.keeps_in_chunks(tags.kind) {
            number = names.change(&Change::Seal { file, size: 0 }, &core.ground)?;
        }
        let state = Arc::new(FileState::created(file, tags, core.ground.clone()));
        state.begin_writing(path)?;
        names.insert(&state);
        drop(names);
        Ok(FileWriter::new(Arc::clone(core), state, number))
    }

    /// A writer that goes on at the end of a file.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `Busy`, `Stopped`.
    pub fn append_to(&self, path: &FilePath) -> Result<FileWriter> {
        self.core.stop.check()?;
        let (state, number) = self.open_state(path)?;
        state.begin_writing(path)?;
        Ok(FileWriter::new(Arc::clone(&self.core), state, number))
    }

    /// A reader of a file; it reads what is appended later too.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`; `Stale` if the bytes are gone.
    pub fn open(&self, path: &FilePath) -> Result<FileReader> {
        let (state, _) = self.open_state(path)?;
        FileReader::open(&self.core, state)
    }

    fn open_state(&self, path: &FilePath) -> Result<(Arc<FileState>, u64)> {
        let mut names = self.core.names.lock();
        let file = names.catalogue.file(path)?;
        let state = names.open(file, &self.core.ground);
        Ok((state.ok_or_else(|| FileError::NotFound { path: path.clone() })?, names.last_change()))
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn info(&self, path: &FilePath) -> Result<FileInfo> {
        let names = self.core.names.lock();
        let not_found = || FileError::NotFound { path: path.clone() };
        let file = match names.catalogue.entry(path).ok_or_else(not_found)? {
            Entry::Directory => return Ok(FileInfo::DIRECTORY),
            Entry::File(file) => file,
        };
        let inode = names.catalogue.inode(file).ok_or_else(not_found)?;
        let mut info = FileInfo {
            is_directory: false,
            file,
            size_bytes: inode.extents.bytes(),
            links: inode.links,
            modified_seconds: inode.modified_seconds,
            tags: inode.tags,
        };
        let open = names.open_file(file);
        drop(names);
        if let Some(open) = open {
            info.size_bytes = open.content().size();
        }
        Ok(info)
    }

    /// Where the recorded bytes of a file are, in order.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`.
    pub fn extents(&self, path: &FilePath) -> Result<Vec<Extent>> {
        let names = self.core.names.lock();
        let file = names.catalogue.file(path)?;
        Ok(names.catalogue.inode(file).map(|inode| inode.extents.iter().copied().collect()).unwrap_or_default())
    }

    /// The names directly in a directory, in order.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`.
    pub fn list(&self, directory: &FilePath) -> Result<Vec<FilePath>> {
        let names = self.core.names.lock();
        Ok(names.catalogue.list(directory)?.into_iter().map(|(path, _)| path.clone()).collect())
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Exists`; `NotFound` or `WrongKind` for the one it is in; `Stopped`.
    pub fn make_directory(&self, path: &FilePath) -> Result<()> {
        self.change(&Change::MakeDirectory { path: path.clone() })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `NotEmpty`, `Stopped`.
    pub fn remove_directory(&self, path: &FilePath) -> Result<()> {
        self.change(&Change::RemoveDirectory { path: path.clone() })
    }

    /// Takes a name away. With its last name, and when nobody has it open any more, a file gives its bytes back.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `Stopped`.
    pub fn remove(&self, path: &FilePath) -> Result<()> {
        self.change(&Change::Unlink { path: path.clone() })
    }

    /// Gives a file or directory another name, atomically; a file that has that name loses it.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `NotEmpty`, `IntoItself`, `Stopped`.
    pub fn rename(&self, from: &FilePath, to: &FilePath) -> Result<()> {
        self.change(&Change::Rename { from: from.clone(), to: to.clone() })
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `Exists`, `Stopped`.
    pub fn link(&self, from: &FilePath, to: &FilePath) -> Result<()> {
        self.core.stop.check()?;
        let mut names = self.core.names.lock();
        let file = names.catalogue.file(from)?;
        self.core.change_under(&mut names, &Change::Link { file, path: to.clone() }).map(|_| ())
    }

    fn change(&self, change: &Change) -> Result<()> {
        self.core.stop.check()?;
        self.core.change_under(&mut self.core.names.lock(), change).map(|_| ())
    }

    /// Makes all changes of names so far durable, and with them the bytes of closed files.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub fn sync_names(&self) -> Result<()> {
        let _label = cut_label("names");
        self.core.commit_to(self.core.names.last())
    }

    /// Space in numbers.
    #[must_use]
    pub fn usage(&self) -> FileUsage {
        FileUsage::of(&self.core)
    }

    /// How often a zone was chosen since the mount, by the rule of the policy and the level of the file, where it has one.
    #[must_use]
    pub fn allocations(&self) -> Vec<(Rule, Option<u8>, u64)> {
        let allocations = self.core.allocations.lock();
        allocations.iter().map(|((rule, level), count)| (*rule, *level, *count)).collect()
    }

    /// The zones that are open for writing.
    #[must_use]
    pub fn open_zones(&self) -> Vec<OpenZoneView> {
        self.core.lanes.views()
    }

    /// Split zones in numbers; `None` if the device does not split zones.
    #[must_use]
    pub fn split_usage(&self) -> Option<SplitUsage> {
        self.core.split_usage()
    }

    /// The policy that places files, or the placement on a conventional drive; and why it is not the one that was asked for, if it
    /// is not.
    #[must_use]
    pub fn placement(&self) -> (&'static str, Option<&'static str>) {
        match self.core.ground.blocks() {
            Some(blocks) => (blocks.placement().name(), self.core.fallback),
            None => (self.core.options.policy.name(), self.core.fallback),
        }
    }

    /// Refuses an LSM-tree whose levels move if the policy counts them from the first.
    ///
    /// # Errors
    /// `MovingLevels`.
    pub fn check_levels(&self, levels_move: bool) -> Result<()> {
        crate::policy::check_levels(&*self.core.options.policy, levels_move)
    }

    /// The zone manager below, for reports.
    #[must_use]
    pub fn space(&self) -> &Space {
        self.core.space()
    }
}

impl FileInfo {
    const DIRECTORY: Self = Self {
        is_directory: true,
        file: FileId(0),
        size_bytes: 0,
        links: 0,
        modified_seconds: 0,
        tags: FileTags { kind: FileKind::Meta, lifetime: crate::Lifetime::NotSet, level: None },
    };
}

impl Core {
    /// A store that nobody uses yet.
    #[expect(clippy::too_many_arguments, reason = "its parts, each made by another file")]
    pub(crate) fn new(
        ground: Ground,
        (options, fallback): (FileStoreOptions, Option<&'static str>),
        names: Names,
        committer: Committer,
        lanes: Lanes,
        stop: Stop,
    ) -> Self {
        let work_before = names.lock().catalogue.work().clone();
        Self {
            ground,
            options,
            fallback,
            names,
            committer,
            lanes,
            stop,
            cleaning: Mutex::new(()),
            claiming: Mutex::new(()),
            emptied: Mutex::default(),
            unresettable: Mutex::default(),
            cleaners: AtomicU32::new(0),
            pace: Pace::default(),
            call: Call::default(),
            spoiled: Mutex::default(),
            put_off: PutOff::default(),
            counters: Counters::default(),
            merging: Mutex::new(()),
            subzones: SubzoneCounters::default(),
            follow: Follow::default(),
            held_bytes: AtomicU64::new(0),
            allocations: Mutex::new(BTreeMap::new()),
            work_before,
            found: MountReport::default(),
            queues: Queues::default(),
        }
    }

    /// Whether threads clean and reset beside writers.
    pub(crate) fn has_cleaner(&self) -> bool {
        self.cleaners.load(Ordering::Acquire) > 0
    }

    /// The zone manager.
    pub(crate) fn space(&self) -> &Space {
        self.ground.space()
    }

    /// Changes names, and tells whoever follows them.
    fn change_under(&self, names: &mut NamesState, change: &Change) -> Result<u64> {
        let number = names.change(change, &self.ground)?;
        self.follow.gone(names.take_gone());
        self.trace(|| traced(change));
        Ok(number)
    }

    /// Makes changes of names durable, if there are any that are not: the lock of the names, briefly, and one load else.
    ///
    /// # Errors
    /// As [`commit_to`](Self::commit_to).
    pub(crate) fn commit_names(&self) -> Result<()> {
        self.commit_unless_durable(self.names.last())
    }

    /// Makes changes up to `number` durable, if they are not: one load else.
    ///
    /// # Errors
    /// As [`commit_to`](Self::commit_to).
    pub(crate) fn commit_unless_durable(&self, number: u64) -> Result<()> {
        if self.committer.is_durable(number) { Ok(()) } else { self.commit_to(number) }
    }

    /// Returns when change `number` is durable; subzones and blocks whose files are gone are free then.
    ///
    /// # Errors
    /// As [`Committer::commit_to`].
    pub(crate) fn commit_to(&self, number: u64) -> Result<()> {
        let dead = self.dead_subzones();
        let dead_blocks = self.ground.blocks().and_then(|blocks| Some((blocks, blocks.last_dead()?)));
        // What is dead was queued to be removed before.
        let has_dead = !dead.is_nothing() || dead_blocks.is_some();
        let number = if has_dead { number.max(self.names.last()) } else { number };
        let began = now();
        let from = Source { names: &self.names, work: &|| self.work(), space: self.space() };
        let committed = self.committer.commit_to(number, &from, &self.stop);
        Counters::add_since(&self.counters.committing_nanos, began);
        committed?;
        if let Some((blocks, last)) = dead_blocks {
            blocks.free_dead(last);
        }
        if dead.is_nothing() { Ok(()) } else { self.merge(&dead) }
    }

    /// A zone for new bytes of a file, or a subzone if one is wished for; cleans while there is none. No lock of a file may be
    /// held.
    ///
    /// # Errors
    /// `NoSpace`, `Stopped`, `Space`.
    pub(crate) fn place(
        &self,
        candidate: &Candidate<'_>,
        claim: Claim,
        wish: Option<&SubzoneWish<'_>>,
    ) -> Result<Lease> {
        let kind = candidate.tags.kind;
        let free_zones_kept = self.zones_kept_from((kind, claim));
        let request = self.request(candidate, free_zones_kept);
        if let Some(wish) = wish
            && let Some(lease) = self.place_as_wished(&request, wish)?
        {
            return Ok(lease);
        }
        for _ in 0..ROUNDS_MAX {
            self.stop.check()?;
            self.reset_dead_if_short(free_zones_kept)?;
            if let Some(lease) = self.place_by_policy(&request, candidate)? {
                if self.is_short_of_zones(0) {
                    self.call.call();
                }
                return Ok(lease);
            }
            if !self.clean_for_a_writer(free_zones_kept)? {
                break;
            }
        }
        let pressed = self.press_into_subzone(&request)?;
        pressed.ok_or_else(|| self.no_zone((kind, claim)))
    }

    /// Gives back the zone of a file that is closed. If it is to be finished, a thread does it where there is one: on a drive that
    /// takes milliseconds.
    pub(crate) fn release(&self, lease: Lease, stream: StreamId) {
        if self.lanes.release(lease, stream, (self.finish_below_bytes(), &|| self.has_cleaner())) {
            self.call.call();
        }
    }

    /// What a writer asks the lanes for.
    pub(crate) fn request<'a>(&self, candidate: &Candidate<'a>, free_zones_kept: u32) -> Request<'a> {
        Request {
            stream: stream_of(candidate.tags.kind),
            file: candidate.file,
            tags: candidate.tags,
            urgency: Urgency::Foreground,
            free_zones_kept,
            finish_below_bytes: self.finish_below_bytes(),
        }
    }

    /// A zone as the policy has it; `None` as [`Lanes::place`].
    ///
    /// # Errors
    /// `Space` other than for want of zones.
    pub(crate) fn place_by_policy(&self, request: &Request<'_>, candidate: &Candidate<'_>) -> Result<Option<Lease>> {
        let policy = &self.options.policy;
        let placed = self.lanes.place(request, &|open, may_open| {
            let following = self.follow.lock();
            let choices = Choices { open, may_open, shape: &following.shape };
            match request.stream {
                RELOCATED => policy.choose_for_moved(candidate, &choices),
                _ => policy.choose(candidate, &choices),
            }
        })?;
        Ok(placed.map(|(lease, rule)| {
            *self.allocations.lock().entry((rule, candidate.tags.level)).or_default() += 1;
            lease
        }))
    }

    /// A zone with less room than this is finished rather than kept open.
    pub(crate) fn finish_below_bytes(&self) -> u64 {
        let zone_bytes = self.space().zone_blocks() * crate::BLOCK_BYTES as u64;
        zone_bytes * u64::from(self.options.finish_percent) / 100
    }

    /// What is known of the keys of a table that is being moved.
    pub(crate) fn keys_of(&self, file: FileId) -> Option<TableKeys> {
        let following = self.follow.lock();
        let (tree, table) = following.shape.find(file)?;
        Some(TableKeys { tree, level: table.level, range: table.range.clone() })
    }

    /// Notes a device error of a write or flush: what was appended before it may be lost, unless the host is full.
    pub(crate) fn write_failed(&self, error: SpaceError) -> FileError {
        if error.is_host_full() { error.into() } else { self.stop.set(&error) }
    }
}

/// A change of names as a trace has it.
fn traced(change: &Change) -> TraceEvent {
    match change {
        Change::MakeDirectory { path } => TraceEvent::MakeDirectory { path: path.clone() },
        Change::RemoveDirectory { path } | Change::Unlink { path } => TraceEvent::Unlink { path: path.clone() },
        Change::Create { file, tags, path, .. } => TraceEvent::Create { file: *file, tags: *tags, path: path.clone() },
        Change::Link { file, path } => TraceEvent::Link { file: *file, path: path.clone() },
        Change::Rename { from, to } => TraceEvent::Rename { from: from.clone(), to: to.clone() },
        other => unreachable!("{other:?} changes no name"),
    }
}
