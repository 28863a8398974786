//! WiredTiger through its C interface: one table, leaves of 4 KiB, direct reads and writes of data, a cache as large as the
//! budget.
//!
//! Calling C needs unsafe code. A session and its cursor belong to one thread at a time: they lie in slots behind locks, and
//! a thread takes the slot of its number.

mod api;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{BenchError, Result, StorePlan, Subject};
use zonda_rt::{Mutex, thread_ordinal};

use crate::library::Library;
use crate::peer::{counters, directory, failed};
use api::{Connection, Cursor, Functions, Item, NOT_FOUND, ROLLBACK, Session, VERSION};

const NAME: &str = "wiredtiger";
const TABLE: &CStr = c"table:pairs";
const TABLE_OPTIONS: &CStr = c"key_format=u,value_format=u,leaf_page_max=4KB,internal_page_max=4KB,allocation_size=4KB";

/// Debian 12's package; the link without a version comes with the -dev package.
const LIBRARIES: [&str; 2] = ["libwiredtiger.so.0", "libwiredtiger.so"];

/// Sessions: more threads than this share them.
const SLOTS: usize = 64;

fn load() -> std::result::Result<Functions, String> {
    let functions = Library::open(&LIBRARIES).and_then(Functions::find)?;
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three places for integers.
    unsafe { (functions.wiredtiger_version)(&mut major, &mut minor, &mut patch) };
    if (major, minor) == VERSION {
        return Ok(functions);
    }
    Err(format!("it is version {major}.{minor}.{patch}, and its objects are known for {}.{}", VERSION.0, VERSION.1))
}

/// What is missing, with the package.
pub(crate) fn missing() -> Option<String> {
    load().err().map(|why| format!("apt-get install libwiredtiger0 ({why})"))
}

/// An open database.
pub(crate) struct WiredTiger {
    functions: Functions,
    connection: Mutex<*mut Connection>,
    slots: Vec<Mutex<Option<Slot>>>,
    log: bool,
}

/// A session and a cursor over the table.
struct Slot {
    session: *mut Session,
    cursor: *mut Cursor,
}

// SAFETY: a connection may be used by any thread; sessions and cursors by one at a time, which their slots' locks see to.
unsafe impl Send for WiredTiger {}
// SAFETY: as above.
unsafe impl Sync for WiredTiger {}

impl WiredTiger {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `Peer` with the library's words.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let functions = load().map_err(failed(NAME, "load its library"))?;
        let path = directory(NAME, plan)?;
        let path = CString::new(path.to_string_lossy().as_bytes()).map_err(failed(NAME, "name its directory"))?;
        let options = format!(
            "create,cache_size={},direct_io=[data],session_max={},eviction=(threads_max=2),log=(enabled={})",
            plan.memory_bytes,
            SLOTS + 16,
            plan.log,
        );
        let options = CString::new(options).map_err(failed(NAME, "name its options"))?;
        let mut connection = ptr::null_mut();
        // SAFETY: C strings that outlive the call, and a place for the connection.
        let code =
            unsafe { (functions.wiredtiger_open)(path.as_ptr(), ptr::null_mut(), options.as_ptr(), &mut connection) };
        let slots = (0..SLOTS).map(|_| Mutex::new(None)).collect();
        let database = Self { functions, connection: Mutex::new(connection), slots, log: plan.log };
        database.checked("open", code)?;
        // SAFETY: the session is live and the strings are constants.
        database.in_slot("make its table", |slot| unsafe {
            ((*slot.session).create)(slot.session, TABLE.as_ptr(), TABLE_OPTIONS.as_ptr())
        })?;
        Ok(database)
    }

    fn checked(&self, doing: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes any code; returns a C string that stays.
        let said = unsafe { CStr::from_ptr((self.functions.wiredtiger_strerror)(code)) };
        Err(BenchError::Peer { engine: NAME, doing, said: said.to_string_lossy().into_owned() })
    }

    /// Runs `call` with this thread's session; again while the library asks for it.
    fn in_slot(&self, doing: &'static str, mut call: impl FnMut(&mut Slot) -> c_int) -> Result<()> {
        self.with_slot(doing, |slot| {
            loop {
                match call(slot) {
                    ROLLBACK => {}
                    code => break self.checked(doing, code),
                }
            }
        })
    }

    fn with_slot<T>(&self, doing: &'static str, call: impl FnOnce(&mut Slot) -> Result<T>) -> Result<T> {
        let mut slot = self.slots[thread_ordinal() % SLOTS].lock();
        if slot.is_none() {
            *slot = Some(self.open_session(doing)?);
        }
        slot.as_mut().map_or_else(|| unreachable!("it was filled just now"), call)
    }

    fn open_session(&self, doing: &'static str) -> Result<Slot> {
        let connection = self.connection.lock();
        if connection.is_null() {
            return Err(failed(NAME, doing)("it is closed"));
        }
        let mut session = ptr::null_mut();
        // SAFETY: the connection is live while its lock is held; a place for the session.
        let code =
            unsafe { ((**connection).open_session)(*connection, ptr::null_mut(), ptr::null::<c_char>(), &mut session) };
        self.checked("open a session", code)?;
        Ok(Slot { session, cursor: ptr::null_mut() })
    }

    /// Runs `call` with this thread's cursor.
    fn at_cursor<T>(&self, doing: &'static str, call: impl FnOnce(*mut Cursor) -> Result<T>) -> Result<T> {
        self.with_slot(doing, |slot| {
            if slot.cursor.is_null() {
                // SAFETY: the session is live and this thread's; constants, and a place for the cursor.
                let code = unsafe {
                    let open = (*slot.session).open_cursor;
                    open(slot.session, TABLE.as_ptr(), ptr::null_mut(), c"overwrite=true".as_ptr(), &mut slot.cursor)
                };
                self.checked("open a cursor", code)?;
            }
            call(slot.cursor)
        })
    }

    /// A call that writes, again while the library asks for it.
    fn write(&self, doing: &'static str, mut call: impl FnMut(*mut Cursor) -> c_int) -> Result<()> {
        self.at_cursor(doing, |cursor| {
            loop {
                match call(cursor) {
                    ROLLBACK => {}
                    code => break self.checked(doing, code),
                }
            }
        })
    }

    fn flush_log(&self) -> Result<()> {
        // SAFETY: the session is live and this thread's.
        self.in_slot("sync", |slot| unsafe { ((*slot.session).log_flush)(slot.session, c"sync=on".as_ptr()) })
    }

    /// Visits pairs from where the cursor is; `code` is what placed it.
    fn visit_from(&self, cursor: *mut Cursor, mut code: c_int, pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let mut seen = 0;
        while code == 0 && seen < pairs {
            let (key, value) = self.pair(cursor)?;
            visit(key, value)?;
            seen += 1;
            if seen < pairs {
                // SAFETY: the cursor is live and this thread's; the slices of the last pair are gone.
                code = unsafe { ((*cursor).next)(cursor) };
            }
        }
        if code == NOT_FOUND { Ok(seen) } else { self.checked("scan", code).map(|()| seen) }
    }

    /// The pair under the cursor; valid until it moves.
    fn pair<'a>(&self, cursor: *mut Cursor) -> Result<(&'a [u8], &'a [u8])> {
        let (mut key, mut value) = (Item::of(&[]), Item::of(&[]));
        // SAFETY: the cursor is live, positioned and this thread's; formats are `u`, so both calls take a place for an item.
        let codes =
            unsafe { (((*cursor).get_key)(cursor, &raw mut key), ((*cursor).get_value)(cursor, &raw mut value)) };
        self.checked("read a key", codes.0)?;
        self.checked("read a value", codes.1)?;
        // SAFETY: both items were filled; callers drop the slices before the cursor moves.
        Ok(unsafe { (bytes(&key), bytes(&value)) })
    }
}

