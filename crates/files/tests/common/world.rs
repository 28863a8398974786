//! A store, a model of it, and a power switch.

use std::collections::BTreeMap;

use zonda_device::{CutAt, MemDevice};
use zonda_files::lsm::{Job, JobId, JobKind, KeyOrder, KeyRange, TableHint, VersionEdit};
use zonda_files::policy::Rule;
use zonda_files::{
    FileError, FileKind, FilePath, FileReader, FileStore, FileStoreOptions, FileTags, FileWriter, Lifetime, Placement,
    SplitUsage, StoreId,
};
use zonda_rt::Rng;

use super::switch::Switch;
use super::{geometry, options, path, split};

/// What happened over all seeds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cuts: u64,
    /// Those in the finish of a zone or subzone.
    pub(crate) cuts_in_finishes: u64,
    pub(crate) no_space: u64,
    pub(crate) copied_bytes: u64,
    /// Of logs, written to blocks.
    pub(crate) spilled_bytes: u64,
    pub(crate) moved_while_open: u64,
    /// Writers that went on in a file that held something.
    pub(crate) gone_on: u64,
    pub(crate) steps: u64,
    /// Tables that were placed beside those that they overlap, and beside neighbours.
    pub(crate) placed_by_keys: u64,
    pub(crate) held_bytes_most: u64,
    /// What was done with subzones.
    pub(crate) split: SplitUsage,
}

impl Tally {
    fn note_allocations(&mut self, store: &FileStore) {
        self.spilled_bytes += store.usage().blocks.map_or(0, |blocks| blocks.spilled_bytes);
        let by_keys = |rule| matches!(rule, Rule::Overlap | Rule::NearKeys | Rule::NewKeys | Rule::NoRoom);
        let counts = store.allocations().into_iter().filter(|(rule, ..)| by_keys(*rule)).map(|(.., count)| count);
        self.placed_by_keys += counts.sum::<u64>();
        let Some(split) = store.split_usage() else { return };
        self.split.tables += split.tables;
        self.split.pressed += split.pressed;
        self.split.overflowing += split.overflowing;
        self.split.splits += split.splits;
        self.split.finishes += split.finishes;
        self.split.merges += split.merges;
        self.split.joins += split.joins;
    }
}

/// A file in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Modelled {
    /// All bytes that were appended.
    bytes: Vec<u8>,
    /// How many of them must survive a cut.
    synced: usize,
    /// What it was before it was truncated, each time since the last sync: a cut may bring that back.
    older: Vec<Vec<u8>>,
}

impl Modelled {
    fn of(bytes: Vec<u8>) -> Self {
        Self { synced: bytes.len(), bytes, older: Vec::new() }
    }

    fn allows(&self, bytes: &[u8]) -> bool {
        let mut versions = self.older.iter().chain([&self.bytes]);
        bytes.len() >= self.synced && versions.any(|version| version.starts_with(bytes))
    }
}

/// Names that a cut may leave: the names after each change since the last that is surely durable.
type Names = BTreeMap<FilePath, u64>;

pub(crate) struct World {
    seed: u64,
    rng: Rng,
    switch: Switch,
    options: FileStoreOptions,
    store: FileStore,
    names: Names,
    /// Older states of the names that a cut may bring back, newest last; `names` is always possible.
    earlier: Vec<Names>,
    files: BTreeMap<u64, Modelled>,
    next: u64,
    writers: Vec<(u64, FileWriter)>,
    readers: Vec<(u64, FileReader)>,
    job: Option<JobId>,
    /// On a device that splits zones.
    splits: bool,
}

