//! RocksDB through its C interface.
//!
//! Half of the budget is two memtables, half a block cache that holds index and filter blocks too (as the ZKV paper halves
//! its 400 MB); direct reads and writes, Bloom filters of 10 bits above the last level, in pieces as indexes are, no compression, two
//! background jobs.
//! With the log on a thread hands it to the system once a millisecond ([`LogFlusher`]).
//!
//! Calling C needs unsafe code. Every object is made in `create` and lives until the process ends or `close`, which waits
//! for all users; the library's own documentation says which calls any thread may make: all that are made here.

mod api;
mod log_flusher;

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{BenchError, Result, StorePlan, Subject};
use zonda_rt::RwLock;

use crate::library::Library;
use crate::peer::{counters, directory, failed};
use api::{Failure, Functions, Handle};
use log_flusher::LogFlusher;

const NAME: &str = "rocksdb";

/// Debian 12 has 7.8; the link without a version comes with the -dev package.
const LIBRARIES: [&str; 2] = ["librocksdb.so.7.8", "librocksdb.so"];

fn load() -> std::result::Result<Functions, String> {
    Library::open(&LIBRARIES).and_then(Functions::find)
}

/// What is missing, with the package.
pub(crate) fn missing() -> Option<String> {
    load().err().map(|why| format!("apt-get install librocksdb7.8 ({why})"))
}

/// An open database.
#[derive(Debug)]
pub(crate) struct RocksDb {
    open: Arc<Open>,
    write: Handle,
    write_synced: Handle,
    read: Handle,
    flush: Handle,
    /// With the log on.
    log: Option<LogFlusher>,
}

/// What the thread of the log uses too.
#[derive(Debug)]
struct Open {
    functions: Functions,
    database: RwLock<Database>,
}

/// Null once closed.
#[derive(Debug)]
struct Database {
    handle: Handle,
    /// Its only column family, which one call wants to be told.
    family: Handle,
}

// SAFETY: the handles are of thread-safe objects: a database that any thread may use, and options that nobody changes after
// `create`.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}
// SAFETY: as above; the pointers are only handed to the library.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl RocksDb {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `Peer` with the library's words.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let functions = load().map_err(failed(NAME, "load its library"))?;
        let path = directory(NAME, plan)?;
        let path = CString::new(path.to_string_lossy().as_bytes()).map_err(failed(NAME, "name its directory"))?;
        raise_open_files_max();
        let database = Database::create(&functions, &path, options(&functions, plan))?;
        let open = Arc::new(Open { functions, database: RwLock::new(database) });
        let of_log = Arc::clone(&open);
        let log = plan.log.then(|| LogFlusher::start(NAME, move || of_log.flush_log(false))).transpose()?;
        Ok(Self {
            open,
            write: write_options(&functions, plan.log, false),
            write_synced: write_options(&functions, plan.log, plan.log),
            // SAFETY: takes nothing.
            read: unsafe { (functions.rocksdb_readoptions_create)() },
            // SAFETY: takes nothing.
            flush: unsafe { (functions.rocksdb_flushoptions_create)() },
            log,
        })
    }

    fn check_log(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), LogFlusher::check)
    }

    /// Copies a value that was found into `into` and gives it back; says whether there was one.
    fn take(&self, slice: Handle, into: &mut Vec<u8>) -> bool {
        if slice.is_null() {
            return false;
        }
        let (f, mut value_bytes) = (&self.open.functions, 0);
        // SAFETY: the slice is not null; its bytes stay until it is destroyed, once, at the end.
        unsafe {
            let value = (f.rocksdb_pinnableslice_value)(slice, &mut value_bytes);
            into.extend_from_slice(std::slice::from_raw_parts(value, value_bytes));
            (f.rocksdb_pinnableslice_destroy)(slice);
        }
        true
    }
}

