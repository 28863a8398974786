//! A file that RocksDB writes.

use std::sync::Arc;
use std::time::Duration;

use zonda_files::lsm::{KeyRange, TableHint};
use zonda_files::{BLOCK_BYTES, Claim, FilePath, FileWriter, Lifetime};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{Mutex, Time, now};

use crate::failure::{Failure, Kind};
use crate::first_record::FirstRecord;
use crate::lsm::first_key;
use crate::mount::Mounted;
use crate::name::Role;

/// Between two flushes of an info log. `RocksDB` asks for several in each flush of a memtable and each compaction, which would
/// wait for a write of the drive each time.
const INFO_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// The same while less than a block waits: each such flush leaves an extent of its own and a block, and a log is written for months.
const INFO_LOG_PATIENCE: Duration = Duration::from_secs(60);

/// A file that RocksDB writes. Its calls may come from any thread, two at a time: a log is synced while it is appended to.
///
/// A MANIFEST shows what is appended to it to the view of the LSM shape.
#[derive(Debug)]
pub struct Writable {
    path: FilePath,
    role: Role,
    writer: Arc<Shared>,
    /// A log whose older ones are durable, or no log.
    has_settled: AtomicBool,
    /// Of a log: where its first record ends. `RocksDB` does not recover where that one is refused, and so the calls that write it have the
    /// last claim: with it what it hands over in the last of them, a buffer of `writable_file_max_buffer_size` at most.
    first_record: Mutex<FirstRecord>,
    /// What is known of a table that waits for its keys, and in which order they are.
    waiting: Mutex<Option<(TableHint, Order)>>,
    /// Of an info log: when it was flushed last.
    flushed: Mutex<Option<Time>>,
    /// Last: a mount ends when no file holds its device.
    mount: Arc<Mounted>,
}

/// Its writer, which the order of logs knows too.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    /// Makes what was written durable, unless it is closed.
    ///
    /// # Errors
    /// Those of a sync.
    pub(crate) fn sync_if_open(&self, claim: Claim) -> Result<(), Failure> {
        match &mut *self.state.lock() {
            State::Open(writer) => {
                writer.claim(claim);
                Ok(writer.sync()?)
            }
            State::Refused(_) | State::Closed => Ok(()),
        }
    }
}

#[derive(Debug)]
enum State {
    Open(FileWriter),
    /// A log that could not be made: every write of it fails for this.
    Refused(Failure),
    Closed,
}

/// The orders of keys in which tables can be read without the database that they are of. The numbers are those of
/// `shim/bridge.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// By bytes.
    Bytewise = 1,
    /// By bytes, backwards.
    Reverse = 2,
}

impl Writable {
    pub(crate) fn new(mount: &Arc<Mounted>, path: FilePath, role: Role, mut writer: FileWriter) -> Self {
        if role == Role::InfoLog {
            writer.claim(Claim::GiveWay);
        }
        Self::in_state(mount, path, role, State::Open(writer))
    }

    /// A log that could not be made, to `RocksDB` one that cannot be written: it has no way back from the former. While it
    /// switches several memtables it forgets references to column families, and with assertions aborts when the database is
    /// closed (7.8.3, `DBImpl::ScheduleFlushes`; tests/log_refused.rs).
    pub(crate) fn refused(mount: &Arc<Mounted>, path: FilePath, why: Failure) -> Self {
        Self::in_state(mount, path, Role::Wal, State::Refused(why))
    }

    fn in_state(mount: &Arc<Mounted>, path: FilePath, role: Role, state: State) -> Self {
        let writer = Arc::new(Shared { state: Mutex::new(state) });
        let is_log = role == Role::Wal;
        if let Some(directory) = path.parent().filter(|_| is_log) {
            mount.logs.begin(directory, &writer);
        }
        let has_settled = AtomicBool::new(!is_log);
        Self {
            mount: Arc::clone(mount),
            path,
            role,
            writer,
            has_settled,
            first_record: Mutex::default(),
            waiting: Mutex::default(),
            flushed: Mutex::default(),
        }
    }

