//! `zonda fs`: a file store on zones without the program that uses it.

mod backup;
mod blocks;
mod cat;
mod check;
mod cp;
mod df;
mod dump;
mod host;
mod ls;
mod metrics;
mod mkfs;
mod restore;
mod rm;

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use zonda_device::{DeviceUri, OpenMode, Place, ZonedDevice};
use zonda_files::{FileError, FilePath, FileStore, FileStoreOptions, MountReport};

use crate::devices::{self, Data};
use crate::exit::{BadArgument, Exit};
use crate::output::say;

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned --zones 64 --zone-size 64MiB && zonda fs mkfs disk.zoned
  zonda fs ls disk.zoned /db --long
  zonda fs cp disk.zoned store:/db/CURRENT CURRENT
  zonda fs df disk.zoned --prometheus
  zonda fs check disk.zoned && echo all is well
  zonda fs backup disk.zoned db-2026-11-22 && zonda fs restore other.zoned db-2026-11-22";

/// Makes, lists, copies, removes and checks files: what RocksDB has on zones
#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Fs {
    Mkfs(mkfs::Mkfs),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Cp(cp::Cp),
    Rm(rm::Rm),
    Df(df::Df),
    Dump(dump::Dump),
    Check(check::Check),
    Backup(backup::Backup),
    Restore(restore::Restore),
}

impl Fs {
    /// # Errors
    /// Whatever the device or the store answers.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Mkfs(mkfs) => mkfs.run(),
            Self::Ls(ls) => ls.run(),
            Self::Cat(cat) => cat.run(),
            Self::Cp(cp) => cp.run(),
            Self::Rm(rm) => rm.run(),
            Self::Df(df) => df.run(),
            Self::Dump(dump) => dump.run(),
            Self::Check(check) => check.run(),
            Self::Backup(backup) => backup.run(),
            Self::Restore(restore) => restore.run(),
        }
    }
}

/// Which store.
#[derive(Args, Debug)]
pub(crate) struct StoreArg {
    /// Path or URI of the device: `disk.zoned`, `file:PATH`, `zbd:/dev/nvme0n1`, a modelled one with zones `flash:PROFILE?data=FILE`; a
    /// conventional drive is `DEVICE?fs=xfs-like`, `DEVICE?fs=f2fs-like` or `conv:PROFILE?data=FILE`: these, and drives that split zones,
    /// are not read while another process writes them
    #[arg(value_name = "URI")]
    uri: String,
    /// Go on although zones are offline that may have held the end of a log or of the journal, without what was in them
    #[arg(long)]
    give_up_offline: bool,
}

impl StoreArg {
    /// Mounts the store for reading, beside whoever has it mounted for writing; nothing is written.
    ///
    /// # Errors
    /// Those of opening and mounting, naming the device.
    fn mount_read_only(&self) -> anyhow::Result<FileStore> {
        let (store, report) = self.mount_told()?;
        self.tell(report.warning());
        self.tell(report.journal_damage());
        Ok(store)
    }

    /// Says something of the store, if there is anything to be said.
    fn tell(&self, what: Option<&str>) {
        what.into_iter().for_each(|what| say(format_args!("{}: {what}", self.uri)));
    }

    /// The same, with what is to be said of it.
    ///
    /// # Errors
    /// As above.
    fn mount_told(&self) -> anyhow::Result<(FileStore, MountReport)> {
        if let Some(drive) = self.drive(OpenMode::ReadOnly, Data::Kept)? {
            return drive.mount().with_context(|| self.cannot("mount"));
        }
        let device = self.zones(OpenMode::ReadBeside, Data::Kept)?;
        FileStore::mount_read_only(device, self.options()).with_context(|| self.cannot("mount"))
    }

    /// Mounts the store for writing.
    ///
    /// # Errors
    /// Those of opening and mounting, naming the device.
    fn mount(&self) -> anyhow::Result<FileStore> {
        let (store, report) = match self.drive(OpenMode::Open, Data::Kept)? {
            Some(drive) => drive.mount().with_context(|| self.cannot("mount"))?,
            None => {
                let device = self.zones(OpenMode::Open, Data::Kept)?;
                FileStore::mount(device, self.options()).with_context(|| self.cannot("mount"))?
            }
        };
        self.tell(report.damage());
        Ok(store)
    }

