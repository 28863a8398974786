//! Draws what zones and chips do over time for four tables of which two die: in a wide zone, in subzones, in subzones behind the ring.
//!
//! `cargo run --release -p zonda-flash --example split_zones DIRECTORY` writes three pictures; `docs/splitzns.md` explains them. Virtual
//! time: the same pictures on every machine.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zonda_device::{AlignedBuf, DeviceError, Lba, SplitZones, SubzoneId, ZoneId, ZonedDevice};
use zonda_flash::drive::{FlashZoned, Spec};
use zonda_rt::{sim, spawn};

/// The paper's drive at 1/8: subzones, and tables, of 4 MiB.
const DRIVE: &str = "splitzns?scale=1/8&zones=8&data=none";
const TABLE: usize = 4 << 20;
/// What a host writes at a time.
const PIECE: usize = 1 << 20;
const BLOCK: usize = 4096;
/// Tables written at a time, as by a compaction with four parts.
const TABLES: u16 = 4;
/// Milliseconds that a picture shows.
const WINDOW_MS: u64 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory: PathBuf = std::env::args_os().nth(1).unwrap_or_else(|| ".".into()).into();
    draw(&directory.join("splitzns-wide.svg"), "native", wide)?;
    draw(&directory.join("splitzns-subzones.svg"), "native", |drive| subzones(drive, 0))?;
    draw(&directory.join("splitzns-ring.svg"), "ring", |drive| {
        fill_ring(drive)?;
        subzones(drive, 4)
    })
}

type Story = fn(&Arc<FlashZoned>) -> Result<(), DeviceError>;

fn draw(path: &Path, split: &str, story: Story) -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = format!("{DRIVE}&split={split}").parse()?;
    let seen = sim::run(1, move || {
        let drive = Arc::new(spec.open_zoned()?);
        drive.watch(0..WINDOW_MS * 1_000_000);
        story(&drive)?;
        Ok::<_, DeviceError>((drive.seen(), drive.flash_report()))
    })?;
    std::fs::write(path, seen.0.svg())?;
    println!("{}: {:?}", path.display(), seen.1.writes);
    Ok(())
}

/// All tables in one zone, over all chips. Two die; the others are copied before the zone can be reset.
fn wide(drive: &Arc<FlashZoned>) -> Result<(), DeviceError> {
    for table in 0..u64::from(TABLES) {
        write_wide(drive, 0, table)?;
    }
    let mut buffer = AlignedBuf::with_len(PIECE);
    for (to, from) in [0, 2].into_iter().enumerate() {
        for piece in 0..TABLE / PIECE {
            drive.read(lba(0, from * TABLE + piece * PIECE), &mut buffer)?;
            drive.write(lba(zone_bytes(drive), to * TABLE + piece * PIECE), &buffer)?;
        }
    }
    drive.reset(ZoneId(0))
}

fn write_wide(drive: &FlashZoned, zone: usize, table: u64) -> Result<(), DeviceError> {
    let (buffer, table) = (AlignedBuf::with_len(PIECE), usize::try_from(table).unwrap_or(0));
    (0..TABLE / PIECE).try_for_each(|piece| drive.write(lba(zone, table * TABLE + piece * PIECE), &buffer))
}

/// Each table in a subzone of its own, on a chip of its own. Two die: their subzones are reset, and nothing is copied.
fn subzones(drive: &Arc<FlashZoned>, zone: u32) -> Result<(), DeviceError> {
    drive.split(ZoneId(zone))?;
    write_tables(drive, zone, 0..TABLES)?;
    for index in [1, 3] {
        drive.reset_subzone(SubzoneId { zone: ZoneId(zone), index })?;
    }
    Ok(())
}

fn write_tables(drive: &Arc<FlashZoned>, zone: u32, tables: std::ops::Range<u16>) -> Result<(), DeviceError> {
    let write = |index| {
        let (drive, id) = (Arc::clone(drive), SubzoneId { zone: ZoneId(zone), index });
        spawn("writer", move || {
            let buffer = AlignedBuf::with_len(PIECE);
            (0..TABLE / PIECE).try_for_each(|_| drive.append_subzone(id, &buffer).map(drop))?;
            drive.finish_subzone(id)
        })
    };
    let writers: Vec<_> = tables.map(write).collect();
    writers.into_iter().try_for_each(|writer| writer.join().expect("a writer does not panic"))
}

/// Two zones of tables: the ring is full, and every further write is a step of it. The picture begins then.
fn fill_ring(drive: &Arc<FlashZoned>) -> Result<(), DeviceError> {
    for zone in 0..2 {
        drive.split(ZoneId(zone))?;
        write_tables(drive, zone, 0..16)?;
    }
    drive.watch(0..WINDOW_MS * 1_000_000);
    Ok(())
}

fn lba(zone_bytes: usize, at: usize) -> Lba {
    Lba(((zone_bytes + at) / BLOCK) as u64)
}

fn zone_bytes(drive: &FlashZoned) -> usize {
    usize::try_from(drive.geometry().zone_size_blocks).unwrap_or(0) * BLOCK
}
