//! One file of the host's file system, locked, with typed errors: what both file backends are made of.
//!
//! Always: the lock is held from opening to dropping, but by readers beside a writer, who have none; after a failed sync
//! every later sync fails, because the system may have dropped the data and would call the next one a success.
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use zonda_rt::sleep;

use super::{options::Direct, sys};
use crate::error::READ;
use crate::{AlignedBuf, DeviceError, Result, owner::Owner, syncs::Syncs};

/// How often and how long apart a lock is tried for: a second.
const LOCK_ATTEMPTS_MAX: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What an opener may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Make a new file; refuse an existing one.
    Create,
    /// Read and write an existing file.
    ReadWrite,
    /// Read an existing file that nobody writes.
    ReadOnly,
    /// Read an existing file, whoever writes it.
    ReadBeside,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Self::Create | Self::ReadWrite)
    }
}

/// A locked file. `cached` goes through the page cache and carries the tables; `direct`, if there is one, carries the
/// data.
pub(crate) struct HostFile {
    path: PathBuf,
    cached: File,
    direct: Option<File>,
    read_only: bool,
    syncs: Syncs,
    /// The process that opened the file: a child after a fork shares the lock, and must not write.
    owner: Owner,
}

impl fmt::Debug for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {}", self.path, self.describe())
    }
}

impl HostFile {
    /// Opens and locks a file: alone for writing, shared for reading, not at all for reading beside a writer.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self> {
        check_kind(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(access.writes()).create_new(access == Access::Create);
        let cached = options.open(path).map_err(|e| io_error(path, "open", e))?;
        if access != Access::ReadBeside {
            lock(path, &cached, access).inspect_err(|_| {
                // An empty file would be taken for a device that is none.
                if access == Access::Create {
                    let _ = std::fs::remove_file(path);
                }
            })?;
        }
        Ok(Self {
            path: path.to_owned(),
            cached,
            direct: None,
            read_only: !access.writes(),
            syncs: Syncs::default(),
            owner: Owner::new(),
        })
    }

    /// Chooses direct I/O for data, tried out by reading one block at `offset`.
    pub(crate) fn choose_direct(&mut self, wish: Direct, offset: u64, block_bytes: u32) -> Result<()> {
        if wish == Direct::Off {
            return Ok(());
        }
        self.direct = self.try_direct(offset, block_bytes);
        if self.direct.is_none() && wish == Direct::On {
            return Err(DeviceError::NotSupported { what: "direct I/O on this file system" });
        }
        Ok(())
    }

