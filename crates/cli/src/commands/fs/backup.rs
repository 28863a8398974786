//! `zonda fs backup`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zonda_files::{FileKind, FilePath, FileStore, FileTags, Lifetime, MountReport};

use super::{StoreArg, host, is_damage, is_stale, parse_path, verify, walk};
use crate::bytes::escape;
use crate::exit::{self, Exit};
use crate::output::Output;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zonda fs backup disk.zoned db-2026-11-22            every file, as files of the host
  zonda fs backup zbd:/dev/nvme0n1 copy --json
  zonda fs backup disk.zoned users-2026-11-22 --from /users       one database of several

The directory must not exist. Its file `zonda-files.json` keeps what a host's files have no room for, kinds, lifetimes, levels, and what
`restore` compares them with, lengths and checksums. Second names are hard links on the host, too.
Every file is compared with its checksums first. Where a program that uses the store deletes or moves what is being copied, what
was not copied yet is copied from a later moment, and what is gone by then is taken out again: the copy is of one moment. A backup that
did not end holds the file `zonda-files.unfinished`, and is not restored. Where the store itself has one of these two names in the
directory that is copied, nothing is.
This is for stores of files. One of keys, whose log may be on a device of its own, is copied by `zonda backup`, with --log-on then.";

/// The file that says what the others are.
pub(super) const CONTENTS: &str = "zonda-files.json";
/// The file that is there while a backup is being made.
pub(super) const UNFINISHED: &str = "zonda-files.unfinished";

/// Moments of the store that are tried. Each goes on where the last one ended.
const MOMENTS_MAX: u32 = 1000;
/// Those in a row that may copy nothing: then it is damage that is in the way.
const IDLE_MOMENTS_MAX: u32 = 10;
/// Those that may be copied whole and yet be of two moments.
const MIXED_MOMENTS_MAX: u32 = 30;
const TOO_FAST: &str = "whoever uses the store commits faster than it can be looked at, so that no copy was of one moment; copy a checkpoint of the database, or stop it for a while";

/// One name of the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The name.
    pub(super) path: String,
    /// Whether it is a directory.
    #[serde(default)]
    pub(super) directory: bool,
    /// The name under which the same file was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) same_as: Option<String>,
    /// What it is.
    #[serde(default)]
    pub(super) kind: Option<String>,
    /// Expected lifetime.
    #[serde(default)]
    pub(super) lifetime: Option<String>,
    /// Level of a table.
    #[serde(default)]
    pub(super) level: Option<u8>,
    /// Length of the file, where it was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    /// CRC-32C of the file, where it was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) crc32c: Option<u32>,
    /// Why the file is not in the backup, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) damaged: Option<String>,
}

impl Entry {
    /// A file or directory of which nothing else is known.
    pub(super) fn new(path: String, directory: bool) -> Self {
        Self { path, directory, ..Self::default() }
    }

    /// The tags that it says; what it does not say, by the name.
    pub(super) fn tags(&self, name: &str) -> FileTags {
        let kinds = [FileKind::Log, FileKind::Meta, FileKind::Flushed, FileKind::Data];
        let lifetimes =
            [Lifetime::NotSet, Lifetime::None, Lifetime::Short, Lifetime::Medium, Lifetime::Long, Lifetime::Extreme];
        let mut tags = host::tags_of(name);
        if let Some(kind) = kinds.into_iter().find(|kind| self.kind.as_deref() == Some(kind.name())) {
            tags.kind = kind;
        }
        if let Some(lifetime) = lifetimes.into_iter().find(|it| self.lifetime.as_deref() == Some(it.name())) {
            tags.lifetime = lifetime;
        }
        FileTags { level: self.level, ..tags }
    }
}

