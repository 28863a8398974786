//! The C interface, `include/zonda_rocksdb.h`: here and not in C++, because a Rust library exports only what is Rust.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::{Text, c_text, catch, zonda_bridge_free_message};
use crate::failure::Failure;
use crate::mount::{mounted, mounted_before};

unsafe extern "C" {
    fn zonda_shim_new_env(uri: Text, error: *mut *mut c_char) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// An environment for RocksDB's C interface.
///
/// # Safety
/// `uri` is text that ends with a NUL; `error` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_rocksdb_env_from_uri(uri: *const c_char, error: *mut *mut c_char) -> *mut c_void {
    // SAFETY: as this function's.
    let uri = unsafe { CStr::from_ptr(uri) }.to_bytes();
    let mut why: *mut c_char = std::ptr::null_mut();
    // SAFETY: the text outlives the call.
    let env = unsafe { zonda_shim_new_env(Text { data: uri.as_ptr(), length: uri.len() }, &mut why) };
    if env.is_null() {
        // SAFETY: C++ gave a message of its own, or none; ours is freed by our function.
        unsafe {
            let text = if why.is_null() { CString::default() } else { CStr::from_ptr(why).to_owned() };
            free(why.cast());
            error.write(text.into_raw());
        }
    }
    env
}

/// The report of a file system.
///
/// # Safety
/// As of the one above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_rocksdb_report(uri: *const c_char, error: *mut *mut c_char) -> *mut c_char {
    // SAFETY: as this function's.
    let uri = unsafe { CStr::from_ptr(uri) }.to_string_lossy();
    let report = catch(|| mounted(&uri).map(|mount| mount.report())).unwrap_or_else(Err::<String, Failure>);
    match report {
        Ok(report) => c_text(&report),
        Err(failure) => {
            // SAFETY: as this function's.
            unsafe { error.write(c_text(&failure.message)) };
            std::ptr::null_mut()
        }
    }
}

/// Limits what cleaning in the background copies; whether it was done.
///
/// # Safety
/// As of the first.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_rocksdb_set_clean_rate(
    uri: *const c_char,
    bytes_per_second: u64,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: as this function's.
    let uri = unsafe { CStr::from_ptr(uri) }.to_string_lossy();
    let done = catch(|| mounted_before(&uri)?.set_clean_rate(bytes_per_second)).unwrap_or_else(Err);
    if let Err(failure) = &done {
        // SAFETY: as this function's.
        unsafe { error.write(c_text(&failure.message)) };
    }
    c_int::from(done.is_ok())
}

/// Frees what those above returned.
///
/// # Safety
/// `text` comes from there, or is null, and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_rocksdb_free(text: *mut c_char) {
    // SAFETY: as this function's.
    unsafe { zonda_bridge_free_message(text) }
}
