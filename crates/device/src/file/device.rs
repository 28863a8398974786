//! The zoned file backend.
use std::{fmt, path::Path, sync::Arc};

use zonda_rt::{
    DeviceCall, RwLock,
    atomic::{AtomicBool, Ordering},
    device_call,
};

use super::{
    beside::Beside,
    host_file::HostFile,
    open,
    options::{FileOptions, QueueKind},
    queue::{Started, Target, Transfer, open_queue},
    readable::Readable,
    zones::{FileZones, Layout, erase_on},
};
use crate::{
    DeviceCounters, DeviceError, Geometry, Io, IoQueue, Lba, Result, WriteGrant, ZoneId, ZoneMachine, ZoneReport,
    ZonedDevice, counters::Counting, format, queue::Zoned,
};

/// A zoned device in one sparse file, alone owned by one opener at a time; readers that ask for it stand beside. Clones are
/// handles to the same device.
///
/// Life cycle: 1 created or opened (the file says "in use") -> 2 closed by [`close`](Self::close), or by dropping the
/// last handle or queue (the file says "clean"). After anything else the next opening looks for the write pointers (see
/// [`ZonedDevice`] for what they may be).
///
/// Costs: an append is one data write, and where I/O is direct now and then an allocation of up to 1 MiB ahead of the write pointer,
/// given back when the zone is finished or the file closed, since a write into a hole would stop all reads of the file; a flush one
/// `fdatasync`, and in a zone that is flushed in small steps 256 KiB more written now and then, so that the steps that follow write over
/// blocks that are there; the first write of a zone one table write more; a reset one table write, one `fdatasync` and one punched hole,
/// in the caller's thread and outside all locks. A reset is durable when it returns; once the zone is written again, a power cut before
/// the next flush may bring its data of before back.
#[derive(Clone)]
pub struct FileDevice {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) geometry: Geometry,
    pub(crate) layout: Layout,
    pub(crate) file: HostFile,
    pub(crate) zones: RwLock<FileZones>,
    /// Follows `zones`, under their lock.
    pub(crate) readable: Readable,
    pub(crate) queue_kind: QueueKind,
    pub(crate) counting: Counting,
    pub(crate) closed: AtomicBool,
    /// Somebody else may be writing the file: nothing in `zones` and `readable` is to be believed.
    pub(crate) beside: Option<Beside>,
}

impl FileDevice {
    /// Makes a new device file; all zones are empty. After an error no file is left.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned` before anything is written; `Io` (also if the file exists), `NoSpaceOnHost`,
    /// `NotSupported`.
    pub fn create(path: impl AsRef<Path>, geometry: Geometry, options: &FileOptions) -> Result<Self> {
        geometry.validate()?;
        Ok(Self { shared: Arc::new(open::create(path.as_ref(), geometry, options)?) })
    }

    /// Opens an existing device file, alone. After an unclean end it first finds the write pointers.
    ///
    /// # Errors
    /// `Locked`, `NotADevice`, `Truncated`, `Damaged`, `NewerVersion`, `UnknownFeature`, `Io`, `NotSupported`; nothing
    /// was written then.
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self> {
        Ok(Self { shared: Arc::new(open::open(path.as_ref(), false, options)?) })
    }

