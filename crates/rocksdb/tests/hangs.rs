//! A life that hangs in a call of the library is told from one that hangs elsewhere.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "common/lives.rs"]
mod lives;

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static IS_INSIDE: AtomicBool = AtomicBool::new(false);

/// Named as calls of the library are.
#[inline(never)]
fn zonda_bridge_that_hangs() {
    IS_INSIDE.store(true, Ordering::Release);
    hang();
    // So that the call above leaves this frame on the stack.
    std::hint::black_box(());
}

#[inline(never)]
fn hang() {
    loop {
        std::thread::park();
    }
}

#[test]
fn a_hang_of_ours_fails_and_another_is_left_alone() {
    let patience = Duration::from_millis(200);
    assert!(!lives::live_for(patience, hang, || true), "nobody ended it");
    let is_inside = || IS_INSIDE.load(Ordering::Acquire);
    let failed = catch_unwind(|| lives::live_for(patience, zonda_bridge_that_hangs, is_inside));
    let is_known = lives::unknown() == 0;
    assert_eq!(failed.is_err(), is_known, "it hangs in a call of the library");
}
