//! The LSM-trees on a file system, by directory: followed as their MANIFESTs are written.

use std::collections::{BTreeMap, BTreeSet};

use zonda_files::lsm::{Job, JobKind, TableHint};
use zonda_files::{FilePath, FileStore};
use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::lsm::jobs::Jobs;
use crate::lsm::relay::{BYTEWISE, REVERSE, Relay};
use crate::lsm::{Applied, Begun, Damaged, NewTable, Running, Shape};
use crate::name::{Role, role_of, table_number};
use crate::tell::tell;
use crate::writable::Order;

/// Bytes of a MANIFEST that are read at once.
const READ_BYTES: usize = 256 << 10;
/// A CURRENT is one short line.
const CURRENT_BYTES_MAX: usize = 300;

/// What the databases of a file system are doing; the store below is told of it.
///
/// One entry per directory of a database that is open for writing; elsewhere a MANIFEST is copied like any file, by a checkpoint or a
/// backup, and is not followed. A database writes a new MANIFEST beside the one that counts and then renames a file to CURRENT: so all of
/// its are followed, and CURRENT says whose shape holds.
///
/// The listener stays in the options that a database was opened with, and tells of whatever is opened with them: what is of no database
/// that is open here is passed over.
///
/// Locks: its own, held while a MANIFEST is read from the store and while the store is told; nobody who holds one of the
/// store's asks the view.
#[derive(Debug)]
pub struct View {
    store: FileStore,
    jobs: Jobs,
    state: Mutex<State>,
    not_followed: AtomicU64,
}

/// A table that was begun.
#[derive(Debug)]
struct Unnamed {
    path: FilePath,
    /// The level that it is for, where that was known.
    level: Option<u8>,
}

#[derive(Debug, Default)]
struct State {
    directories: BTreeMap<FilePath, Directory>,
    /// By directory of their database and number: tables that no MANIFEST has named yet.
    unnamed: BTreeMap<(FilePath, u64), Unnamed>,
    /// Directories of databases that are open for writing.
    open: BTreeSet<FilePath>,
    counts: LevelCounts,
}

#[derive(Debug, Default)]
struct Directory {
    manifests: BTreeMap<FilePath, Shape>,
    /// The MANIFEST that CURRENT names.
    current: Option<FilePath>,
    relay: Relay,
}

/// How well the level of a table was known when it was created, beside what the MANIFEST said of it first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// It was that of the MANIFEST.
    pub right: u64,
    /// It was another.
    pub wrong: u64,
    /// It was not known.
    pub unknown: u64,
    /// Nobody said that the table was created: it was ingested, or the listener missed it.
    pub unheard: u64,
    /// Tables that changed their level without being written again.
    pub moved: u64,
    /// Bytes of tables that came to each level.
    pub bytes: BTreeMap<u8, LevelBytes>,
}

/// Bytes of tables that came to a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelBytes {
    /// Written there.
    pub created: u64,
    /// Moved there without being written again.
    pub moved: u64,
}

impl View {
    pub(crate) fn new(store: FileStore) -> Self {
        Self { store, jobs: Jobs::default(), state: Mutex::default(), not_followed: AtomicU64::default() }
    }

    /// A database is opened, for writing: what it holds is told before its first job runs.
    pub(crate) fn database_opened(&self, database: &FilePath) {
        let mut state = self.state.lock();
        let mut directory = Directory::default();
        let damage = directory.find_current(&self.store, database);
        state.open.insert(database.clone());
        let manifest = directory.current.clone();
        if manifest.is_some() {
            state.directories.insert(database.clone(), directory);
        }
        drop(state);
        self.tell_damage(manifest.as_ref(), damage);
    }

    /// Says once of a MANIFEST that it cannot be followed from here on.
    fn tell_damage(&self, manifest: Option<&FilePath>, damage: Option<Damaged>) {
        if let (Some(manifest), Some(damage)) = (manifest, damage) {
            self.not_followed.fetch_add(1, Ordering::Relaxed);
            tell(format_args!("{manifest}: cannot be followed, tables are placed without it from here on: {damage}"));
        }
    }

    /// MANIFESTs that could not be followed to their ends.
    #[must_use]
    pub fn manifests_not_followed(&self) -> u64 {
        self.not_followed.load(Ordering::Relaxed)
    }

