//! RocksDB's idea of a file system, on a file store.

use std::sync::Arc;

use zonda_files::{FileError, FileInfo, FileKind, FilePath, FileRead, FileReader, FileTags, Lifetime, ReadOrigin};
use zonda_rt::atomic::Ordering;

use crate::failure::{Failure, Kind};
use crate::lsm::Begun;
use crate::mount::{Mounted, mounted};
use crate::name::{Role, role_of, table_number};
use crate::writable::Writable;

/// A file system as RocksDB calls it. All calls may come from any thread.
///
/// Paths are those of the store: `/` is its root, whatever directory the program is in.
#[derive(Clone, Debug)]
pub struct System {
    mount: Arc<Mounted>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Number of the file: equal for two names of one file.
    pub file: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// Names.
    pub links: u32,
    /// Seconds since 1970.
    pub modified_seconds: u64,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A user of the database, or RocksDB for itself.
    User,
    /// A compaction.
    Compaction,
    /// The plugin, which looks for the keys of a table that it is about to place.
    Keys,
}

/// A file that RocksDB reads.
#[derive(Debug)]
pub struct Readable {
    reader: FileReader,
    /// The name that it was opened by.
    path: FilePath,
    /// Last: a mount ends when no file holds its device.
    mount: Arc<Mounted>,
}

impl Reader {
    /// For whom a drive is told that it reads, and whose reads are counted and traced: nobody knows of the plugin's own.
    fn origin(self) -> Option<ReadOrigin> {
        match self {
            Self::User => Some(ReadOrigin::Query),
            Self::Compaction => Some(ReadOrigin::Compaction),
            Self::Keys => None,
        }
    }
}

impl Readable {
    /// Reads from `offset` until `into` is full or the file ends.
    ///
    /// # Errors
    /// `Stale`, `Io`.
    pub fn read_at(&self, offset: u64, into: &mut [u8], who: Reader) -> Result<usize, Failure> {
        let read = match who.origin() {
            Some(origin) => self.reader.read_told(offset, into, Some(origin)),
            None => self.reader.read_own(offset, into),
        };
        let bytes = read.map_err(|error| self.mount.failed_read(&self.path, error))?;
        self.mount.count_read(who, bytes);
        Ok(bytes)
    }