/// # Safety
/// The item was filled by the library, and its bytes outlive the slice.
unsafe fn bytes<'a>(item: &Item) -> &'a [u8] {
    if item.size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(item.data.cast::<u8>(), item.size) }
}

impl Subject for WiredTiger {
    fn device(&self) -> String {
        "wiredtiger 3.2 (O_DIRECT)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        let (key, value) = (Item::of(key), Item::of(value));
        // SAFETY: the cursor is live and this thread's; formats are `u`, so both calls take an item, whose bytes outlive the
        // insert.
        self.write("put", |cursor| unsafe {
            ((*cursor).set_key)(cursor, &raw const key);
            ((*cursor).set_value)(cursor, &raw const value);
            ((*cursor).insert)(cursor)
        })?;
        if durability == Durability::Synced { self.sync() } else { Ok(()) }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let key = Item::of(key);
        // SAFETY: as in `put`.
        self.write("delete", |cursor| unsafe {
            ((*cursor).set_key)(cursor, &raw const key);
            match ((*cursor).remove)(cursor) {
                NOT_FOUND => 0,
                code => code,
            }
        })
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let key = Item::of(key);
        self.at_cursor("get", |cursor| {
            // SAFETY: as in `put`.
            let code = unsafe {
                ((*cursor).set_key)(cursor, &raw const key);
                ((*cursor).search)(cursor)
            };
            if code == NOT_FOUND {
                return Ok(false);
            }
            self.checked("get", code)?;
            into.extend_from_slice(self.pair(cursor)?.1);
            // SAFETY: the cursor is live; it lets the page go.
            self.checked("get", unsafe { ((*cursor).reset)(cursor) })?;
            Ok(true)
        })
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let key = Item::of(from);
        self.at_cursor("scan", |cursor| {
            let mut side: c_int = 0;
            // SAFETY: as in `put`; the cursor was reset, so `next` begins at the first pair.
            let code = unsafe {
                if from.is_empty() {
                    ((*cursor).next)(cursor)
                } else {
                    ((*cursor).set_key)(cursor, &raw const key);
                    match ((*cursor).search_near)(cursor, &mut side) {
                        0 if side < 0 => ((*cursor).next)(cursor),
                        code => code,
                    }
                }
            };
            let seen = self.visit_from(cursor, code, pairs, visit);
            // SAFETY: the cursor is live; it lets the page go, whatever the scan came to.
            let reset = unsafe { ((*cursor).reset)(cursor) };
            let seen = seen?;
            self.checked("scan", reset).map(|()| seen)
        })
    }

    fn sync(&self) -> Result<()> {
        if self.log { self.flush_log() } else { self.checkpoint() }
    }

    fn checkpoint(&self) -> Result<()> {
        // SAFETY: the session is live and this thread's.
        self.in_slot("checkpoint", |slot| unsafe { ((*slot.session).checkpoint)(slot.session, ptr::null()) })
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
        // Sessions go with their connection; nobody may use one afterwards. Slots first, as everybody locks.
        let slots: Vec<_> = self.slots.iter().map(Mutex::lock).collect();
        let mut connection = self.connection.lock();
        slots.into_iter().for_each(|mut slot| *slot = None);
        let live = std::mem::replace(&mut *connection, ptr::null_mut());
        if live.is_null() {
            return Ok(());
        }
        // SAFETY: no slot holds a session any more, so no call is in progress, and the handle is not used again.
        self.checked("close", unsafe { ((*live).close)(live, ptr::null::<c_char>()) })
    }
}

/// The variadic calls take pointers to items, which are words.
const _: () = assert!(size_of::<*const Item>() == size_of::<*mut c_void>());
