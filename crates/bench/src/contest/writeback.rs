//! Writes out what a contender left dirty in the page cache, before anybody else's turn: the kernel would do it seconds later, on the disk
//! that another one is measured on by then. There is nothing to do for those that go around the page cache.
//!
//! `syncfs` has no safe equivalent in the standard library.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::{BenchError, Result};

/// Waits until the device has all that was written to the file system that `directory` is in.
///
/// # Errors
/// `Io` when there is no such directory, or the system could not write something.
pub(super) fn finish(directory: &Path) -> Result<()> {
    let failed = |source| BenchError::io(format!("write out what is dirty below {}", directory.display()), source);
    let opened = File::open(directory).map_err(failed)?;
    // SAFETY: syncfs takes a descriptor, which is open until the end of this function, and touches no memory of ours.
    let outcome = unsafe { libc::syncfs(opened.as_raw_fd()) };
    if outcome == 0 { Ok(()) } else { Err(failed(std::io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_written_where_there_is_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("dirty"), [7; 100_000]).unwrap();
        finish(directory.path()).unwrap();
        let said = finish(&directory.path().join("none")).unwrap_err().to_string();
        assert!(said.contains("write out") && said.contains("none"), "{said}");
    }
}
