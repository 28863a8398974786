//! `zonda fs restore`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use zonda_files::{FilePath, FileStore};

use super::backup::{CONTENTS, Entry, Summed, UNFINISHED};
use super::{StoreArg, host, name, parse_path};
use crate::exit::Exit;
use crate::output::{Output, say};
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zonda fs mkfs other.zoned && zonda fs restore other.zoned db-2026-11-22
  zonda fs restore other.zoned db-2026-11-22 --json
  zonda fs restore disk.zoned /var/lib/users --into /users    beside what is there; then --db=/users

The store must be empty, or --into names a directory that is not there. A directory that `zonda fs backup` did not make is taken as it is: kinds by RocksDB's names; so the files of a
database of the host, restored from its own directory, are in the root, `--db=/`, if --into does not say where. A backup that did not end is refused, and one
whose files have other lengths than it says, before anything is written; checksums are compared while it is.
This is for stores of files. A backup of keys, by `zonda backup`, is restored by `zonda restore`; its log is beside its pages.";

/// Copies the files of a backup into an empty store, or into a new directory
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    #[command(flatten)]
    store: StoreArg,
    /// Directory of the backup
    from: PathBuf,
    /// Make this directory in the store, which may hold others, and copy into it
    #[arg(long, value_name = "PATH", default_value = "/")]
    into: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Restore {
    /// # Errors
    /// Those of reading and writing, and a store that is not empty.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let entries = self.entries()?;
        let bytes_max = entries.iter().map(|entry| self.look(entry)).sum::<anyhow::Result<u64>>()?;
        let into = parse_path(&self.into)?;
        let store = self.store.mount()?;
        let again = self.begin(&store, &into)?;
        let (mut names, mut bytes, bar) = (0, 0, progress::of_bytes(Some(bytes_max)));
        for entry in &entries {
            if let Some(why) = &entry.damaged {
                bar.suspend(|| say(format_args!("zonda: {} is not in the backup: {why}", entry.path)));
                continue;
            }
            bar.set_message(entry.path.clone());
            let put = self.put((&store, &into), entry, &bar);
            bytes += put.with_context(|| {
                format!(
                    "cannot restore {}; the store holds what came before it: `{again}` takes it out again",
                    entry.path
                )
            })?;
            names += 1;
        }
        bar.finish_and_clear();
        store.sync_names()?;
        let mut out = Output::new();
        if self.json {
            out.json(&json!({ "names": names, "bytes": bytes }))?;
        } else {
            out.line(format!("{names} names, {}", indicatif::HumanBytes(bytes)))?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }

    /// Makes the directory that everything goes to; how to get rid of it.
    fn begin(&self, store: &FileStore, into: &FilePath) -> anyhow::Result<String> {
        let uri = &self.store.uri;
        let Some(above) = into.parent() else {
            ensure!(
                store.list(into)?.is_empty(),
                "{uri} is not empty: --into names a new directory for what comes; `zonda fs mkfs --force {uri}` makes a new \
                 store, without what is there"
            );
            return Ok(format!("zonda fs mkfs --force {uri}"));
        };
        ensure!(store.info(into).is_err(), "{into} exists in {uri}");
        make_all(store, &above)?;
        store.make_directory(into).with_context(|| format!("cannot make {into}"))?;
        Ok(format!("zonda fs rm --recursive {uri} {into}"))
    }

    fn on_host(&self, entry: &Entry) -> PathBuf {
        self.from.join(entry.path.trim_start_matches('/'))
    }

    /// The length of an entry's file, which is there and as long as the backup says.
    fn look(&self, entry: &Entry) -> anyhow::Result<u64> {
        if entry.directory || entry.same_as.is_some() || entry.damaged.is_some() {
            return Ok(0);
        }
        let on_host = self.on_host(entry);
        let metadata = fs::metadata(&on_host).with_context(|| format!("cannot open {}", on_host.display()))?;
        ensure!(metadata.is_file(), "{} is no file", on_host.display());
        let said = entry.bytes.unwrap_or(metadata.len());
        ensure!(metadata.len() == said, "{} has {} bytes; {said} were copied", on_host.display(), metadata.len());
        Ok(said)
    }

    fn put(&self, (store, into): (&FileStore, &FilePath), entry: &Entry, bar: &ProgressBar) -> anyhow::Result<u64> {
        let path = into.join(&entry.path)?;
        if entry.directory {
            store.make_directory(&path)?;
            return Ok(0);
        }
        if let Some(same_as) = &entry.same_as {
            store.link(&into.join(same_as)?, &path)?;
            return Ok(0);
        }
        let on_host = self.on_host(entry);
        let file = File::open(&on_host).with_context(|| format!("cannot open {}", on_host.display()))?;
        let mut summed = Summed { below: BufReader::new(file), crc32c: 0, bar };
        let bytes = host::copy_in(store, &path, entry.tags(name(&path)), &mut summed)?;
        ensure!(
            entry.crc32c.is_none_or(|said| said == summed.crc32c),
            "{} is not what was copied: its checksum differs",
            on_host.display()
        );
        Ok(bytes)
    }

    /// What `backup` wrote down, or what is there.
    fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        ensure!(
            !self.from.join(UNFINISHED).exists(),
            "the backup in {} did not end; make another",
            self.from.display()
        );
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
                entries.push(Entry::new(path, directory));
            }
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }
}

/// Makes a directory and those that it is in, where they are not there.
fn make_all(store: &FileStore, directory: &FilePath) -> anyhow::Result<()> {
    if store.info(directory).is_ok_and(|info| info.is_directory) {
        return Ok(());
    }
    if let Some(above) = directory.parent() {
        make_all(store, &above)?;
    }
    store.make_directory(directory).with_context(|| format!("cannot make {directory}"))
}
