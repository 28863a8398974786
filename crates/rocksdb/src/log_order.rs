//! The order of a database's logs: an older one is durable before a newer one takes its first byte.
//!
//! `RocksDB` reads its logs one after the other and takes the end of each for where it ended: it does not see that bytes are missing
//! between two of them. A log's last bytes wait in memory, and two zones become durable in any order. So without this order a
//! power cut, or a killed process, could leave a newer log and not the end of the older one: a hole, and no prefix of the writes.
//!
//! Where the end of the older log finds no room, the newer one's first record waits in memory, and what would bring it to the device is
//! refused.
//!
//! Cost: a flush of the device for each log, which is one for each memtable.

use std::sync::{Arc, Weak};

use zonda_files::{Claim, FilePath};
use zonda_rt::Mutex;

use crate::failure::Failure;
use crate::writable::Shared;

/// A log that may have bytes that are not durable.
#[derive(Debug)]
struct Log {
    directory: FilePath,
    writer: Weak<Shared>,
}

/// The logs that are written, or were and may not be durable yet, oldest first.
///
/// Locks: its own briefly, then, without it, one writer at a time.
#[derive(Debug, Default)]
pub(crate) struct LogOrder {
    logs: Mutex<Vec<Log>>,
}

impl LogOrder {
    /// A log was made, newer than all others of its directory.
    pub(crate) fn begin(&self, directory: FilePath, writer: &Arc<Shared>) {
        self.logs.lock().push(Log { directory, writer: Arc::downgrade(writer) });
    }

    /// Makes the older logs of a directory durable, before `newer` takes its first byte. They get no more bytes.
    ///
    /// # Errors
    /// Those of a sync; the logs that are not durable then are tried again by the next call.
    pub(crate) fn settle_before(&self, directory: &FilePath, newer: &Arc<Shared>) -> Result<(), Failure> {
        for older in self.older_than(directory, newer) {
            older.sync_if_open(Claim::Last)?;
            self.end(&older);
        }
        Ok(())
    }

    fn older_than(&self, directory: &FilePath, newer: &Arc<Shared>) -> Vec<Arc<Shared>> {
        let logs = self.logs.lock();
        let here = logs.iter().filter(|log| log.directory == *directory).filter_map(|log| log.writer.upgrade());
        here.take_while(|writer| !Arc::ptr_eq(writer, newer)).collect()
    }

    /// Whether a log may have bytes that are not durable.
    pub(crate) fn knows(&self, writer: &Arc<Shared>) -> bool {
        self.logs.lock().iter().any(|log| std::ptr::eq(log.writer.as_ptr(), Arc::as_ptr(writer)))
    }

    /// A log is durable, or gone.
    pub(crate) fn end(&self, writer: &Arc<Shared>) {
        let is_other = |log: &Log| !std::ptr::eq(log.writer.as_ptr(), Arc::as_ptr(writer));
        self.logs.lock().retain(|log| log.writer.strong_count() > 0 && is_other(log));
    }
}

#[cfg(test)]
mod tests {
    use crate::System;
    use crate::failure::Kind;

    #[test]
    fn on_a_full_device_the_first_record_of_a_log_waits_for_the_older_ones() {
        let system = System::open("zonda://mem:?create=12MiB&zone_size=1MiB").unwrap();
        for directory in ["/db", "/other"] {
            system.make_directory(directory).unwrap();
        }
        let older = system.create("/db/000001.log").unwrap();
        older.append(&[1; 10_000]).unwrap();
        let other = system.create("/other/000001.log").unwrap();
        while other.append(&[2; 60_000]).is_ok() {}
        assert_eq!(other.sync().unwrap_err().kind, Kind::NoSpace);
        // The end of a log that is not the last may have the last room: a MANIFEST has that already.
        let manifest = system.create("/other/MANIFEST-000001").unwrap();
        while manifest.append(&[6; 60_000]).and_then(|()| manifest.sync()).is_ok() {}

        let newer = system.create("/db/000002.log").unwrap();
        newer.append(&[3; 100]).unwrap();
        for refused in [newer.append(&[4; 100]), newer.sync()] {
            assert_eq!(refused.unwrap_err().kind, Kind::NoSpace);
        }
        let large = system.create("/db/000003.log").unwrap();
        assert_eq!(large.append(&vec![5; 1 << 20]).unwrap_err().kind, Kind::NoSpace);

        drop(other);
        system.remove("/other/000001.log").unwrap();
        newer.append(&[4; 100]).unwrap();
        newer.sync().unwrap();
        assert_eq!(system.info("/db/000002.log").unwrap().size_bytes, 200);
    }
}