/// Soon, so that mounts are cut too, or late, so that devices fill up. Where subzones are finished, as often in one of the finishes.
fn next_cut(rng: &mut Rng, splits: bool) -> CutAt {
    if splits && rng.below(2) == 0 {
        return CutAt::Label { label: "finish", nth: 1 + rng.below(60) };
    }
    let longest = [60, 400, 4_000][usize::try_from(rng.below(3)).unwrap()];
    CutAt::Change(1 + rng.below(longest))
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let active = [3, 4, 6, 14][usize::try_from(seed % 4).unwrap()];
        Self::on(seed, Switch::zones(MemDevice::new(geometry(active)).unwrap()), options(seed / 4))
    }

    /// On a device that splits zones.
    pub(crate) fn on_split_zones(seed: u64) -> Self {
        Self::on(seed, Switch::split_zones(seed), split::options(seed))
    }

    /// On a conventional drive.
    pub(crate) fn on_blocks(seed: u64, placement: Placement) -> Self {
        // Segments are emptied whenever one is not free.
        let options = FileStoreOptions { clean_below_free_percent: 90, streams: seed.is_multiple_of(2), ..options(0) };
        Self::on(seed, Switch::blocks(placement), options)
    }

    fn on(seed: u64, switch: Switch, options: FileStoreOptions) -> Self {
        let mut rng = Rng::seeded(seed);
        let splits = matches!(switch, Switch::SplitZones(..));
        let store = switch.format(StoreId(seed.into()), options.clone()).unwrap();
        store.sync_names().unwrap();
        switch.arm(Some(next_cut(&mut rng, splits)));
        Self {
            seed,
            rng,
            switch,
            options,
            store,
            names: Names::new(),
            earlier: Vec::new(),
            files: BTreeMap::new(),
            next: 0,
            writers: Vec::new(),
            readers: Vec::new(),
            job: None,
            splits,
        }
    }

    pub(crate) fn run(mut self, steps: u32, tally: &mut Tally) {
        for _ in 0..steps {
            tally.steps += 1;
            if tally.steps.is_multiple_of(8) {
                tally.held_bytes_most = tally.held_bytes_most.max(self.store.usage().held_bytes);
            }
            match self.step(tally) {
                Ok(()) => {}
                Err(FileError::NoSpace { .. }) => tally.no_space += 1,
                Err(FileError::NotFound { .. } | FileError::Exists { .. } | FileError::Busy { .. }) => {}
                Err(error) if self.switch.is_off() => {
                    let _expected = error;
                    tally.cuts += 1;
                    tally.cuts_in_finishes += u64::from(self.switch.cut_label() == Some("finish"));
                    tally.note_allocations(&self.store);
                    self.remount();
                }
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        }
        tally.copied_bytes += self.store.usage().copied_bytes;
        tally.note_allocations(&self.store);
        self.switch.arm(None);
        self.settle();
    }

    fn any_name(&mut self) -> FilePath {
        path(&format!("/{}", self.rng.below(if self.splits { 70 } else { 40 })))
    }

    fn step(&mut self, tally: &mut Tally) -> Result<(), FileError> {
        match self.rng.below(if self.splits { 26 } else { 23 }) {
            0..=2 => self.unrefused(Self::create),
            3..=8 => self.append(),
            9..=10 => self.sync(),
            11 => self.close(),
            12 => self.unrefused(Self::remove),
            13 => self.append(),
            14 => self.unrefused(Self::rename),
            15 => self.unrefused(Self::link),
            16 => self.unrefused(Self::sync_names),
            17 => self.unrefused(Self::open),
            18 => self.unrefused(Self::read),
            19 => self.unrefused(Self::describe),
            20 => {
                self.follow();
                Ok(())
            }
            21 => self.unrefused(|world| world.go_on(tally)),
            22 => self.unrefused(|world| world.clean(tally)),
            _ => self.put_tables(),
        }
    }

    /// Does what is never refused for want of space: a delete above all (I9), and all else that adds no bytes.
    fn unrefused(&mut self, step: impl FnOnce(&mut Self) -> Result<(), FileError>) -> Result<(), FileError> {
        step(self).inspect_err(|error| assert!(!error.is_no_space(), "seed {}: refused: {error}", self.seed))
    }

    /// Changes the names here and remembers what they were.
    fn rename_model(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names.clone();
        change(&mut names);
        self.earlier.push(std::mem::replace(&mut self.names, names));
    }

    fn create(&mut self) -> Result<(), FileError> {
        if self.writers.len() >= 4 {
            return Ok(());
        }
        let name = self.any_name();
        let kinds = [FileKind::Log, FileKind::Meta, FileKind::Flushed, FileKind::Data, FileKind::Data];
        let lifetimes = [Lifetime::Short, Lifetime::Medium, Lifetime::Long, Lifetime::Extreme];
        let tags = FileTags::of(kinds[usize::try_from(self.rng.below(5)).unwrap()]);
        let lifetime = lifetimes[usize::try_from(self.rng.below(4)).unwrap()];
        let mut tags = tags.with_lifetime(lifetime);
        if self.splits && !tags.kind.is_chunked() {
            tags = tags.with_level(self.any_level());
        }
        self.create_with(name, tags)
    }

    fn create_with(&mut self, name: FilePath, tags: FileTags) -> Result<(), FileError> {
        let writer = self.store.create(&name, tags)?;
        let id = self.next;
        self.next += 1;
        self.files.insert(id, Modelled::of(Vec::new()));
        self.rename_model(|names| {
            names.insert(name, id);
        });
        self.writers.push((id, writer));
        Ok(())
    }

    /// Tables as compactions write them: side by side and closed together, while the inputs of others go. Most leave a part of their
    /// subzones empty, which are finished then; a split zone with an empty subzone among full ones gives its token to who finds none.
    fn put_tables(&mut self) -> Result<(), FileError> {
        let first = self.writers.len();
        let mut ended = self.write_tables();
        while self.writers.len() > first {
            ended = ended.and(self.close_at(first));
        }
        ended
    }

    fn write_tables(&mut self) -> Result<(), FileError> {
        let lifetimes = [Lifetime::Medium, Lifetime::Long, Lifetime::Extreme];
        let lifetime = lifetimes[usize::try_from(self.rng.below(3)).unwrap()];
        let tags = FileTags::of(FileKind::Data).with_lifetime(lifetime).with_level(self.any_level());
        for _ in 0..1 + self.rng.below(5) {
            let name = self.any_name();
            match self.create_with(name, tags) {
                Err(FileError::Exists { .. }) => continue,
                created => created?,
            }
            let count = 1 + self.rng.below(60_000);
            self.append_to(self.writers.len() - 1, count)?;
        }
        for _ in 0..self.rng.below(8) {
            match self.unrefused(Self::remove) {
                Err(FileError::NotFound { .. }) => {}
                removed => removed?,
            }
        }
        self.unrefused(Self::sync_names)
    }

    /// At the end of a file that was closed, perhaps by a cut. It has one writer at a time.
    fn go_on(&mut self, tally: &mut Tally) -> Result<(), FileError> {
        if self.writers.len() >= 4 {
            return Ok(());
        }
        let name = self.any_name();
        let writer = self.store.append_to(&name)?;
        let id = self.names[&name];
        assert!(self.writers.iter().all(|(other, _)| *other != id), "seed {}: two writers of file {id}", self.seed);
        assert_eq!(writer.size_bytes(), self.files[&id].bytes.len() as u64, "seed {}: file {id}", self.seed);
        tally.gone_on += u64::from(writer.size_bytes() > 0);
        self.writers.push((id, writer));
        Ok(())
    }

    fn any_range(&mut self) -> KeyRange {
        let from = self.rng.below(90);
        let to = from + self.rng.below(10);
        KeyRange::new(format!("{from:02}"), format!("{to:02}"))
    }

    fn any_level(&mut self) -> u8 {
        let levels = if self.splits { 6 } else { 3 };
        u8::try_from(self.rng.below(levels)).unwrap()
    }

    /// Says of an open file that it is a table.
    fn describe(&mut self) -> Result<(), FileError> {
        let Some(at) = self.pick(self.writers.len()) else { return Ok(()) };
        let range = self.any_range();
        let tree = self.store.tree(&FilePath::root(), 0, KeyOrder::bytewise());
        let level = self.any_level();
        let range = (self.rng.below(4) > 0).then_some(range);
        self.writers[at].1.describe(TableHint { tree, job: self.job, level, range })
    }

    /// Jobs begin and end, and versions change, with files that may be there or not.
    fn follow(&mut self) {
        let tree = self.store.tree(&FilePath::root(), 0, KeyOrder::bytewise());
        let inputs = (0..3).map(|_| self.any_name()).collect();
        match self.job.take() {
            Some(job) => self.store.end_job(job),
            None => {
                let job = Job { tree, kind: JobKind::Compaction, output_level: Some(1), inputs };
                self.job = Some(self.store.begin_job(&job));
            }
        }
        let level = self.any_level();
        let added = vec![(self.any_name(), level, self.any_range()), (self.any_name(), level, self.any_range())];
        let removed = vec![self.any_name()];
        self.store.apply_edit(tree, &VersionEdit { removed, added });
    }

    fn pick(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| usize::try_from(self.rng.below(count as u64)).unwrap())
    }

    fn append(&mut self) -> Result<(), FileError> {
        let Some(at) = self.pick(self.writers.len()) else { return Ok(()) };
        let count = match self.rng.below(4) {
            0 => self.rng.below(100),
            1 => self.rng.below(5_000),
            _ => self.rng.below(60_000),
        };
        self.append_to(at, count)
    }

    fn append_to(&mut self, at: usize, count: u64) -> Result<(), FileError> {
        let bytes: Vec<u8> = (0..count).map(|_| u8::try_from(self.rng.below(256)).unwrap()).collect();
        let (id, writer) = &mut self.writers[at];
        let modelled = self.files.get_mut(id).unwrap();
        if self.rng.below(12) == 0 {
            let size = self.rng.below(modelled.bytes.len() as u64 + 1);
            modelled.older.push(modelled.bytes.clone());
            modelled.synced = modelled.synced.min(usize::try_from(size).unwrap());
            writer.truncate(size)?;
            modelled.bytes.truncate(usize::try_from(size).unwrap());
        }
        modelled.bytes.extend_from_slice(&bytes);
        let outcome = writer.append(&bytes);
        modelled.bytes.truncate(usize::try_from(writer.size_bytes()).unwrap());
        outcome
    }

    /// Of the bytes of one file, and of all changes of names before it: its own, and a removal of another.
    fn sync(&mut self) -> Result<(), FileError> {
        let Some(at) = self.pick(self.writers.len()) else { return Ok(()) };
        let (id, writer) = &mut self.writers[at];
        writer.sync()?;
        let modelled = self.files.get_mut(id).unwrap();
        *modelled = Modelled::of(std::mem::take(&mut modelled.bytes));
        self.earlier.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<(), FileError> {
        let Some(at) = self.pick(self.writers.len()) else { return Ok(()) };
        self.close_at(at)
    }

    fn close_at(&mut self, at: usize) -> Result<(), FileError> {
        let (id, writer) = self.writers.swap_remove(at);
        let closed = writer.close();
        if matches!(closed, Err(FileError::NoSpace { .. })) {
            self.lose_tail(id);
        }
        closed
    }

    /// What could not be written when its writer was given up is gone.
    fn lose_tail(&mut self, id: u64) {
        let named = self.names.iter().find(|(_, named)| **named == id);
        let of_name = named.map(|(name, _)| self.store.info(name).unwrap().size_bytes);
        let of_reader = self.readers.iter().find(|(read, _)| *read == id).map(|(_, reader)| reader.size_bytes());
        if let Some(size) = of_name.or(of_reader) {
            self.files.get_mut(&id).unwrap().bytes.truncate(usize::try_from(size).unwrap());
        }
    }

    fn remove(&mut self) -> Result<(), FileError> {
        let name = self.any_name();
        self.store.remove(&name)?;
        self.rename_model(|names| {
            names.remove(&name);
        });
        Ok(())
    }

    fn rename(&mut self) -> Result<(), FileError> {
        let (from, to) = (self.any_name(), self.any_name());
        self.store.rename(&from, &to)?;
        self.rename_model(|names| {
            if names.get(&from) != names.get(&to) {
                let id = names.remove(&from).unwrap();
                names.insert(to, id);
            }
        });
        Ok(())
    }

    fn link(&mut self) -> Result<(), FileError> {
        let (from, to) = (self.any_name(), self.any_name());
        self.store.link(&from, &to)?;
        self.rename_model(|names| {
            let id = names[&from];
            names.insert(to, id);
        });
        Ok(())
    }

    /// With the names, the bytes of files that are closed.
    fn sync_names(&mut self) -> Result<(), FileError> {
        self.store.sync_names()?;
        self.earlier.clear();
        let open: Vec<u64> = self.writers.iter().map(|(id, _)| *id).collect();
        for (_, modelled) in self.files.iter_mut().filter(|(id, _)| !open.contains(id)) {
            *modelled = Modelled::of(std::mem::take(&mut modelled.bytes));
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), FileError> {
        if self.readers.len() >= 3 {
            self.readers.swap_remove(0);
        }
        let name = self.any_name();
        let reader = self.store.open(&name)?;
        self.readers.push((self.names[&name], reader));
        Ok(())
    }

    /// Any part of an open file, whether it still has a name or not.
    fn read(&mut self) -> Result<(), FileError> {
        let Some(at) = self.pick(self.readers.len()) else { return Ok(()) };
        let id = self.readers[at].0;
        let expected = self.files[&id].bytes.clone();
        let offset = self.rng.below(expected.len() as u64 + 2);
        let mut into = vec![0; usize::try_from(self.rng.below(40_000)).unwrap()];
        let count = self.readers[at].1.read_at(offset, &mut into)?;
        let from = usize::try_from(offset).unwrap().min(expected.len());
        let to = (from + into.len()).min(expected.len());
        assert!(into[..count] == expected[from..to], "seed {}: file {id} at {offset}", self.seed);
        Ok(())
    }

    fn clean(&mut self, tally: &mut Tally) -> Result<(), FileError> {
        let cleaned = self.store.clean_step()?;
        let moved = cleaned.is_some_and(|cleaned| cleaned.bytes_copied > 0);
        tally.moved_while_open += u64::from(moved && !self.readers.is_empty());
        Ok(())
    }

    /// After a cut, which may come again while the store is mounted.
    fn remount(&mut self) {
        self.writers.clear();
        self.readers.clear();
        self.job = None;
        self.store = loop {
            self.switch = self.switch.reopened(&mut self.rng);
            self.switch.arm(Some(next_cut(&mut self.rng, self.splits)));
            let Some(mounted) = self.switch.mount(self.options.clone()) else { continue };
            match mounted {
                // It went in the mount, at what a mount does without: a reset.
                Ok(_) if self.switch.is_off() => {}
                Ok((store, report)) => {
                    assert_eq!(report.damage(), None, "seed {}: {report:?}", self.seed);
                    break store;
                }
                Err(error) => assert!(self.switch.is_off(), "seed {}: {error}", self.seed),
            }
        };
        self.adopt();
    }

    /// The store must be in one of the states that the model allows; the model is then in it too.
    fn adopt(&mut self) {
        let listed = self.store.list(&FilePath::root()).unwrap();
        let mut candidates = std::mem::take(&mut self.earlier);
        candidates.push(std::mem::take(&mut self.names));
        let fits = |names: &&Names| names.keys().eq(listed.iter());
        let matching: Vec<&Names> = candidates.iter().rev().filter(fits).collect();
        assert!(!matching.is_empty(), "seed {}: names {listed:?} were never so since the last sync", self.seed);
        let found: BTreeMap<FilePath, Vec<u8>> =
            listed.iter().map(|name| (name.clone(), self.contents(name))).collect();
        let right = matching.iter().find(|names| names.iter().all(|(name, id)| self.files[id].allows(&found[name])));
        let right = right.unwrap_or_else(|| {
            panic!(
                "seed {}: {:#?}",
                self.seed,
                matching.iter().map(|names| self.difference(names, &found)).collect::<Vec<_>>()
            )
        });
        self.names = (*right).clone();
        for (name, id) in &self.names {
            self.files.insert(*id, Modelled::of(found[name].clone()));
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.store.check().unwrap().findings, [], "seed {}", self.seed);
    }

    fn difference(&self, names: &Names, found: &BTreeMap<FilePath, Vec<u8>>) -> String {
        let wrong = names.iter().filter(|(name, id)| !self.files[id].allows(&found[*name]));
        let describe = |(name, id): (&FilePath, &u64)| {
            let (modelled, bytes) = (&self.files[id], &found[name]);
            let same = modelled.bytes.iter().zip(bytes).take_while(|(one, other)| one == other).count();
            let (len, synced, older) = (modelled.bytes.len(), modelled.synced, modelled.older.len());
            format!("{name} has {} bytes, {same} as appended of {len}, {synced} synced, {older} older", bytes.len())
        };
        wrong.map(describe).collect::<Vec<_>>().join("; ")
    }

    fn contents(&self, name: &FilePath) -> Vec<u8> {
        let reader = self.store.open(name).unwrap();
        let mut bytes = vec![0; usize::try_from(reader.size_bytes()).unwrap()];
        match reader.read_at(0, &mut bytes) {
            Ok(count) => assert_eq!(count, bytes.len()),
            // The power went: look again later.
            Err(error) => panic!("seed {}: {name}: {error}", self.seed),
        }
        bytes
    }

    /// With the power on: everything as the model says, the check clean, and again after a mount, even of what a cut leaves.
    fn settle(mut self) {
        if self.switch.is_off() {
            // It went at what nobody was told of: a reset.
            self.remount();
            self.switch.arm(None);
        }
        self.readers.clear();
        for (id, writer) in std::mem::take(&mut self.writers) {
            match writer.close() {
                Ok(()) => {}
                Err(FileError::NoSpace { .. }) => self.lose_tail(id),
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        }
        self.unrefused(Self::sync_names).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        assert_eq!(self.store.usage().held_bytes, 0, "seed {}: nobody writes", self.seed);
        self.compare();
        self.switch = self.switch.reopened(&mut self.rng);
        let (store, report) = self.switch.mount(self.options.clone()).unwrap().unwrap();
        assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "seed {}: {report:?}", self.seed);
        self.store = store;
        self.compare();
    }

    /// The store must be as the model is, with nothing left to choose.
    fn compare(&self) {
        let listed = self.store.list(&FilePath::root()).unwrap();
        assert!(self.names.keys().eq(&listed), "seed {}: {listed:?}, not {:?}", self.seed, self.names);
        self.check();
        for (name, id) in &self.names {
            assert!(self.contents(name) == self.files[id].bytes, "seed {}: {name}", self.seed);
        }
    }
}
