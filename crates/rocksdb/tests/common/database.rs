//! A database through RocksDB's C interface, with the least that the tests need.
//!
//! Batch n puts one of a few keys and its own number into two column families, at once: so what is there tells which batches
//! are, and whether they are there whole.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

/// Column families of every database.
pub(crate) const FAMILIES: usize = 2;
/// Different keys.
const KEYS: u64 = 2000;

type Handle = *mut c_void;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_destroy(options: Handle);
    fn rocksdb_options_set_env(options: Handle, env: Handle);
    fn rocksdb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn rocksdb_options_set_create_missing_column_families(options: Handle, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_target_file_size_base(options: Handle, bytes: u64);
    fn rocksdb_options_set_max_bytes_for_level_base(options: Handle, bytes: u64);
    fn rocksdb_options_set_max_manifest_file_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_keep_log_file_num(options: Handle, count: usize);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_open_column_families(
        options: Handle,
        name: *const c_char,
        count: c_int,
        names: *const *const c_char,
        family_options: *const Handle,
        handles: *mut Handle,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_destroy_db(options: Handle, name: *const c_char, error: *mut *mut c_char);
    fn rocksdb_column_family_handle_destroy(handle: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_destroy(options: Handle);
    fn rocksdb_writeoptions_set_sync(options: Handle, on: c_uchar);
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_writebatch_put_cf(
        batch: Handle,
        family: Handle,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    );
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(options: Handle);
    fn rocksdb_create_iterator_cf(db: Handle, options: Handle, family: Handle) -> Handle;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_iter_seek_to_first(iterator: Handle);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_key(iterator: Handle, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_value(iterator: Handle, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_get_error(iterator: Handle, error: *mut *mut c_char);
    fn rocksdb_compact_range_cf(
        db: Handle,
        family: Handle,
        start: *const c_char,
        start_len: usize,
        limit: *const c_char,
        limit_len: usize,
    );
    fn rocksdb_checkpoint_object_create(db: Handle, error: *mut *mut c_char) -> Handle;
    fn rocksdb_checkpoint_create(object: Handle, path: *const c_char, log_bytes: u64, error: *mut *mut c_char);
    fn rocksdb_checkpoint_object_destroy(object: Handle);
    fn rocksdb_env_destroy(env: Handle);
    fn rocksdb_env_set_background_threads(env: Handle, count: c_int);
    fn rocksdb_env_set_high_priority_background_threads(env: Handle, count: c_int);
    fn rocksdb_free(memory: *mut c_void);
    fn zonda_rocksdb_env_from_uri(uri: *const c_char, error: *mut *mut c_char) -> Handle;
    fn zonda_rocksdb_free(text: *mut c_char);
}

/// Calls something that tells its error by a message, which `free` frees.
fn told<T>(free: unsafe extern "C" fn(*mut c_char), call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error: *mut c_char = null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: a message that ends with a NUL, and is ours to free.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        free(error);
        Err(text)
    }
}

/// # Safety
/// As of `rocksdb_free`.
unsafe extern "C" fn free_message(text: *mut c_char) {
    // SAFETY: as this function's.
    unsafe { rocksdb_free(text.cast()) }
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// An environment of `RocksDB` on a file system of ours.
pub(crate) struct Env(Handle);

// SAFETY: RocksDB's environments may be used from any thread.
unsafe impl Send for Env {}
// SAFETY: the same.
unsafe impl Sync for Env {}

impl Env {
    pub(crate) fn new(uri: &str) -> Result<Self, String> {
        let uri = c(uri);
        // SAFETY: the text outlives the call.
        told(zonda_rocksdb_free, |error| unsafe { zonda_rocksdb_env_from_uri(uri.as_ptr(), error) }).map(Self)
    }

    /// Threads for flushes, and as many for compactions; all environments of the process share them.
    #[allow(dead_code, reason = "not every test needs more than there are")]
    pub(crate) fn set_threads(&self, count: c_int) {
        // SAFETY: the environment is open.
        unsafe {
            rocksdb_env_set_background_threads(self.0, count);
            rocksdb_env_set_high_priority_background_threads(self.0, count);
        }
    }

    /// Small tables and buffers: much happens between two cuts.
    fn options(&self) -> Options {
        // SAFETY: a fresh object of RocksDB, used as c.h says.
        unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_env(options, self.0);
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_create_missing_column_families(options, 1);
            rocksdb_options_set_write_buffer_size(options, 64 << 10);
            rocksdb_options_set_target_file_size_base(options, 32 << 10);
            rocksdb_options_set_max_bytes_for_level_base(options, 128 << 10);
            rocksdb_options_set_max_manifest_file_size(options, 8 << 10);
            // Every opening leaves a LOG of some 50 KiB.
            rocksdb_options_set_keep_log_file_num(options, 2);
            rocksdb_options_set_compression(options, 0);
            Options(options)
        }
    }

    /// Removes a database.
    pub(crate) fn destroy(&self, path: &str) -> Result<(), String> {
        let (options, path) = (self.options(), c(path));
        // SAFETY: both outlive the call.
        told(free_message, |error| unsafe { rocksdb_destroy_db(options.0, path.as_ptr(), error) })
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: databases that use it borrow it: none is open.
        unsafe { rocksdb_env_destroy(self.0) }
    }
}

struct Options(Handle);

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: made by `Env::options`, used by nobody any more.
        unsafe { rocksdb_options_destroy(self.0) }
    }
}

/// A database that is open.
pub(crate) struct Database<'env> {
    db: Handle,
    families: [Handle; FAMILIES],
    env: PhantomData<&'env Env>,
}

