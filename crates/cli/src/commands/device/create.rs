//! `zonda device create`: zones in a file, or with `layout=blocks` a block device.

use anyhow::{Context, bail, ensure};
use clap::Args;
use zonda_device::format::DeviceKind;
use zonda_device::{DeviceUri, OpenMode, Place};

use crate::exit::{BadArgument, Exit};

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned                                     4,096 zones of 16 MiB
  zonda device create disk.zoned --zones 64 --zone-size 64MiB --zone-capacity 48MiB --max-open 6 --max-active 6
  zonda device create 'disk?layout=blocks' --zones 64 --zone-size 16MiB    1 GiB without zones, for `zonda fs mkfs 'disk?fs=xfs-like'`";

/// Makes a zoned device in a file, or a block device
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// Path or URI of the device, which must not exist
    uri: String,
    /// Bytes from the start of one zone to the next
    #[arg(long, value_name = "SIZE", value_parser = zonda_bench::parse_bytes)]
    zone_size: Option<u64>,
    /// Bytes of a zone that can be written
    #[arg(long, value_name = "SIZE", value_parser = zonda_bench::parse_bytes)]
    zone_capacity: Option<u64>,
    /// Number of zones
    #[arg(long)]
    zones: Option<u64>,
    /// Most zones open at a time; 0 is no limit
    #[arg(long)]
    max_open: Option<u64>,
    /// Most zones active at a time; 0 is no limit
    #[arg(long)]
    max_active: Option<u64>,
}

impl Create {
    /// # Errors
    /// Those of making the device.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut uri: DeviceUri = self.uri.parse()?;
        let shape = &mut uri.shape;
        set(&mut shape.zone_size_bytes, self.zone_size, ("--zone-size", "zone_size"))?;
        set(&mut shape.zone_capacity_bytes, self.zone_capacity, ("--zone-capacity", "zone_capacity"))?;
        set(&mut shape.zones, self.zones, ("--zones", "zones"))?;
        set(&mut shape.max_open, self.max_open, ("--max-open", "max_open"))?;
        set(&mut shape.max_active, self.max_active, ("--max-active", "max_active"))?;
        let context = || format!("cannot create {}", self.uri);
        if matches!(uri.place, Place::Flash(_) | Place::HostFtl(_)) {
            bail!(BadArgument(format!(
                "{}: `zonda put` and `zonda fs mkfs` make the file of a modelled drive and what a host FTL needs",
                context()
            )));
        }
        match uri.layout {
            Some(DeviceKind::Block) => {
                let of_zones = [uri.shape.zone_capacity_bytes, uri.shape.max_open, uri.shape.max_active];
                let is_plain = of_zones.iter().chain([&uri.shape.append_bytes_max]).all(Option::is_none);
                let why =
                    || format!("{}: only zones have capacities and limits, and layout=blocks has none", context());
                ensure!(is_plain, BadArgument(why()));
                uri.open_block(OpenMode::Create).map(drop).with_context(context)?;
            }
            _ => uri.open_zoned(OpenMode::Create).map(drop).with_context(context)?,
        }
        Ok(Exit::Done)
    }
}

/// Takes what an option says for what the key of the URI may have said already.
fn set(said: &mut Option<u64>, given: Option<u64>, (option, key): (&str, &str)) -> anyhow::Result<()> {
    if let (Some(said), Some(given)) = (*said, given) {
        ensure!(said == given, BadArgument(format!("{option} is {given}, and `{key}` in the URI is {said}")));
    }
    *said = given.or(*said);
    Ok(())
}
