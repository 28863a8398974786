//! A database on zones with the crate `rocksdb`: how to build it stands in `Cargo.toml`.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_void};

use rocksdb::{DB, Env, Options, WriteOptions};

// Of `zonda_rocksdb.h`.
unsafe extern "C" {
    fn zonda_rocksdb_env_from_uri(uri: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn zonda_rocksdb_free(text: *mut c_char);
}

/// An environment whose files are on the file system called `uri`; the crate destroys it with its last user.
fn env_from_uri(uri: &str) -> Result<Env, Box<dyn Error>> {
    let uri = CString::new(uri)?;
    let mut error = std::ptr::null_mut();
    // SAFETY: `uri` ends with a zero, and `error` takes a pointer.
    let env = unsafe { zonda_rocksdb_env_from_uri(uri.as_ptr(), &raw mut error) };
    if env.is_null() {
        // SAFETY: without an environment there is a text, which is ours until it is freed.
        let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
        // SAFETY: it is freed once, and was copied.
        unsafe { zonda_rocksdb_free(error) };
        return Err(text.into());
    }
    // SAFETY: it is a `rocksdb_env_t` of the librocksdb that the crate is linked with, and nobody else's.
    Ok(unsafe { Env::from_raw(env.cast()) })
}

fn main() -> Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "zonda://mem:?create=256MiB".to_owned());
    let env = env_from_uri(&uri)?;
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_env(&env);
    let db = DB::open(&options, "/db")?;
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    db.put_opt("key", "value", &synced)?;
    let value = db.get("key")?.ok_or("it was just put")?;
    println!("key = {}", String::from_utf8_lossy(&value));
    Ok(())
}
