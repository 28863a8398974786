//! File systems that are mounted in this process: one per device, shared by all who name it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use zonda_device::BlockDevice;
use zonda_files::trace::TraceWriter;
use zonda_files::{Cleaner, FileError, FilePath, FileStore, FileStoreOptions, MountReport, Placement, StoreId};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};
use zonda_rt::{Condvar, Mutex};

use crate::devices::{self, Modelled, Opened};
use crate::failure::{Failure, Kind};
use crate::locks::Locks;
use crate::log_order::LogOrder;
use crate::lsm::View;
use crate::options::{random, thread_cpu_time};
use crate::report;
use crate::system::Reader;
use crate::tell::tell;
use crate::uri::Uri;

/// What is mounted, by the name of its device and whether it is read only. Its lock is held by nobody who mounts or unmounts.
static MOUNTS: Mutex<BTreeMap<String, Entry>> = Mutex::new(BTreeMap::new());
/// A mount has begun or ended.
static CHANGED: Condvar = Condvar::new();

/// Life cycle: 1 somebody mounts -> 2 mounted, and shared -> 3 nobody uses it any more, and it is ending -> gone. Whoever names the
/// device in 1 or 3 waits.
#[derive(Debug)]
enum Entry {
    Mounting,
    Mounted(Weak<Mounted>),
}

impl Entry {
    fn mount(&self) -> Option<Arc<Mounted>> {
        match self {
            Self::Mounting => None,
            Self::Mounted(mount) => mount.upgrade(),
        }
    }
}

/// A mounted file system. Lives as long as somebody uses it.
#[derive(Debug)]
pub struct Mounted {
    /// Names, directories and bytes.
    pub store: FileStore,
    /// What the databases on it are doing.
    pub lsm: View,
    /// Cleans in the background, if the name asks for it.
    pub(crate) cleaner: Option<Cleaner>,
    pub(crate) locks: Locks,
    pub(crate) logs: LogOrder,
    pub(crate) wal_flush: bool,
    /// Tables wait in memory until their keys are known.
    pub(crate) places_by_keys: bool,
    /// The drive below, if it is a modelled one.
    pub(crate) drive: Option<Modelled>,
    /// Its name when it was mounted.
    pub(crate) uri: Uri,
    /// What mounting took, above all making a device in memory that is there as a whole from the beginning.
    pub(crate) mounting_cpu_time: Duration,
    pub(crate) reads: [AtomicU64; 2],
    /// Reads that were asked for together with others.
    pub(crate) reads_together: AtomicU64,
    /// People were told of a read that was stale.
    stale_is_told: AtomicBool,
    pub(crate) small_work: SmallWork,
    pub(crate) trace: Option<Arc<TraceWriter>>,
    /// Where it leaves a report.
    pub(crate) reported_in: Option<PathBuf>,
    /// Last: dropped when nothing else of it is left.
    end: End,
}

/// Makes way for the next mount of a device when it is dropped: at the end of one, or of an attempt.
#[derive(Debug)]
struct End {
    key: String,
    /// That mounted it.
    process: u32,
}

impl End {
    fn new(key: String) -> Self {
        Self { key, process: std::process::id() }
    }

    /// Whether this is a child of the process that mounted it.
    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // In a child, whoever held a lock when it began may not be there.
        let mounts = if self.is_inherited() { MOUNTS.try_lock() } else { Some(MOUNTS.lock()) };
        if let Some(mut mounts) = mounts {
            mounts.remove(&self.key);
        }
        CHANGED.notify_all();
    }
}

/// What `RocksDB` asked for beside reads and writes of data, and what was done of it.
#[derive(Debug, Default)]
pub(crate) struct SmallWork {
    /// Syncs of directories that were done.
    pub(crate) directory_syncs: AtomicU64,
    /// Those for a new file whose own sync had made its name durable.
    pub(crate) directory_syncs_spared: AtomicU64,
    /// Flushes of info logs that were done.
    pub(crate) info_log_flushes: AtomicU64,
    /// Those that were put off, because the last one was done shortly before.
    pub(crate) info_log_flushes_put_off: AtomicU64,
}

