//! The ZN540: every row of `facts/zn540.csv` run on the model.
use std::rc::Rc;

use crate::clients::{Client, Tally, VirtualTime};
use crate::core::Nanos;
use crate::model::{Answer, Command, Model};
use crate::profile::{Profile, ProfileError};
use crate::workload::{Pace, RandomReader, SharedZone, ZoneSupply, ZoneWriter};
use crate::zns::{ZonedModel, ZonedShape};

const FACTS: &str = include_str!("../../facts/zn540.csv");
/// Zones that hold data before a measurement; writers take those behind them.
const ZONES_WITH_DATA: u32 = 64;

/// What a row may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Parameters were chosen by it.
    Fit,
    /// Not looked at while they were.
    Held,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Random reads.
    Read,
    /// Sequential writes, one zone each.
    Write,
    /// Appends, all to one zone.
    Append,
    /// Random reads beside writes of 128 KiB at a rate.
    Mixed,
    /// A reset of a zone that is written in part.
    Reset,
    /// A reset of a zone that was finished.
    ResetFinished,
    /// A finish.
    Finish,
}

/// Throughput and latencies; `None` is what was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Operations a second.
    pub per_second: Option<f64>,
    /// Mean latency.
    pub mean_us: Option<f64>,
    /// 99th percentile of the latency.
    pub p99_us: Option<f64>,
}

/// One measured row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it may be used for.
    pub set: Set,
    /// What was measured.
    pub operation: Operation,
    /// Bytes of an operation.
    pub bytes: u64,
    /// Zones written at the same time.
    pub zones: u32,
    /// Operations in flight, for each zone.
    pub depth: u32,
    /// Rate of the writes beside it.
    pub write_mib_s: f64,
    /// How full the zone was.
    pub occupancy_percent: f64,
    /// What was found.
    pub figures: Figures,
}

/// All rows, in the order of the file.
///
/// # Errors
/// With the line that is not understood.
pub fn rows() -> Result<Vec<Row>, ProfileError> {
    let lines = FACTS.lines().skip(1);
    lines.map(|line| row(line).ok_or_else(|| ProfileError(format!("zn540.csv: not understood: {line}")))).collect()
}

fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [set, operation, bytes, zones, depth, write, occupancy, per_second, mean, p99] = fields[..] else {
        return None;
    };
    let number = |text: &str| text.parse::<f64>().ok();
    Some(Row {
        set: if set == "fit" { Set::Fit } else { Set::Held },
        operation: operation_named(operation)?,
        bytes: bytes.parse().unwrap_or(4096),
        zones: zones.parse().ok()?,
        depth: depth.parse().ok()?,
        write_mib_s: number(write).unwrap_or(0.0),
        occupancy_percent: number(occupancy).unwrap_or(0.0),
        figures: Figures { per_second: number(per_second), mean_us: number(mean), p99_us: number(p99) },
    })
}

fn operation_named(name: &str) -> Option<Operation> {
    Some(match name {
        "read" => Operation::Read,
        "write" => Operation::Write,
        "append" => Operation::Append,
        "mixed" => Operation::Mixed,
        "reset" => Operation::Reset,
        "reset-finished" => Operation::ResetFinished,
        "finish" => Operation::Finish,
        _ => return None,
    })
}

/// A row and what the model says.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The row.
    pub row: Row,
    /// The model's figures.
    pub model: Figures,
}

impl Compared {
    /// Relative error of throughput, or of the mean latency where that is what was measured.
    #[must_use]
    pub fn error(&self) -> f64 {
        let by_rate = relative(self.model.per_second, self.row.figures.per_second);
        let by_mean = relative(self.model.mean_us, self.row.figures.mean_us);
        match self.row.operation {
            Operation::Mixed | Operation::Reset | Operation::ResetFinished | Operation::Finish => by_mean,
            _ => by_rate.or(by_mean),
        }
        .unwrap_or(f64::NAN)
    }

    /// Relative error of the 99th percentile, where it was measured.
    #[must_use]
    pub fn p99_error(&self) -> Option<f64> {
        relative(self.model.p99_us, self.row.figures.p99_us)
    }
}

fn relative(found: Option<f64>, wanted: Option<f64>) -> Option<f64> {
    Some(found? / wanted? - 1.0)
}