impl Open {
    /// Calls the library with the open database.
    fn with<T>(&self, doing: &'static str, call: impl FnOnce(&Functions, &Database, Failure) -> T) -> Result<T> {
        let database = self.database.read();
        if database.handle.is_null() {
            return Err(failed(NAME, doing)("it is closed"));
        }
        checked(&self.functions, doing, |failure| call(&self.functions, &database, failure))
    }

    /// Hands the log to the system, and on to the device if `synced`.
    fn flush_log(&self, synced: bool) -> Result<()> {
        // SAFETY: the database is live.
        self.with("flush its log", |f, database, failure| unsafe {
            (f.rocksdb_flush_wal)(database.handle, u8::from(synced), failure);
        })
    }
}

impl Database {
    fn create(f: &Functions, path: &CStr, options: Handle) -> Result<Self> {
        const FAMILIES: c_int = 1;
        let (name, mut family) = (c"default".as_ptr(), ptr::null_mut());
        // SAFETY: `options` is complete, `path` outlives the call, names, options and handles are one each, and `checked` gives a place
        // for the message.
        let handle = checked(f, "open", |failure| unsafe {
            (f.rocksdb_open_column_families)(options, path.as_ptr(), FAMILIES, &name, &options, &mut family, failure)
        })?;
        Ok(Self { handle, family })
    }
}

/// All files stay open, of which there are more than a process may usually have.
fn raise_open_files_max() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a writable rlimit, and is handed back only if the first call filled it. Where the system refuses, the limit stays,
    // and the library says so itself when it has run into it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Options that nobody changes afterwards; they live as long as the process.
fn options(f: &Functions, plan: &StorePlan) -> Handle {
    const MEMTABLES: u64 = 2;
    const BACKGROUND_JOBS: c_int = 2;
    /// Small files are compacted a little at a time, which fits small budgets.
    const FILE_BYTES: u64 = 4 << 20;
    /// A file's filter in one piece would have to fit one of the 64 parts of the block cache, or be read anew for every get; so filters and
    /// indexes are in pieces of a block, found through a small one that stays in the cache.
    const TWO_LEVELS: c_int = 2;
    const PIECE_BYTES: u64 = 4096;
    /// There are some 1,400 at the paper's scale; whoever opens one anew reads its index for it.
    const OPEN_FILES_NO_END: c_int = -1;
    const BLOOM_BITS: f64 = 10.0;
    const NO_COMPRESSION: c_int = 0;
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let memory_bytes = plan.memory_bytes;
    // SAFETY: every handle is fresh from its constructor and of the type that the setter wants; the table's options own
    // cache and filter, the database's own the table's.
    unsafe {
        let options = (f.rocksdb_options_create)();
        (f.rocksdb_options_set_create_if_missing)(options, 1);
        (f.rocksdb_options_set_error_if_exists)(options, 1);
        (f.rocksdb_options_set_write_buffer_size)(options, bytes(memory_bytes / 2 / MEMTABLES));
        (f.rocksdb_options_set_max_write_buffer_number)(options, 2);
        (f.rocksdb_options_set_target_file_size_base)(options, FILE_BYTES);
        (f.rocksdb_options_set_max_open_files)(options, OPEN_FILES_NO_END);
        // Whoever reads asks for a record that is there: the last level's filters would say nothing, and are more than the cache holds.
        (f.rocksdb_options_set_optimize_filters_for_hits)(options, 1);
        (f.rocksdb_options_set_manual_wal_flush)(options, u8::from(plan.log));
        (f.rocksdb_options_set_max_background_jobs)(options, BACKGROUND_JOBS);
        (f.rocksdb_options_set_compression)(options, NO_COMPRESSION);
        (f.rocksdb_options_set_use_direct_reads)(options, 1);
        (f.rocksdb_options_set_use_direct_io_for_flush_and_compaction)(options, 1);
        let table = (f.rocksdb_block_based_options_create)();
        let cache = (f.rocksdb_cache_create_lru)(bytes(memory_bytes / 2));
        (f.rocksdb_block_based_options_set_block_cache)(table, cache);
        (f.rocksdb_block_based_options_set_cache_index_and_filter_blocks)(table, 1);
        let filter = (f.rocksdb_filterpolicy_create_bloom_full)(BLOOM_BITS);
        (f.rocksdb_block_based_options_set_filter_policy)(table, filter);
        (f.rocksdb_block_based_options_set_index_type)(table, TWO_LEVELS);
        (f.rocksdb_block_based_options_set_partition_filters)(table, 1);
        (f.rocksdb_block_based_options_set_metadata_block_size)(table, PIECE_BYTES);
        (f.rocksdb_block_based_options_set_pin_top_level_index_and_filter)(table, 1);
        (f.rocksdb_options_set_block_based_table_factory)(options, table);
        options
    }
}