    fn try_direct(&self, offset: u64, block_bytes: u32) -> Option<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only).custom_flags(sys::DIRECT_FLAG?);
        let file = options.open(&self.path).ok()?;
        if !same_file(&file, &self.cached) {
            return None;
        }
        let mut block = AlignedBuf::with_len(block_bytes as usize);
        file.read_at(&mut block, offset).ok().map(|_| file)
    }

    pub(crate) fn read_only(&self) -> bool {
        self.read_only
    }

    /// Keeps writers from opening a file that was opened without a lock, for as long as the answer lives: they wait so long. `None`
    /// if there is one.
    pub(crate) fn keep_still(&self) -> Result<Option<Still<'_>>> {
        match self.cached.try_lock_shared() {
            Ok(()) => Ok(Some(Still(&self.cached))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(self.error("lock", e)),
        }
    }

    /// The file that carries the lock, to be kept open for as long as requests are in flight.
    pub(crate) fn locked(&self) -> &File {
        &self.cached
    }

    /// The file that carries the data.
    pub(crate) fn data(&self) -> &File {
        self.direct.as_ref().unwrap_or(&self.cached)
    }

    /// One phrase for reports.
    pub(crate) fn describe(&self) -> String {
        let how = if self.direct.is_some() { "O_DIRECT" } else { "page cache" };
        format!("file ({how})")
    }

    pub(crate) fn len_bytes(&self) -> Result<u64> {
        Ok(self.cached.metadata().map_err(|e| self.error("examine", e))?.len())
    }

    pub(crate) fn set_len(&self, bytes: u64) -> Result<()> {
        self.cached.set_len(bytes).map_err(|e| self.write_error(0, bytes, e))
    }

    /// Reads data; what lies past the file's end reads as zeros.
    pub(crate) fn read_data(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        read_or_zero(self.data(), offset, into).map_err(|e| self.error(READ, e))
    }

    pub(crate) fn write_data(&self, offset: u64, from: &[u8]) -> Result<()> {
        let written = self.data().write_all_at(from, offset);
        written.map_err(|e| self.write_error(offset, from.len() as u64, e))
    }

    /// Reads exactly: a table or the header.
    pub(crate) fn read_table(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let needed_bytes = offset + into.len() as u64;
        self.cached.read_exact_at(into, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated(needed_bytes),
            _ => self.error("read", e),
        })
    }

    pub(crate) fn write_table(&self, offset: u64, from: &[u8]) -> Result<()> {
        let written = self.cached.write_all_at(from, offset);
        written.map_err(|e| self.write_error(offset, from.len() as u64, e))
    }

    /// Makes all that was written durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.syncs.run(&self.path, || self.cached.sync_data())
    }

    /// Fails if an earlier sync failed.
    pub(crate) fn check_sync(&self) -> Result<()> {
        self.syncs.check(&self.path)
    }

    /// Remembers that a sync failed.
    pub(crate) fn sync_error(&self, error: io::Error) -> DeviceError {
        self.syncs.fail(&self.path, error)
    }

    /// The file, opened once more: its syncs are told of lost data whatever others were told. Where it cannot be, without `/proc` or the
    /// right to open it by now, the same opening: its syncs are told unless another just was.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_again(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only);
        let path = format!("/proc/self/fd/{}", self.cached.as_raw_fd());
        options.open(path).or_else(|_| self.cached.try_clone()).map_err(|e| self.error("open once more", e))
    }

    /// Makes the file's name durable.
    pub(crate) fn sync_directory(&self) -> Result<()> {
        let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        let directory =
            File::open(parent.unwrap_or(Path::new("."))).map_err(|e| self.error("open the directory of", e))?;
        directory.sync_all().map_err(|e| self.error("flush the directory of", e))
    }

    /// Gives a range back to the file system. False if the system cannot.
    pub(crate) fn punch(&self, offset: u64, bytes: u64) -> Result<bool> {
        match sys::punch_hole(&self.cached, offset, bytes) {
            Ok(()) => Ok(true),
            Err(e) if is_unsupported(&e) => Ok(false),
            Err(e) => Err(self.error("punch a hole into", e)),
        }
    }

    /// True if data goes past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Has the file system allocate a range, which still reads as zeros. False if it did not.
    pub(crate) fn allocate(&self, offset: u64, bytes: u64) -> bool {
        sys::allocate(&self.cached, offset, bytes).is_ok()
    }

    /// Has the page cache drop what it read of a range: a page of blocks that are allocated and without data, read for a copy of the file
    /// or ahead of something else, shows as data for as long as it is there.
    pub(crate) fn forget_cached(&self, offset: u64, bytes: u64) {
        // Where it cannot be dropped, what was read so is taken for data: zeros that no checksum fits.
        let _forgotten = sys::forget_cached(&self.cached, offset, bytes);
    }

    /// End of the last data in a range, in bytes from its start. 0 if all is hole.
    pub(crate) fn data_end(&self, offset: u64, bytes: u64) -> Result<u64> {
        sys::data_end(&self.cached, offset, bytes).map_err(|e| self.error("look for data in", e))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(DeviceError::WriteProtected { path: self.path.clone() });
        }
        self.owner.check()
    }

    pub(crate) fn truncated(&self, needed_bytes: u64) -> DeviceError {
        let bytes = self.cached.metadata().map_or(0, |m| m.len());
        DeviceError::Truncated { path: self.path.clone(), bytes, needed_bytes }
    }

    pub(crate) fn not_a_device(&self, reason: &'static str) -> DeviceError {
        not_a_device(&self.path, reason)
    }

    pub(crate) fn error(&self, action: &'static str, source: io::Error) -> DeviceError {
        io_error(&self.path, action, source)
    }

    /// A failed write: a full file system has its own variant.
    pub(crate) fn write_error(&self, offset: u64, bytes: u64, source: io::Error) -> DeviceError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                DeviceError::NoSpaceOnHost { path: self.path.clone(), offset, bytes }
            }
            io::ErrorKind::WriteZero => DeviceError::NoSpaceOnHost { path: self.path.clone(), offset, bytes },
            _ => self.error("write", source),
        }
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // Closing frees the lock, but only once nobody shares it: a child that has forked and not yet executed
            // would keep it. If this fails, closing must do.
            let _unlocked = self.cached.unlock();
        }
    }
}

/// See [`HostFile::keep_still`].
pub(crate) struct Still<'a>(&'a File);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        // If this fails, closing the file must do.
        let _unlocked = self.0.unlock();
    }
}

/// False if the path leads to another file by now.
fn same_file(a: &File, b: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|m| (m.dev(), m.ino())).ok();
    identity(a).is_some() && identity(a) == identity(b)
}

/// Looks before opening: to open a pipe would wait for its other end.
fn check_kind(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(there) if there.is_dir() => Err(not_a_device(path, "it is a directory")),
        Ok(there) if !there.is_file() => Err(not_a_device(path, "it is not an ordinary file")),
        // A missing file is for the opening to tell.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Locks a file, waiting a little: a killed process holds its lock until the kernel has ended its requests in flight, and a
/// process that another thread starts has a copy of ours until it runs its program, which takes its time on a busy machine.
fn lock(path: &Path, file: &File, access: Access) -> Result<()> {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        let locked = if access == Access::ReadOnly { file.try_lock_shared() } else { file.try_lock() };
        match locked {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
            Err(TryLockError::Error(e)) => return Err(io_error(path, "lock", e)),
        }
    }
    Err(DeviceError::Locked { path: path.to_owned() })
}

fn read_or_zero(file: &File, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match file.read_at(into, offset) {
            Ok(0) => {
                into.fill(0);
                return Ok(());
            }
            Ok(bytes) => {
                offset += bytes as u64;
                into = &mut into[bytes..];
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported)
        || matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> DeviceError {
    DeviceError::Io { path: path.to_owned(), action, source: Arc::new(source) }
}

fn not_a_device(path: &Path, reason: &'static str) -> DeviceError {
    DeviceError::NotADevice { path: path.to_owned(), reason }
}
