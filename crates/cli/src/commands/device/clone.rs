//! `zonda device clone`: a copy of a device's file that takes no more room than what is in it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use zonda_device::{DeviceUri, FileDevice, FileOptions, Place};

use crate::exit::Exit;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zonda device clone loaded.zoned run.zoned
  zonda load 'flash:zn540?data=zn540.img' data.tsv --format tsv && zonda device clone zn540.img run.img

So that many measurements begin with the same data. The device must not be open.";

/// Bytes that are copied, or found to be zeros, at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Zeros in pieces of this size become holes.
const HOLE_BYTES: usize = 64 << 10;

/// Copies the file of a device or of a modelled drive
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Clone {
    /// Path or file: URI of the device
    from: String,
    /// The new file
    to: PathBuf,
}

impl Clone {
    /// # Errors
    /// If the first is no device's file or in use, or the second exists.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let uri: DeviceUri = self.from.parse()?;
        let Place::File(from) = &uri.place else { bail!("{}: only files can be cloned", self.from) };
        // Opened as a device, so that nobody writes to it meanwhile.
        let held = match uri.kind().with_context(|| format!("cannot open {}", self.from))? {
            Some(zonda_device::format::DeviceKind::Block) => None,
            _ => Some(
                FileDevice::open_read_only(from, &FileOptions::default())
                    .with_context(|| format!("cannot open {}", self.from))?,
            ),
        };
        let copied = copy(from, &self.to);
        drop(held);
        copied.with_context(|| format!("cannot clone {} to {}", from.display(), self.to.display()))
    }
}

/// Makes the new file; a copy that fails is removed, a file that was there is left alone.
fn copy(from: &Path, to: &Path) -> anyhow::Result<Exit> {
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).open(to)?;
    let copied = fill(&mut source, &mut target);
    if copied.is_err() {
        fs::remove_file(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    copied?;
    Ok(Exit::Done)
}

fn fill(source: &mut File, target: &mut File) -> anyhow::Result<()> {
    let bytes = source.metadata()?.len();
    target.set_len(bytes)?;
    let bar = progress::of_bytes(Some(bytes));
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        let read = source.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        for (number, piece) in chunk[..read].chunks(HOLE_BYTES).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                target.write_all_at(piece, at + (number * HOLE_BYTES) as u64)?;
            }
        }
        at += read as u64;
        bar.set_position(at);
    }
    target.flush()?;
    target.sync_all()?;
    bar.finish_and_clear();
    Ok(())
}