/// Mounts the file system of this name, or shares it if it is mounted; makes it if the name says so. Waits for the end of a mount
/// that nobody uses any more.
///
/// # Errors
/// `InvalidArgument` for a bad name, or if it is mounted with other options; those of device and store.
pub fn mounted(uri: &str) -> Result<Arc<Mounted>, Failure> {
    let uri = Uri::parse(uri)?;
    let key = key_of(&uri);
    let mut mounts = MOUNTS.lock();
    while let Some(entry) = mounts.get(&key) {
        if let Some(mount) = entry.mount() {
            // If it is dropped here it is not under the lock, which its end takes.
            drop(mounts);
            return mount.shared_with(&uri).map(|()| mount);
        }
        mounts = CHANGED.wait(mounts);
    }
    mounts.insert(key.clone(), Entry::Mounting);
    drop(mounts);
    let mount = Arc::new(Mounted::new(&uri, End::new(key.clone()))?);
    MOUNTS.lock().insert(key, Entry::Mounted(Arc::downgrade(&mount)));
    CHANGED.notify_all();
    Ok(mount)
}

/// The file system of this name, if it is mounted in this process.
///
/// # Errors
/// `NotFound` if it is not; otherwise as [`mounted`].
pub fn mounted_before(uri: &str) -> Result<Arc<Mounted>, Failure> {
    let uri = Uri::parse(uri)?;
    let key = key_of(&uri);
    let is_mounting = |mounts: &mut BTreeMap<String, Entry>| matches!(mounts.get(&key), Some(Entry::Mounting));
    let mount = CHANGED.wait_while(MOUNTS.lock(), is_mounting).get(&key).and_then(Entry::mount);
    let mount = mount.ok_or_else(|| Failure::new(Kind::NotFound, format!("{uri}: is not mounted in this process")))?;
    mount.shared_with(&uri).map(|()| mount)
}

/// Beside the mount that writes a device there may be one that only reads.
fn key_of(uri: &Uri) -> String {
    let device = uri.device_in_order();
    if uri.is_read_only { format!("{device} read-only") } else { device }
}

impl Mounted {
    /// `end` lives as long as it, or as the attempt.
    fn new(uri: &Uri, end: End) -> Result<Self, Failure> {
        let reported_in = report::file()?;
        let (trace, traced_in) = trace()?.unzip();
        let mut unused = Unused(traced_in);
        let options = FileStoreOptions { trace: trace.clone(), ..uri.options.clone() };
        let before = thread_cpu_time();
        let (store, drive) = match uri.placement {
            Some(placement) => store_on_blocks(uri, placement, options)?,
            None => store_on_zones(uri, options)?,
        };
        let mounting_cpu_time = thread_cpu_time().saturating_sub(before);
        if let (placement, Some(reason)) = store.placement() {
            let asked = uri.options.policy.name();
            tell(format_args!("{uri}: policy={asked} does not work as asked, {placement} is in use: {reason}"));
        }
        let cleaner = uri.clean_rate.filter(|_| !uri.is_read_only).map(|rate| {
            store.set_clean_rate(rate);
            Cleaner::start(store.clone())
                .map_err(|error| Failure::new(Kind::Io, format!("{uri}: cannot start the threads that clean: {error}")))
        });
        let cleaner = cleaner.transpose()?;
        unused.0 = None;
        Ok(Self {
            drive,
            trace,
            reported_in,
            cleaner,
            lsm: View::new(store.clone()),
            store,
            locks: Locks::default(),
            logs: LogOrder::default(),
            wal_flush: uri.wal_flush,
            places_by_keys: uri.options.policy.needs_keys(),
            uri: uri.clone(),
            mounting_cpu_time,
            reads: Default::default(),
            reads_together: AtomicU64::default(),
            stale_is_told: AtomicBool::default(),
            small_work: SmallWork::default(),
            end,
        })
    }

    /// Whether this is a child of the process that mounted it, and shares the device and files of that but none of its threads.
    pub(crate) fn is_inherited(&self) -> bool {
        self.end.is_inherited()
    }

    /// Never drops what would end, write or wait for what is the parent's: its threads, the bytes of the trace that wait, the lock of the
    /// device.
    pub(crate) fn leave_to_parent(&mut self) {
        std::mem::forget((self.cleaner.take(), self.trace.take(), self.store.clone()));
    }

