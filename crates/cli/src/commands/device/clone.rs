//! `zonda device clone`: a copy of a device's file that takes no more room than what is in it.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use zonda_device::format::DeviceKind;
use zonda_device::{DeviceUri, FileBlockDevice, FileDevice, FileOptions, Place};

use crate::exit::{BadArgument, Exit};
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
        let Place::File(from) = &uri.place else {
            bail!(BadArgument(format!("{}: only files can be cloned", self.from)))
        };
        let held = hold(&uri, from).with_context(|| format!("cannot open {}", self.from))?;
        let copied = copy(from, &self.to);
        drop(held);
        copied.with_context(|| format!("cannot clone {} to {}", from.display(), self.to.display()))
    }
}

/// Opens the device, so that nobody writes to it until what is returned is dropped.
fn hold(uri: &DeviceUri, path: &Path) -> zonda_device::Result<Box<dyn Any>> {
    match uri.kind()? {
        Some(DeviceKind::Block) => Ok(Box::new(FileBlockDevice::open(path, true, &FileOptions::default())?)),
        _ => Ok(Box::new(FileDevice::open_read_only(path, &FileOptions::default())?)),
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

#[cfg(test)]
mod tests {
    use zonda_device::{DeviceError, Geometry};

    use super::*;

    #[test]
    fn nobody_writes_to_a_device_that_is_cloned() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        drop(FileDevice::create(path("zones"), Geometry::new(64 << 10, 16), &FileOptions::default()).unwrap());
        drop(FileBlockDevice::create(path("blocks"), 4096, 64, &FileOptions::default()).unwrap());
        let is_locked = |opened: zonda_device::Result<()>| matches!(opened, Err(DeviceError::Locked { .. }));
        let write = |name: &str| match name {
            "zones" => FileDevice::open(path(name), &FileOptions::default()).map(drop),
            _ => FileBlockDevice::open(path(name), false, &FileOptions::default()).map(drop),
        };
        for name in ["zones", "blocks"] {
            let uri: DeviceUri = path(name).display().to_string().parse().unwrap();
            let held = hold(&uri, &path(name)).unwrap();
            assert!(is_locked(write(name)), "{name}");
            drop(held);
            write(name).unwrap();
        }
    }
}