/// Copies every file into a directory of the host
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreArg,
    /// Directory of the copy, which must not exist
    to: PathBuf,
    /// Copy only what is in this directory of the store; names are told as seen from it
    #[arg(long, value_name = "PATH", default_value = "/")]
    from: String,
    /// Leave out files that cannot be read or do not have their checksums; says which these are, and exits with 3 if there are any
    #[arg(long)]
    skip_damaged: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// # Errors
    /// Those of mounting, reading and writing, and damage.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let from = parse_path(&self.from)?;
        ensure!(!self.to.exists(), "{} exists", self.to.display());
        let mut copy = Copy::new(from, &self.to, progress::of_bytes(None));
        copy.skips_damaged = self.skip_damaged;
        let mut damage = None;
        let mount = || {
            let (store, report) = self.store.mount_told()?;
            damage = report.journal_damage();
            Ok((store, report))
        };
        let (entries, moments) =
            copy.one_moment(mount).with_context(|| format!("cannot back up {}", self.store.uri))?;
        self.store.tell(damage);
        copy.second_names(&entries)?;
        let contents = serde_json::to_vec_pretty(&entries)?;
        write_durably(&self.to.join(CONTENTS), &mut |out| Ok(out.write_all(&contents)?))?;
        copy.sync_directories(&entries)?;
        let unfinished = self.to.join(UNFINISHED);
        fs::remove_file(&unfinished).with_context(|| format!("cannot remove {}", unfinished.display()))?;
        let damaged: Vec<&Entry> = entries.iter().filter(|entry| entry.damaged.is_some()).collect();
        let names = entries.len() - damaged.len();
        exit::printed(self.print(&copy, (names, moments), &damaged).map_err(Into::into))?;
        Ok(if damaged.is_empty() { Exit::Done } else { Exit::Damaged })
    }

    fn print(&self, copy: &Copy<'_>, (names, moments): (usize, u32), damaged: &[&Entry]) -> io::Result<()> {
        let (files, bytes, mut out) = (copy.files.len(), copy.bytes(), Output::new());
        if self.json {
            out.json(
                &json!({ "names": names, "files": files, "bytes": bytes, "moments": moments, "damaged": damaged }),
            )?;
            return out.finish();
        }
        for entry in damaged {
            let told = format!("left out: {}: {}", entry.path, entry.damaged.as_deref().unwrap_or_default());
            out.line(escape(told.as_bytes()))?;
        }
        out.line(format!("{names} names, {files} files, {}", indicatif::HumanBytes(bytes)))?;
        out.finish()
    }
}

/// A copy on its way.
struct Copy<'a> {
    /// The directory of the store that is copied.
    from: FilePath,
    to: &'a Path,
    /// Whether that directory was made.
    has_begun: bool,
    bar: ProgressBar,
    /// What is on the host, by the number of the file.
    files: BTreeMap<u64, Copied>,
    /// Files written so far, those included that were taken out again.
    written: u64,
    /// Whether what is damaged is left out.
    skips_damaged: bool,
}

/// A file that was copied.
#[derive(Debug, PartialEq, Eq)]
struct Copied {
    path: FilePath,
    bytes: u64,
    crc32c: u32,
}

impl<'a> Copy<'a> {
    fn new(from: FilePath, to: &'a Path, bar: ProgressBar) -> Self {
        Self { from, to, has_begun: false, bar, files: BTreeMap::new(), written: 0, skips_damaged: false }
    }

    fn bytes(&self) -> u64 {
        self.files.values().map(|copied| copied.bytes).sum()
    }

