//! What the operating system says of this process: CPU time, memory, bytes of input and output.
//!
//! `getrusage` has no safe equivalent with microseconds for all threads; the rest comes from `/proc` and is `None` where
//! that does not exist.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes that the process moved to and from storage, `/proc/self/io`. Direct reads and writes count where they happen;
/// through the page cache, writes count when pages are dirtied and reads only when they miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageBytes {
    /// `read_bytes`.
    pub read: u64,
    /// `write_bytes`.
    pub written: u64,
}

/// User and system time of all threads so far, those that ended included.
#[must_use]
pub fn cpu_time() -> Duration {
    cpu_time_of(libc::RUSAGE_SELF)
}

/// User and system time of the calling thread so far.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    cpu_time_of(libc::RUSAGE_THREAD)
}

/// User and system time of the child processes that ended so far, and were waited for.
#[must_use]
pub fn children_cpu_time() -> Duration {
    cpu_time_of(libc::RUSAGE_CHILDREN)
}

/// Ticks that the processors were busy, and all ticks, since the machine was started; zeroes where `/proc` does not say.
#[must_use]
pub fn machine_ticks() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    // Idle, and waiting for storage.
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// As [`machine_ticks`], without the user time of programs that give way to others (nice).
#[must_use]
pub fn machine_ticks_not_nice() -> (u64, u64) {
    let (busy, all) = machine_ticks();
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let nice = text.lines().next().and_then(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    (busy.saturating_sub(nice.unwrap_or(0)), all)
}

fn cpu_time_of(who: libc::c_int) -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a writable rusage; `who` is one of the constants above, so the call fills it or leaves the
    // zeroes, which are a valid rusage as well (integers only).
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    duration_of(usage.ru_utime) + duration_of(usage.ru_stime)
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Whether it ended by itself, with status 0.
    pub(crate) success: bool,
    /// User and system time of all its threads.
    pub(crate) cpu: Duration,
}

/// Makes the system kill the child that `command` starts as soon as the thread that started it is gone, however it went: what a
/// killed program leaves behind would work on beside whatever is measured next. Start it where it is waited for.
pub(crate) fn tied_to_this_thread(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs in the child between fork and exec and does one system call, which takes numbers and touches no memory.
    // A failure leaves the child to its own end.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

/// Waits for a child and says what it cost; calls `meanwhile` every now and then until it has ended. The child is not to be waited
/// for by anybody else.
///
/// # Errors
/// The system's.
pub(crate) fn wait_with_cpu(child: &std::process::Child, meanwhile: &mut dyn FnMut()) -> io::Result<Ended> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    loop {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both are writable for the call; `pid` is a child that nobody has waited for. What is not filled stays zero,
        // which is a valid rusage (integers only).
        let (ended, usage) = unsafe {
            let ended = libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
            (ended, usage.assume_init())
        };
        if ended == pid {
            let success = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
            return Ok(Ended { success, cpu: duration_of(usage.ru_utime) + duration_of(usage.ru_stime) });
        }
        if ended < 0 {
            return Err(io::Error::last_os_error());
        }
        meanwhile();
        zonda_rt::sleep(WAIT);
    }
}

/// Between two looks at a child.
const WAIT: Duration = Duration::from_millis(20);

fn duration_of(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// The most memory that the process held since start or the last [`reset_rss_peak`].
#[must_use]
pub fn rss_peak_bytes() -> Option<u64> {
    status_kib("VmHWM:").map(|kib| kib * 1024)
}

/// The memory that the process holds now.
#[must_use]
pub fn rss_bytes() -> Option<u64> {
    status_kib("VmRSS:").map(|kib| kib * 1024)
}

fn status_kib(name: &str) -> Option<u64> {
    number_after(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// All memory of the machine.
#[must_use]
pub fn machine_memory_bytes() -> Option<u64> {
    number_after(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:").map(|kib| kib << 10)
}

/// Starts the measurement of [`rss_peak_bytes`] anew; says whether the system allows it.
pub fn reset_rss_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Bytes read and written so far.
#[must_use]
pub fn storage_bytes() -> Option<StorageBytes> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    // The line break keeps `read_bytes` from being found in a longer name; the first line is another one.
    let read = number_after(&text, "\nread_bytes:")?;
    let written = number_after(&text, "\nwrite_bytes:")?;
    Some(StorageBytes { read, written })
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = &text[text.find(name)? + name.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time() {
        let before = cpu_time();
        let sum = (0..20_000_000u64).fold(0u64, |sum, value| sum.wrapping_mul(31).wrapping_add(value));
        assert_ne!(sum, 1);
        assert!(cpu_time() > before);
    }

    #[test]
    fn a_child_does_not_outlive_the_thread_that_started_it() {
        use std::os::unix::process::ExitStatusExt;
        let start = || tied_to_this_thread(Command::new("sleep").arg("1000000")).spawn();
        let mut child = zonda_rt::spawn("bench-parent", start).join().unwrap().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn numbers_are_found_by_name() {
        let text = "wchar: 7\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        assert_eq!(number_after(text, "\nwrite_bytes:"), Some(8192));
        assert_eq!(number_after(text, "\nmissing:"), None);
    }

    #[test]
    fn memory_has_a_peak() {
        if let (Some(peak), Some(now)) = (rss_peak_bytes(), rss_bytes()) {
            assert!(peak > 0 && now > 0);
        }
    }
}
