//! The border to C++: what `shim/bridge.h` declares, and the C interface of `include/zonda_rocksdb.h`.
//!
//! Safe code cannot take pointers from another language. Everything unsafe of this crate is in this module, and each function
//! here does nothing but turn pointers into references and call what is safe. A panic becomes an error of the call.

mod files;
#[cfg(with_rocksdb)]
mod interface;
mod jobs;
mod names;

use std::borrow::Cow;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Kind};

/// Text of C++: not ended by a NUL.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Text {
    data: *const u8,
    length: usize,
}

impl Text {
    /// # Safety
    /// `data` points to `length` bytes that stay as they are for as long as the result is used.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: as the caller promises.
        unsafe { slice(self.data, self.length) }
    }

    /// # Safety
    /// As of [`bytes`](Self::bytes).
    unsafe fn get<'a>(self) -> Result<&'a str, Failure> {
        // SAFETY: as the caller promises.
        let bytes = unsafe { self.bytes() };
        std::str::from_utf8(bytes).map_err(|_| Failure::invalid("a name that is not UTF-8"))
    }

    /// What is not UTF-8 of it is replaced, as in the shape of the tree: a name of a column family is any bytes.
    ///
    /// # Safety
    /// As of [`bytes`](Self::bytes).
    unsafe fn lossy<'a>(self) -> Cow<'a, str> {
        // SAFETY: as the caller promises.
        String::from_utf8_lossy(unsafe { self.bytes() })
    }
}

/// Bytes of C++, which may name no bytes with a null pointer.
///
/// # Safety
/// `data` points to `length` bytes that stay as they are for as long as the result is used, or `length` is 0.
unsafe fn slice<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(data, length) }
}

/// How a call went.
#[repr(C)]
pub(crate) struct Outcome {
    kind: u8,
    is_retryable: bool,
    message: *mut c_char,
}

impl From<Result<(), Failure>> for Outcome {
    fn from(result: Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Self { kind: 0, is_retryable: false, message: std::ptr::null_mut() },
            Err(failure) => {
                Self { kind: failure.kind as u8, is_retryable: failure.is_retryable, message: c_text(&failure.message) }
            }
        }
    }
}

/// Text for C, freed by [`zonda_bridge_free_message`].
fn c_text(text: &str) -> *mut c_char {
    let without_nul: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    CString::new(without_nul).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// Runs a call; a panic is an error of it. The file system goes on: its locks are not poisoned, and what a panic may have left
/// half done is behind an assertion that will hold again or fail again.
fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> Outcome {
    catch(call).unwrap_or_else(Err).into()
}

/// The same for a call that answers with a value.
fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Failure::new(Kind::Io, format!("internal error, please report it: {text}"))
    })
}

/// Frees the message of an outcome.
///
/// # Safety
/// `message` comes from an outcome, or is null, and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_free_message(message: *mut c_char) {
    if !message.is_null() {
        // SAFETY: it was made by `c_text`.
        drop(unsafe { CString::from_raw(message) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        let outcome = guarded(|| panic!("what should not happen: {}", 7));
        assert_eq!((outcome.kind, outcome.is_retryable), (Kind::Io as u8, false));
        // SAFETY: it is a message of ours, used once.
        let message = unsafe { CString::from_raw(outcome.message) };
        assert!(message.to_str().unwrap().contains("what should not happen: 7"));
    }

    #[test]
    fn text_with_a_nul_loses_it_and_no_text_is_no_bytes() {
        // SAFETY: made by `c_text`.
        let text = unsafe { CString::from_raw(c_text("a\0b")) };
        assert_eq!(text.to_str(), Ok("ab"));
        // SAFETY: no bytes are read.
        assert_eq!(unsafe { Text { data: std::ptr::null(), length: 0 }.get() }.unwrap(), "");
    }
}