    /// A database was closed.
    pub(crate) fn database_closed(&self, database: &FilePath) {
        self.tell_ended(self.jobs.end_all(database));
        let mut state = self.state.lock();
        state.unnamed.retain(|(of, _), _| of != database);
        state.open.remove(database);
        if let Some(mut directory) = state.directories.remove(database) {
            directory.relay.forget(&self.store);
        }
    }

    /// A flush or compaction begins for a column family, on the thread that will run it.
    pub fn job_begun(&self, database: &str, job: i32, family: &str, mut running: Running) {
        let Ok(database) = FilePath::parse(database) else { return };
        self.tell_ended(self.jobs.over(&database, job));
        let state = self.state.lock();
        if !state.open.contains(&database) {
            return;
        }
        let tree = state.directories.get(&database).and_then(|directory| directory.relay.tree(running.column_family));
        running.id = tree.map(|tree| {
            let kind = if running.inputs.is_empty() { JobKind::Flush } else { JobKind::Compaction };
            let path = |table: &u64| database.join(&format!("{table:06}.sst")).ok();
            let inputs = running.inputs.iter().filter_map(path).collect();
            self.store.begin_job(&Job { tree, kind, output_level: Some(running.output_level), inputs })
        });
        drop(state);
        self.tell_ended(self.jobs.begin(&database, job, family, running));
    }

    /// A flush or compaction has ended for a column family.
    pub fn job_ended(&self, database: &str, job: i32, family: &str) {
        let Ok(database) = FilePath::parse(database) else { return };
        self.tell_ended(self.jobs.end(&database, job, family));
    }

    /// An error of a database was told on this thread.
    pub fn job_failed(&self) {
        self.tell_ended(self.jobs.failed());
    }

    fn tell_ended(&self, ended: impl IntoIterator<Item = Running>) {
        ended.into_iter().filter_map(|job| job.id).for_each(|id| self.store.end_job(id));
    }

    /// A subcompaction begins on this thread.
    pub fn subcompaction_begun(&self, job: i32, output_level: u8) {
        Jobs::subcompaction_begun(job, output_level);
    }

    /// The subcompaction of this thread has ended.
    pub fn subcompaction_ended(&self) {
        Jobs::subcompaction_ended();
    }

    /// A table, or a blob file, will be created next, on this thread.
    pub fn table_begun(&self, table: NewTable<'_>) {
        let state = self.state.lock();
        if state.open.contains(&table.database) {
            self.jobs.table_begun(table);
        }
    }

    /// Takes what is known of a table that is created now.
    pub(crate) fn take_begun(&self, path: &FilePath) -> Option<Begun> {
        self.jobs.take_begun(path)
    }

    /// The table was created with this number: a MANIFEST will name it, or it will be removed.
    pub(crate) fn created(&self, begun: &Begun, path: &FilePath, number: u64) {
        let unnamed = Unnamed { path: path.clone(), level: begun.level };
        let mut state = self.state.lock();
        if state.open.contains(&begun.database) {
            state.unnamed.insert((begun.database.clone(), number), unnamed);
        }
    }

    /// As [`take_begun`](Self::take_begun), of a blob file. It has no level: its values stay where they are while the tables that name them
    /// move down.
    pub(crate) fn take_begun_blob(&self, path: &FilePath) -> Option<Begun> {
        Some(Begun { level: None, ..self.jobs.take_begun(path)? })
    }

    /// What the store is told of a table that a job begins, and the order of its keys if it is one of the usual ones.
    pub(crate) fn hint(&self, begun: &Begun) -> Option<(TableHint, Option<Order>)> {
        let state = self.state.lock();
        let directory = state.directories.get(&begun.database)?;
        let shape = directory.manifests.get(directory.current.as_ref()?)?;
        let (number, family) = shape.families().iter().find(|(_, family)| family.name == begun.family)?;
        let tree = directory.relay.tree(*number)?;
        let order = match family.comparator.as_str() {
            BYTEWISE => Some(Order::Bytewise),
            REVERSE => Some(Order::Reverse),
            _ => None,
        };
        Some((TableHint { tree, job: begun.job, level: begun.level?, range: None }, order))
    }

    /// The jobs of a database that run now.
    #[must_use]
    pub fn running(&self, database: &FilePath) -> Vec<Running> {
        self.jobs.running(database)
    }

    /// Tables that were created, and that no MANIFEST has named yet.
    #[cfg(test)]
    pub(crate) fn unnamed(&self) -> usize {
        self.state.lock().unnamed.len()
    }

