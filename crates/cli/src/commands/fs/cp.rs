//! `zonda fs cp`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::json;
use zonda_files::{FileError, FilePath, FileStore};

use super::{StoreArg, host, name, parse_path, verify};
use crate::exit::{BadArgument, Exit};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs cp disk.zoned store:/db/CURRENT CURRENT         out of the store
  zonda fs cp disk.zoned 000012.sst store:/db/000012.sst   into it; durable when the command ends
  zonda fs cp disk.zoned store:/a store:/b                 within it

A path in the store begins with `store:`. What has the name already is replaced once the copy is whole: until then, and after an
error, it stays, so that there must be room for both. What is not whole yet is called `.zonda-cp`, a name that no copy may have.";

/// The copy's name in the store until it is whole. One that a killed command left is replaced by the next.
const UNFINISHED: &str = ".zonda-cp";

/// Copies a file out of a store, into it, or within it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cp {
    #[command(flatten)]
    store: StoreArg,
    /// What is copied
    from: String,
    /// The name of the copy
    to: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Cp {
    /// # Errors
    /// Those of reading and writing, and damage.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let bytes = match (self.from.strip_prefix("store:"), self.to.strip_prefix("store:")) {
            (Some(from), None) => self.copy_out(&parse_path(from)?)?,
            (None, Some(to)) => self.copy_in(&target(to)?)?,
            (Some(from), Some(to)) => self.copy_within(&parse_path(from)?, &target(to)?)?,
            (None, None) => {
                bail!(BadArgument(format!("neither {} nor {} begins with `store:`", self.from, self.to)))
            }
        };
        if self.json {
            let mut out = Output::new();
            out.json(&json!({ "from": self.from, "to": self.to, "bytes": bytes }))?;
            out.finish()?;
        }
        Ok(Exit::Done)
    }

    fn copy_out(&self, from: &FilePath) -> anyhow::Result<u64> {
        let to = Path::new(&self.to);
        ensure!(!self.store.is_in(to), "{} is the device itself", self.to);
        let store = self.store.mount_read_only()?;
        verify(&store, from)?;
        let mut bytes = 0;
        host::replace(to, &mut |out| {
            bytes = host::copy_out(&store, from, out)?;
            Ok(())
        })?;
        Ok(bytes)
    }

    fn copy_in(&self, to: &FilePath) -> anyhow::Result<u64> {
        let file = File::open(&self.from).with_context(|| format!("cannot open {}", self.from))?;
        ensure!(!file.metadata()?.is_dir(), "{} is a directory", self.from);
        let store = self.store.mount()?;
        replace(&store, to, |unfinished| {
            host::copy_in(&store, unfinished, host::tags_of(name(to)), &mut BufReader::new(file))
        })
    }

    fn copy_within(&self, from: &FilePath, to: &FilePath) -> anyhow::Result<u64> {
        let store = self.store.mount()?;
        verify(&store, from)?;
        let tags = store.info(from)?.tags;
        replace(&store, to, |unfinished| {
            let (reader, mut at) = (store.open(from)?, 0);
            let mut writer = store.create(unfinished, tags)?;
            let mut buffer = vec![0; 1 << 20];
            while at < reader.size_bytes() {
                let count = reader.read_at(at, &mut buffer)?;
                writer.append(&buffer[..count])?;
                at += count as u64;
            }
            writer.sync()?;
            writer.close()?;
            Ok(at)
        })
    }
}

/// The name of a copy in the store: not a directory's, and not one that the next copy would take for its own.
///
/// # Errors
/// What is wrong with it.
fn target(to: &str) -> anyhow::Result<FilePath> {
    let path = parse_path(to)?;
    let names_directory = to.is_empty() || to.ends_with('/');
    ensure!(!names_directory, BadArgument(format!("store:{to}: say what the copy is called in the directory")));
    let is_kept = name(&path) == UNFINISHED;
    ensure!(
        !is_kept,
        BadArgument(format!("store:{to}: the name {UNFINISHED} is kept for copies that are not whole yet"))
    );
    Ok(path)
}

/// Has `fill` make a file beside `to`, whose name it then gets, durably; what `fill` made is removed after an error.
fn replace(
    store: &FileStore,
    to: &FilePath,
    fill: impl FnOnce(&FilePath) -> anyhow::Result<u64>,
) -> anyhow::Result<u64> {
    let directory = to.parent().filter(|_| !store.info(to).is_ok_and(|info| info.is_directory));
    let unfinished = directory.with_context(|| format!("{to} is a directory"))?.join(UNFINISHED)?;
    let filled = fill(&unfinished).and_then(|bytes| {
        store.rename(&unfinished, to)?;
        store.sync_names()?;
        Ok(bytes)
    });
    let filled = filled.map_err(|error| match store.remove(&unfinished).and_then(|()| store.sync_names()) {
        Ok(()) | Err(FileError::NotFound { .. }) => error,
        Err(left) => error.context(format!("{unfinished} stays in the store: {left}")),
    });
    filled.with_context(|| format!("cannot write {to}"))
}
