//! Tells the program which commit it was built from, so that its results can say so.

use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    let commit = commit();
    watch(commit.is_some());
    println!("cargo::rustc-env=ZONDA_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}

/// Looks again when the sources of any crate change, or what is checked out; outside of git never.
fn watch(in_git: bool) {
    println!("cargo::rerun-if-changed=build.rs");
    if !in_git {
        return;
    }
    for crate_directory in fs::read_dir("..").into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", crate_directory.path().join("src").display());
    }
    for note in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", note]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// The commit, with a `+` where sources differ from it. `None` outside of git, and for a package within somebody else's repository.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let differs = git(&["status", "--porcelain", "--untracked-files=no", "--", "../*/src/*", "../*/Cargo.toml"])?;
    Some(if differs.is_empty() { commit } else { format!("{commit}+") })
}

/// What git answers, without the end of its last line; `None` where it fails or is missing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
