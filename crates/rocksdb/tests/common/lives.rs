//! Lives of a program that an assertion may end, or that never end.
//!
//! Debian builds `RocksDB` with its assertions on, and some of them do not bear an error of a log: two flushes that wait to sync
//! the same closed log abort when the first of them fails (7.8.3, `DBImpl::SyncClosedLogs`). To whoever uses it this is a
//! crash, and what was synced must be there after it. So the thread that aborts is stopped for good, its database is left
//! alone, and the next life begins on what the device kept.
//!
//! After an error of a log `RocksDB` sometimes does not return from closing a database either (`DBImpl::CloseHelper` waits for work, while
//! all threads of its pool are idle and nothing of ours runs or is locked; seen in one of some hundred cuts). Without power nothing
//! can change any more, so such a life is left alone too, unless a thread is in a call of the library that does not return: that
//! is a hang of ours, and fails. gdb tells (`stacks.rs`); where it cannot, the life is left alone and counted.
//!
//! A panic in a call of the library becomes an error of it (`src/abi`), which without power looks like any other: a process that has seen
//! one anywhere fails.
//!
//! Unsafe: `signal` and `_exit` of the C library; nothing safe catches SIGABRT, and threads that are stopped for good would be
//! waited for by an ordinary exit.
#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "stacks.rs"]
mod stacks;

use std::ffi::{c_int, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Says to the test that it is the process that may be left with stopped threads.
const CHILD: &str = "ZONDA_TEST_CHILD";
const SIGABRT: c_int = 6;

/// How long a life without power may take to end before it is left alone. If it was merely slow, nothing is lost by that.
const WITHOUT_POWER: Duration = Duration::from_secs(20);

static ABORTS: AtomicU64 = AtomicU64::new(0);
static STUCK: AtomicU64 = AtomicU64::new(0);
static UNKNOWN: AtomicU64 = AtomicU64::new(0);
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Of Linux: who may look at this process.
const PR_SET_PTRACER: c_int = 0x5961_6d61;
const ANYBODY: c_ulong = c_ulong::MAX;

unsafe extern "C" {
    fn prctl(option: c_int, argument: c_ulong) -> c_int;
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

/// Lives so far that did not end although they had no power.
pub(crate) fn stuck() -> u64 {
    STUCK.load(Ordering::Acquire)
}

/// Those of them of which nobody can tell where they hang.
pub(crate) fn unknown() -> u64 {
    UNKNOWN.load(Ordering::Acquire)
}

/// Panics so far, in a process that [`in_a_child`] started.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Acquire)
}

/// Runs `life` to its end; `false` if an assertion ended it, or if it did not end for long after its power was off. Fails if it hangs in a
/// call of the library.
pub(crate) fn live(life: impl FnOnce() + Send + 'static, is_power_off: impl Fn() -> bool) -> bool {
    live_for(WITHOUT_POWER, life, is_power_off)
}

/// The same, with so much patience.
pub(crate) fn live_for(
    patience: Duration,
    life: impl FnOnce() + Send + 'static,
    is_power_off: impl Fn() -> bool,
) -> bool {
    let before = aborts();
    let mut off_since = None;
    #[expect(
        clippy::disallowed_methods,
        reason = "whether it is finished is asked, which no simulated thread can tell"
    )]
    let thread = std::thread::spawn(life);
    while !thread.is_finished() {
        if aborts() > before {
            return false;
        }
        if off_since.is_none() && is_power_off() {
            off_since = Some(zonda_rt::now());
        }
        if off_since.is_some_and(|since| zonda_rt::now().since(since) > patience) {
            check_that_it_is_not_ours();
            STUCK.fetch_add(1, Ordering::AcqRel);
            return false;
        }
        zonda_rt::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    true
}

fn check_that_it_is_not_ours() {
    // SAFETY: it changes nothing but who may look; where there is no such limit it is refused, which is as good.
    let _ = unsafe { prctl(PR_SET_PTRACER, ANYBODY) };
    match stacks::lasting_calls() {
        Some(calls) => assert!(calls.is_empty(), "calls of the library that do not return, by thread: {calls:?}"),
        None => {
            eprintln!("NOT LOOKED: a life hangs, and gdb cannot tell where");
            UNKNOWN.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Counts panics before anybody catches them.
fn count_panics() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::AcqRel);
        told(panic);
    }));
}

/// Runs `test` in a process of its own, which this starts as the test called `name`. It fails with any panic, whoever caught it.
pub(crate) fn in_a_child(name: &str, test: impl FnOnce()) {
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let status = child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    // SAFETY: the handler never returns to what aborted, and only counts and sleeps.
    unsafe { signal(SIGABRT, stop_this_thread) };
    count_panics();
    let failed = catch_unwind(AssertUnwindSafe(test)).is_err() || panics() > 0;
    // SAFETY: nothing is left to be done; an ordinary exit would wait for threads that were stopped.
    unsafe { _exit(failed.into()) }
}
