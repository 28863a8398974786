//! `zonda device report`: what `blkzone report` shows, and the limits.

use anyhow::Context;
use clap::Args;
use serde_json::json;
use zonda_device::{DeviceUri, Geometry, OpenMode, ZoneId, ZoneReport, ZoneState, ZonedDevice};

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda device report disk.zoned              as `blkzone report`, in sectors of 512 bytes, with the limits above
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
        let device = uri.open_zoned(OpenMode::ReadOnly).with_context(|| format!("cannot open {}", self.uri))?;
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
            "{kind}: {} zones, blocks of {} bytes, max open {}, max active {}, max append {} blocks",
            geometry.zone_count,
            geometry.block_bytes,
            limit(geometry.max_open),
            limit(geometry.max_active),
            limit(geometry.append_blocks_max),
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
        ZoneState::Offline => "ol",
    }
}