/// Runs a row for `seconds` of simulated time, after a tenth of it to warm up.
///
/// # Errors
/// If the profile is not of a zoned drive.
pub fn run(profile: &Profile, row: &Row, seconds: f64, seed: u64) -> Result<Compared, ProfileError> {
    let shape = profile.zoned_shape().ok_or_else(|| ProfileError(format!("{} has no zones", profile.name)))?;
    let mut drive = ZonedModel::new(profile.core_shape(seed), shape.clone());
    for zone in 0..ZONES_WITH_DATA {
        drive.preset(zone, shape.zone_capacity_bytes, false);
    }
    let run = Run { row, shape, seed, end: nanos(seconds), warm: nanos(seconds / 10.0) };
    let model = match row.operation {
        Operation::Reset | Operation::ResetFinished | Operation::Finish => run.manage(drive),
        _ => run.load(VirtualTime::new(drive)),
    };
    Ok(Compared { row: row.clone(), model })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a run are small and positive")]
fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9) as Nanos
}

struct Run<'a> {
    row: &'a Row,
    shape: ZonedShape,
    seed: u64,
    end: Nanos,
    warm: Nanos,
}

impl Run<'_> {
    fn load(&self, mut drive: VirtualTime<ZonedModel>) -> Figures {
        let mut readers = self.readers();
        let mut writers = self.writers();
        let reads = !readers.is_empty();
        let mut clients: Vec<&mut dyn Client> = readers.iter_mut().map(|c| c as &mut dyn Client).collect();
        clients.extend(writers.iter_mut().map(|c| c as &mut dyn Client));
        drive.run(&mut clients, self.end);
        let tallies: Vec<&Tally> = match reads {
            true => readers.iter().map(|reader| &reader.tally).collect(),
            false => writers.iter().map(|writer| &writer.tally).collect(),
        };
        figures(&tallies, self.end - self.warm)
    }

    fn readers(&self) -> Vec<RandomReader> {
        if !matches!(self.row.operation, Operation::Read | Operation::Mixed) {
            return Vec::new();
        }
        let starts: Rc<[u64]> = (0..ZONES_WITH_DATA).map(|zone| u64::from(zone) * self.shape.zone_size_bytes).collect();
        let reader = |number| {
            let seed = zonda_rt::Seed(self.seed).derive(&format!("reader {number}")).0;
            let length = self.shape.zone_capacity_bytes;
            RandomReader::new(Rc::clone(&starts), length, self.row.bytes, seed).counting_from(self.warm)
        };
        (0..self.row.depth).map(reader).collect()
    }

    fn writers(&self) -> Vec<ZoneWriter> {
        let ZonedShape { zones, zone_size_bytes, zone_capacity_bytes, .. } = self.shape;
        let supply = ZoneSupply::new(ZONES_WITH_DATA, zones, zone_size_bytes, zone_capacity_bytes);
        let zone = || SharedZone::new(Rc::clone(&supply));
        let writer = |zone, bytes, append, pace| ZoneWriter::new(zone, bytes, append, pace).counting_from(self.warm);
        match self.row.operation {
            Operation::Write => {
                (0..self.row.zones).map(|_| writer(zone(), self.row.bytes, false, Pace::unlimited())).collect()
            }
            Operation::Append => {
                let zone = zone();
                let shared = |_| writer(Rc::clone(&zone), self.row.bytes, true, Pace::unlimited());
                (0..self.row.depth).map(shared).collect()
            }
            Operation::Mixed => {
                let bytes = 128 << 10;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of some MiB/s")]
                let rate = (self.row.write_mib_s * f64::from(1 << 20)) as u64;
                vec![writer(zone(), bytes, false, Pace::rate(bytes, rate, 0))]
            }
            _ => Vec::new(),
        }
    }

    /// The latency of one reset or finish.
    fn manage(&self, mut drive: ZonedModel) -> Figures {
        let zone = ZONES_WITH_DATA;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a zone")]
        let written = (self.shape.zone_capacity_bytes as f64 * self.row.occupancy_percent / 100.0) as u64;
        drive.preset(zone, written / 4096 * 4096, self.row.operation == Operation::ResetFinished);
        let command = match self.row.operation {
            Operation::Finish => Command::Finish { zone },
            _ => Command::Reset { zone },
        };
        let mut answers: Vec<Answer> = Vec::new();
        drive.submit(0, 0, Command::Open { zone });
        drive.advance(u64::MAX, &mut answers);
        let start = drive.core().now();
        drive.submit(start, 1, command);
        drive.advance(u64::MAX, &mut answers);
        let mean_us = answers.last().map(|answer| (answer.at - start) as f64 / 1e3);
        Figures { mean_us, ..Figures::default() }
    }
}

fn figures(tallies: &[&Tally], measured_ns: Nanos) -> Figures {
    let mut all = crate::histogram::Histogram::default();
    for tally in tallies {
        all.merge(&tally.latency);
    }
    Figures {
        per_second: Some(all.count() as f64 / (measured_ns as f64 / 1e9)),
        mean_us: Some(all.mean_ns() / 1e3),
        p99_us: Some(all.quantile_ns(0.99) as f64 / 1e3),
    }
}