    /// The same for a table of which a job said this.
    pub(crate) fn waiting_for_keys(self, hint: TableHint, order: Order) -> Self {
        *self.waiting.lock() = Some((hint, order));
        self
    }

    /// Whether it is a table that would have its keys known before it is placed, and their order. Asked before its first sync.
    #[must_use]
    pub fn wants_keys(&self) -> Option<Order> {
        self.waiting.lock().as_ref().map(|(_, order)| *order)
    }

    /// Says what its keys are.
    ///
    /// # Errors
    /// `Io`.
    pub fn describe_keys(&self, range: KeyRange) -> Result<(), Failure> {
        let Some((hint, _)) = self.waiting.lock().take() else { return Ok(()) };
        self.with(|writer| writer.describe(TableHint { range: Some(range), ..hint }))
    }

    fn with(&self, call: impl FnOnce(&mut FileWriter) -> zonda_files::Result<()>) -> Result<(), Failure> {
        let done = match &mut *self.writer.state.lock() {
            State::Open(writer) => {
                if self.role == Role::Wal {
                    let has_first = self.first_record.lock().end().is_some_and(|end| writer.written_bytes() >= end);
                    writer.claim(if has_first { Claim::Usual } else { Claim::Last });
                }
                call(writer).map_err(Failure::from)
            }
            State::Refused(why) => Err(why.clone()),
            State::Closed => Err(Failure::new(Kind::Io, format!("{}: is closed", self.path))),
        };
        self.unless_for_people(done)
    }

    /// What RocksDB tells people fails in silence: its logger ignores errors of its file but goes on using it, which a RocksDB
    /// with assertions takes for a bug and aborts. What went wrong shows at the files that matter.
    fn unless_for_people(&self, done: Result<(), Failure>) -> Result<(), Failure> {
        if self.role == Role::InfoLog { Ok(()) } else { done }
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn append(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.settle_before_append(bytes)?;
        self.note_first_key(bytes);
        if self.role == Role::Wal {
            self.first_record.lock().see(bytes);
        }
        self.with(|writer| writer.append(bytes))?;
        if self.role == Role::Manifest {
            self.mount.lsm.manifest_appended(&self.path, bytes);
        }
        Ok(())
    }

    /// Of a table that waits for its keys, before its first byte.
    fn note_first_key(&self, bytes: &[u8]) {
        if self.role != Role::Table || self.waiting.lock().is_none() {
            return;
        }
        if let State::Open(writer) = &mut *self.writer.state.lock()
            && writer.size_bytes() == 0
            && let Some(key) = first_key(bytes)
        {
            writer.begins_with(key);
        }
    }

    /// As [`settle_older_logs`](Self::settle_older_logs); but where there is no room for the end of an older log, the first record of
    /// this one is taken and waits in memory, and the next call of its file is refused instead. `RocksDB` goes on by itself only from
    /// a log that has records in memtables (7.8.3: `DBImpl::ResumeImpl` keeps any other, and its writes fail for good).
    fn settle_before_append(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.settle_older_logs().or_else(|failure| {
            let fits = bytes.len() as u64 <= u64::from(self.mount.log_buffer_bytes());
            let may_wait = failure.kind == Kind::NoSpace && fits && self.size_bytes() == 0;
            if may_wait { Ok(()) } else { Err(failure) }
        })
    }

    /// Before a first record that waits reaches the device.
    fn settle_what_waits(&self) -> Result<(), Failure> {
        if self.size_bytes() == 0 { Ok(()) } else { self.settle_older_logs() }
    }

    /// Before the first byte of a log: those before it are durable ([`crate::log_order`]).
    fn settle_older_logs(&self) -> Result<(), Failure> {
        if self.has_settled.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(directory) = self.path.parent() {
            self.mount.logs.settle_before(&directory, &self.writer)?;
        }
        self.has_settled.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes whole blocks at `offset`, which is at most the size; they replace what was behind it.
    ///
    /// # Errors
    /// As [`append`](Self::append), and `NotSupported` behind the end.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.settle_older_logs()?;
        self.with(|writer| writer.write_at(offset, bytes))
    }

    /// Cuts the file.
    ///
    /// # Errors
    /// As [`append`](Self::append), and `NotSupported` if it would grow.
    pub fn truncate(&self, size: u64) -> Result<(), Failure> {
        self.with(|writer| writer.truncate(size))
    }

    /// What RocksDB would have out of its own buffers. Bytes go on being collected in memory until a sync, so that the end of
    /// a log does not cost a block per write; but what people read goes to the device, once a second at most, and logs do, at once,
    /// if the mount says so.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn flush(&self) -> Result<(), Failure> {
        match self.role {
            Role::InfoLog => self.with(|writer| {
                let waiting_bytes = writer.size_bytes().saturating_sub(writer.written_bytes());
                if self.is_info_log_due(waiting_bytes) { writer.flush() } else { Ok(()) }
            }),
            Role::Wal if self.mount.wal_flush => {
                self.settle_what_waits()?;
                self.with(FileWriter::flush)
            }
            _ => Ok(()),
        }
    }

