//! Which threads of this process are in a call of the library, as gdb tells: a call that does not return is ours to answer for.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What all calls from C++ into the library begin with (`shim/bridge.h`).
const BRIDGE: &str = "zonda_bridge_";
/// A call that is still there after this does not return.
const LASTING: Duration = Duration::from_secs(3);

/// A thread, by its number in the system, and the call that it is in.
pub(crate) type Call = (u32, String);

/// The calls into the library that do not return; `None` if nobody can tell: there is no gdb, or it may not look.
pub(crate) fn lasting_calls() -> Option<BTreeSet<Call>> {
    let before = calls_in(&stacks()?)?;
    if before.is_empty() {
        return Some(before);
    }
    zonda_rt::sleep(LASTING);
    let after = calls_in(&stacks()?)?;
    Some(before.intersection(&after).cloned().collect())
}

/// The stacks of all threads. Into a file: this process is stopped meanwhile and could not empty a pipe.
fn stacks() -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stacks");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-p", &std::process::id().to_string(), "-ex", "thread apply all backtrace"]);
    gdb.stdin(Stdio::null()).stdout(File::create(&path).unwrap()).stderr(Stdio::null());
    gdb.status().ok()?;
    Some(String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned())
}

/// The calls in what gdb printed; `None` if there is no thread in it.
fn calls_in(stacks: &str) -> Option<BTreeSet<Call>> {
    let (mut thread, mut calls) = (None, BTreeSet::new());
    for line in stacks.lines() {
        if line.starts_with("Thread ") {
            let number = line.split_once("(LWP ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
            thread = number.or(thread);
        } else if let (Some(thread), Some((_, name))) = (thread, line.split_once(BRIDGE))
            && line.starts_with('#')
        {
            let is_of_name = |character: &char| character.is_ascii_alphanumeric() || *character == '_';
            let name: String = name.chars().take_while(is_of_name).collect();
            calls.insert((thread, format!("{BRIDGE}{name}")));
        }
    }
    thread.map(|_| calls)
}