// SAFETY: RocksDB's databases may be used from any thread.
unsafe impl Send for Database<'_> {}
// SAFETY: the same.
unsafe impl Sync for Database<'_> {}

impl<'env> Database<'env> {
    pub(crate) fn open(env: &'env Env, path: &str) -> Result<Self, String> {
        let (options, path) = (env.options(), c(path));
        let names = [c("default"), c("other")];
        let names = [names[0].as_ptr(), names[1].as_ptr()];
        let mut families = [null_mut(); FAMILIES];
        // SAFETY: all arrays have as many elements as said and outlive the call.
        let db = told(free_message, |error| unsafe {
            rocksdb_open_column_families(
                options.0,
                path.as_ptr(),
                c_int::try_from(FAMILIES).unwrap(),
                names.as_ptr(),
                [options.0; FAMILIES].as_ptr(),
                families.as_mut_ptr(),
                error,
            )
        })?;
        Ok(Self { db, families, env: PhantomData })
    }

    pub(crate) fn write(&self, batch: u64, is_synced: bool) -> Result<(), String> {
        let (key, value, number) = (key_of(batch), value_of(batch), batch.to_string());
        // SAFETY: objects of RocksDB, used as c.h says; keys and values are copied.
        unsafe {
            let (options, writes) = (rocksdb_writeoptions_create(), rocksdb_writebatch_create());
            rocksdb_writeoptions_set_sync(options, is_synced.into());
            for family in self.families {
                for (key, value) in [(&*key, &*value), ("last", &*number)] {
                    rocksdb_writebatch_put_cf(writes, family, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
            }
            let written = told(free_message, |error| rocksdb_write(self.db, options, writes, error));
            rocksdb_writebatch_destroy(writes);
            rocksdb_writeoptions_destroy(options);
            written
        }
    }

    /// Flushes and compacts everything, and returns when that is done.
    pub(crate) fn compact(&self) {
        for family in self.families {
            // SAFETY: objects of RocksDB, used as c.h says; without bounds it is everything.
            unsafe { rocksdb_compact_range_cf(self.db, family, null(), 0, null(), 0) }
        }
    }

    pub(crate) fn checkpoint(&self, path: &str) -> Result<(), String> {
        let path = c(path);
        // SAFETY: objects of RocksDB, used as c.h says.
        unsafe {
            let object = told(free_message, |error| rocksdb_checkpoint_object_create(self.db, error))?;
            let made = told(free_message, |error| rocksdb_checkpoint_create(object, path.as_ptr(), 0, error));
            rocksdb_checkpoint_object_destroy(object);
            made
        }
    }

    /// Compares everything with what the batches up to the last one leave; returns the number of that.
    pub(crate) fn check(&self) -> Result<u64, String> {
        let all = [self.contents(self.families[0])?, self.contents(self.families[1])?];
        let last =
            |pairs: &Pairs| pairs.iter().find(|(key, _)| key == "last").map_or(0, |(_, last)| last.parse().unwrap());
        let number = last(&all[0]);
        if last(&all[1]) != number {
            return Err(format!("half of batch {number} is there"));
        }
        let mut expected = std::collections::BTreeMap::new();
        (1..=number).for_each(|batch| drop(expected.insert(key_of(batch), value_of(batch))));
        if number > 0 {
            expected.insert("last".to_owned(), number.to_string());
        }
        let expected: Pairs = expected.into_iter().collect();
        let differs = all.iter().any(|pairs| *pairs != expected);
        if differs { Err(format!("what is there is not what {number} batches leave")) } else { Ok(number) }
    }

    fn contents(&self, family: Handle) -> Result<Pairs, String> {
        let mut pairs = Vec::new();
        // SAFETY: objects of RocksDB, used as c.h says; what it points to is copied before it moves on.
        unsafe {
            let options = rocksdb_readoptions_create();
            let at = rocksdb_create_iterator_cf(self.db, options, family);
            let text = |get: unsafe extern "C" fn(Handle, *mut usize) -> *const u8| {
                let mut bytes = 0;
                let start = get(at, &mut bytes);
                String::from_utf8_lossy(std::slice::from_raw_parts(start, bytes)).into_owned()
            };
            rocksdb_iter_seek_to_first(at);
            while rocksdb_iter_valid(at) != 0 {
                pairs.push((text(rocksdb_iter_key), text(rocksdb_iter_value)));
                rocksdb_iter_next(at);
            }
            let read = told(free_message, |error| rocksdb_iter_get_error(at, error));
            rocksdb_iter_destroy(at);
            rocksdb_readoptions_destroy(options);
            read.map(|()| pairs)
        }
    }
}

type Pairs = Vec<(String, String)>;

impl Drop for Database<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, used by nobody any more.
        unsafe {
            self.families.iter().for_each(|family| rocksdb_column_family_handle_destroy(*family));
            rocksdb_close(self.db);
        }
    }
}

fn key_of(batch: u64) -> String {
    format!("k{:06}", batch.wrapping_mul(2_654_435_761) % KEYS)
}

fn value_of(batch: u64) -> String {
    let bytes = 50 + usize::try_from(batch % 400).unwrap();
    format!("{batch}:{}", "x".repeat(bytes))
}
