//! `zonda fs cp`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use zonda_files::FilePath;

use super::{StoreArg, host, name, parse_path, verify};
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs cp disk.zoned store:/db/CURRENT CURRENT         out of the store
  zonda fs cp disk.zoned 000012.sst store:/db/000012.sst   into it; durable when the command ends
  zonda fs cp disk.zoned store:/a store:/b                 within it

A path in the store begins with `store:`. What has the name already is replaced.";

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
            (None, Some(to)) => self.copy_in(&parse_path(to)?)?,
            (Some(from), Some(to)) => self.copy_within(&parse_path(from)?, &parse_path(to)?)?,
            (None, None) => bail!("neither {} nor {} begins with `store:`", self.from, self.to),
        };
        if self.json {
            let mut out = Output::new();
            out.json(&json!({ "from": self.from, "to": self.to, "bytes": bytes }))?;
            out.finish()?;
        }
        Ok(Exit::Done)
    }

    fn copy_out(&self, from: &FilePath) -> anyhow::Result<u64> {
        let store = self.store.mount_read_only()?;
        verify(&store, from)?;
        let file = File::create(&self.to).with_context(|| format!("cannot make {}", self.to))?;
        let mut out = BufWriter::new(file);
        let bytes = host::copy_out(&store, from, &mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(bytes)
    }

    fn copy_in(&self, to: &FilePath) -> anyhow::Result<u64> {
        let file = File::open(&self.from).with_context(|| format!("cannot open {}", self.from))?;
        anyhow::ensure!(!file.metadata()?.is_dir(), "{} is a directory", self.from);
        let store = self.store.mount()?;
        host::copy_in(&store, to, host::tags_of(name(to)), &mut BufReader::new(file))
    }

    fn copy_within(&self, from: &FilePath, to: &FilePath) -> anyhow::Result<u64> {
        let store = self.store.mount()?;
        verify(&store, from)?;
        let tags = store.info(from)?.tags;
        let (reader, mut at) = (store.open(from)?, 0);
        let mut writer = store.create(to, tags)?;
        let mut buffer = vec![0; 1 << 20];
        while at < reader.size_bytes() {
            let count = reader.read_at(at, &mut buffer)?;
            writer.append(&buffer[..count])?;
            at += count as u64;
        }
        writer.sync()?;
        writer.close()?;
        Ok(at)
    }
}
