//! The ZNS paper's raw device experiments: the same flash with zones and behind a translation layer.
//!
//! Figure 1: 64 KiB writes into four zone-sized ranges at a time, the usable capacity filled and then overwritten four times. Figure 5:
//! writes at a rate, and random reads of 4 KiB beside them.
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::ranges::{Order, RangeWriter, Ranges};
use crate::clients::{Client, VirtualTime};
use crate::conventional::ConventionalModel;
use crate::core::{Attribution, Nanos};
use crate::model::{FlashWrites, Model};
use crate::profile::{Profile, ProfileError};
use crate::workload::{Pace, RandomReader};
use crate::zns::ZonedModel;

/// Writers, and so ranges that are written at a time.
const WRITERS: usize = 4;
/// Bytes of a write.
const WRITE_BYTES: u64 = 64 << 10;
/// Windows in which the capacity is written once: by bytes and not by time, so that a slow drive's windows are not made of
/// fewer ranges, and its amplification not noisier, than a fast one's. The five of [`is_steady`] are a pass.
pub const WINDOWS_PER_PASS: u64 = 5;
/// Times within the shortest window at which it is looked whether one is over.
const LOOKS_PER_WINDOW: u64 = 8;
/// Times that the capacity is written in figure 1: once to fill it and four times to overwrite it, then on until the drive
/// is steady, as the tests of storage vendors do, but at most so often.
pub const PASSES: RangeInclusive<f64> = 5.0..=8.0;
/// Steady: the amplification of so many windows is within 5 % of their mean.
const STEADY_WINDOWS: usize = 5;

/// A drive of either kind.
#[derive(Debug)]
pub struct Drive {
    /// The model.
    pub time: VirtualTime<Box<dyn Model>>,
    /// What is written.
    pub ranges: Rc<Ranges>,
    /// Bytes of a range.
    pub range_bytes: u64,
}

impl Drive {
    /// The drive of a profile, made smaller and empty. Ranges of a conventional drive are as long as zones are.
    ///
    /// # Errors
    /// For scales that leave nothing.
    pub fn new(profile: &Profile, scale: u64, order: Order, seed: u64) -> Result<Self, ProfileError> {
        Self::made(profile, scale, order, seed, false)
    }

    fn made(profile: &Profile, scale: u64, order: Order, seed: u64, is_full: bool) -> Result<Self, ProfileError> {
        let profile = profile.clone().scaled(scale)?;
        let zones = Profile::named("atc21-zns")?.scaled(scale)?;
        let zone = zones.zoned_shape().ok_or_else(|| ProfileError("atc21-zns has no zones".to_owned()))?;
        let range_bytes = zone.zone_capacity_bytes / WRITE_BYTES * WRITE_BYTES;
        let core = profile.core_shape(seed);
        let order = (order, zonda_rt::Seed(seed).derive("ranges").0);
        let (model, ranges): (Box<dyn Model>, _) = match (profile.zoned_shape(), profile.conventional_shape()) {
            (Some(shape), _) => {
                let ranges = Ranges::new(shape.zones.into(), shape.zone_size_bytes, range_bytes, true, order);
                let mut model = ZonedModel::new(core, shape.clone());
                if is_full {
                    (0..shape.zones).for_each(|zone| model.preset(zone, shape.zone_capacity_bytes, true));
                }
                (Box::new(model), ranges)
            }
            (None, Some(shape)) => {
                let count = shape.logical_bytes / range_bytes;
                (
                    Box::new(ConventionalModel::new(core, shape)),
                    Ranges::new(count, range_bytes, range_bytes, false, order),
                )
            }
            (None, None) => return Err(ProfileError(format!("{} is no drive", profile.name))),
        };
        Ok(Self { time: VirtualTime::new(model), ranges, range_bytes })
    }

    fn writers(&self) -> Vec<RangeWriter> {
        (0..WRITERS).map(|_| RangeWriter::new(Rc::clone(&self.ranges), WRITE_BYTES)).collect()
    }
}

/// What happened while a fifth of the capacity was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its end.
    pub end_ns: Nanos,
    /// Bytes written until then, for each byte of capacity.
    pub passes: f64,
    /// Speed of the host's writes.
    pub mib_s: f64,
    /// Write amplification.
    pub amplification: f64,
}

/// True if the amplification of each of the last five windows is within 5 % of their mean.
#[must_use]
pub fn is_steady(windows: &[Window]) -> bool {
    let Some(last) = windows.len().checked_sub(STEADY_WINDOWS).map(|from| &windows[from..]) else { return false };
    let mean = last.iter().map(|window| window.amplification).sum::<f64>() / last.len() as f64;
    last.iter().all(|window| (window.amplification / mean - 1.0).abs() <= 0.05)
}

/// A run of figure 1.
#[derive(Clone, Debug)]
pub struct Overwrite {
    /// Bytes that the host can use.
    pub capacity_bytes: u64,
    /// The time series.
    pub windows: Vec<Window>,
    /// Hash over all answers.
    pub answers_hash: u64,
}

impl Overwrite {
    /// Mean speed of the last five windows, if they are steady.
    #[must_use]
    pub fn steady_mib_s(&self) -> Option<f64> {
        is_steady(&self.windows).then(|| {
            let last = &self.windows[self.windows.len() - STEADY_WINDOWS..];
            last.iter().map(|window| window.mib_s).sum::<f64>() / last.len() as f64
        })
    }

    /// Mean speed of the first pass over the capacity.
    #[must_use]
    pub fn first_pass_mib_s(&self) -> f64 {
        let first: Vec<_> = self.windows.iter().take_while(|window| window.passes <= 0.8).collect();
        first.iter().map(|window| window.mib_s).sum::<f64>() / first.len().max(1) as f64
    }
}

