//! The part of WiredTiger's C interface that is used, as `wiredtiger.h` of 3.2 lays it out.
//!
//! Its objects are structs of pointers to functions. Only the pointers that are called have names here; those between them
//! are counted. Another version may lay them out otherwise, so [`VERSION`] is asked for before anything else is called.

use std::ffi::{c_char, c_int, c_void};

use crate::library::functions;

/// Major and minor version whose layout this is.
pub(super) const VERSION: (c_int, c_int) = (3, 2);

/// "Not found", of every call that searches or moves.
pub(super) const NOT_FOUND: c_int = -31803;

/// "Roll back and try again", of every call that writes.
pub(super) const ROLLBACK: c_int = -31800;

type Unused<const N: usize> = [*mut c_void; N];

functions! {
    /// What the library exports.
    struct Functions {
        fn wiredtiger_version(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
        fn wiredtiger_open(*const c_char, *mut c_void, *const c_char, *mut *mut Connection) -> c_int;
        fn wiredtiger_strerror(c_int) -> *const c_char;
    }
}

/// `WT_CONNECTION`.
#[repr(C)]
pub(super) struct Connection {
    before_close: Unused<2>,
    pub(super) close: unsafe extern "C" fn(*mut Connection, *const c_char) -> c_int,
    before_open_session: Unused<5>,
    pub(super) open_session:
        unsafe extern "C" fn(*mut Connection, *mut c_void, *const c_char, *mut *mut Session) -> c_int,
}

/// `WT_SESSION`.
#[repr(C)]
pub(super) struct Session {
    before_open_cursor: Unused<5>,
    pub(super) open_cursor:
        unsafe extern "C" fn(*mut Session, *const c_char, *mut Cursor, *const c_char, *mut *mut Cursor) -> c_int,
    before_create: Unused<1>,
    pub(super) create: unsafe extern "C" fn(*mut Session, *const c_char, *const c_char) -> c_int,
    before_log_flush: Unused<4>,
    pub(super) log_flush: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
    before_checkpoint: Unused<14>,
    pub(super) checkpoint: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
}

/// `WT_CURSOR`.
#[repr(C)]
pub(super) struct Cursor {
    before_get_key: Unused<4>,
    pub(super) get_key: unsafe extern "C" fn(*mut Cursor, ...) -> c_int,
    pub(super) get_value: unsafe extern "C" fn(*mut Cursor, ...) -> c_int,
    pub(super) set_key: unsafe extern "C" fn(*mut Cursor, ...),
    pub(super) set_value: unsafe extern "C" fn(*mut Cursor, ...),
    before_next: Unused<2>,
    pub(super) next: unsafe extern "C" fn(*mut Cursor) -> c_int,
    before_reset: Unused<1>,
    pub(super) reset: unsafe extern "C" fn(*mut Cursor) -> c_int,
    pub(super) search: unsafe extern "C" fn(*mut Cursor) -> c_int,
    pub(super) search_near: unsafe extern "C" fn(*mut Cursor, *mut c_int) -> c_int,
    pub(super) insert: unsafe extern "C" fn(*mut Cursor) -> c_int,
    before_remove: Unused<2>,
    pub(super) remove: unsafe extern "C" fn(*mut Cursor) -> c_int,
}

/// `WT_ITEM`: bytes by address and length, and fields of the library's own.
#[repr(C)]
pub(super) struct Item {
    pub(super) data: *const c_void,
    pub(super) size: usize,
    own: Unused<3>,
}

impl Item {
    /// `bytes`, which must outlive the calls that the item is given to.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len(), own: [std::ptr::null_mut(); 3] }
    }
}

const _: () = {
    const WORD: usize = size_of::<*mut c_void>();
    assert!(std::mem::offset_of!(Connection, open_session) == 8 * WORD);
    assert!(std::mem::offset_of!(Session, open_cursor) == 5 * WORD);
    assert!(std::mem::offset_of!(Session, create) == 7 * WORD);
    assert!(std::mem::offset_of!(Session, log_flush) == 12 * WORD);
    assert!(std::mem::offset_of!(Session, checkpoint) == 27 * WORD);
    assert!(std::mem::offset_of!(Cursor, next) == 10 * WORD);
    assert!(std::mem::offset_of!(Cursor, insert) == 15 * WORD);
    assert!(std::mem::offset_of!(Cursor, remove) == 18 * WORD);
    assert!(size_of::<Item>() == 5 * WORD);
};