    /// How well levels were known.
    #[must_use]
    pub fn level_counts(&self) -> LevelCounts {
        self.state.lock().counts.clone()
    }

    /// Looks at the shape of the database in a directory; `None` if there is none.
    pub fn with_shape<T>(&self, database: &FilePath, look: impl FnOnce(&Shape) -> T) -> Option<T> {
        let state = self.state.lock();
        if let Some(directory) = state.directories.get(database) {
            return directory.manifests.get(directory.current.as_ref()?).map(look);
        }
        drop(state);
        // Nobody writes it: it is as its files say.
        let manifest = manifest_of(&self.store, database)?;
        Some(look(&read_shape(&self.store, &manifest)))
    }

    /// A MANIFEST begins.
    pub(crate) fn manifest_created(&self, path: &FilePath) {
        if let Some(directory) = self.state.lock().followed(path) {
            directory.manifests.insert(path.clone(), Shape::default());
        }
    }

    /// A MANIFEST of an earlier life goes on.
    pub(crate) fn manifest_reopened(&self, path: &FilePath) {
        let damage = self.state.lock().followed(path).and_then(|directory| {
            let shape = read_shape(&self.store, path);
            let damage = shape.is_damaged();
            directory.manifests.insert(path.clone(), shape);
            damage
        });
        self.tell_damage(Some(path), damage);
    }

    /// Bytes were appended to a MANIFEST.
    pub(crate) fn manifest_appended(&self, path: &FilePath, bytes: &[u8]) {
        let damage = self.follow(path, bytes);
        self.tell_damage(Some(path), damage);
    }

    /// Follows a MANIFEST; returns why that ended, if it ends here.
    fn follow(&self, path: &FilePath, bytes: &[u8]) -> Option<Damaged> {
        let parent = path.parent()?;
        let mut state = self.state.lock();
        let State { directories, unnamed, counts, .. } = &mut *state;
        let directory = directories.get_mut(&parent)?;
        let shape = directory.manifests.get_mut(path)?;
        let was_damaged = shape.is_damaged().is_some();
        let applied = shape.feed(bytes);
        let damage = shape.is_damaged().filter(|_| !was_damaged);
        let before = directory.current.as_ref().filter(|current| *current != path);
        let before = before.and_then(|current| directory.manifests.get(current));
        let begun = |table| match unnamed.remove(&(parent.clone(), table)) {
            Some(unnamed) => Origin::Begun(unnamed.level),
            // A new MANIFEST repeats the one before it.
            None if before.is_some_and(|shape| shape.table(table).is_some()) => Origin::Known,
            None => Origin::Unheard,
        };
        count(&applied, begun, counts);
        let shape = directory.manifests.get(path)?;
        if directory.current.as_ref() == Some(path) {
            let tables: BTreeSet<_> = applied.iter().map(|one| (one.column_family, one.number)).collect();
            directory.relay.tell(&self.store, &parent, shape, &tables);
        }
        damage
    }

    /// A name is gone.
    pub(crate) fn removed(&self, path: &FilePath) {
        self.forget_unnamed(path);
        let role = role_of(path);
        if !matches!(role, Role::Manifest | Role::Current) {
            return;
        }
        let Some(parent) = path.parent() else { return };
        let mut state = self.state.lock();
        let Some(directory) = state.directories.get_mut(&parent) else { return };
        match role {
            Role::Manifest => drop(directory.manifests.remove(path)),
            _ => directory.current = None,
        }
        if directory.manifests.is_empty() {
            directory.relay.forget(&self.store);
            state.directories.remove(&parent);
        }
    }

    /// A name has become another: CURRENT, a MANIFEST, or the directory of a database.
    pub(crate) fn renamed(&self, from: &FilePath, to: &FilePath) {
        self.forget_unnamed(from);
        let Some(parent) = to.parent() else { return };
        let mut state = self.state.lock();
        if role_of(to) == Role::Current {
            let Some(directory) = state.followed(to) else { return };
            let damage = directory.find_current(&self.store, &parent);
            let manifest = directory.current.clone();
            drop(state);
            return self.tell_damage(manifest.as_ref(), damage);
        }
        // Nobody writes in a directory that is renamed.
        let moved = |directory: &FilePath| directory == from || directory.is_in(from);
        state.directories.retain(|directory, known| {
            let goes = moved(directory);
            if goes {
                known.relay.forget(&self.store);
            }
            !goes
        });
    }