    fn drive(&self, mode: OpenMode, data: Data) -> anyhow::Result<Option<blocks::Drive>> {
        if let Some(name) = self.uri.strip_prefix("zonda://") {
            let name = name.split('?').next().unwrap_or_default();
            bail!(BadArgument(format!("{name}: names have no zonda:// here, and no keys of the plugin but `fs`")));
        }
        blocks::Drive::open(&self.uri, mode, data).with_context(|| self.cannot_open())
    }

    fn zones(&self, mode: OpenMode, data: Data) -> anyhow::Result<Arc<dyn ZonedDevice>> {
        let cannot = || self.cannot_open();
        devices::open_zoned(&self.uri.parse().with_context(cannot)?, mode, data).with_context(cannot)
    }

    /// What makes the file of a device is not told by the error for one that is missing.
    fn cannot_open(&self) -> String {
        let cannot = self.cannot("open");
        let place = self.uri.split('?').next().and_then(|place| place.parse::<DeviceUri>().ok()).map(|uri| uri.place);
        match place {
            Some(Place::File(path)) if !path.exists() => format!("{cannot}, which `zonda device create` makes"),
            _ => cannot,
        }
    }

    /// Whether the device lies in this file of the host, under whatever name.
    fn is_in(&self, path: &Path) -> bool {
        let identity = |path: &Path| path.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        let (place, query) = self.uri.split_once('?').unwrap_or((&self.uri, ""));
        let place = place.strip_prefix("hftl:").unwrap_or(place);
        let device = if place.starts_with("flash:") || place.starts_with("conv:") {
            query.split('&').find_map(|pair| pair.strip_prefix("data=")).map(PathBuf::from)
        } else {
            place.parse::<DeviceUri>().ok().and_then(|uri| match uri.place {
                Place::File(path) | Place::Zbd(path) => Some(path),
                _ => None,
            })
        };
        device
            .is_some_and(|device| identity(&device).is_ok_and(|device| identity(path).is_ok_and(|path| path == device)))
    }

    fn options(&self) -> FileStoreOptions {
        FileStoreOptions { gives_up_offline: self.give_up_offline, ..options() }
    }

    fn cannot(&self, verb: &str) -> String {
        format!("cannot {verb} {}", self.uri)
    }
}

fn options() -> FileStoreOptions {
    FileStoreOptions { clock_seconds: host::seconds_since_1970, ..FileStoreOptions::default() }
}

/// A path of the store from the command line.
///
/// # Errors
/// What is wrong with it.
fn parse_path(text: &str) -> anyhow::Result<FilePath> {
    Ok(FilePath::parse(text)?)
}

/// All names below a directory, parents before what is in them.
///
/// # Errors
/// Those of listing.
fn walk(store: &FileStore, directory: &FilePath) -> anyhow::Result<Vec<FilePath>> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.clone()];
    while let Some(directory) = waiting.pop() {
        for path in store.list(&directory)? {
            if store.info(&path)?.is_directory {
                waiting.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The name of a path within its directory.
fn name(path: &FilePath) -> &str {
    path.as_str().rsplit('/').next().unwrap_or_default()
}

/// Refuses to hand on bytes that do not have their checksums.
///
/// # Errors
/// What was found, or why it could not be read; [`is_stale`] knows the latter.
fn verify(store: &FileStore, path: &FilePath) -> anyhow::Result<()> {
    let report = store.check_file(path)?;
    if let Some(finding) = report.findings.first() {
        bail!(Damage(format!("{path} is damaged: {finding}")));
    }
    ensure!(report.stale.is_empty(), Moved(path.clone()));
    Ok(())
}

/// What a check found.
#[derive(Debug)]
struct Damage(String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damage {}

/// Whether bytes of the store were found damaged, or cannot be read. What is wrong with the host is no damage.
fn is_damage(error: &anyhow::Error) -> bool {
    let is_from_store =
        |cause: &FileError| matches!(cause, FileError::Damaged { .. } | FileError::Unread { .. } | FileError::Space(_));
    error.is::<Damage>() || error.chain().filter_map(|cause| cause.downcast_ref()).any(is_from_store)
}

/// A file that was deleted or moved while it was read.
#[derive(Debug)]
struct Moved(FilePath);

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} was deleted or moved while it was read: try again; `zonda fs check` tells if it is damaged",
            self.0
        )
    }
}

impl std::error::Error for Moved {}

/// Whether something was deleted or moved while it was read, so that another mount would show it as it is now.
fn is_stale(error: &anyhow::Error) -> bool {
    let is_from_store = |cause: &FileError| matches!(cause, FileError::Stale { .. });
    error.is::<Moved>() || error.chain().filter_map(|cause| cause.downcast_ref()).any(is_from_store)
}