fn write_options(f: &Functions, log: bool, synced: bool) -> Handle {
    // SAFETY: the handle is fresh from its constructor.
    unsafe {
        let options = (f.rocksdb_writeoptions_create)();
        (f.rocksdb_writeoptions_disable_WAL)(options, c_int::from(!log));
        (f.rocksdb_writeoptions_set_sync)(options, u8::from(synced));
        options
    }
}

/// What reports say: the version, where the library's name has it.
fn device_of(library: &str) -> String {
    match library.strip_prefix("librocksdb.so.") {
        Some(version) => format!("rocksdb {version} (O_DIRECT)"),
        None => format!("rocksdb, as in {library} (O_DIRECT)"),
    }
}

/// Runs a call that may leave a message, and frees the message.
fn checked<T>(f: &Functions, doing: &'static str, call: impl FnOnce(Failure) -> T) -> Result<T> {
    let mut message: *mut c_char = ptr::null_mut();
    let result = call(&mut message);
    answered(f, doing, message).map(|()| result)
}

/// An error if there is a message, which is freed.
fn answered(f: &Functions, doing: &'static str, message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a message is a C string that is ours to free.
    let said = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: allocated by the library, not used afterwards.
    unsafe { (f.rocksdb_free)(message.cast()) };
    Err(BenchError::Peer { engine: NAME, doing, said })
}

/// An iterator that is destroyed when it goes.
struct Iterator<'a> {
    functions: &'a Functions,
    handle: Handle,
}

impl Iterator<'_> {
    /// The pair that it is at; valid until it moves.
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        let f = self.functions;
        // SAFETY: the handle is of a live iterator; key and value are asked for only when it is valid, and point to bytes
        // that stay until it moves, which takes `&mut self`.
        unsafe {
            if (f.rocksdb_iter_valid)(self.handle) == 0 {
                return None;
            }
            let (mut key_bytes, mut value_bytes) = (0, 0);
            let key = (f.rocksdb_iter_key)(self.handle, &mut key_bytes);
            let value = (f.rocksdb_iter_value)(self.handle, &mut value_bytes);
            Some((std::slice::from_raw_parts(key, key_bytes), std::slice::from_raw_parts(value, value_bytes)))
        }
    }

    fn next(&mut self) {
        // SAFETY: called only after `pair` returned one, so the iterator is valid.
        unsafe { (self.functions.rocksdb_iter_next)(self.handle) }
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once.
        unsafe { (self.functions.rocksdb_iter_destroy)(self.handle) }
    }
}