    /// Does several reads, which are in flight together where the device has a queue.
    ///
    /// # Errors
    /// `Stale`, `Io`; what was read is not known then.
    pub fn read_many(&self, reads: &mut [FileRead<'_>], who: Reader) -> Result<(), Failure> {
        if who == Reader::Keys {
            return reads.iter_mut().try_for_each(|read| {
                read.bytes = self.read_at(read.offset, read.into, who)?;
                Ok(())
            });
        }
        let read = self.reader.read_many(reads, who.origin());
        read.map_err(|error| self.mount.failed_read(&self.path, error))?;
        let bytes = reads.iter().map(|read| read.bytes).sum();
        self.mount.count_read(who, bytes);
        self.mount.reads_together.fetch_add(reads.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes in all.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.reader.size_bytes()
    }

    /// Number of the file.
    #[must_use]
    pub fn file(&self) -> u64 {
        self.reader.file().0
    }
}

impl System {
    /// The file system called `zonda://...`.
    ///
    /// # Errors
    /// As [`mounted`].
    pub fn open(uri: &str) -> Result<Self, Failure> {
        Ok(Self { mount: mounted(uri)? })
    }

    /// What it shares with others of its name.
    #[must_use]
    pub fn mount(&self) -> &Arc<Mounted> {
        &self.mount
    }

    /// A new file; one that has the name loses it. What kind of file it is says its name, and of a table or blob file the job that
    /// began it.
    /// A log that a store that stopped cannot have is made all the same, and refuses what is written to it.
    ///
    /// # Errors
    /// `NotFound` for the directory, `Io`.
    pub fn create(&self, path: &str) -> Result<Writable, Failure> {
        let path = FilePath::parse(path)?;
        match role_of(&path) {
            Role::Wal => match self.mount.store.create(&path, FileTags::of(Role::Wal.kind())) {
                Ok(writer) => Ok(Writable::new(&self.mount, path, Role::Wal, writer)),
                Err(error @ FileError::Stopped { .. }) => Ok(Writable::refused(&self.mount, path, error.into())),
                Err(error) => Err(error.into()),
            },
            role => self.create_as(path, role),
        }
    }

    fn create_as(&self, path: FilePath, role: Role) -> Result<Writable, Failure> {
        let number = table_number(&path);
        let begun = match role {
            Role::Blob => self.mount.lsm.take_begun_blob(&path),
            _ => number.and_then(|_| self.mount.lsm.take_begun(&path)),
        };
        let mut writer = self.mount.store.create(&path, tags(role, begun.as_ref()))?;
        if let Some((begun, number)) = begun.as_ref().zip(number) {
            self.mount.lsm.created(begun, &path, number);
        }
        let hint = begun.and_then(|begun| self.mount.lsm.hint(&begun));
        if let Some((hint, _)) = &hint {
            writer.describe(hint.clone())?;
        }
        if role == Role::Manifest {
            self.mount.lsm.manifest_created(&path);
        }
        let file = Writable::new(&self.mount, path, role, writer);
        Ok(match hint {
            Some((hint, Some(order))) if self.mount.places_by_keys => file.waiting_for_keys(hint, order),
            _ => file,
        })
    }

    /// Goes on at the end of a file, a new one if there is none.
    ///
    /// # Errors
    /// As [`create`](Self::create), `Busy`.
    pub fn append_to(&self, path: &str) -> Result<Writable, Failure> {
        let parsed = FilePath::parse(path)?;
        let role = role_of(&parsed);
        match self.mount.store.append_to(&parsed) {
            Ok(writer) => {
                if role == Role::Manifest {
                    self.mount.lsm.manifest_reopened(&parsed);
                }
                Ok(Writable::new(&self.mount, parsed, role, writer))
            }
            Err(FileError::NotFound { .. }) => self.create(path),
            Err(error) => Err(error.into()),
        }
    }

    /// A log that is written over. Zones are not: the old one gives up its name, and a new file begins.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn reuse(&self, path: &str, old: &str) -> Result<Writable, Failure> {
        let (to, from) = (FilePath::parse(path)?, FilePath::parse(old)?);
        match self.mount.store.rename(&from, &to) {
            Ok(()) => {
                self.mount.lsm.renamed(&from, &to);
                self.create(path)
            }
            Err(error @ FileError::Stopped { .. }) if role_of(&to) == Role::Wal => {
                Ok(Writable::refused(&self.mount, to, error.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A file to read.
    ///
    /// # Errors
    /// `NotFound`, `Stale`, `Io`.
    pub fn read(&self, path: &str) -> Result<Readable, Failure> {
        let path = FilePath::parse(path)?;
        let reader = self.mount.store.open(&path).map_err(|error| self.mount.failed_read(&path, error))?;
        Ok(Readable { mount: Arc::clone(&self.mount), reader, path })
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn info(&self, path: &str) -> Result<Info, Failure> {
        let info: FileInfo = self.mount.store.info(&FilePath::parse(path)?)?;
        Ok(Info {
            is_directory: info.is_directory,
            file: info.file.0,
            size_bytes: info.size_bytes,
            links: info.links,
            modified_seconds: info.modified_seconds,
        })
    }

    /// Names in a directory with what they stand for; one that is deleted meanwhile is left out.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn list(&self, directory: &str) -> Result<Vec<(String, Info)>, Failure> {
        let paths = self.mount.store.list(&FilePath::parse(directory)?)?;
        let info = |path: FilePath| self.info(path.as_str()).ok().map(|info| (path.name().to_owned(), info));
        Ok(paths.into_iter().filter_map(info).collect())
    }

    /// Makes a directory in one that exists.
    ///
    /// # Errors
    /// `NotFound`, `Io` if the name is taken.
    pub fn make_directory(&self, path: &str) -> Result<(), Failure> {
        Ok(self.mount.store.make_directory(&FilePath::parse(path)?)?)
    }

    /// Makes a directory and those above it, unless they exist.
    ///
    /// # Errors
    /// `Io` if one of the names is a file.
    pub fn make_directories(&self, path: &str) -> Result<(), Failure> {
        let path = FilePath::parse(path)?;
        let mut missing = Vec::new();
        let mut at = Some(path);
        while let Some(directory) = at.filter(|path| *path != FilePath::root()) {
            match self.mount.store.info(&directory) {
                Ok(info) if info.is_directory => break,
                Ok(_) => return Err(Failure::new(Kind::Io, format!("{directory}: is a file, not a directory"))),
                Err(_) => at = directory.parent(),
            }
            missing.push(directory);
        }
        for directory in missing.iter().rev() {
            match self.mount.store.make_directory(directory) {
                // Somebody was faster.
                Ok(()) | Err(FileError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn remove_directory(&self, path: &str) -> Result<(), Failure> {
        Ok(self.mount.store.remove_directory(&FilePath::parse(path)?)?)
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn remove(&self, path: &str) -> Result<(), Failure> {
        let path = FilePath::parse(path)?;
        self.mount.store.remove(&path)?;
        self.mount.lsm.removed(&path);
        Ok(())
    }

    /// Gives a file or directory another name, atomically, over an existing file.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        let (from, to) = (FilePath::parse(from)?, FilePath::parse(to)?);
        self.mount.store.rename(&from, &to)?;
        self.mount.lsm.renamed(&from, &to);
        Ok(())
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn link(&self, from: &str, to: &str) -> Result<(), Failure> {
        Ok(self.mount.store.link(&FilePath::parse(from)?, &FilePath::parse(to)?)?)
    }

    /// Cuts a file that nobody writes.
    ///
    /// # Errors
    /// `NotFound`, `Busy`, `NotSupported` if it would grow.
    pub fn truncate(&self, path: &str, size: u64) -> Result<(), Failure> {
        let mut writer = self.mount.store.append_to(&FilePath::parse(path)?)?;
        writer.truncate(size)?;
        Ok(writer.close()?)
    }

    /// Makes all changes of names so far durable. If the caller asks only for the name of a file that it made and synced, there is
    /// nothing to do: [`Writable::sync`] made the name durable. RocksDB does the same on Btrfs.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_directory(&self, names_a_synced_file: bool) -> Result<(), Failure> {
        let work = if names_a_synced_file {
            &self.mount.small_work.directory_syncs_spared
        } else {
            &self.mount.small_work.directory_syncs
        };
        work.fetch_add(1, Ordering::Relaxed);
        if names_a_synced_file { Ok(()) } else { Ok(self.mount.store.sync_names()?) }
    }

    /// Locks a name, and makes its file if there is none.
    ///
    /// # Errors
    /// `Io` if it is locked.
    pub fn lock(&self, path: &str) -> Result<(), Failure> {
        let parsed = FilePath::parse(path)?;
        self.mount.locks.take(&parsed)?;
        // Whoever writes beside a read-only mount has a LOCK of its own.
        let made = match self.info(path) {
            Ok(_) => Ok(()),
            Err(_) => self.create(path).and_then(|file| file.close()),
        };
        made.inspect_err(|_| self.mount.locks.release(&parsed))?;
        if let Some(database) = database_of(&parsed) {
            self.mount.lsm.database_opened(&database);
        }
        Ok(())
    }

    /// Unlocks it.
    ///
    /// # Errors
    /// `InvalidArgument` for no path.
    pub fn unlock(&self, path: &str) -> Result<(), Failure> {
        let path = FilePath::parse(path)?;
        // While nobody else can have opened it.
        if let Some(database) = database_of(&path) {
            self.mount.lsm.database_closed(&database);
        }
        self.mount.locks.release(&path);
        Ok(())
    }

    /// Bytes that can still be written after cleaning, without what is kept for flushes, logs and MANIFESTs.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.mount.store.usage().free_bytes
    }
}

/// How the store keeps a new file. The lifetime of a table arrives as a hint.
fn tags(role: Role, begun: Option<&Begun>) -> FileTags {
    match begun {
        Some(begun) => {
            let kind = if begun.is_flush { FileKind::Flushed } else { FileKind::Data };
            FileTags { kind, lifetime: Lifetime::NotSet, level: begun.level }
        }
        None => FileTags::of(role.kind()),
    }
}

/// The directory that is a database for whoever locks this name.
fn database_of(lock: &FilePath) -> Option<FilePath> {
    lock.parent().filter(|_| lock.name() == "LOCK")
}

#[cfg(test)]
mod tests {
    use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, ZonedDevice};

    use super::*;
    use crate::lsm::{NewTable, Reason};

    /// A file system on a device whose next flush fails, which ends all writing.
    fn stopped(name: &str, write: impl FnOnce(&System)) -> System {
        let device = Arc::new(Faulty::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap(), 1));
        crate::offer_device(name, Some(device.clone()));
        let system = System::open(&format!("zonda://process:{name}?create=on")).unwrap();
        crate::offer_device(name, None);
        write(&system);
        let (call, effect) = (Some(zonda_rt::DeviceCall::Flush), FaultEffect::Error(ErrorKind::Media));
        device.inject(Fault { call, zone: None, when: FaultWhen::Nth(1), effect });
        system.make_directory("/stops").and_then(|()| system.sync_directory(false)).unwrap_err();
        system
    }

    #[test]
    fn a_table_that_could_not_be_created_is_awaited_by_nobody() {
        let system = stopped("not-created", |system| {
            system.make_directory("/db").unwrap();
            system.lock("/db/LOCK").unwrap();
        });
        let path = FilePath::parse("/db/000008.sst").unwrap();
        let database = FilePath::parse("/db").unwrap();
        let lsm = &system.mount().lsm;
        lsm.table_begun(NewTable { database, family: "default", path, job: 1, reason: Reason::Flush });
        assert!(system.create("/db/000008.sst").is_err());
        assert_eq!(lsm.unnamed(), 0);
    }

    /// Decision 24, with `recycle_log_file_num`.
    #[test]
    fn a_log_that_cannot_be_recycled_is_refused_where_it_is_written() {
        let system = stopped("recycled", |system| system.create("/000001.log").unwrap().close().unwrap());
        let log = system.reuse("/000002.log", "/000001.log").unwrap();
        assert_eq!(log.append(b"a record").unwrap_err().kind, Kind::Io);
        assert!(system.reuse("/000003.log", "/000001.log").is_ok() && system.info("/000001.log").is_ok());
        assert!(system.reuse("/other", "/000001.log").is_err());
    }

    #[test]
    fn a_file_that_is_not_there_any_more_is_named() {
        let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap());
        crate::offer_device("system-test", Some(device.clone()));
        let live = System::open("zonda://process:system-test?create=on").unwrap();
        let file = live.create("/one").unwrap();
        file.append(b"some bytes").unwrap();
        file.sync().unwrap();
        file.close().unwrap();
        let beside = System::open("zonda://process:system-test?read_only=on").unwrap();
        let (readable, mut read) = (beside.read("/one").unwrap(), [0; 4]);
        let extent = beside.mount().store.extents(&FilePath::parse("/one").unwrap()).unwrap()[0];
        drop((file, live));
        device.reset(extent.zone).unwrap();
        let while_open = readable.read_at(0, &mut read, Reader::User).unwrap_err();
        drop((readable, beside));
        let later = System::open("zonda://process:system-test?read_only=on").unwrap();
        for refusal in [while_open, later.read("/one").map(drop).unwrap_err()] {
            assert_eq!(refusal.kind, Kind::Stale);
            assert!(refusal.message.starts_with("/one: stale: zone"), "{}", refusal.message);
        }
        crate::offer_device("system-test", None);
    }
}