    /// Opens an existing device file for reading, beside other readers. Nothing is written, whatever happens.
    ///
    /// # Errors
    /// As [`open`](Self::open). Every writing call answers `WriteProtected`.
    pub fn open_read_only(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self> {
        Ok(Self { shared: Arc::new(open::open(path.as_ref(), true, options)?) })
    }

    /// Opens an existing device file for reading, with no claim to it: beside readers, and beside a writer, who may come and go.
    /// Every report and every read looks at the file anew; what a reader may rely on says
    /// [`OpenMode::ReadBeside`](crate::OpenMode::ReadBeside). A writer that opens the file waits while a report is made.
    ///
    /// # Errors
    /// As [`open`](Self::open), but never `Locked`. Every writing call answers `WriteProtected`.
    pub fn open_beside(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self> {
        Ok(Self { shared: Arc::new(open::open_beside(path.as_ref(), options)?) })
    }

    /// Makes everything durable, records all write pointers and marks the file clean. Every later call that writes
    /// answers `Closed`; a second `close` does nothing.
    ///
    /// Dropping the last handle does the same, but cannot tell of errors; they cost no data, only a longer next
    /// opening.
    ///
    /// # Errors
    /// `Io`, `NoSpaceOnHost`, `FlushLost`.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }

    /// True if write pointers survive a crash without being recorded (see [`format::feature::EXACT_HOLES`]).
    #[must_use]
    pub fn has_exact_holes(&self) -> bool {
        self.shared.zones.read().exact_holes
    }
}

impl Shared {
    fn check_writable(&self) -> Result<()> {
        self.file.check_writable()?;
        if self.closed.load(Ordering::Acquire) { Err(DeviceError::Closed) } else { Ok(()) }
    }

    fn close(&self) -> Result<()> {
        if self.file.read_only() || self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.file.check_writable()?;
        let mut zones = self.zones.write();
        if !zones.is_settled() {
            return self.file.sync();
        }
        zones.give_back(&self.file);
        zones.record_all(&self.file)?;
        self.file.sync()?;
        self.file.write_table(format::MARK_OFFSET, &format::encode_mark(true))?;
        self.file.sync()
    }

    fn start_read(&self, at: Lba, buffer: &[u8]) -> Result<Started> {
        let blocks = self.geometry.check_buffer(buffer)?;
        let readable = match &self.beside {
            None => self.readable.blocks(&self.geometry, at, blocks)?,
            Some(beside) => beside.readable_blocks(&self.file, at, blocks)?,
        };
        let bytes = readable * u64::from(self.geometry.block_bytes);
        let bytes = usize::try_from(bytes).expect("at most the buffer's length");
        Ok(Started { at, transfer: Transfer::Read { offset: self.byte_of(at), bytes }, grant: None })
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        match &self.beside {
            None => self.zones.read().machine.report(first, count),
            Some(beside) => beside.look(&self.file)?.machine.report(first, count),
        }
    }

    fn start_write(&self, at: Lba, from: &[u8]) -> Result<Started> {
        self.check_writable()?;
        let blocks = self.geometry.check_buffer(from)?;
        let grant = self.grant(|machine| machine.begin_write(at, blocks))?;
        Ok(Started { at, transfer: Transfer::Write { offset: self.byte_of(at) }, grant: Some(grant) })
    }

    fn start_append(&self, zone: ZoneId, from: &[u8]) -> Result<Started> {
        self.check_writable()?;
        let blocks = self.geometry.check_buffer(from)?;
        let grant = self.grant(|machine| machine.begin_append(zone, blocks))?;
        let at = self.geometry.zone_start(zone).plus(grant.offset());
        Ok(Started { at, transfer: Transfer::Write { offset: self.byte_of(at) }, grant: Some(grant) })
    }

    fn grant(&self, begin: impl FnOnce(&mut ZoneMachine) -> Result<WriteGrant>) -> Result<WriteGrant> {
        let mut zones = self.zones.write();
        let (grant, wanted) = zones.begin(&self.file, begin)?;
        self.readable.follow(&zones.machine, grant.zone());
        drop(zones);
        if let Some((offset, bytes)) = wanted {
            self.file.allocate(offset, bytes);
        }
        Ok(grant)
    }

    fn end_write(&self, grant: WriteGrant, outcome: Result<()>) -> Result<()> {
        let (mut zones, zone) = (self.zones.write(), grant.zone());
        let ended = zones.end(grant, outcome);
        self.readable.follow(&zones.machine, zone);
        ended
    }

    fn start_flush(&self) -> Result<Started> {
        self.check_writable()?;
        self.file.check_sync()?;
        let exact = self.zones.read().exact_holes;
        if !exact {
            self.zones.write().record_dirty(&self.file)?;
        }
        Ok(Started { at: Lba(0), transfer: Transfer::Sync, grant: None })
    }

    /// Not in [`start_flush`](Self::start_flush): a queue's submission is no place for I/O.
    fn write_blanks(&self) {
        let bytes = self.zones.write().write_blanks(&self.file);
        self.counting.prepared(bytes);
    }

    fn byte_of(&self, at: Lba) -> u64 {
        self.layout.byte_of(self.geometry.zone_of(at), self.geometry.offset_in_zone(at))
    }

    /// The plain way of doing the I/O of a started write.
    fn write_now(&self, started: Started, from: &[u8]) -> Result<Lba> {
        let Transfer::Write { offset } = started.transfer else { unreachable!("only a started write comes here") };
        let outcome = self.file.write_data(offset, from);
        self.end(started, from.len(), outcome)
    }

    fn end(&self, started: Started, bytes: usize, outcome: Result<()>) -> Result<Lba> {
        match started.grant {
            Some(grant) => self.end_write(grant, outcome)?,
            None => outcome?,
        }
        match started.transfer {
            Transfer::Read { .. } => self.counting.read(bytes),
            Transfer::Write { .. } => self.counting.written(bytes),
            Transfer::Sync => self.counting.flushed(),
        }
        Ok(started.at)
    }

    fn begin_reset(&self, zone: ZoneId) -> Result<bool> {
        let mut zones = self.zones.write();
        let begun = zones.begin_reset(zone)?;
        self.readable.follow(&zones.machine, zone);
        Ok(begun)
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.check_writable()?;
        if self.begin_reset(zone)? {
            let erased = erase_on(&self.file, &self.layout, zone);
            self.zones.write().end_reset(zone, erased.is_ok());
            erased?;
        }
        self.counting.reset();
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // An error cannot be told from here. It costs no data: the file stays marked "in use" and the next opening
        // recovers.
        let _closed = self.close();
    }
}

impl Target for FileDevice {
    fn file(&self) -> &HostFile {
        &self.shared.file
    }

    fn start(&self, io: &Io) -> Result<Started> {
        match io {
            Io::Read { at, into } => self.shared.start_read(*at, into),
            Io::Write { at, from } => self.shared.start_write(*at, from),
            Io::Append { zone, from } => self.shared.start_append(*zone, from),
            Io::Flush => self.shared.start_flush(),
        }
    }

    fn end(&self, started: Started, bytes: usize, outcome: Result<()>) -> Result<Lba> {
        self.shared.end(started, bytes, outcome)
    }
}

impl fmt::Debug for FileDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileDevice").field("file", &self.shared.file).finish_non_exhaustive()
    }
}