    /// Why a file cannot be opened or read. People are told of the first that is stale, as `RocksDB` may keep it to itself: an iterator of
    /// 7.8.3 that moves on to a table it cannot read goes on without that level and ends well (its pull request 11782 mends it), and not
    /// all programs ask how one ended.
    pub(crate) fn failed_read(&self, path: &FilePath, error: FileError) -> Failure {
        let failure = Failure::of_file(path, error);
        if failure.kind == Kind::Stale && !self.stale_is_told.swap(true, Ordering::Relaxed) {
            let (uri, message) = (&self.uri, &failure.message);
            let again = if uri.is_read_only { ": mount again" } else { "" };
            tell(format_args!("{uri}: Stale file handle: {message}; what is read may lack keys{again}"));
        }
        failure
    }

    /// Refuses to be another mount than it is, and to be one in a child.
    fn shared_with(&self, uri: &Uri) -> Result<(), Failure> {
        if self.is_inherited() {
            let message = format!("{uri}: process {} has it mounted, and this is a child of it", self.end.process);
            return Err(Failure::new(Kind::Io, message));
        }
        if self.uri.is_same_mount(uri) {
            return Ok(());
        }
        let message = format!("{uri}: its device is mounted in this process as {}", self.uri);
        Err(Failure::new(Kind::InvalidArgument, message))
    }

    /// Limits what its thread that cleans copies, in bytes per second, from now on; 0 for no limit.
    ///
    /// # Errors
    /// `InvalidArgument` if it has no such thread.
    pub fn set_clean_rate(&self, bytes_per_second: u64) -> Result<(), Failure> {
        if self.cleaner.is_none() {
            return Err(Failure::invalid(format!("{}: nothing cleans it in the background", self.uri)));
        }
        self.store.set_clean_rate(bytes_per_second);
        Ok(())
    }

    /// Bytes of a log that may wait in memory.
    pub(crate) fn log_buffer_bytes(&self) -> u32 {
        self.uri.options.log_buffer_bytes
    }

