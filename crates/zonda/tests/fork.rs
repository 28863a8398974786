//! A child process may not use its parent's store. Alone in its file: the test process forks.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
#![expect(unsafe_code, reason = "fork and wait are not safe functions")]
mod common;

use common::{Place, fill, memory, options};
use zonda::{Db, Error};
use zonda_rt::atomic::{AtomicBool, Ordering};

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

/// The child has the parent's ring, and would take what the parent waits for.
#[test]
fn a_child_leaves_reads_that_are_in_flight_to_its_parent() {
    const PAIRS: u64 = 50_000;
    let place = Place::new();
    let small = || options().memory(2 << 20).open(&place.uri()).unwrap();
    let db = small();
    db.ingest((0..PAIRS).map(|number| (number.to_be_bytes(), number.to_be_bytes()))).unwrap();
    db.compact(&mut |_, _| {}).unwrap();
    db.close().unwrap();
    let db = small();
    for goes_on in [false, true] {
        let mut range = db.iter().unwrap().expect_pairs(PAIRS);
        assert!(range.next().is_some());
        let mut held = Some(range);
        let status = in_child(|| {
            let mut range = held.take();
            let refused = !goes_on || range.as_mut().and_then(Iterator::next).is_some_and(is_forked);
            drop(range);
            refused
        });
        assert_eq!(status, 0, "goes on: {goes_on}");
        let rest = held.take().unwrap();
        assert_eq!(rest.map(Result::unwrap).count(), 49_999);
    }
}

/// Who held a lock in the parent is not there in the child.
#[test]
fn a_child_that_drops_a_snapshot_waits_for_nobody() {
    let db = memory();
    let is_over = AtomicBool::new(false);
    let stuck = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                drop(db.snapshot().unwrap());
            }
        });
        let stuck = (0..300).find(|_| {
            let mut snapshot = Some(db.snapshot().unwrap());
            in_child(|| {
                drop(snapshot.take());
                true
            }) != 0
        });
        is_over.store(true, Ordering::SeqCst);
        stuck
    });
    assert_eq!(stuck, None);
}
