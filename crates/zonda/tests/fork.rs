//! A child process may not use its parent's store. Alone in its file: the test process forks.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
#![expect(unsafe_code, reason = "fork and wait are not safe functions")]
mod common;

use common::{Place, fill};
use zonda::{Db, Error};

/// Runs `child` in a forked child and returns its exit status.
fn in_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls `child`, which only tries to use the store, and ends without unwinding or running exit handlers.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        let ok = child();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!ok)) }
    }
    let mut status = 0;
    // SAFETY: waits for the child started above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn is_forked<T>(result: zonda::Result<T>) -> bool {
    matches!(result, Err(Error::Forked { .. }))
}

#[test]
fn a_child_is_refused_and_does_no_harm() {
    let place = Place::new();
    let db = place.open();
    fill(&db, 100);
    let inherited: Db = db.clone();
    let status = in_child(move || {
        let refused =
            is_forked(inherited.put("k", "v")) && is_forked(inherited.get("0001")) && is_forked(inherited.snapshot());
        drop(inherited);
        refused
    });
    assert_eq!(status, 0, "the child could use the store");
    db.put("after", "").unwrap();
    db.close().unwrap();
    assert_eq!(place.open().iter().unwrap().count(), 101);
}