    pub(crate) fn count_read(&self, who: Reader, bytes: usize) {
        let counter = match who {
            Reader::User => &self.reads[0],
            Reader::Compaction => &self.reads[1],
            Reader::Keys => return,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes read for users, and for compactions, since the mount.
    #[must_use]
    pub fn read_bytes(&self) -> [u64; 2] {
        [0, 1].map(|who: usize| self.reads[who].load(Ordering::Relaxed))
    }
}

fn store_on_zones(uri: &Uri, options: FileStoreOptions) -> Result<(FileStore, Option<Modelled>), Failure> {
    let Opened { modelled, device, is_new, made } = devices::open(&uri.device, uri.create, uri.is_read_only)?;
    let store = if uri.is_read_only {
        let (store, report) = FileStore::mount_read_only(device, options)?;
        let said = report.warning().into_iter().chain(report.journal_damage());
        said.for_each(|what| tell(format_args!("{uri}: {what}")));
        store
    } else if is_new || uri.create.is_some() && devices::is_empty(&*device)? {
        devices::formatted(FileStore::format(device, new_id(), false, options), made)?
    } else {
        let (store, report) = FileStore::mount(device, options)?;
        tell_damage(uri, &report);
        store
    };
    Ok((store, modelled))
}

/// A store on a conventional drive. Whether one is there is seen by its blocks: such drives have no empty zones.
fn store_on_blocks(
    uri: &Uri,
    placement: Placement,
    options: FileStoreOptions,
) -> Result<(FileStore, Option<Modelled>), Failure> {
    let Opened { modelled, device, is_new, made } = devices::open_blocks(&uri.device, uri.create)?;
    let format = |options| FileStore::format_on_blocks(Arc::clone(&device), placement, new_id(), false, options);
    if is_new {
        return Ok((devices::formatted(format(options), made)?, modelled));
    }
    let store = match FileStore::mount_on_blocks(Arc::clone(&device), options.clone()) {
        Ok((store, report)) if store.placement().0 == placement.name() => {
            tell_damage(uri, &report);
            store
        }
        Ok((store, _)) => {
            let made = store.placement().0;
            let message = format!("{uri}: the store was made with fs={made}, not with fs={}", placement.name());
            return Err(Failure::invalid(message));
        }
        // `format_on_blocks` refuses a device that holds anything.
        Err(refusal) if uri.create.is_some() => {
            format(options).map_err(|error| not_made(refusal.into(), error.into()))?
        }
        Err(refusal) => return Err(not_mounted(uri, &*device, refusal.into())),
    };
    Ok((store, modelled))
}

/// Why there was nothing to mount, and why a new store was not made either.
fn not_made(refusal: Failure, why: Failure) -> Failure {
    match why == refusal {
        true => refusal,
        false => Failure { message: format!("{}; none was made: {}", refusal.message, why.message), ..refusal },
    }
}

/// The refusal; of a blank device, what makes a store on it.
fn not_mounted(uri: &Uri, device: &dyn BlockDevice, refusal: Failure) -> Failure {
    match FileStore::block_written(device) {
        Ok(None) => {
            Failure::new(Kind::NotFound, format!("{uri}: the device is blank; `create=on` makes a store on it"))
        }
        Ok(Some(_)) | Err(_) => refusal,
    }
}

fn tell_damage(uri: &Uri, report: &MountReport) {
    report.damage().into_iter().for_each(|damage| tell(format_args!("{uri}: {damage}")));
}

fn new_id() -> StoreId {
    StoreId(u128::from(random()) << 64 | u128::from(random()))
}

/// The trace of a mount that is refused: there is nothing in it, and the next mount's is to have its name.
struct Unused(Option<OsString>);

impl Drop for Unused {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Traces of one process at most, beside each other.
const TRACES_MAX: u32 = 1000;

/// The trace that `ZONDA_TRACE=FILE` asks for: unmodified programs have no call for it. A later mount's is `FILE.1`, and so on;
/// no trace replaces another. With `ZONDA_TRACE_READS=on` reads are recorded too. It, and the file that was made for it.
fn trace() -> Result<Option<(Arc<TraceWriter>, OsString)>, Failure> {
    let Some(path) = std::env::var_os("ZONDA_TRACE") else { return Ok(None) };
    let refuse = |why: String| Failure::invalid(format!("ZONDA_TRACE={}: {why}", path.display()));
    let with_reads = match std::env::var_os("ZONDA_TRACE_READS") {
        None => false,
        Some(value) if value == "off" => false,
        Some(value) if value == "on" => true,
        Some(value) => {
            return Err(Failure::invalid(format!("ZONDA_TRACE_READS={}: it is on or off", value.display())));
        }
    };
    for number in 0..TRACES_MAX {
        let mut path = path.clone();
        if number > 0 {
            path.push(format!(".{number}"));
        }
        match File::create_new(&path) {
            Ok(file) => {
                let writer = TraceWriter::new(Box::new(file));
                return Ok(Some((Arc::new(if with_reads { writer.with_reads() } else { writer }), path)));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refuse(error.to_string())),
        }
    }
    Err(refuse(format!("there are {TRACES_MAX} already")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zonda_files::{FileKind, FilePath, FileTags, FileWriter};

    use super::*;

    fn one() -> FilePath {
        FilePath::parse("/one").unwrap()
    }

    fn write_one(mount: &Mounted) -> FileWriter {
        let mut file = mount.store.create(&one(), FileTags::of(FileKind::Data)).unwrap();
        file.append(b"some bytes").unwrap();
        file.sync().unwrap();
        file
    }

    /// What was written is read, and nothing changed.
    fn reads_one(beside: &Mounted) {
        let mut read = [0; 16];
        let count = beside.store.open(&one()).unwrap().read_at(0, &mut read).unwrap();
        assert_eq!(read[..count], *b"some bytes");
        assert!(beside.store.remove(&one()).is_err());
    }

    #[test]
    fn one_device_is_mounted_once() {
        let directory = tempfile::tempdir().unwrap();
        let uri = format!("zonda://file:{}/zones?create=64MiB", directory.path().display());
        let first = mounted(&uri).unwrap();
        assert!(Arc::ptr_eq(&first, &mounted(&uri).unwrap()));
        let again = format!("zonda://file:{}/zones", directory.path().display());
        assert!(Arc::ptr_eq(&first, &mounted(&again).unwrap()), "`create` says nothing of what is there");
        let other = format!("zonda://file:{}/zones?policy=levels", directory.path().display());
        assert_eq!(mounted(&other).unwrap_err().kind, Kind::InvalidArgument);
        drop(first);
        mounted(&other).unwrap();
    }

    #[test]
    fn a_conventional_drive_is_found_again_by_the_name_that_made_it() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("drive");
        for keys in ["zone_size=1MiB", "zones=64", "zones=64&zone_size=1MiB"] {
            let uri = format!("zonda://file:{}?fs=xfs-like&create=64MiB&{keys}", name.display());
            drop(mounted(&uri).unwrap());
            drop(mounted(&uri).unwrap());
            fs::remove_file(&name).unwrap();
        }
    }

    #[test]
    fn a_refused_creation_leaves_no_device_behind() {
        let directory = tempfile::tempdir().unwrap();
        let uri = |keys: &str| format!("zonda://file:{}/zones?{keys}", directory.path().display());
        for keys in [
            "create=5MiB",
            "create=64MiB&reserve_zones=0",
            "create=64MiB&active_zones=1",
            "create=1MiB&fs=xfs-like",
            "create=64MiB&fs=f2fs-like&reserve_zones=0",
        ] {
            mounted(&uri(keys)).unwrap_err();
            assert!(fs::read_dir(directory.path()).unwrap().next().is_none(), "{keys}");
        }
        let data = directory.path().join("data");
        let drive = format!("zonda://conv:test-conv?time=untimed&data={}", data.display());
        mounted(&format!("{drive}&reserve_zones=0")).unwrap_err();
        assert!(!data.exists());
        drop(mounted(&drive).unwrap());
        drop(mounted(&drive).unwrap());
        mounted(&uri("create=64MiB")).unwrap();
        mounted(&uri("create=64MiB&reserve_zones=0")).unwrap_err();
        mounted(&uri("create=1GiB")).expect("what was there before is there still");
    }

    #[test]
    fn the_rate_of_cleaning_changes_while_it_is_mounted() {
        let directory = tempfile::tempdir().unwrap();
        let zones = format!("zonda://file:{}/zones", directory.path().display());
        let uri = format!("{zones}?create=32MiB&zone_size=1MiB&clean_threshold=90&clean_rate=1");
        assert_eq!(mounted_before(&uri).unwrap_err().kind, Kind::NotFound);
        let mount = mounted(&uri).unwrap();
        let path = |number: u32| zonda_files::FilePath::parse(&format!("/{number}")).unwrap();
        let tags = zonda_files::FileTags::of(zonda_files::FileKind::Data);
        for number in 0..60 {
            let mut file = mount.store.create(&path(number), tags).unwrap();
            file.append(&[7; 300 << 10]).unwrap();
            file.sync().unwrap();
        }
        // In every zone something is dead.
        (0..60).step_by(3).for_each(|number| mount.store.remove(&path(number)).unwrap());
        mount.store.sync_names().unwrap();
        let copied = || mount.store.usage().copied_bytes;
        zonda_rt::sleep(Duration::from_millis(500));
        assert_eq!(copied(), 0, "the first zone takes days");
        mounted_before(&uri).unwrap().set_clean_rate(0).unwrap();
        while copied() == 0 {
            zonda_rt::sleep(Duration::from_millis(10));
        }
        drop(mount);
        let without = mounted(&format!("{zones}?clean_threshold=0")).unwrap();
        assert_eq!(without.set_clean_rate(1).unwrap_err().kind, Kind::InvalidArgument);
    }

    #[test]
    fn who_mounts_waits_for_the_end_of_the_mount_before() {
        use zonda_device::{Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice};

        let device = Arc::new(Faulty::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap(), 1));
        crate::offer_device("ending-test", Some(device.clone()));
        let uri = "zonda://process:ending-test";
        let first = mounted(&format!("{uri}?create=on")).unwrap();
        first.store.create(&one(), FileTags::of(FileKind::Data)).unwrap().close().unwrap();
        let holders = Arc::strong_count(&device);
        let effect = FaultEffect::Delay(Duration::from_millis(500));
        device.inject(Fault { call: Some(zonda_rt::DeviceCall::Flush), zone: None, when: FaultWhen::Nth(1), effect });
        let ending = zonda_rt::spawn("ends", move || drop(first));
        while device.injected() == 0 {
            zonda_rt::yield_now();
        }
        let second = mounted(uri).unwrap();
        assert_eq!(Arc::strong_count(&device), holders, "two stores write one device");
        assert!(second.store.open(&one()).is_ok());
        drop(second);
        assert!(ending.join().is_ok());
        crate::offer_device("ending-test", None);
    }

    #[test]
    fn who_mounts_holds_up_those_alone_who_name_the_same_device() {
        use zonda_device::{Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice};
        use zonda_rt::atomic::AtomicBool;

        let device = Arc::new(Faulty::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap(), 1));
        crate::offer_device("slow-test", Some(device.clone()));
        crate::offer_device("quick-test", Some(Arc::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap())));
        let effect = FaultEffect::Delay(Duration::from_secs(2));
        device.inject(Fault { call: Some(zonda_rt::DeviceCall::Flush), zone: None, when: FaultWhen::Nth(1), effect });
        let is_mounted = Arc::new(AtomicBool::new(false));
        let (slow, was_mounted) = ("zonda://process:slow-test?create=on", Arc::clone(&is_mounted));
        let mounting = zonda_rt::spawn("mounts", move || {
            let mount = mounted(slow).unwrap();
            was_mounted.store(true, Ordering::Release);
            mount
        });
        while device.injected() == 0 {
            zonda_rt::yield_now();
        }
        let quick = "zonda://process:quick-test";
        assert_eq!(mounted_before(quick).unwrap_err().kind, Kind::NotFound);
        drop(mounted(&format!("{quick}?create=on")).unwrap());
        assert!(!is_mounted.load(Ordering::Acquire), "it waited for the other");
        let shared = [mounted_before(slow).unwrap(), mounted(slow).unwrap()];
        let first = mounting.join().unwrap();
        assert!(shared.iter().all(|mount| Arc::ptr_eq(mount, &first)));
        crate::offer_device("slow-test", None);
        crate::offer_device("quick-test", None);
    }

    #[test]
    fn a_refused_mount_is_in_nobodys_way() {
        let refused = || mounted("zonda://process:never-offered").unwrap_err().kind;
        assert_eq!((refused(), refused()), (Kind::NotFound, Kind::NotFound));
    }

    /// Conventional zones of SMR disks are told as offline, too.
    #[test]
    fn a_store_is_made_on_a_drive_that_lost_a_zone() {
        let device = zonda_device::MemDevice::new(zonda_device::Geometry::new(1 << 20, 40)).unwrap();
        device.retire(zonda_device::ZoneId(3), zonda_device::ZoneState::Offline).unwrap();
        crate::offer_device("lost-zone-test", Some(Arc::new(device)));
        let made = mounted("zonda://process:lost-zone-test?create=on");
        crate::offer_device("lost-zone-test", None);
        assert!(made.unwrap().store.list(&zonda_files::FilePath::parse("/").unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_read_only_mount_stands_beside_a_live_one() {
        let device = zonda_device::MemDevice::new(zonda_device::Geometry::new(1 << 20, 40)).unwrap();
        crate::offer_device("mount-test", Some(Arc::new(device)));
        let live = mounted("zonda://process:mount-test?create=on").unwrap();
        let _file = write_one(&live);
        let beside = mounted("zonda://process:mount-test?read_only=on").unwrap();
        assert!(!Arc::ptr_eq(&live, &beside));
        reads_one(&beside);
        live.store.remove(&one()).unwrap();
        crate::offer_device("mount-test", None);
    }

    #[test]
    fn memory_cannot_be_mounted_for_reading() {
        let live = mounted("zonda://mem:?create=16MiB&zones=32").unwrap();
        let refused = mounted("zonda://mem:?create=16MiB&zones=32&read_only=on").unwrap_err();
        assert!(refused.kind == Kind::InvalidArgument && refused.message.contains("`mem:`"), "{refused:?}");
        drop(live);
    }

    #[test]
    fn a_read_only_mount_of_a_file_stands_beside_a_live_one() {
        let directory = tempfile::tempdir().unwrap();
        let uri = format!("zonda://file:{}/zones?", directory.path().display());
        let live = mounted(&format!("{uri}create=64MiB")).unwrap();
        let file = write_one(&live);
        let beside = mounted(&format!("{uri}read_only=on")).unwrap();
        reads_one(&beside);
        drop((file, live));
        mounted(&uri).unwrap().store.remove(&one()).unwrap();
    }

    #[test]
    fn a_modelled_drive_whose_data_is_in_a_file_is_mounted_to_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let uri = format!("zonda://flash:test?time=untimed&data={}/drive&", directory.path().display());
        assert!(mounted(&format!("{uri}read_only=on")).is_err() && !directory.path().join("drive").exists());
        let live = mounted(&uri).unwrap();
        let _file = write_one(&live);
        let beside = mounted(&format!("{uri}read_only=on")).unwrap();
        reads_one(&beside);
        let refused = mounted("zonda://flash:test?time=untimed&read_only=on").unwrap_err();
        assert!(refused.kind == Kind::InvalidArgument && refused.message.contains("data=FILE"), "{refused:?}");
    }

    #[test]
    fn a_modelled_drive_whose_data_is_in_a_file_is_mounted_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        let uri = format!("zonda://flash:splitzns?scale=1/256&zones=40&time=untimed&data={}", path.display());
        let first = mounted(&uri).unwrap();
        drop((write_one(&first), first));
        assert!(mounted(&uri).unwrap().store.open(&one()).is_ok());
    }

    #[test]
    fn a_conventional_drive_is_mounted_again_as_it_was_made() {
        let directory = tempfile::tempdir().unwrap();
        let uri = |keys: &str| format!("zonda://file:{}/blocks?{keys}", directory.path().display());
        let first = mounted(&uri("fs=f2fs-like&create=64MiB")).unwrap();
        assert_eq!(first.store.placement().0, "f2fs-like");
        drop((write_one(&first), first));
        assert!(mounted(&uri("fs=f2fs-like")).unwrap().store.open(&one()).is_ok());
        assert!(mounted(&uri("fs=xfs-like")).unwrap_err().message.contains("fs=f2fs-like"));
        assert!(mounted(&uri("policy=ldp")).is_err(), "it has no zones");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_making_a_device_took_is_told_apart() {
        let populated = mounted("zonda://mem:?create=256MiB&populate=on").unwrap();
        assert!(populated.mounting_cpu_time > Duration::from_millis(8), "{:?}", populated.mounting_cpu_time);
        assert!(!populated.report().contains("\"mounting_cpu_microseconds\": 0"));
    }

    #[test]
    fn a_conventional_drive_is_formatted_only_if_asked_for_and_blank() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blocks");
        let bytes = || fs::read(&path).unwrap();
        let uri = |keys: &str| format!("zonda://file:{}?{keys}", path.display());
        let blank = format!("file:{}?layout=blocks&zones=64&zone_size=1MiB", path.display());
        drop(blank.parse::<zonda_device::DeviceUri>().unwrap().open_block(zonda_device::OpenMode::Create).unwrap());
        let before = bytes();
        let refused = mounted(&uri("fs=xfs-like")).unwrap_err();
        assert!(refused.message.contains("`create=on`"), "{refused:?}");
        assert!(bytes() == before, "it was written");
        drop(mounted(&uri("fs=xfs-like&create=on")).unwrap());
        // What the blocks of zone tables hold is lost.
        let mut damaged = bytes();
        let tables = damaged.windows(8).position(|bytes| bytes == b"ZONDABZT").unwrap();
        damaged[tables..tables + 8192].fill(0);
        fs::write(&path, &damaged).unwrap();
        let refused = mounted(&uri("fs=xfs-like")).unwrap_err();
        assert!(refused.message.contains("zone table") && !refused.message.contains("create"), "{refused:?}");
        let refused = mounted(&uri("fs=xfs-like&create=64MiB")).unwrap_err();
        assert!(refused.message.contains("zone table") && refused.message.contains("not blank"), "{refused:?}");
        assert!(bytes() == damaged, "it was written");
    }

    #[test]
    fn nothing_is_made_unless_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zones");
        assert!(mounted(&format!("zonda://file:{}", path.display())).is_err());
        assert!(!path.exists());
    }
}
