//! A control group that bounds what a child process holds, its share of the system's page cache included.
//!
//! An engine that reads and writes through the page cache holds as much memory as the machine has; beside engines with a
//! budget that is another experiment. Both versions of Linux's control groups are known; making a group needs root, or a
//! delegated memory controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{BenchError, Result};

/// Numbers the groups of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A group of processes with bounded memory. Dropping it removes it, once its processes are gone.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes an empty group that holds at most `bytes`.
    ///
    /// # Errors
    /// `Io` where there is no memory controller, or not for us.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let membership = "/proc/self/cgroup";
        let own =
            fs::read_to_string(membership).map_err(|source| BenchError::io(format!("read {membership}"), source))?;
        let (parent, limit) = parent_of_groups(&own);
        let name = format!("zonda-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        let failed = |source| BenchError::io(format!("make the memory control group {}", path.display()), source);
        fs::create_dir(&path).map_err(failed)?;
        let group = Self { path: path.clone() };
        fs::write(path.join(limit), bytes.to_string()).map_err(failed)?;
        Ok(group)
    }

    /// Moves `process` in; what it allocates from now on counts.
    ///
    /// # Errors
    /// `Io`, when there is no such process any more.
    pub(crate) fn take_in(&self, process: u32) -> Result<()> {
        let list = self.path.join("cgroup.procs");
        fs::write(&list, process.to_string())
            .map_err(|source| BenchError::io(format!("write {}", list.display()), source))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // An empty group that stays costs nothing, and nobody could do more about it here.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Where groups can be made, and the file of their limit, for a process whose memberships are `own`.
///
/// Version 1: below the process's own group. Version 2 allows no group below one that has processes: beside it.
fn parent_of_groups(own: &str) -> (PathBuf, &'static str) {
    let memberships = || own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let version_1 = memberships().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
    let below = |root: &str, group: &str| Path::new(root).join(group.trim_start_matches('/'));
    match version_1 {
        Some((_, group)) => (below("/sys/fs/cgroup/memory", group), "memory.limit_in_bytes"),
        None => {
            let group = memberships().find(|(controllers, _)| controllers.is_empty()).map_or("/", |(_, group)| group);
            let beside = Path::new(group).parent().and_then(Path::to_str).unwrap_or("/");
            (below("/sys/fs/cgroup", beside), "memory.max")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_where_the_system_allows_it() {
        let place = |own| parent_of_groups(own);
        let mixed = "5:devices:/\n4:cpu,memory:/jobs/a\n0::/\n";
        assert_eq!(place(mixed), (PathBuf::from("/sys/fs/cgroup/memory/jobs/a"), "memory.limit_in_bytes"));
        let unified = "0::/user.slice/session-1.scope\n";
        assert_eq!(place(unified), (PathBuf::from("/sys/fs/cgroup/user.slice"), "memory.max"));
        assert_eq!(place("0::/\n"), (PathBuf::from("/sys/fs/cgroup"), "memory.max"));
    }

    #[test]
    fn a_group_is_there_until_it_is_dropped_or_says_why_not() {
        match MemoryGroup::new(64 << 20) {
            Ok(group) => {
                let path = group.path.clone();
                assert!(path.is_dir());
                drop(group);
                assert!(!path.exists());
            }
            Err(error) => assert!(error.to_string().contains("control group"), "{error}"),
        }
    }
}
