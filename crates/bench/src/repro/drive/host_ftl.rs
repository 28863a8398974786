//! Figure 1 with the host FTL itself: its code, in a simulation, on zones that keep nothing but what is not zero.

use std::ops::RangeInclusive;
use std::sync::Arc;

use zonda_device::{AlignedBuf, BlockDevice, DeviceError, Geometry, HostFtl, HostFtlOptions, Lba};
use zonda_flash::drive::{FlashZoned, NullZones, TimeMode};
use zonda_flash::experiments::atc21::{Overwrite, WINDOWS_PER_PASS, Window, is_over};
use zonda_flash::experiments::ranges::{Order, Turns};
use zonda_flash::profile::Profile;
use zonda_rt::{Mutex, Seed, now, sim, spawn};

use super::{DriveRow, refused, zns_fig1::filled_in};
use crate::{BenchError, Result};

const WRITERS: u64 = 4;
const WRITE_BYTES: usize = 64 << 10;
const WRITE_BLOCKS: u64 = (WRITE_BYTES / 4096) as u64;

/// Runs it; one row.
pub(super) fn overwrite(
    series: &str,
    (order, x): (Order, &str),
    (scale, passes): (u64, &RangeInclusive<f64>),
    seed: u64,
) -> Result<Vec<DriveRow>> {
    let profile = Profile::named("atc21-zns").and_then(|profile| profile.scaled(scale)).map_err(refused)?;
    let run = sim::run(seed, || simulated(&profile, order, passes, seed));
    let (run, volume) = run.map_err(|error| BenchError::Model { reason: error.to_string() })?;
    let stats = volume.stats();
    let row = filled_in(DriveRow::new(series, x, &profile), &run, scale)
        .number("map MiB", stats.map_bytes as f64 / f64::from(1 << 20))
        .number("map bytes per block", stats.map_bytes as f64 / volume.capacity_blocks() as f64)
        .number("moved of host's", stats.moved_blocks as f64 / stats.host_blocks.max(1) as f64)
        .number("zones cleaned", stats.cleaned_zones as f64);
    Ok(vec![row])
}

/// What the writers share.
struct Shared {
    volume: HostFtl,
    ranges: u64,
    range_blocks: u64,
    /// Times that they write the volume: at least, and at most if it is not steady.
    passes: RangeInclusive<f64>,
    /// Bytes of a window.
    window_bytes: u64,
    state: Mutex<State>,
}

struct State {
    turns: Turns,
    written: u64,
    /// Written bytes, to the volume and below it, when the last window began.
    before: (u64, u64),
    windows: Vec<Window>,
}

fn simulated(
    profile: &Profile,
    order: Order,
    passes: &RangeInclusive<f64>,
    seed: u64,
) -> std::result::Result<(Overwrite, HostFtl), DeviceError> {
    let zones =
        profile.zoned_shape().ok_or(DeviceError::NotSupported { what: "a host FTL on a drive without zones" })?;
    let geometry =
        Geometry::new(zones.zone_size_bytes, zones.zones).with_capacity_blocks(zones.zone_capacity_bytes / 4096);
    let data = Arc::new(NullZones::new(geometry.with_limits(14, 14))?.keeping_what_is_not_zero());
    let drive = FlashZoned::over(data, profile, TimeMode::Timed { k: 1 }, seed)?;
    let volume = HostFtl::open(Arc::new(drive.clone()), &HostFtlOptions::default())?;
    let range_blocks = zones.zone_capacity_bytes / WRITE_BYTES as u64 * WRITE_BLOCKS;
    let ranges = volume.capacity_blocks() / range_blocks;
    let capacity_bytes = ranges * range_blocks * 4096;
    let turns = Turns::new(order, ranges, Seed(seed).derive("ranges").rng());
    let state = State { turns, written: 0, before: (0, 0), windows: Vec::new() };
    let window_bytes = capacity_bytes / WINDOWS_PER_PASS;
    let shared =
        Shared { volume, ranges, range_blocks, passes: passes.clone(), window_bytes, state: Mutex::new(state) };
    let shared = Arc::new(shared);
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let shared = Arc::clone(&shared);
            spawn(format!("writer {number}"), move || shared.write())
        })
        .collect();
    for writer in writers {
        writer.join().expect("a writer does not panic")?;
    }
    let answers_hash = drive.flash_report().core.answers_hash;
    let windows = std::mem::take(&mut shared.state.lock().windows);
    Ok((Overwrite { capacity_bytes, windows, answers_hash }, shared.volume.clone()))
}

impl Shared {
    /// Writes range after range until all have written enough.
    fn write(&self) -> std::result::Result<(), DeviceError> {
        let buffer = AlignedBuf::with_len(WRITE_BYTES);
        while let Some(range) = self.take() {
            let start = range * self.range_blocks;
            self.volume.trim(Lba(start), self.range_blocks)?;
            for block in (0..self.range_blocks).step_by(usize::try_from(WRITE_BLOCKS).expect("small")) {
                self.volume.write(Lba(start + block), &buffer)?;
                self.count();
            }
            self.state.lock().turns.give_back(range);
        }
        Ok(())
    }

    fn take(&self) -> Option<u64> {
        let state = &mut *self.state.lock();
        (!is_over(&state.windows, &self.passes)).then(|| state.turns.take())
    }

    /// Counts a write, and closes windows that are over.
    fn count(&self) {
        let below = self.volume.zones().counters().written_bytes;
        let state = &mut *self.state.lock();
        state.written += WRITE_BYTES as u64;
        if state.written < (state.windows.len() as u64 + 1) * self.window_bytes {
            return;
        }
        let (begun_ns, end_ns) = (state.windows.last().map_or(0, |window| window.end_ns), now().as_nanos());
        let (host, flash) = (state.written - state.before.0, below - state.before.1);
        let capacity = (self.ranges * self.range_blocks * 4096) as f64;
        state.windows.push(Window {
            end_ns,
            passes: state.written as f64 / capacity,
            mib_s: host as f64 / f64::from(1 << 20) / ((end_ns - begun_ns).max(1) as f64 / 1e9),
            amplification: flash as f64 / host.max(1) as f64,
        });
        state.before = (state.written, below);
    }
}