    /// Whether an info log, of which so much waits, goes to the device now. Otherwise its bytes wait for a later flush, or until it is
    /// closed; who reads it meanwhile sees them.
    fn is_info_log_due(&self, waiting_bytes: u64) -> bool {
        let mut flushed = self.flushed.lock();
        let pause = if waiting_bytes < BLOCK_BYTES as u64 { INFO_LOG_PATIENCE } else { INFO_LOG_INTERVAL };
        let is_due = flushed.is_none_or(|at| now().since(at) >= pause);
        let work = &self.mount.small_work;
        let counter = if is_due { &work.info_log_flushes } else { &work.info_log_flushes_put_off };
        counter.fetch_add(1, Ordering::Relaxed);
        if is_due {
            *flushed = Some(now());
        }
        is_due
    }

    /// Makes it durable, name and bytes.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn sync(&self) -> Result<(), Failure> {
        self.settle_what_waits()?;
        self.with(FileWriter::sync)
    }

    /// Writes everything and gives up writing; a second time does nothing. A log that no newer one has made durable becomes so: what
    /// waits of it in memory was acknowledged, and has the last claim.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn close(&self) -> Result<(), Failure> {
        if let Err(failure) = self.settle_what_waits() {
            // What waits in it must not become durable before the end of an older log.
            let dropped = self.with(|writer| writer.truncate(0));
            self.mount.logs.end(&self.writer);
            *self.writer.state.lock() = State::Closed;
            return dropped.and(Err(failure));
        }
        // Known for as long as its end is not durable: a newer log may begin meanwhile.
        let is_known = self.mount.logs.knows(&self.writer);
        let synced = if is_known { self.writer.sync_if_open(Claim::Last) } else { Ok(()) };
        self.mount.logs.end(&self.writer);
        let closed = match std::mem::replace(&mut *self.writer.state.lock(), State::Closed) {
            State::Open(writer) => synced.and(writer.close().map_err(Failure::from)),
            State::Refused(why) => Err(why),
            State::Closed => Ok(()),
        };
        self.unless_for_people(closed)
    }

    /// Bytes in all; 0 once it is closed.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match &*self.writer.state.lock() {
            State::Open(writer) => writer.size_bytes(),
            State::Refused(_) | State::Closed => 0,
        }
    }

    /// Says how long its data will live.
    ///
    /// # Errors
    /// `Io`.
    pub fn set_lifetime(&self, lifetime: Lifetime) -> Result<(), Failure> {
        self.with(|writer| {
            let tags = writer.tags();
            if tags.lifetime == lifetime { Ok(()) } else { writer.retag(lifetime, tags.level) }
        })
    }
}
