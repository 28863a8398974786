//! The requests of a measurement: where they go, when they are submitted, how long each took.

use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use zonda_device::{AlignedBuf, Completion, ErrorKind, HostFtlStats, Io, IoQueue, Lba, ZoneId, ZoneState, ZonedDevice};
use zonda_flash::drive::FlashReport;
use zonda_rt::{Rng, Seed, Time, now, sleep};

use super::report::{NAMES, Report};
use super::target::{Kind, Target, failed};
use super::{DeviceBench, Operation, usage};
use crate::process::cpu_time;
use crate::progress::Progress;
use crate::{BenchError, Result};

/// Bytes of a block device that are used unless something else is said.
const SPAN_BYTES_MAX: u64 = 1 << 30;
/// Writes that prepare what is read.
const FILL_BYTES: u64 = 1 << 20;
/// The modelled drive's time between filling and measuring.
const SETTLE: Duration = Duration::from_millis(100);
/// A bar that is told everything would cost more than the work it shows.
const SHOW_EVERY: u64 = 256;

/// Where requests go. Blocks are the device's.
struct Layout {
    block_bytes: u64,
    /// Blocks of a request.
    blocks: u64,
    /// Stretches that are read: (first block, blocks).
    reads: Vec<(u64, u64)>,
    /// Stretches that are written from their start, with what is written of each and its requests in flight.
    writes: Vec<Written>,
    /// Writes go anywhere in their stretch instead.
    random: bool,
    /// Most writes in flight in a stretch.
    writes_max: u32,
}

#[derive(Clone, Copy)]
struct Written {
    first: u64,
    room: u64,
    filled: u64,
    busy: u32,
    zone: u32,
}

/// A measurement that is going on.
pub(super) struct Load<'a> {
    bench: &'a DeviceBench,
    target: &'a Target,
    layout: Layout,
    rng: Rng,
    /// Whether the next request reads, once that is drawn and until it is submitted: a write may have to wait for a zone.
    is_read: Option<bool>,
    submitted: u64,
    due: Time,
    deepest: usize,
    /// Kind, stretch and start of each request.
    started: Vec<(usize, usize, Time)>,
    latency: [Histogram<u64>; 3],
    failed_reads: u64,
    /// What the first of them was answered.
    first_failure: Option<String>,
}

impl<'a> Load<'a> {
    pub(super) fn new(bench: &'a DeviceBench, target: &'a Target) -> Result<Self> {
        if bench.rate == Some(0) {
            return Err(usage("--rate", "0", "at least a byte a second"));
        }
        let layout = match &target.kind {
            Kind::Zoned(device) => zones(bench, &**device)?,
            Kind::Block(device) => span(bench, device.block_bytes().into(), device.capacity_blocks())?,
        };
        let histogram = || Histogram::new(3).map_err(|error| BenchError::Model { reason: error.to_string() });
        Ok(Self {
            bench,
            target,
            layout,
            rng: Seed(bench.seed).derive("device bench").rng(),
            is_read: None,
            submitted: 0,
            due: Time::ZERO,
            deepest: 0,
            started: Vec::new(),
            latency: [histogram()?, histogram()?, histogram()?],
            failed_reads: 0,
            first_failure: None,
        })
    }

    /// Prepares, measures, and leaves zones empty.
    pub(super) fn run(mut self, window_ms: u64) -> Result<Report> {
        let measured = self.measure(window_ms);
        if let Kind::Zoned(device) = &self.target.kind {
            let used = self.layout.writes.iter().map(|written| written.zone);
            let read = self.layout.reads.iter().map(|&(first, _)| device.geometry().zone_of(Lba(first)).0);
            for zone in used.chain(read) {
                device.reset(ZoneId(zone)).map_err(failed)?;
            }
        }
        measured
    }

    fn measure(&mut self, window_ms: u64) -> Result<Report> {
        self.fill()?;
        if let Some(flash) = self.target.flash() {
            // What was written is still being programmed: reads would wait for it.
            sleep(SETTLE * u32::try_from(flash.dilation).unwrap_or(1));
        }
        let before = (self.target.flash(), self.target.host_ftl());
        self.target.watch(0..window_ms.saturating_mul(1_000_000));
        let bar = ProgressBar::new(self.bench.count);
        let mut queue = self.target.queue(self.bench.depth)?;
        let (start, cpu) = (now(), cpu_time());
        self.due = start;
        let mut done = Vec::new();
        loop {
            let waits_for_rate = self.submit_all(&mut *queue)?;
            self.deepest = self.deepest.max(queue.in_flight());
            if queue.in_flight() == 0 {
                if !waits_for_rate {
                    break;
                }
                sleep(self.due.since(now()));
                continue;
            }
            queue.complete(1, &mut done).map_err(failed)?;
            done.drain(..).try_for_each(|completion| self.take(completion))?;
            if self.submitted.is_multiple_of(SHOW_EVERY) {
                bar.set_position(self.submitted);
            }
        }
        bar.finish_and_clear();
        let (passed, cpu) = (now().since(start), cpu_time().saturating_sub(cpu));
        Ok(self.report(passed, cpu, before))
    }

