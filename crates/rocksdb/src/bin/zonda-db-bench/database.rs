//! A database behind the plain C calls of `shim/driven.h`: the only file of this program with unsafe code, because `RocksDB` is C++.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::levels::{Levels, Table};

#[repr(C)]
#[derive(Clone, Copy)]
struct Text {
    data: *const c_char,
    length: usize,
}

impl Text {
    fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), length: bytes.len() }
    }
}

type Handle = *mut c_void;
type Each = extern "C" fn(*mut c_void, c_int, u64, u64, bool, Text, Text);

unsafe extern "C" {
    fn zonda_driven_open(
        uri: Text,
        path: Text,
        options: Text,
        cache_bytes: u64,
        is_automatic: bool,
        error: *mut *mut c_char,
    ) -> Handle;
    fn zonda_driven_close(database: Handle, error: *mut *mut c_char);
    fn zonda_driven_free(text: *mut c_char);
    fn zonda_driven_put(database: Handle, key: Text, value: Text, error: *mut *mut c_char);
    fn zonda_driven_get(database: Handle, key: Text, error: *mut *mut c_char) -> bool;
    fn zonda_driven_scan(database: Handle, key: Text, count: u64, error: *mut *mut c_char) -> u64;
    fn zonda_driven_levels(database: Handle, each: Each, context: *mut c_void);
    fn zonda_driven_compact(
        database: Handle,
        numbers: *const u64,
        count: usize,
        level: c_int,
        table_bytes: u64,
        error: *mut *mut c_char,
    ) -> bool;
    fn zonda_driven_number(database: Handle, property: Text) -> u64;
    fn zonda_driven_text(database: Handle, property: Text) -> *mut c_char;
    fn zonda_driven_flushes(database: Handle) -> u64;
}

/// An open database; closed when it goes.
#[derive(Debug)]
pub(crate) struct Database(Handle);

// SAFETY: RocksDB's databases may be used from any thread.
unsafe impl Send for Database {}
// SAFETY: and by several at once.
unsafe impl Sync for Database {}

/// Where a database is, and how it is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// `zonda://...`, or nothing for the default file system.
    pub(crate) uri: &'a str,
    pub(crate) path: &'a str,
    /// `key=value;key=value`.
    pub(crate) options: &'a str,
    pub(crate) cache_bytes: u64,
}

/// Calls something that tells its error by a message.
fn told<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error = std::ptr::null_mut();
    let result = call(&raw mut error);
    if error.is_null() { Ok(result) } else { Err(taken(error)) }
}

/// A text of the shim's.
fn taken(text: *mut c_char) -> String {
    // SAFETY: the shim ends its texts with a NUL and leaves them to its caller to free, once.
    unsafe {
        let taken = CStr::from_ptr(text).to_string_lossy().into_owned();
        zonda_driven_free(text);
        taken
    }
}

extern "C" fn push(context: *mut c_void, level: c_int, number: u64, bytes: u64, is_busy: bool, from: Text, to: Text) {
    // SAFETY: `levels` passes its own `Levels`, for the length of the call, and texts are whole while they are shown.
    unsafe {
        let levels = &mut *context.cast::<Levels>();
        let key = |text: Text| std::slice::from_raw_parts(text.data.cast::<u8>(), text.length).to_vec();
        let table = Table { number, bytes, smallest: key(from), largest: key(to), is_busy };
        levels.push(usize::try_from(level).unwrap_or(0), table);
    }
}

impl Database {
    /// Opens it, or makes it; with `is_automatic` `RocksDB` compacts by itself.
    pub(crate) fn open(place: &Place<'_>, is_automatic: bool) -> Result<Self, String> {
        let of = |text: &str| Text::of(text.as_bytes());
        let (uri, path, options) = (of(place.uri), of(place.path), of(place.options));
        // SAFETY: the texts outlive the call.
        told(|error| unsafe { zonda_driven_open(uri, path, options, place.cache_bytes, is_automatic, error) }).map(Self)
    }

    /// Closes it; its file system is unmounted.
    pub(crate) fn close(mut self) -> Result<(), String> {
        let handle = std::mem::replace(&mut self.0, std::ptr::null_mut());
        // SAFETY: open, and nobody has it any more.
        told(|error| unsafe { zonda_driven_close(handle, error) })
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: open; the texts outlive the call. The same for all calls below.
        told(|error| unsafe { zonda_driven_put(self.0, Text::of(key), Text::of(value), error) })
    }

    /// Whether the key is there.
    pub(crate) fn get(&self, key: &[u8]) -> Result<bool, String> {
        // SAFETY: as in `put`.
        told(|error| unsafe { zonda_driven_get(self.0, Text::of(key), error) })
    }

    /// Pairs from a key on, at most so many: how many there are.
    pub(crate) fn scan(&self, key: &[u8], count: u64) -> Result<u64, String> {
        // SAFETY: as in `put`.
        told(|error| unsafe { zonda_driven_scan(self.0, Text::of(key), count, error) })
    }

    /// The tree as it is now.
    pub(crate) fn levels(&self) -> Levels {
        let mut levels = Levels::default();
        // SAFETY: as in `put`; the callback gets what it expects.
        unsafe { zonda_driven_levels(self.0, push, (&raw mut levels).cast()) };
        levels
    }

    /// Merges tables into a level, on this thread; false if `RocksDB` would not have it now.
    pub(crate) fn compact(&self, numbers: &[u64], level: usize, table_bytes: u64) -> Result<bool, String> {
        let level = c_int::try_from(level).map_err(|_| format!("there is no level {level}"))?;
        let (first, count) = (numbers.as_ptr(), numbers.len());
        // SAFETY: as in `put`.
        told(|error| unsafe { zonda_driven_compact(self.0, first, count, level, table_bytes, error) })
    }

    /// A property that is a number; 0 where there is none.
    pub(crate) fn number(&self, property: &str) -> u64 {
        // SAFETY: as in `put`.
        unsafe { zonda_driven_number(self.0, Text::of(property.as_bytes())) }
    }

    /// A property that is text.
    pub(crate) fn text(&self, property: &str) -> String {
        // SAFETY: as in `put`.
        taken(unsafe { zonda_driven_text(self.0, Text::of(property.as_bytes())) })
    }

    /// Flushes that have ended.
    pub(crate) fn flushes(&self) -> u64 {
        // SAFETY: as in `put`.
        unsafe { zonda_driven_flushes(self.0) }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: open, and nobody has it any more. Who wants to know whether that worked calls `close`.
            let _ = told(|error| unsafe { zonda_driven_close(self.0, error) });
        }
    }
}