    /// The name as it is told: as seen from where the copy begins.
    fn told<'p>(&self, path: &'p FilePath) -> &'p str {
        path.below(&self.from).expect("only what is below is copied")
    }

    fn on_host(&self, path: &FilePath) -> PathBuf {
        self.to.join(self.told(path).trim_start_matches('/'))
    }

    /// Copies moment after moment until one is whole; how many there were.
    fn one_moment(
        &mut self,
        mut mount: impl FnMut() -> anyhow::Result<(FileStore, MountReport)>,
    ) -> anyhow::Result<(Vec<Entry>, u32)> {
        let (mut idle, mut mixed) = (0, 0);
        for moment in 1..=MOMENTS_MAX {
            let before = self.written;
            let (store, report) = mount()?;
            if report.zones_unknown > 0 {
                bail!(report.warning().unwrap_or_default());
            }
            match self.all(&store) {
                Err(error) if is_stale(&error) && idle < IDLE_MOMENTS_MAX => {
                    idle = if self.written > before { 0 } else { idle + 1 };
                }
                // Whole, but what a MANIFEST says may be of a later moment than the names.
                Ok(_) if report.moments_differ => {
                    mixed += 1;
                    ensure!(mixed < MIXED_MOMENTS_MAX, TOO_FAST);
                }
                entries => return Ok((entries?, moment)),
            }
        }
        bail!("the store changed faster than it could be copied, at {MOMENTS_MAX} moments")
    }

    /// Makes it a copy of what a mount shows: a file that was copied, and has its name and size still, is not copied again.
    fn all(&mut self, store: &FileStore) -> anyhow::Result<Vec<Entry>> {
        let paths = walk(store, &self.from)?;
        self.check_names(&paths)?;
        self.begin()?;
        self.drop_changed(store)?;
        let mut copied_now = BTreeMap::new();
        paths.iter().map(|path| self.entry(store, path, &mut copied_now)).collect()
    }

    /// Refuses what would lie where the backup's own files do.
    fn check_names(&self, paths: &[FilePath]) -> anyhow::Result<()> {
        let own = [CONTENTS, UNFINISHED];
        let taken = paths.iter().find(|path| own.contains(&self.told(path).trim_start_matches('/')));
        taken.map_or(Ok(()), |path| {
            bail!("{path} has the name of a file of the backup itself: copy it to another, and remove it")
        })
    }

    /// Makes the directory, once there is something to copy: a name that was mistyped leaves nothing behind.
    fn begin(&mut self) -> anyhow::Result<()> {
        if !self.has_begun {
            fs::create_dir(self.to).with_context(|| format!("cannot make {}", self.to.display()))?;
            self.has_begun = true;
            write_durably(&self.to.join(UNFINISHED), &mut |_| Ok(()))?;
        }
        Ok(())
    }

    /// Takes what is not in the store any more, or not as it was copied, off the host; directories stay.
    fn drop_changed(&mut self, store: &FileStore) -> anyhow::Result<()> {
        let is_there = |file: u64, copied: &Copied| {
            store.info(&copied.path).is_ok_and(|info| info.file.0 == file && info.size_bytes == copied.bytes)
        };
        let changed: Vec<u64> =
            self.files.iter().filter(|(file, copied)| !is_there(**file, copied)).map(|(file, _)| *file).collect();
        for file in changed {
            let copied = self.files.remove(&file).expect("it was listed");
            fs::remove_file(self.on_host(&copied.path))?;
        }
        Ok(())
    }

    /// Copies a name; those of one file that come behind the first are only told of.
    fn entry(
        &mut self,
        store: &FileStore,
        path: &FilePath,
        copied_now: &mut BTreeMap<u64, String>,
    ) -> anyhow::Result<Entry> {
        let info = store.info(path)?;
        let mut entry = Entry::new(self.told(path).to_owned(), false);
        if info.is_directory {
            let on_host = self.on_host(path);
            fs::create_dir_all(&on_host).with_context(|| format!("cannot make {}", on_host.display()))?;
            return Ok(Entry { directory: true, ..entry });
        }
        if let Some(same_as) = copied_now.insert(info.file.0, entry.path.clone()) {
            copied_now.insert(info.file.0, same_as.clone());
            return Ok(Entry { same_as: Some(same_as), ..entry });
        }
        let skips_damaged = self.skips_damaged;
        let copied = match self.file(store, path, info.file.0) {
            Err(error) if skips_damaged && is_damage(&error) => {
                copied_now.remove(&info.file.0);
                return Ok(Entry { damaged: Some(format!("{error:#}")), ..entry });
            }
            copied => copied?,
        };
        (entry.bytes, entry.crc32c) = (Some(copied.bytes), Some(copied.crc32c));
        entry.kind = Some(info.tags.kind.name().to_owned());
        entry.lifetime = Some(info.tags.lifetime.name().to_owned());
        Ok(Entry { level: info.tags.level, ..entry })
    }

    /// Gives the files of the host the second names that they have in the store.
    fn second_names(&self, entries: &[Entry]) -> anyhow::Result<()> {
        for (entry, same_as) in entries.iter().filter_map(|entry| Some((entry, entry.same_as.as_ref()?))) {
            let [of, name] = [same_as, &entry.path].map(|path| self.to.join(path.trim_start_matches('/')));
            let linked = fs::hard_link(&of, &name).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err(error),
                // Not every file system of a host has links.
                _ => fs::copy(&of, &name).and_then(|_| File::open(&name)?.sync_all()),
            });
            linked.with_context(|| format!("cannot make {}", name.display()))?;
        }
        Ok(())
    }

    /// Makes the names of files durable, all before the mark that the backup has not ended goes.
    fn sync_directories(&self, entries: &[Entry]) -> anyhow::Result<()> {
        let made = entries.iter().filter(|entry| entry.directory).map(|entry| entry.path.trim_start_matches('/'));
        let above = fs::canonicalize(self.to)?.parent().map(Path::to_path_buf);
        let sync = |directory: &Path| File::open(directory).and_then(|opened| opened.sync_all());
        let cannot = |directory: &Path| format!("cannot flush {}", directory.display());
        for directory in made.map(|name| self.to.join(name)).chain([self.to.to_path_buf()]) {
            sync(&directory).with_context(|| cannot(&directory))?;
        }
        match above.map(|above| (sync(&above), above)) {
            // Names can be made in it, and it cannot be opened.
            Some((Err(error), _)) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Some((synced, above)) => synced.with_context(|| cannot(&above)),
            None => Ok(()),
        }
    }

    fn file(&mut self, store: &FileStore, path: &FilePath, file: u64) -> anyhow::Result<&Copied> {
        if self.files.get(&file).is_some_and(|copied| copied.path == *path) {
            return Ok(&self.files[&file]);
        }
        if let Some(elsewhere) = self.files.remove(&file) {
            fs::remove_file(self.on_host(&elsewhere.path))?;
        }
        verify(store, path)?;
        self.bar.set_message(path.as_str().to_owned());
        let (on_host, mut bytes, mut crc32c) = (self.on_host(path), 0, 0);
        write_durably(&on_host, &mut |out| {
            let mut summed = Summed { below: out, crc32c: 0, bar: &self.bar };
            bytes = host::copy_out(store, path, &mut summed)?;
            crc32c = summed.crc32c;
            Ok(())
        })?;
        self.written += 1;
        let copied = Copied { path: path.clone(), bytes, crc32c };
        Ok(self.files.entry(file).insert_entry(copied).into_mut())
    }
}