    fn report(
        &mut self,
        passed: Duration,
        cpu: Duration,
        (flash, host_ftl): (Option<FlashReport>, Option<HostFtlStats>),
    ) -> Report {
        let after = self.target.flash();
        let k = after.as_ref().map_or(1, |flash| flash.dilation);
        let latency =
            std::mem::replace(&mut self.latency, [(); 3].map(|()| Histogram::new_with_max(2, 1).expect("small")));
        Report {
            device: self.target.describe(),
            seconds: passed.as_secs_f64() / k as f64,
            cpu_share: cpu.as_secs_f64() / passed.as_secs_f64().max(f64::MIN_POSITIVE) / cores(),
            is_virtual: self.bench.in_virtual_time,
            deepest: self.deepest,
            k,
            latency,
            failed_reads: self.failed_reads,
            first_failure: self.first_failure.take(),
            flash: flash.zip(after),
            host_ftl: self.target.host_ftl().zip(host_ftl).map(|(after, before)| after.since(&before)),
            seen: self.target.seen(),
        }
    }

    /// Writes what is to be read.
    fn fill(&self) -> Result<()> {
        let progress = Progress::new("fill", self.layout.reads.iter().map(|(_, blocks)| blocks).sum());
        let mut filled = 0;
        for &(first, blocks) in &self.layout.reads {
            let step = (FILL_BYTES / self.layout.block_bytes).max(1);
            let mut at = 0;
            while at < blocks {
                let count = step.min(blocks - at);
                let chunk = buffer(count * self.layout.block_bytes)?;
                match &self.target.kind {
                    Kind::Zoned(device) => device.write(Lba(first + at), &chunk),
                    Kind::Block(device) => device.write(Lba(first + at), &chunk),
                }
                .map_err(failed)?;
                at += count;
                filled += count;
                progress.set(filled);
            }
        }
        match &self.target.kind {
            Kind::Zoned(device) => device.flush(),
            Kind::Block(device) => device.flush(),
        }
        .map_err(failed)
    }

    /// Submits what can be submitted now; whether more is to come that waits for its time.
    fn submit_all(&mut self, queue: &mut dyn IoQueue) -> Result<bool> {
        // What is done one after the other is asked for one after the other, or a request would be timed with those behind it.
        let depth = if queue.is_synchronous() { 1 } else { queue.depth() };
        while queue.in_flight() < depth && self.submitted < self.bench.count {
            if self.bench.rate.is_some() && now() < self.due {
                return Ok(true);
            }
            let Some((kind, stretch, io)) = self.next()? else { break };
            let token = self.started.len() as u64;
            self.started.push((kind, stretch, now()));
            queue.submit(token, io).map_err(|rejected| failed(rejected.error))?;
            self.submitted += 1;
            if let Some(rate) = self.bench.rate {
                self.due = self.due + Duration::from_secs_f64(self.bench.block as f64 / rate as f64);
            }
        }
        Ok(false)
    }

    /// The next request; `None` while it is a write that no stretch can take.
    fn next(&mut self) -> Result<Option<(usize, usize, Io)>> {
        let is_read = self.is_read.take().unwrap_or_else(|| match self.bench.operation {
            Operation::Read => true,
            Operation::Mixed => self.rng.below(100) < self.bench.reads.into(),
            Operation::Write | Operation::Append => false,
        });
        let into = buffer(self.bench.block)?;
        let blocks = self.layout.blocks;
        if is_read {
            let stretch = self.rng.index(self.layout.reads.len());
            let (first, length) = self.layout.reads[stretch];
            let at = Lba(first + self.rng.below(length / blocks) * blocks);
            return Ok(Some((0, stretch, Io::Read { at, into })));
        }
        let Some(stretch) = self.layout.writable() else {
            self.is_read = Some(false);
            return Ok(None);
        };
        let written = &mut self.layout.writes[stretch];
        let offset = if self.layout.random { self.rng.below(written.room / blocks) * blocks } else { written.filled };
        written.busy += 1;
        written.filled += if self.layout.random { 0 } else { blocks };
        let (at, zone) = (Lba(written.first + offset), ZoneId(written.zone));
        Ok(Some(match self.bench.operation {
            Operation::Append => (2, stretch, Io::Append { zone, from: into }),
            _ => (1, stretch, Io::Write { at, from: into }),
        }))
    }

