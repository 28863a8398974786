//! Lives of a program that an assertion may end.
//!
//! Debian builds `RocksDB` with its assertions on, and some of them do not bear an error of a log: two flushes that wait to sync
//! the same closed log abort when the first of them fails (7.8.3, `DBImpl::SyncClosedLogs`). To whoever uses it this is a
//! crash, and what was synced must be there after it. So the thread that aborts is stopped for good, its database is left
//! alone, and the next life begins on what the device kept.
//!
//! Unsafe: `signal` and `_exit` of the C library; nothing safe catches SIGABRT, and threads that are stopped for good would be
//! waited for by an ordinary exit.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Says to the test that it is the process that may be left with stopped threads.
const CHILD: &str = "ZONDA_TEST_CHILD";
const SIGABRT: c_int = 6;

static ABORTS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> *const ();
    fn _exit(code: c_int) -> !;
}

extern "C" fn stop_this_thread(_: c_int) {
    ABORTS.fetch_add(1, Ordering::AcqRel);
    loop {
        std::thread::park();
    }
}

/// Aborts so far.
pub(crate) fn aborts() -> u64 {
    ABORTS.load(Ordering::Acquire)
}

/// Runs `life` to its end, or until an assertion ended it: `false`.
pub(crate) fn live(life: impl FnOnce() + Send + 'static) -> bool {
    let before = aborts();
    #[expect(
        clippy::disallowed_methods,
        reason = "whether it is finished is asked, which no simulated thread can tell"
    )]
    let thread = std::thread::spawn(life);
    while !thread.is_finished() {
        if aborts() > before {
            return false;
        }
        zonda_rt::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    true
}

/// Runs `test` in a process of its own, which this starts as the test called `name`.
pub(crate) fn in_a_child(name: &str, test: impl FnOnce()) {
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let status = child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    // SAFETY: the handler never returns to what aborted, and only counts and sleeps.
    unsafe { signal(SIGABRT, stop_this_thread) };
    let failed = catch_unwind(AssertUnwindSafe(test)).is_err();
    // SAFETY: nothing is left to be done; an ordinary exit would wait for threads that were stopped.
    unsafe { _exit(failed.into()) }
}