    /// A table is gone: if its job failed, no MANIFEST will ever name it. It may be in another directory than its database.
    fn forget_unnamed(&self, path: &FilePath) {
        let Some(number) = table_number(path) else { return };
        self.state.lock().unnamed.retain(|(_, of), unnamed| *of != number || unnamed.path != *path);
    }
}

/// Where a table comes from that a MANIFEST names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// It was begun, for this level if that was known, and was not named before.
    Begun(Option<u8>),
    /// It is in the MANIFEST before this one.
    Known,
    /// Nobody said that it was begun, or it was named before.
    Unheard,
}

/// Compares first levels with those at creation. Cost: one look-up of what is deleted for a table of the edit, which `DB::Open` makes of
/// all tables of a family.
fn count(applied: &[Applied], mut origin: impl FnMut(u64) -> Origin, counts: &mut LevelCounts) {
    let deleted: BTreeSet<_> = applied.iter().filter(|one| one.is_deleted).map(|one| one.number).collect();
    for one in applied.iter().filter(|one| !one.is_deleted) {
        let origin = origin(one.number);
        let (created, moved) = match origin {
            Origin::Begun(_) => (one.size_bytes, 0),
            _ if deleted.contains(&one.number) => (0, one.size_bytes),
            Origin::Known | Origin::Unheard => (0, 0),
        };
        if created + moved > 0 {
            let level = counts.bytes.entry(one.level).or_default();
            (level.created, level.moved) = (level.created + created, level.moved + moved);
        }
        match origin {
            Origin::Begun(Some(level)) if level == one.level => counts.right += 1,
            Origin::Begun(Some(_)) => counts.wrong += 1,
            Origin::Begun(None) => counts.unknown += 1,
            _ if deleted.contains(&one.number) => counts.moved += 1,
            Origin::Known => {}
            Origin::Unheard => counts.unheard += 1,
        }
    }
}

impl State {
    /// The directory of a file if a database is open there.
    fn followed(&mut self, file: &FilePath) -> Option<&mut Directory> {
        let parent = file.parent().filter(|parent| self.open.contains(parent))?;
        Some(self.directories.entry(parent).or_default())
    }
}

impl Directory {
    /// Follows CURRENT; reads the MANIFEST that it names unless it is followed already, and tells the store. Returns why it could not be
    /// read to its end, if it was read.
    fn find_current(&mut self, store: &FileStore, directory: &FilePath) -> Option<Damaged> {
        let manifest = manifest_of(store, directory)?;
        let mut damage = None;
        let shape = self.manifests.entry(manifest.clone()).or_insert_with(|| {
            let shape = read_shape(store, &manifest);
            damage = shape.is_damaged();
            shape
        });
        self.relay.tell_all(store, directory, shape);
        self.current = Some(manifest);
        damage
    }
}

/// The MANIFEST that CURRENT names.
fn manifest_of(store: &FileStore, directory: &FilePath) -> Option<FilePath> {
    let mut line = vec![0; CURRENT_BYTES_MAX];
    let read = store.open(&directory.join("CURRENT").ok()?).ok()?.read_at(0, &mut line).ok()?;
    let name = std::str::from_utf8(line.get(..read)?).ok()?.trim_end();
    let manifest = directory.join(name).ok()?;
    (role_of(&manifest) == Role::Manifest).then_some(manifest)
}

/// The shape that a MANIFEST describes; damaged where it cannot be read.
fn read_shape(store: &FileStore, path: &FilePath) -> Shape {
    let mut shape = Shape::default();
    if read_into(&mut shape, store, path).is_err() {
        shape.give_up(Damaged("it cannot be read"));
    }
    shape
}