impl ZonedDevice for FileDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        device_call(DeviceCall::Report, || self.shared.report(first, count))
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let started = self.shared.start_read(at, into)?;
        let Transfer::Read { offset, bytes } = started.transfer else { unreachable!("start_read plans a read") };
        let (data, beyond) = into.split_at_mut(bytes);
        beyond.fill(0);
        let outcome = device_call(DeviceCall::Read, || self.shared.file.read_data(offset, data));
        self.shared.end(started, into.len(), outcome).map(|_| ())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        device_call(DeviceCall::Write, || {
            let started = self.shared.start_write(at, from)?;
            self.shared.write_now(started, from).map(|_| ())
        })
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        device_call(DeviceCall::Append, || {
            let started = self.shared.start_append(zone, from)?;
            self.shared.write_now(started, from)
        })
    }

    fn flush(&self) -> Result<()> {
        device_call(DeviceCall::Flush, || {
            let started = self.shared.start_flush()?;
            self.shared.write_blanks();
            let outcome = self.shared.file.sync();
            self.shared.end(started, 0, outcome).map(|_| ())
        })
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.shared.check_writable()?;
        device_call(DeviceCall::Open, || self.shared.zones.write().machine.open(zone))
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.shared.check_writable()?;
        device_call(DeviceCall::Close, || self.shared.zones.write().machine.close(zone))
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.shared.check_writable()?;
        let finish = || self.shared.zones.write().finish(&self.shared.file, zone);
        device_call(DeviceCall::Finish, finish)?;
        self.shared.counting.finished();
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Reset, || self.shared.reset(zone))
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        open_queue(self.shared.queue_kind, self.clone(), Zoned(self.clone()), depth)
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        self.shared.file.describe()
    }
}
