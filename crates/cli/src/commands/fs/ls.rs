//! `zonda fs ls`.

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use zonda_files::{FileInfo, FilePath};

use super::{StoreArg, parse_path, walk};
use crate::bytes::escape;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs ls disk.zoned
  zonda fs ls disk.zoned /db --long          size, names, kind, lifetime and level
  zonda fs ls disk.zoned / --recursive --json

Line ends and other control characters of a name, and \\, are shown as escapes: \\n, \\xHH. With --json names are as JSON has them.";

/// Lists a directory
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ls {
    #[command(flatten)]
    store: StoreArg,
    /// The directory, or a file
    #[arg(default_value = "/")]
    path: String,
    /// One line with all that is known for each name
    #[arg(long, short)]
    long: bool,
    /// What is below, too
    #[arg(long, short)]
    recursive: bool,
    /// Print a JSON object for each name
    #[arg(long)]
    json: bool,
}

impl Ls {
    /// # Errors
    /// Those of mounting, and a path that is not there.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let store = self.store.mount_read_only()?;
        let path = parse_path(&self.path)?;
        let paths = match store.info(&path)?.is_directory {
            false => vec![path],
            true if self.recursive => walk(&store, &path)?,
            true => store.list(&path)?,
        };
        let mut out = Output::new();
        for path in paths {
            let info = store.info(&path)?;
            match () {
                () if self.json => out.json(&as_json(&path, &info))?,
                () if self.long => out.line(long(&path, &info))?,
                () if info.is_directory => out.line(format!("{}/", shown(&path)))?,
                () => out.line(shown(&path))?,
            }
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

/// A name in one line, whatever is in it.
fn shown(path: &FilePath) -> String {
    escape(path.as_str().as_bytes())
}

fn long(path: &FilePath, info: &FileInfo) -> String {
    let path = shown(path);
    if info.is_directory {
        return format!("{:>12}  {:>5}  {:<13}  {:<8}  {:<5}  {path}/", "-", "-", "directory", "-", "-");
    }
    let level = info.tags.level.map_or("-".to_owned(), |level| format!("L{level}"));
    let (size, kind) = (HumanBytes(info.size_bytes).to_string(), info.tags.kind.name());
    format!("{size:>12}  {:>5}  {kind:<13}  {:<8}  {level:<5}  {path}", info.links, info.tags.lifetime.name())
}

fn as_json(path: &FilePath, info: &FileInfo) -> serde_json::Value {
    if info.is_directory {
        return json!({ "path": path.as_str(), "directory": true });
    }
    json!({
        "path": path.as_str(), "directory": false, "file": info.file.0, "size_bytes": info.size_bytes,
        "links": info.links, "modified_seconds": info.modified_seconds, "kind": info.tags.kind.name(),
        "lifetime": info.tags.lifetime.name(), "level": info.tags.level,
    })
}