fn read_into(shape: &mut Shape, store: &FileStore, path: &FilePath) -> zonda_files::Result<()> {
    let reader = store.open(path)?;
    let (mut buffer, mut at) = (vec![0; READ_BYTES], 0);
    loop {
        let read = reader.read_at(at, &mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        shape.feed(&buffer[..read]);
        at += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zonda_device::{Geometry, MemDevice};
    use zonda_files::{FileStoreOptions, StoreId};

    use super::*;
    use crate::lsm::edit::testing::{encode, table};
    use crate::lsm::record::testing::write;
    use crate::lsm::{Reason, VersionEdit};

    fn path(text: &str) -> FilePath {
        FilePath::parse(text).unwrap()
    }

    fn view() -> View {
        let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap());
        View::new(FileStore::format(device, StoreId(1), false, FileStoreOptions::default()).unwrap())
    }

    /// A MANIFEST that grows as it is written.
    struct Manifest<'a> {
        view: &'a View,
        path: FilePath,
        bytes: Vec<u8>,
    }

    impl Manifest<'_> {
        fn add(&mut self, level: u8, number: u64) {
            let added = vec![(level, table(number, b"a", b"k"))];
            self.write(&VersionEdit { added, ..VersionEdit::default() });
        }

        fn write(&mut self, edit: &VersionEdit) {
            let from = self.bytes.len();
            write(&mut self.bytes, &encode(edit));
            self.view.manifest_appended(&self.path, &self.bytes[from..]);
        }
    }

    fn begin(view: &View, number: u64, reason: Reason) {
        let path = path(&format!("/db/{number:06}.sst"));
        let database = self::path("/db");
        view.table_begun(NewTable { database, family: "default", path: path.clone(), job: 1, reason });
        view.created(&view.take_begun(&path).unwrap(), &path, number);
    }

    #[test]
    fn every_table_of_an_open_database_is_counted() {
        let view = view();
        let manifest = |name: &str| {
            view.manifest_created(&path(name));
            Manifest { view: &view, path: path(name), bytes: Vec::new() }
        };
        manifest("/restored/MANIFEST-000001").add(3, 7);
        assert_eq!(view.level_counts(), LevelCounts::default(), "it is copied");
        view.database_opened(&path("/db"));
        let mut manifest = manifest("/db/MANIFEST-000001");
        begin(&view, 8, Reason::Flush);
        begin(&view, 9, Reason::Flush);
        begin(&view, 10, Reason::Other);
        manifest.add(0, 8);
        manifest.add(1, 9);
        manifest.add(0, 10);
        manifest.add(0, 11);
        let created = |created| LevelBytes { created, moved: 0 };
        // A table of these tests has a hundred bytes for each of its number; the one that nobody announced was not written here.
        let bytes = BTreeMap::from([(0, created(800 + 1_000)), (1, created(900))]);
        let counts = LevelCounts { right: 1, wrong: 1, unknown: 1, unheard: 1, moved: 0, bytes };
        assert_eq!(view.level_counts(), counts);
    }

    /// As the options of a database of ours are used for one on the host, or after ours was closed.
    #[test]
    fn what_the_listener_says_of_other_databases_is_passed_over() {
        let view = view();
        view.database_opened(&path("/db"));
        let table = |database: &str| {
            let path = path(&format!("{database}/000008.sst"));
            view.table_begun(NewTable {
                database: self::path(database),
                family: "default",
                path: path.clone(),
                job: 1,
                reason: Reason::Flush,
            });
            let running = Running { column_family: 0, output_level: 0, inputs: Vec::new(), id: None };
            view.job_begun(database, 1, "default", running);
            (view.take_begun(&path).is_some(), view.running(&self::path(database)).len())
        };
        assert_eq!((table("/db"), table("/host/db")), ((true, 1), (false, 0)));
        view.database_closed(&path("/db"));
        assert_eq!(table("/db"), (false, 0));
    }

    #[test]
    fn a_manifest_that_repeats_a_large_database_tells_nothing_new() {
        const TABLES: u64 = 20_000;
        let view = view();
        view.database_opened(&path("/db"));
        let mut edit = VersionEdit {
            added: (8..8 + TABLES).map(|it| (6, table(it, b"a", b"k"))).collect(),
            ..VersionEdit::default()
        };
        let manifest = |name: &str| {
            view.manifest_created(&path(name));
            Manifest { view: &view, path: path(name), bytes: Vec::new() }
        };
        manifest("/db/MANIFEST-000001").write(&edit);
        let mut counts = view.level_counts();
        assert_eq!((counts.unheard, counts.moved), (TABLES, 0));
        let tags = zonda_files::FileTags::of(role_of(&path("/db/CURRENT")).kind());
        view.store.make_directory(&path("/db")).unwrap();
        let mut file = view.store.create(&path("/db/CURRENT"), tags).unwrap();
        file.append(b"MANIFEST-000001\n").unwrap();
        file.close().unwrap();
        view.renamed(&path("/db/CURRENT.tmp"), &path("/db/CURRENT"));
        // As `DB::Open` does.
        let mut repeated = manifest("/db/MANIFEST-000002");
        repeated.write(&edit);
        assert_eq!(view.level_counts(), counts);
        // Half of them move, as after `CompactRange` with a change of levels.
        edit.added.truncate(10_000);
        edit.deleted = edit.added.iter().map(|(level, table)| (*level, table.number)).collect();
        let bytes = edit
            .added
            .iter_mut()
            .map(|(level, table)| {
                *level = 5;
                table.size_bytes
            })
            .sum();
        repeated.write(&edit);
        counts.moved = 10_000;
        counts.bytes.insert(5, LevelBytes { created: 0, moved: bytes });
        assert_eq!(view.level_counts(), counts);
    }

    #[test]
    fn a_manifest_that_cannot_be_followed_is_told_of_once() {
        let view = view();
        view.store.make_directory(&path("/db")).unwrap();
        for (name, bytes) in [("MANIFEST-000001", [99; 40].as_slice()), ("CURRENT", b"MANIFEST-000001\n")] {
            let tags = zonda_files::FileTags::of(role_of(&path(name)).kind());
            let mut file = view.store.create(&path("/db").join(name).unwrap(), tags).unwrap();
            file.append(bytes).unwrap();
            file.close().unwrap();
        }
        view.database_opened(&path("/db"));
        assert_eq!(view.manifests_not_followed(), 1, "of an earlier life");
        view.manifest_created(&path("/db/MANIFEST-000002"));
        let mut manifest = Manifest { view: &view, path: path("/db/MANIFEST-000002"), bytes: Vec::new() };
        manifest.add(1, 7);
        assert_eq!(view.manifests_not_followed(), 1);
        for _ in 0..2 {
            view.manifest_appended(&manifest.path, &[99; 40]);
            assert_eq!(view.manifests_not_followed(), 2);
        }
        view.store.remove(&path("/db/MANIFEST-000001")).unwrap();
        view.manifest_reopened(&path("/db/MANIFEST-000001"));
        assert_eq!(view.manifests_not_followed(), 3, "it is not there");
    }

    #[test]
    fn copies_of_manifests_are_not_kept_in_memory() {
        let view = view();
        view.store.make_directory(&path("/checkpoint")).unwrap();
        view.manifest_created(&path("/checkpoint/MANIFEST-000001"));
        let mut copy = Manifest { view: &view, path: path("/checkpoint/MANIFEST-000001"), bytes: Vec::new() };
        copy.add(3, 7);
        for (name, bytes) in [("MANIFEST-000001", copy.bytes.as_slice()), ("CURRENT", b"MANIFEST-000001\n")] {
            let tags = zonda_files::FileTags::of(role_of(&path(name)).kind());
            let mut file = view.store.create(&path("/checkpoint").join(name).unwrap(), tags).unwrap();
            file.append(bytes).unwrap();
            file.close().unwrap();
        }
        view.renamed(&path("/checkpoint/CURRENT.tmp"), &path("/checkpoint/CURRENT"));
        view.manifest_reopened(&path("/checkpoint/MANIFEST-000001"));
        assert!(view.state.lock().directories.is_empty());
        let level = view.with_shape(&path("/checkpoint"), |shape| shape.table(7).map(|(level, _)| level));
        assert_eq!(level, Some(Some(3)), "its files say it");
        view.database_opened(&path("/checkpoint"));
        assert_eq!(view.state.lock().directories.len(), 1);
    }

    #[test]
    fn tables_of_jobs_that_failed_are_forgotten() {
        let view = view();
        view.database_opened(&path("/db"));
        begin(&view, 8, Reason::Flush);
        begin(&view, 9, Reason::Flush);
        // As with `db_paths`.
        let elsewhere = path("/d2/000010.sst");
        let (database, reason) = (path("/db"), Reason::Flush);
        view.table_begun(NewTable { database, family: "default", path: elsewhere.clone(), job: 1, reason });
        view.created(&view.take_begun(&elsewhere).unwrap(), &elsewhere, 10);
        view.removed(&path("/db/000008.sst"));
        view.removed(&path("/db/000010.sst"));
        assert_eq!(view.unnamed(), 2, "of another path, that is another table");
        view.removed(&elsewhere);
        view.renamed(&path("/db/000009.sst"), &path("/db/000009.sst.trash"));
        assert_eq!(view.unnamed(), 0);
    }
}