/// Sums up what goes through it, and shows how much that is.
pub(super) struct Summed<'a, W> {
    pub(super) below: W,
    pub(super) crc32c: u32,
    pub(super) bar: &'a ProgressBar,
}

impl<W: Write> Write for Summed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.below.write(bytes)?;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &bytes[..count]);
        self.bar.inc(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }
}

impl<R: io::Read> io::Read for Summed<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.below.read(into)?;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &into[..count]);
        self.bar.inc(count as u64);
        Ok(count)
    }
}

/// Makes a file of the host and waits until it is durable; if it cannot, there is none. One that is there already stays: an error.
fn write_durably(path: &Path, fill: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut out = BufWriter::new(file);
    let filled = fill(&mut out).and_then(|()| Ok(out.flush().and_then(|()| out.get_ref().sync_all())?));
    filled.with_context(|| format!("cannot write {}", path.display())).inspect_err(|_| {
        // What is to be told is why it could not be written.
        _ = fs::remove_file(path);
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use zonda_device::{Geometry, MemDevice, ZonedDevice};
    use zonda_files::{FileStoreOptions, StoreId};

    use super::*;

    fn path(name: &str) -> FilePath {
        FilePath::parse(name).unwrap()
    }

    fn put(store: &FileStore, name: &str, byte: u8) {
        let mut writer = store.create(&path(name), FileTags::of(FileKind::Data)).unwrap();
        writer.append(&vec![byte; 200_000]).unwrap();
        writer.close().unwrap();
        store.sync_names().unwrap();
    }

    fn options() -> FileStoreOptions {
        FileStoreOptions { clean_below_free_percent: 90, ..FileStoreOptions::default() }
    }

    /// A store, and the device that others may read beside it.
    fn live_store() -> (FileStore, Arc<dyn ZonedDevice>) {
        let device: Arc<dyn ZonedDevice> =
            Arc::new(MemDevice::new(Geometry::new(256 << 10, 32).with_limits(14, 14)).unwrap());
        (FileStore::format(Arc::clone(&device), StoreId(1), false, options()).unwrap(), device)
    }

    fn beside(device: &Arc<dyn ZonedDevice>) -> FileStore {
        FileStore::mount_read_only(Arc::clone(device), options()).unwrap().0
    }

    fn copy_to(to: &Path) -> Copy<'_> {
        // The directory is there.
        Copy { has_begun: true, ..Copy::new(FilePath::root(), to, ProgressBar::hidden()) }
    }

    fn names(directory: &Path) -> Vec<(String, u8)> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file());
        let mut names: Vec<_> = files.map(|file| (fs::read(file.path()).unwrap()[0], name(file))).collect();
        names.sort_by(|one, other| one.1.cmp(&other.1));
        names.into_iter().map(|(byte, name)| (name, byte)).collect()
    }

    #[test]
    fn a_stale_moment_is_followed_by_a_later_one() {
        let (live, device) = live_store();
        live.make_directory(&path("/d")).unwrap();
        ["/a", "/b", "/c", "/d/x", "/z"].iter().zip(1..).for_each(|(name, byte)| put(&live, name, byte));
        let directory = tempfile::tempdir().unwrap();
        let mut copy = copy_to(directory.path());

        copy.all(&beside(&device)).unwrap();
        // One goes, one is another file, one gets a second name, one another.
        live.remove(&path("/a")).unwrap();
        put(&live, "/b", 12);
        live.link(&path("/c"), &path("/e")).unwrap();
        live.rename(&path("/d/x"), &path("/d/y")).unwrap();
        let moment = beside(&device);
        put(&live, "/b", 22);
        while live.clean_step().unwrap().is_some() {}
        let error = copy.all(&moment).unwrap_err();
        assert!(is_stale(&error), "{error:?}");

        let entries = copy.all(&beside(&device)).unwrap();
        let told: Vec<_> = entries.iter().map(|entry| (entry.path.as_str(), entry.same_as.as_deref())).collect();
        assert_eq!(told, [("/b", None), ("/c", None), ("/d", None), ("/d/y", None), ("/e", Some("/c")), ("/z", None)]);
        let expected = [("b", 22), ("c", 3), ("z", 5)].map(|(name, byte)| (name.to_owned(), byte));
        assert_eq!(names(directory.path()), expected);
        assert_eq!(names(&directory.path().join("d")), [("y".to_owned(), 4)]);
        assert_eq!((copy.files.len(), copy.bytes()), (4, 800_000));
        copy.second_names(&entries).unwrap();
        assert_eq!(
            names(directory.path()),
            [("b", 22), ("c", 3), ("e", 3), ("z", 5)].map(|(name, byte)| (name.to_owned(), byte))
        );
    }

    #[test]
    fn moments_that_are_none_are_tried_again_but_not_for_ever() {
        let (live, device) = live_store();
        put(&live, "/a", 1);
        let directory = tempfile::tempdir().unwrap();
        let mut copy = copy_to(directory.path());
        let mounts = Cell::new(0);
        let mut copied = |told: &dyn Fn(u32) -> MountReport| {
            mounts.set(0);
            copy.one_moment(|| {
                mounts.set(mounts.get() + 1);
                Ok((beside(&device), told(mounts.get())))
            })
        };
        let mixed = MountReport { moments_differ: true, ..MountReport::default() };
        let (entries, moments) = copied(&|mount| if mount < 3 { mixed } else { MountReport::default() }).unwrap();
        assert_eq!((entries.len(), moments), (1, 3));
        let error = copied(&|_| mixed).unwrap_err();
        assert_eq!((error.to_string().as_str(), mounts.get()), (TOO_FAST, MIXED_MOMENTS_MAX));
        let error = copied(&|_| MountReport { zones_unknown: 1, ..MountReport::default() }).unwrap_err();
        assert!(error.to_string().contains("mount for writing to recover it"), "{error}");
        assert_eq!(mounts.get(), 1, "the device will not read them the next time either");
    }
}
