//! `zonda fs mkfs`.

use anyhow::Context;
use clap::Args;
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use zonda_device::OpenMode;
use zonda_files::{FileStore, StoreId};

use super::{StoreArg, options};
use crate::devices::Data;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned --zones 64 --zone-size 64MiB
  zonda fs mkfs disk.zoned
  zonda fs mkfs zbd:/dev/nvme0n1 --force       whatever is on it is lost
  zonda device create 'disk?layout=blocks' && zonda fs mkfs 'disk?fs=xfs-like'
  zonda fs mkfs 'flash:splitzns?scale=1/64&data=drive.data'
  zonda fs mkfs 'conv:atc21-7op?scale=1/64&data=drive.data&fs=f2fs-like'";

/// Makes an empty file store on a device
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mkfs {
    #[command(flatten)]
    store: StoreArg,
    /// Also on a device that holds something, which is lost
    #[arg(long)]
    force: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Mkfs {
    /// # Errors
    /// Those of opening the device, which must exist unless it is modelled, and of writing to it.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let context = || self.store.cannot("make a file store on");
        let store = match self.store.drive(OpenMode::Open, Data::Made)? {
            Some(drive) => drive.format(new_id(), self.force).with_context(context)?,
            None => {
                let device = self.store.zones(OpenMode::Open, Data::Made)?;
                FileStore::format(device, new_id(), self.force, options()).with_context(context)?
            }
        };
        store.sync_names()?;
        let usage = store.usage();
        let mut out = Output::new();
        if self.json {
            out.json(&json!({ "zones": usage.space.zones, "usable_bytes": usage.usable_bytes }))?;
        } else {
            let usable = indicatif::HumanBytes(usage.usable_bytes);
            out.line(format!("{}: {} zones, {usable} for files", self.store.uri, usage.space.zones))?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

/// An identity that no other store has: the standard library seeds its hash tables from the system's randomness.
fn new_id() -> StoreId {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    StoreId(half() << 64 | half())
}
