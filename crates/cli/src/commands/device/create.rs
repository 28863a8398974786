//! `zonda device create`.

use anyhow::Context;
use clap::Args;
use zonda_device::{DeviceUri, OpenMode};

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned                                     4,096 zones of 16 MiB
  zonda device create disk.zoned --zones 64 --zone-size 64MiB --zone-capacity 48MiB --max-open 6 --max-active 6";

/// Makes a zoned device in a file
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
        shape.zone_size_bytes = self.zone_size.or(shape.zone_size_bytes);
        shape.zone_capacity_bytes = self.zone_capacity.or(shape.zone_capacity_bytes);
        shape.zones = self.zones.or(shape.zones);
        shape.max_open = self.max_open.or(shape.max_open);
        shape.max_active = self.max_active.or(shape.max_active);
        uri.open_zoned(OpenMode::Create).with_context(|| format!("cannot create {}", self.uri))?;
        Ok(Exit::Done)
    }
}