impl Subject for RocksDb {
    fn device(&self) -> String {
        device_of(Library::open(&LIBRARIES).map_or("no library", |library| library.name))
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.check_log()?;
        let options = if durability == Durability::Synced { self.write_synced } else { self.write };
        // SAFETY: database and options are live; key and value are given with their lengths and copied by the call.
        self.open.with("put", |f, database, failure| unsafe {
            (f.rocksdb_put)(database.handle, options, key.as_ptr(), key.len(), value.as_ptr(), value.len(), failure);
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.check_log()?;
        // SAFETY: as in `put`.
        self.open.with("delete", |f, database, failure| unsafe {
            (f.rocksdb_delete)(database.handle, self.write, key.as_ptr(), key.len(), failure);
        })
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        // SAFETY: as in `put`.
        let slice = self.open.with("get", |f, database, failure| unsafe {
            (f.rocksdb_get_pinned)(database.handle, self.read, key.as_ptr(), key.len(), failure)
        })?;
        Ok(self.take(slice, into))
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        const DOING: &str = "multi-get";
        const SORTED: bool = false;
        let starts: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths: Vec<_> = keys.iter().map(Vec::len).collect();
        let mut slices: Vec<Handle> = vec![ptr::null_mut(); keys.len()];
        let mut messages: Vec<*mut c_char> = vec![ptr::null_mut(); keys.len()];
        let (starts, lengths) = (starts.as_ptr(), lengths.as_ptr());
        // SAFETY: as in `put`; all four lists are as long as the call is told, and outlive it.
        self.open.with(DOING, |f, database, _| unsafe {
            let (values, failures) = (slices.as_mut_ptr(), messages.as_mut_ptr());
            let (database, family) = (database.handle, database.family);
            (f.rocksdb_batched_multi_get_cf)(
                database,
                self.read,
                family,
                keys.len(),
                starts,
                lengths,
                values,
                failures,
                SORTED,
            );
        })?;
        let found = slices.into_iter().map(|slice| {
            let mut value = Vec::new();
            self.take(slice, &mut value).then_some(value)
        });
        // Each message is freed, also behind the first.
        let said = messages.into_iter().map(|message| answered(&self.open.functions, DOING, message));
        let (found, said): (Vec<_>, Vec<_>) = (found.collect(), said.collect());
        said.into_iter().collect::<Result<()>>().map(|()| found)
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let database = self.open.database.read();
        if database.handle.is_null() {
            return Err(failed(NAME, "scan")("it is closed"));
        }
        let functions = &self.open.functions;
        // SAFETY: the database stays open while its lock is held, which is longer than the iterator lives.
        let handle = unsafe { (functions.rocksdb_create_iterator)(database.handle, self.read) };
        let mut iterator = Iterator { functions, handle };
        // SAFETY: the iterator is live; the key is given with its length.
        unsafe { (functions.rocksdb_iter_seek)(handle, from.as_ptr(), from.len()) };
        let mut seen = 0;
        while seen < pairs
            && let Some((key, value)) = iterator.pair()
        {
            visit(key, value)?;
            seen += 1;
            iterator.next();
        }
        // SAFETY: the iterator is live.
        checked(functions, "scan", |failure| unsafe { (functions.rocksdb_iter_get_error)(handle, failure) })?;
        Ok(seen)
    }

    fn sync(&self) -> Result<()> {
        if self.log.is_none() {
            return self.checkpoint();
        }
        self.check_log()?;
        self.open.flush_log(true)
    }

    fn checkpoint(&self) -> Result<()> {
        // SAFETY: database and options are live.
        self.open.with("flush", |f, database, failure| unsafe {
            (f.rocksdb_flush)(database.handle, self.flush, failure);
        })
    }

    fn compact(&self) -> Result<()> {
        self.checkpoint()
    }

    fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(counters())
    }

    fn close(&self) -> Result<()> {
        let logged = self.log.as_ref().map_or(Ok(()), LogFlusher::stop);
        let (f, mut database) = (&self.open.functions, self.open.database.write());
        if !database.handle.is_null() {
            // SAFETY: nobody else holds the lock, so no call is in progress; neither handle is used again.
            unsafe {
                (f.rocksdb_column_family_handle_destroy)(database.family);
                (f.rocksdb_close)(database.handle);
            }
            *database = Database { handle: ptr::null_mut(), family: ptr::null_mut() };
        }
        logged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has but the link without a version may have any.
    #[test]
    fn a_version_is_said_where_it_is_known() {
        assert_eq!(LIBRARIES.map(device_of), ["rocksdb 7.8 (O_DIRECT)", "rocksdb, as in librocksdb.so (O_DIRECT)"]);
    }
}
