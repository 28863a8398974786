//! The system calls that std lacks: holes, allocation and advice. Safe code is not enough: they are foreign functions. Where the system
//! has no such call the answer is `Unsupported`, and the backend does without.
use std::{fs::File, io};

#[cfg(target_os = "linux")]
mod imp {
    use std::{fs::File, io, os::fd::AsRawFd};

    fn signed(offset: u64) -> io::Result<i64> {
        i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
    }

    fn fallocate(file: &File, mode: libc::c_int, offset: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: takes a valid descriptor and plain numbers; touches no memory of ours.
        match unsafe { libc::fallocate64(file.as_raw_fd(), mode, signed(offset)?, signed(bytes)?) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn punch_hole(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
    }

    pub(super) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        fallocate(file, libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
    }

    pub(super) fn forget_cached(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        let (offset, bytes) = (signed(offset)?, signed(bytes)?);
        // SAFETY: takes a valid descriptor and plain numbers; touches no memory of ours.
        match unsafe { libc::posix_fadvise64(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    fn seek(file: &File, offset: u64, whence: i32) -> io::Result<Option<u64>> {
        // SAFETY: takes a valid descriptor and plain numbers. Nobody uses the position it moves: all I/O names its
        // offset.
        let found = unsafe { libc::lseek64(file.as_raw_fd(), signed(offset)?, whence) };
        if let Ok(found) = u64::try_from(found) {
            return Ok(Some(found));
        }
        match io::Error::last_os_error() {
            nothing if nothing.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        }
    }

    pub(super) fn seek_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
        seek(file, offset, libc::SEEK_DATA)
    }

    pub(super) fn seek_hole(file: &File, offset: u64) -> io::Result<Option<u64>> {
        seek(file, offset, libc::SEEK_HOLE)
    }

    pub(super) const DIRECT_FLAG: Option<i32> = Some(libc::O_DIRECT);
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::{fs::File, io};

    pub(super) fn punch_hole(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn forget_cached(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn seek_data(_: &File, _: u64) -> io::Result<Option<u64>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn seek_hole(_: &File, _: u64) -> io::Result<Option<u64>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) const DIRECT_FLAG: Option<i32> = None;
}

/// The flag for direct I/O, where there is one.
pub(crate) const DIRECT_FLAG: Option<i32> = imp::DIRECT_FLAG;

/// Gives a range back to the file system; it reads as zeros.
pub(crate) fn punch_hole(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    imp::punch_hole(file, offset, bytes)
}

/// Allocates a range, which still reads as zeros; the length of the file stays.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    imp::allocate(file, offset, bytes)
}

/// Drops what the page cache has of a range and is not dirty.
pub(crate) fn forget_cached(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    imp::forget_cached(file, offset, bytes)
}

/// End of the last data in `offset..offset + bytes`, as bytes from `offset`; 0 if all is hole. One or two calls per
/// extent.
pub(crate) fn data_end(file: &File, offset: u64, bytes: u64) -> io::Result<u64> {
    let (end, mut last, mut at) = (offset + bytes, offset, offset);
    while let Some(data) = imp::seek_data(file, at)?.filter(|&data| data < end) {
        let hole = imp::seek_hole(file, data)?.unwrap_or(end).max(data + 1);
        last = hole.min(end);
        at = hole;
    }
    Ok(last - offset)
}