/// Figure 1 for one drive: its capacity is written as often as `passes` begins, then until it is steady, at most as often
/// as `passes` ends.
///
/// # Errors
/// As [`Drive::new`].
pub fn overwrite(
    profile: &Profile,
    scale: u64,
    order: Order,
    passes: RangeInclusive<f64>,
    seed: u64,
) -> Result<Overwrite, ProfileError> {
    let mut drive = Drive::new(profile, scale, order, seed)?;
    let mut writers = drive.writers();
    let windows = write_passes(&mut drive, &mut writers, &passes);
    let answers_hash = drive.time.model().core().stats().answers_hash;
    Ok(Overwrite { capacity_bytes: drive.ranges.total_bytes(), windows, answers_hash })
}

fn write_passes(drive: &mut Drive, writers: &mut [RangeWriter], passes: &RangeInclusive<f64>) -> Vec<Window> {
    let capacity = drive.ranges.total_bytes();
    let window_bytes = capacity / WINDOWS_PER_PASS;
    // 1010 MiB/s is the flash's speed: no window is over sooner.
    let look_ns = (window_bytes * 1_000 / 1_059 / LOOKS_PER_WINDOW).max(1);
    let mut windows: Vec<Window> = Vec::new();
    let (mut bytes, mut begun_ns, mut flash) = (0, drive.time.now(), FlashWrites::default());
    while !is_over(&windows, passes) {
        let window_end = (windows.len() as u64 + 1) * window_bytes;
        let mut now = bytes;
        while now < window_end {
            let until = drive.time.now() + look_ns;
            let mut clients: Vec<&mut dyn Client> =
                writers.iter_mut().map(|client| client as &mut dyn Client).collect();
            drive.time.run(&mut clients, until);
            now = writers.iter().map(|writer| writer.tally.bytes).sum();
        }
        let (end_ns, writes) = (drive.time.now(), drive.time.model().flash_writes());
        windows.push(Window {
            end_ns,
            passes: now as f64 / capacity as f64,
            mib_s: (now - bytes) as f64 / f64::from(1 << 20) / ((end_ns - begun_ns) as f64 / 1e9),
            amplification: writes.since(&flash).amplification(),
        });
        (bytes, begun_ns, flash) = (now, end_ns, writes);
    }
    windows
}

/// True if the capacity was written often enough: `passes` begins with the least, and ends with the most if not steady.
#[must_use]
pub fn is_over(windows: &[Window], passes: &RangeInclusive<f64>) -> bool {
    let written = windows.last().map_or(0.0, |window| window.passes);
    written >= *passes.end() || (written >= *passes.start() && is_steady(windows))
}

/// One point of figure 5.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// What the writers aimed at; 0 is no writes.
    pub target_mib_s: f64,
    /// What they reached.
    pub written_mib_s: f64,
    /// Mean latency of a read of 4 KiB, one at a time.
    pub read_us: f64,
    /// 99th percentile of it.
    pub read_p99_us: f64,
    /// Write amplification meanwhile.
    pub amplification: f64,
    /// Where a mean read's time went, in ns.
    pub parts: Attribution,
}

/// Figure 5 for one drive: overwritten until steady, then measured for `seconds` at each target. Zones have no state that
/// grows old: they are full at the start, which is where overwriting would lead.
///
/// # Errors
/// As [`Drive::new`].
pub fn read_beside_writes(
    profile: &Profile,
    scale: u64,
    targets: &[f64],
    seconds: f64,
    seed: u64,
) -> Result<Vec<Point>, ProfileError> {
    let mut drive = Drive::made(profile, scale, Order::Random, seed, true)?;
    let mut writers = drive.writers();
    if profile.zoned.is_none() {
        write_passes(&mut drive, &mut writers, &PASSES);
    }
    let mut measure = |target: &f64| point(&mut drive, &mut writers, *target, seconds, seed);
    Ok(targets.iter().map(&mut measure).collect())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times and rates are small and positive")]
fn point(drive: &mut Drive, writers: &mut [RangeWriter], target: f64, seconds: f64, seed: u64) -> Point {
    let seed = zonda_rt::Seed(seed).derive("reader").0;
    let start = drive.time.now();
    let (warm, end) = (start + (seconds * 2e8) as u64, start + (seconds * 1.2e9) as u64);
    let mut reader = RandomReader::new(drive.ranges.starts(), drive.range_bytes, 4096, seed).counting_from(warm);
    let per_writer = (target * f64::from(1 << 20) / WRITERS as f64) as u64;
    for writer in writers.iter_mut() {
        writer.pace = Pace::rate(WRITE_BYTES, per_writer, start);
    }
    let flash = drive.time.model().flash_writes();
    let before: u64 = writers.iter().map(|writer| writer.tally.bytes).sum();
    let mut clients: Vec<&mut dyn Client> = vec![&mut reader];
    if target > 0.0 {
        clients.extend(writers.iter_mut().map(|client| client as &mut dyn Client));
    }
    drive.time.forget_carried();
    drive.time.run(&mut clients, end);
    drive.time.forget_carried();
    let written = writers.iter().map(|writer| writer.tally.bytes).sum::<u64>() - before;
    Point {
        target_mib_s: target,
        written_mib_s: written as f64 / f64::from(1 << 20) / (seconds * 1.2),
        read_us: reader.tally.latency.mean_ns() / 1e3,
        read_p99_us: reader.tally.latency.quantile_ns(0.99) as f64 / 1e3,
        amplification: drive.time.model().flash_writes().since(&flash).amplification(),
        parts: reader.tally.attribution.divided(reader.tally.latency.count()),
    }
}