    /// A read that fails is counted: others go on. A write that fails leaves its zone to its state, which ends the measurement.
    fn take(&mut self, completion: Completion) -> Result<()> {
        let place = usize::try_from(completion.token).expect("a place in a table");
        let (kind, stretch, started) = self.started[place];
        match completion.result {
            Err(error) if NAMES[kind] == "read" && matches!(error.kind(), ErrorKind::Media | ErrorKind::Io) => {
                self.failed_reads += 1;
                self.first_failure.get_or_insert_with(|| error.to_string());
                return Ok(());
            }
            result => result.map(drop).map_err(failed)?,
        }
        if NAMES[kind] != "read" {
            self.layout.writes[stretch].busy -= 1;
        }
        let nanos = u64::try_from(now().since(started).as_nanos()).unwrap_or(u64::MAX);
        self.latency[kind].record(nanos).map_err(|error| BenchError::Model { reason: error.to_string() })
    }
}

impl Layout {
    /// The stretch to write next: the emptiest of those that can take a request, so that all are used alike.
    fn writable(&mut self) -> Option<usize> {
        let (blocks, most, random) = (self.blocks, self.writes_max, self.random);
        for written in &mut self.writes {
            // A block device begins again; zones end.
            if most == u32::MAX && !random && written.zone == u32::MAX && written.filled + blocks > written.room {
                written.filled = 0;
            }
        }
        let can_take = |written: &Written| written.busy < most && (random || written.filled + blocks <= written.room);
        let open = self.writes.iter().enumerate().filter(|(_, written)| can_take(written));
        open.min_by_key(|(_, written)| written.filled).map(|(stretch, _)| stretch)
    }
}

/// Zones to read are the first ones, zones to write those behind them.
fn zones(bench: &DeviceBench, device: &dyn ZonedDevice) -> Result<Layout> {
    let geometry = device.geometry();
    let (reads, writes) = match bench.operation {
        Operation::Read => (bench.zones, 0),
        Operation::Mixed => (bench.zones, bench.zones),
        Operation::Write | Operation::Append => (0, bench.zones),
    };
    let limits = [geometry.max_open, geometry.max_active, Some(geometry.zone_count / 2)];
    let most = limits.into_iter().flatten().min().unwrap_or(0);
    if bench.zones == 0 || bench.zones > most {
        let expected = format!("between 1 and {most} zones can be used on this device");
        return Err(usage("--zones", &bench.zones.to_string(), &expected));
    }
    let block_bytes = u64::from(geometry.block_bytes);
    let blocks = request_blocks(bench, block_bytes, geometry.zone_capacity_blocks)?;
    if let Some(max) =
        geometry.append_blocks_max.filter(|&max| bench.operation == Operation::Append && blocks > max.into())
    {
        let expected = format!("an append has at most {} bytes here", u64::from(max) * block_bytes);
        return Err(usage("--block", &bench.block.to_string(), &expected));
    }
    if let Some(zone) =
        device.report(ZoneId(0), reads + writes).map_err(failed)?.iter().find(|zone| zone.state != ZoneState::Empty)
    {
        let expected = format!("the first {} zones must be empty", reads + writes);
        return Err(usage("device", &format!("{} is {}", zone.zone, zone.state), &expected));
    }
    let stretch = |zone| (geometry.zone_start(ZoneId(zone)).0, geometry.zone_capacity_blocks);
    let written = |zone| Written { first: stretch(zone).0, room: stretch(zone).1, filled: 0, busy: 0, zone };
    Ok(Layout {
        block_bytes,
        blocks,
        reads: (0..reads).map(stretch).collect(),
        writes: (reads..reads + writes).map(written).collect(),
        random: false,
        writes_max: if bench.operation == Operation::Append { u32::MAX } else { 1 },
    })
}

/// A block device is read and written in its first bytes.
fn span(bench: &DeviceBench, block_bytes: u64, capacity_blocks: u64) -> Result<Layout> {
    if bench.operation == Operation::Append {
        return Err(usage("--operation", "append", "zones: a block device has none"));
    }
    let bytes = bench.span.unwrap_or(SPAN_BYTES_MAX);
    let room = (bytes / block_bytes).min(capacity_blocks);
    let blocks = request_blocks(bench, block_bytes, room)?;
    let reads = if bench.operation == Operation::Write { Vec::new() } else { vec![(0, room)] };
    let writes = vec![Written { first: 0, room, filled: 0, busy: 0, zone: u32::MAX }];
    Ok(Layout { block_bytes, blocks, reads, writes, random: bench.random, writes_max: u32::MAX })
}

fn request_blocks(bench: &DeviceBench, block_bytes: u64, room: u64) -> Result<u64> {
    let blocks = bench.block / block_bytes;
    if blocks == 0 || !bench.block.is_multiple_of(block_bytes) || blocks > room {
        let expected = format!("a multiple of {block_bytes} bytes, at most {}", room * block_bytes);
        return Err(usage("--block", &bench.block.to_string(), &expected));
    }
    Ok(blocks)
}

fn buffer(bytes: u64) -> Result<AlignedBuf> {
    let bytes =
        usize::try_from(bytes).map_err(|_| usage("--block", &bytes.to_string(), "something that fits memory"))?;
    Ok(AlignedBuf::with_len(bytes))
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}
