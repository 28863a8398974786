//! `zonda device report`: what `blkzone report` shows, and the limits.

use anyhow::Context;
use clap::Args;
use serde_json::json;
#[cfg(target_os = "linux")]
use zonda_device::{Descriptor, Place, ZbdDevice, ZoneKind};
use zonda_device::{DeviceUri, Geometry, OpenMode, ZoneId, ZoneReport, ZoneState, ZonedDevice};

use crate::devices::{self, Data};
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda device report disk.zoned              as `blkzone report`, in sectors of 512 bytes, with the limits above
  zonda device report zbd:/dev/nvme0n1        every line as blkzone's, conventional zones included
  zonda device report flash:zn540             zones and limits of a modelled drive
  zonda device report disk.zoned --used       only zones that are not empty
  zonda device report disk.zoned --json       a JSON object for the device, then one for each zone";

/// The sector of `blkzone`, in bytes.
const SECTOR_BYTES: u64 = 512;
/// Zones asked for with one call.
const REPORT_ZONES: u32 = 4096;

/// Reports the zones of a device and its limits
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Report {
    /// Path or URI of the device
    uri: String,
    /// Only zones that are not empty
    #[arg(long)]
    used: bool,
    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Report {
    /// # Errors
    /// Those of opening, asking and printing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let uri: DeviceUri = self.uri.parse()?;
        let context = || format!("cannot open {}", self.uri);
        #[cfg(target_os = "linux")]
        if let Place::Zbd(path) = &uri.place {
            return self.block_device(&uri.zbd(path, OpenMode::ReadOnly).with_context(context)?);
        }
        let device = devices::open_zoned(&uri, OpenMode::ReadOnly, Data::Anywhere).with_context(context)?;
        let mut out = Output::new();
        self.head(&*device, &mut out)?;
        let geometry = device.geometry();
        for first in (0..geometry.zone_count).step_by(REPORT_ZONES as usize) {
            for zone in device.report(ZoneId(first), REPORT_ZONES)? {
                self.zone(geometry, &zone, &mut out)?;
            }
        }
        out.finish()?;
        Ok(Exit::Done)
    }

    /// A block device shows more than every device has: conventional zones, and write pointers that mean nothing.
    #[cfg(target_os = "linux")]
    fn block_device(&self, device: &ZbdDevice) -> anyhow::Result<Exit> {
        let mut out = Output::new();
        self.head(device, &mut out)?;
        for (number, zone) in device.describe_zones()?.iter().enumerate() {
            self.descriptor(number, zone, &mut out)?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }

    #[cfg(target_os = "linux")]
    fn descriptor(&self, number: usize, zone: &Descriptor, out: &mut Output) -> std::io::Result<()> {
        if self.used && zone.state() == Some(ZoneState::Empty) {
            return Ok(());
        }
        let pointer = zone.write_pointer_sector.wrapping_sub(zone.start_sector);
        let pointer = if zone.kind.is_sequential() { pointer } else { 0 };
        let (start, len, capacity) = (zone.start_sector, zone.len_sectors, zone.capacity_sectors);
        let kind = match zone.kind {
            ZoneKind::Conventional => "CONVENTIONAL",
            ZoneKind::SequentialRequired => "SEQ_WRITE_REQUIRED",
            ZoneKind::SequentialPreferred => "SEQ_WRITE_PREFERRED",
            ZoneKind::Unknown(_) => "RESERVED",
        };
        let condition = zone.state().map_or("nw", short);
        if self.json {
            return out.json(&json!({
                "zone": number, "state": zone.state().map_or("not written in order".to_owned(), |s| s.to_string()),
                "start_sector": start, "len_sectors": len, "capacity_sectors": capacity,
                "write_pointer_sectors": pointer, "kind": kind,
            }));
        }
        let (reset, non_sequential) = (u8::from(zone.reset_recommended), u8::from(zone.non_sequential));
        out.line(format!(
            "  start: {start:#011x}, len {len:#08x}, cap {capacity:#08x}, wptr {pointer:#08x} reset:{reset} \
             non-seq:{non_sequential}, zcond:{:2}({condition}) [type: {}({kind})]",
            zone.condition,
            zone.kind.number(),
        ))
    }

    fn head(&self, device: &dyn ZonedDevice, out: &mut Output) -> std::io::Result<()> {
        let (geometry, kind) = (device.geometry(), device.describe());
        let limit = |limit: Option<u32>| limit.map_or("no limit".to_owned(), |limit| limit.to_string());
        if self.json {
            return out.json(&json!({
                "device": kind, "block_bytes": geometry.block_bytes, "zones": geometry.zone_count,
                "zone_size_bytes": geometry.zone_size_blocks * u64::from(geometry.block_bytes),
                "zone_capacity_bytes": geometry.zone_capacity_bytes(),
                "max_open": geometry.max_open, "max_active": geometry.max_active,
                "append_blocks_max": geometry.append_blocks_max,
            }));
        }
        out.line(format!(
            "{kind}: {} zones, blocks of {} bytes, max open {}, max active {}, max append {}",
            geometry.zone_count,
            geometry.block_bytes,
            limit(geometry.max_open),
            limit(geometry.max_active),
            geometry.append_blocks_max.map_or("no limit".to_owned(), |blocks| format!("{blocks} blocks")),
        ))
    }

    fn zone(&self, geometry: &Geometry, zone: &ZoneReport, out: &mut Output) -> std::io::Result<()> {
        if self.used && zone.state == ZoneState::Empty {
            return Ok(());
        }
        let sectors = |blocks: u64| blocks * u64::from(geometry.block_bytes) / SECTOR_BYTES;
        let (start, len) = (sectors(zone.start.0), sectors(geometry.zone_size_blocks));
        let (capacity, written) = (sectors(zone.capacity_blocks), sectors(zone.written_blocks()));
        if self.json {
            return out.json(&json!({
                "zone": zone.zone.0, "state": zone.state.to_string(), "start_sector": start, "len_sectors": len,
                "capacity_sectors": capacity, "write_pointer_sectors": written,
            }));
        }
        let (number, short) = (zone.state as u8, short(zone.state));
        out.line(format!(
            "  start: {start:#011x}, len {len:#08x}, cap {capacity:#08x}, wptr {written:#08x} reset:0 non-seq:0, \
             zcond:{number:2}({short}) [type: 2(SEQ_WRITE_REQUIRED)]"
        ))
    }
}

/// The two letters of `blkzone`.
fn short(state: ZoneState) -> &'static str {
    match state {
        ZoneState::Empty => "em",
        ZoneState::ImplicitOpen => "oi",
        ZoneState::ExplicitOpen => "oe",
        ZoneState::Closed => "cl",
        ZoneState::ReadOnly => "ro",
        ZoneState::Full => "fu",
        ZoneState::Offline => "of",
    }
}
