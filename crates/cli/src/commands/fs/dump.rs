//! `zonda fs dump`.

use clap::Args;
use serde_json::json;

use zonda_files::stream_name;

use super::{StoreArg, walk};
use crate::bytes::escape;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs dump disk.zoned             every zone that holds something, every file with its extents
  zonda fs dump disk.zoned --json      a JSON object for each zone and each file

Names are shown as by `zonda fs ls`: control characters as escapes.";

/// Prints what is where: zones, files, extents
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: StoreArg,
    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Dump {
    /// # Errors
    /// Those of mounting.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let store = self.store.mount_read_only()?;
        let mut out = Output::new();
        self.zones(&store, &mut out)?;
        for path in walk(&store, &zonda_files::FilePath::root())? {
            let info = store.info(&path)?;
            let extents = if info.is_directory { Vec::new() } else { store.extents(&path)? };
            if self.json {
                let extents: Vec<_> = extents
                    .iter()
                    .map(|extent| {
                        json!({
                            "zone": extent.zone.0, "generation": extent.generation, "block": extent.block,
                            "skip": extent.skip, "bytes": extent.bytes, "crc32c": extent.crc,
                        })
                    })
                    .collect();
                out.json(&json!({
                    "path": path.as_str(), "directory": info.is_directory, "file": info.file.0,
                    "size_bytes": info.size_bytes, "extents": extents,
                }))?;
                continue;
            }
            out.line(format!("{}  {} bytes", escape(path.as_str().as_bytes()), info.size_bytes))?;
            for extent in extents {
                out.line(format!(
                    "    {} generation {} block {} skip {} bytes {}",
                    extent.zone, extent.generation, extent.block, extent.skip, extent.bytes
                ))?;
            }
        }
        out.finish()?;
        Ok(Exit::Done)
    }

    fn zones(&self, store: &zonda_files::FileStore, out: &mut Output) -> anyhow::Result<()> {
        for view in store.space().view().iter().filter(|view| view.stream.is_some()) {
            // The journal's zone is live as a whole, also what is still to be written of it.
            let live = view.live_bytes.min(view.written_bytes);
            let stream = view.stream.map_or(0, |stream| stream.0);
            let of = view.stream.map_or("nothing", stream_name);
            if self.json {
                out.json(&json!({
                    "zone": view.zone.0, "state": view.state.name(), "stream": stream, "of": of, "generation": view.generation,
                    "written_bytes": view.written_bytes, "live_bytes": live,
                }))?;
            } else {
                let (zone, state, generation) = (view.zone, view.state.name(), view.generation);
                let written = view.written_bytes;
                out.line(format!(
                    "{zone}  {state}  of {of}  generation {generation}  live {live} of {written} written"
                ))?;
            }
        }
        Ok(())
    }
}
