//! `zonda fs backup`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zonda_files::{FileKind, FilePath, FileStore, FileTags, Lifetime};

use super::{StoreArg, host, verify, walk};
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs backup disk.zoned db-2026-11-22            every file, as files of the host
  zonda fs backup zbd:/dev/nvme0n1 copy --json

The directory must not exist. Its file `zonda-files.json` keeps what a host's files have no room for: kinds, lifetimes, levels, second names.
Every file is compared with its checksums first.";

/// The file that says what the others are.
pub(super) const CONTENTS: &str = "zonda-files.json";

/// One name of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The name.
    pub(super) path: String,
    /// Whether it is a directory.
    #[serde(default)]
    pub(super) directory: bool,
    /// The name under which the same file was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) same_as: Option<String>,
    /// What it is.
    #[serde(default)]
    pub(super) kind: Option<String>,
    /// Expected lifetime.
    #[serde(default)]
    pub(super) lifetime: Option<String>,
    /// Level of a table.
    #[serde(default)]
    pub(super) level: Option<u8>,
}

impl Entry {
    /// The tags that it says; what it does not say, by the name.
    pub(super) fn tags(&self, name: &str) -> FileTags {
        let kinds = [FileKind::Log, FileKind::Meta, FileKind::Flushed, FileKind::Data];
        let lifetimes =
            [Lifetime::NotSet, Lifetime::None, Lifetime::Short, Lifetime::Medium, Lifetime::Long, Lifetime::Extreme];
        let mut tags = host::tags_of(name);
        if let Some(kind) = kinds.into_iter().find(|kind| self.kind.as_deref() == Some(kind.name())) {
            tags.kind = kind;
        }
        if let Some(lifetime) = lifetimes.into_iter().find(|it| self.lifetime.as_deref() == Some(it.name())) {
            tags.lifetime = lifetime;
        }
        FileTags { level: self.level, ..tags }
    }
}

/// Copies every file into a directory of the host
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreArg,
    /// Directory of the copy, which must not exist
    to: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// # Errors
    /// Those of mounting, reading and writing, and damage.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        ensure!(!self.to.exists(), "{} exists", self.to.display());
        let store = self.store.mount_read_only()?;
        let paths = walk(&store, &FilePath::root())?;
        fs::create_dir(&self.to).with_context(|| format!("cannot make {}", self.to.display()))?;
        let (mut entries, mut copied, mut bytes) = (Vec::new(), BTreeMap::new(), 0);
        for path in &paths {
            entries.push(self.entry(&store, path, &mut copied, &mut bytes)?);
        }
        let contents = serde_json::to_vec_pretty(&entries)?;
        write_durably(&self.to.join(CONTENTS), &mut |out| Ok(out.write_all(&contents)?))?;
        let mut out = Output::new();
        if self.json {
            out.json(&json!({ "names": paths.len(), "files": copied.len(), "bytes": bytes }))?;
        } else {
            out.line(format!("{} names, {} files, {}", paths.len(), copied.len(), indicatif::HumanBytes(bytes)))?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }

    fn entry(
        &self,
        store: &FileStore,
        path: &FilePath,
        copied: &mut BTreeMap<u64, String>,
        bytes: &mut u64,
    ) -> anyhow::Result<Entry> {
        let info = store.info(path)?;
        let name = path.as_str().to_owned();
        let on_host = self.to.join(name.trim_start_matches('/'));
        let mut entry = Entry { path: name, directory: false, same_as: None, kind: None, lifetime: None, level: None };
        if info.is_directory {
            fs::create_dir(&on_host).with_context(|| format!("cannot make {}", on_host.display()))?;
            return Ok(Entry { directory: true, ..entry });
        }
        if let Some(same_as) = copied.get(&info.file.0) {
            return Ok(Entry { same_as: Some(same_as.clone()), ..entry });
        }
        verify(store, path)?;
        write_durably(&on_host, &mut |out| {
            *bytes += host::copy_out(store, path, out)?;
            Ok(())
        })?;
        copied.insert(info.file.0, entry.path.clone());
        entry.kind = Some(info.tags.kind.name().to_owned());
        entry.lifetime = Some(info.tags.lifetime.name().to_owned());
        Ok(Entry { level: info.tags.level, ..entry })
    }
}

/// Makes a file of the host and waits until it is durable.
fn write_durably(path: &Path, fill: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()?;
    Ok(out.get_ref().sync_all()?)
}
