//! `zonda fs restore`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;
use zonda_files::{FilePath, FileStore};

use super::backup::{CONTENTS, Entry};
use super::{StoreArg, host, name, parse_path};
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs mkfs other.zoned && zonda fs restore other.zoned db-2026-11-22
  zonda fs restore other.zoned db-2026-11-22 --json

The store must be empty. A directory that `zonda fs backup` did not make is taken as it is: kinds by RocksDB's names.";

/// Copies the files of a backup into an empty store
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    #[command(flatten)]
    store: StoreArg,
    /// Directory of the backup
    from: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Restore {
    /// # Errors
    /// Those of reading and writing, and a store that is not empty.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let entries = self.entries()?;
        let store = self.store.mount()?;
        ensure!(store.list(&FilePath::root())?.is_empty(), "{} is not empty", self.store.uri);
        let mut bytes = 0;
        for entry in &entries {
            bytes += self.put(&store, entry).with_context(|| format!("cannot restore {}", entry.path))?;
        }
        store.sync_names()?;
        let mut out = Output::new();
        if self.json {
            out.json(&json!({ "names": entries.len(), "bytes": bytes }))?;
        } else {
            out.line(format!("{} names, {}", entries.len(), indicatif::HumanBytes(bytes)))?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }

    fn put(&self, store: &FileStore, entry: &Entry) -> anyhow::Result<u64> {
        let path = parse_path(&entry.path)?;
        if entry.directory {
            store.make_directory(&path)?;
            return Ok(0);
        }
        if let Some(same_as) = &entry.same_as {
            store.link(&parse_path(same_as)?, &path)?;
            return Ok(0);
        }
        let on_host = self.from.join(path.as_str().trim_start_matches('/'));
        let file = File::open(&on_host).with_context(|| format!("cannot open {}", on_host.display()))?;
        host::copy_in(store, &path, entry.tags(name(&path)), &mut BufReader::new(file))
    }

    /// What `backup` wrote down, or what is there.
    fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let contents = self.from.join(CONTENTS);
        if contents.exists() {
            let text = fs::read(&contents).with_context(|| format!("cannot read {}", contents.display()))?;
            return serde_json::from_slice(&text).with_context(|| format!("cannot read {}", contents.display()));
        }
        let mut entries = Vec::new();
        let mut waiting = vec![(self.from.clone(), String::new())];
        while let Some((directory, above)) = waiting.pop() {
            let listed = fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
            for found in listed {
                let found = found?;
                let name = found.file_name();
                let name = name.to_str().with_context(|| format!("{} is not UTF-8", found.path().display()))?;
                let (path, directory) = (format!("{above}/{name}"), found.file_type()?.is_dir());
                if directory {
                    waiting.push((found.path(), path.clone()));
                }
                entries.push(Entry { path, directory, same_as: None, kind: None, lifetime: None, level: None });
            }
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }
}
