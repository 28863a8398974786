//! The seed that changes with every commit, and with nothing else.
//!
//! New inputs are tried as the work goes on, but a commit that passed passes again: on another machine, tomorrow, in CI.

use std::process::Command;

use crate::workspace::Workspace;

/// Where there is no commit to be found, as in an unpacked archive.
const WITHOUT_COMMIT: u64 = 2;

/// The seed of the commit that is checked out. 32 bits are easy to retype.
pub(crate) fn of_commit(workspace: &Workspace) -> u64 {
    let said = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&workspace.root).output();
    let said = said.map(|output| output.stdout).unwrap_or_default();
    of_name(&String::from_utf8_lossy(&said))
}

fn of_name(name: &str) -> u64 {
    name.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(WITHOUT_COMMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_beginning_of_the_commits_name() {
        assert_eq!(of_name("0000001fd3ad85c8a9d2c7d2c5a3b1f2e0a9b8c7\n"), 0x1f);
        assert_eq!(of_name(""), WITHOUT_COMMIT);
    }
}
