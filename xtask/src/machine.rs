//! What the steps need on the machine, and how to get it.
//!
//! A C linker is not in the list: without one this program could not have been built. `.cargo/cc` sees to it.

use std::{os::unix::fs::MetadataExt, process::Command};

use anyhow::{Result, bail};

use crate::{process, tally::Tally, workspace::Workspace};

/// Something that has to be there before the steps run.
struct Need {
    /// A command that works when it is there.
    probe: &'static [&'static str],
    /// Its name for `rustup component add`.
    component: &'static str,
    /// Its Debian package, for a Rust that came from Debian.
    package: &'static str,
}

const NEEDS: [Need; 2] = [
    Need { probe: &["fmt", "--version"], component: "rustfmt", package: "rustfmt" },
    Need { probe: &["clippy", "--version"], component: "clippy", package: "rust-clippy" },
];

/// Finds what is missing and installs it: with rustup where there is one, with apt when we are root, else says what to
/// install.
///
/// # Errors
/// When something is missing and cannot be installed from here.
pub(crate) fn prepare(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    install_for_rocksdb_if_possible();
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_there(workspace, need)).collect();
    if missing.is_empty() {
        println!("nothing else is missing");
        return Ok(());
    }
    install(&missing)?;
    match missing.iter().find(|need| !is_there(workspace, need)) {
        Some(need) => bail!("installed {}, but `cargo {}` still fails", need.component, need.probe.join(" ")),
        None => Ok(()),
    }
}

fn is_there(workspace: &Workspace, need: &Need) -> bool {
    process::succeeds(&mut process::cargo(workspace, need.probe))
}

fn install(missing: &[&Need]) -> Result<()> {
    let components: Vec<_> = missing.iter().map(|need| need.component).collect();
    let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    if process::succeeds(Command::new("rustup").arg("--version")) {
        return process::run(Command::new("rustup").args(["component", "add"]).args(components));
    }
    if is_root() && process::succeeds(Command::new("apt-get").arg("--version")) {
        process::run(Command::new("apt-get").arg("update"))?;
        return process::run(apt_install().args(packages));
    }
    bail!(
        "missing: {}; install with `rustup component add {}` or, as root, `apt-get install {}`",
        components.join(", "),
        components.join(" "),
        packages.join(" ")
    )
}

/// Debian packages of the C libraries that `zonda-compare` opens.
const COMPARED: [&str; 2] = ["librocksdb7.8", "libwiredtiger0"];

/// Debian packages that the RocksDB plugin is built and tested with.
const FOR_ROCKSDB: [&str; 3] = ["librocksdb-dev", "rocksdb-tools", "g++"];

/// Debian package that the crate `rocksdb` is built with besides.
const FOR_RUST_CRATE: [&str; 1] = ["libclang-dev"];

/// Installs what `zonda-compare` opens, with apt when we are root, else says what to install.
///
/// # Errors
/// When it is not installed afterwards.
pub(crate) fn compared(_: &Workspace, _: &mut Tally) -> Result<()> {
    install_packages(&COMPARED)
}

/// Installs what the RocksDB plugin is built and tested with, as [`compared`] does.
///
/// # Errors
/// When it is not installed afterwards.
pub(crate) fn for_rocksdb(_: &Workspace, _: &mut Tally) -> Result<()> {
    install_packages(&FOR_ROCKSDB)
}

/// Installs what the crate `rocksdb` and the plugin are built with, as [`compared`] does.
///
/// # Errors
/// When it is not installed afterwards.
pub(crate) fn for_rust_crate() -> Result<()> {
    install_packages(&FOR_ROCKSDB)?;
    install_packages(&FOR_RUST_CRATE)
}

/// The same as part of `setup`. Every other part of the repository is built and tested without, so a machine that cannot have
/// it is told what is not tested there.
fn install_for_rocksdb_if_possible() {
    if let Err(error) = install_packages(&FOR_ROCKSDB) {
        println!("NOT RUN: the RocksDB plugin is neither built nor tested here: {error:#}");
    }
}

fn install_packages(packages: &[&str]) -> Result<()> {
    let missing = packages.iter().filter(|package| !is_installed(package)).collect::<Vec<_>>();
    if missing.is_empty() {
        println!("{}: installed", packages.join(", "));
        return Ok(());
    }
    let names = missing.iter().map(|name| **name).collect::<Vec<_>>().join(" ");
    if !is_root() {
        bail!("missing: install as root with `apt-get install {names}`");
    }
    process::run(Command::new("apt-get").arg("update"))?;
    process::run(apt_install().args(missing))
}

fn is_installed(package: &str) -> bool {
    process::succeeds(Command::new("dpkg").args(["--status", package]))
}

fn apt_install() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "--yes", "--no-install-recommends"]);
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}
