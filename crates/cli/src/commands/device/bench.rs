//! `zonda device bench`: many requests in flight on a device, without a store.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use serde_json::json;
use zonda_device::{
    AlignedBuf, Completion, DeviceUri, Geometry, Io, IoQueue, Lba, OpenMode, ZoneId, ZoneState, ZonedDevice,
};
use zonda_rt::{Rng, Seed, Time, now};

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda device bench zbd:/dev/nvme0n1 --operation write --block 128KiB --zones 4
  zonda device bench zbd:/dev/nvme0n1 --operation append --block 4KiB --depth 32
  zonda device bench zbd:/dev/nvme0n1 --operation read --block 4KiB --depth 64 --count 100000

It works on the first zones, which must be empty, and leaves them empty. `read` writes them first.
Writes: one in flight in each zone. Appends: as many as the depth.";

/// Measures reads, writes or appends
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Path or URI of the device
    uri: String,
    /// What to do
    #[arg(long, value_enum, default_value = "read")]
    operation: Operation,
    /// Bytes of one request
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = zonda_bench::parse_bytes)]
    block: u64,
    /// Most requests in flight
    #[arg(long, default_value_t = 32)]
    depth: u32,
    /// Zones to use
    #[arg(long, default_value_t = 4)]
    zones: u32,
    /// Requests; writes and appends end at the latest when the zones are full
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// Seed of the places of reads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Operation {
    Read,
    Write,
    Append,
}

/// What is to be done next, and what was done.
struct Run<'a> {
    bench: &'a Bench,
    geometry: &'a Geometry,
    /// Blocks of one request.
    blocks: u64,
    rng: Rng,
    /// Blocks submitted to each zone.
    filled: Vec<u64>,
    /// Requests in flight in each zone.
    busy: Vec<u32>,
    submitted: u64,
    deepest: usize,
    started: Vec<Time>,
    latency: Histogram<u64>,
}

impl Bench {
    /// # Errors
    /// If the zones are not empty; those of the device.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let uri: DeviceUri = self.uri.parse()?;
        let device = uri.open_zoned(OpenMode::Open).with_context(|| format!("cannot open {}", self.uri))?;
        self.check(&*device)?;
        let measured = self.measure(&*device);
        for zone in 0..self.zones {
            device.reset(ZoneId(zone))?;
        }
        let (run, time) = measured?;
        self.print(&*device, &run, time)?;
        Ok(Exit::Done)
    }

    fn check(&self, device: &dyn ZonedDevice) -> anyhow::Result<()> {
        let geometry = device.geometry();
        let limits = [geometry.max_open, geometry.max_active, Some(geometry.zone_count)];
        let most = limits.into_iter().flatten().min().unwrap_or(0);
        if self.zones == 0 || self.zones > most {
            bail!("--zones {}: between 1 and {most} zones can be used on this device", self.zones);
        }
        let block = u64::from(geometry.block_bytes);
        if self.block == 0 || !self.block.is_multiple_of(block) || self.block > geometry.zone_capacity_bytes() {
            bail!("--block {}: must be a multiple of {block} bytes and fit into a zone", self.block);
        }
        if let Some(max) = geometry.append_blocks_max
            && self.operation == Operation::Append
            && self.block / block > u64::from(max)
        {
            bail!("--block {}: an append has at most {} bytes here", self.block, u64::from(max) * block);
        }
        match device.report(ZoneId(0), self.zones)?.iter().find(|zone| zone.state != ZoneState::Empty) {
            Some(zone) => bail!("{} is {}: the first {} zones must be empty", zone.zone, zone.state, self.zones),
            None => Ok(()),
        }
    }

    fn measure<'a>(&'a self, device: &'a dyn ZonedDevice) -> anyhow::Result<(Run<'a>, Duration)> {
        if self.operation == Operation::Read {
            self.fill(device)?;
        }
        let mut queue = device.queue(self.depth)?;
        let mut run = Run::new(self, device.geometry())?;
        let start = now();
        let mut done = Vec::new();
        loop {
            while queue.in_flight() < queue.depth() && run.submit(&mut *queue)? {}
            run.deepest = run.deepest.max(queue.in_flight());
            if queue.in_flight() == 0 {
                break;
            }
            queue.complete(1, &mut done)?;
            done.drain(..).try_for_each(|completion| run.take(completion))?;
        }
        Ok((run, now().since(start)))
    }

    /// Writes the zones that are to be read.
    fn fill(&self, device: &dyn ZonedDevice) -> anyhow::Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        let geometry = device.geometry();
        for zone in (0..self.zones).map(ZoneId) {
            let mut offset = 0;
            while offset < geometry.zone_capacity_blocks {
                let blocks =
                    (CHUNK_BYTES / u64::from(geometry.block_bytes)).min(geometry.zone_capacity_blocks - offset);
                let chunk = AlignedBuf::with_len(usize::try_from(blocks * u64::from(geometry.block_bytes))?);
                device.write(geometry.zone_start(zone).plus(offset), &chunk)?;
                offset += blocks;
            }
        }
        Ok(())
    }

    fn print(&self, device: &dyn ZonedDevice, run: &Run<'_>, time: Duration) -> anyhow::Result<()> {
        let (seconds, requests) = (time.as_secs_f64(), run.latency.len());
        let rate = requests as f64 / seconds.max(f64::MIN_POSITIVE);
        let mib = rate * self.block as f64 / f64::from(1 << 20);
        let percentile = |share| run.latency.value_at_quantile(share);
        let mut out = Output::new();
        if self.json {
            out.json(&json!({
                "device": device.describe(), "operation": format!("{:?}", self.operation).to_lowercase(),
                "block_bytes": self.block, "zones": self.zones, "depth": self.depth, "in_flight_max": run.deepest,
                "requests": requests, "seconds": seconds, "requests_per_second": rate, "mib_per_second": mib,
                "latency_us": { "p50": percentile(0.5), "p99": percentile(0.99), "max": run.latency.max() },
                "seed": self.seed,
            }))?;
        } else {
            out.line(format!("{}: {requests} {:?}s of {} bytes", device.describe(), self.operation, self.block))?;
            out.line(format!("{rate:.0}/s, {mib:.1} MiB/s, {seconds:.2} s, at most {} in flight", run.deepest))?;
            let [p50, p99, max] = [percentile(0.5), percentile(0.99), run.latency.max()];
            out.line(format!("latency p50 {p50} us, p99 {p99} us, max {max} us"))?;
        }
        Ok(out.finish()?)
    }
}

impl<'a> Run<'a> {
    fn new(bench: &'a Bench, geometry: &'a Geometry) -> anyhow::Result<Self> {
        Ok(Self {
            bench,
            geometry,
            blocks: bench.block / u64::from(geometry.block_bytes),
            rng: Seed(bench.seed).derive("device bench").rng(),
            filled: vec![0; bench.zones as usize],
            busy: vec![0; bench.zones as usize],
            submitted: 0,
            deepest: 0,
            started: Vec::new(),
            latency: Histogram::new(3)?,
        })
    }

    /// Submits the next request. False if there is none for now.
    fn submit(&mut self, queue: &mut dyn IoQueue) -> anyhow::Result<bool> {
        if self.submitted == self.bench.count {
            return Ok(false);
        }
        let Some((zone, io)) = self.next()? else { return Ok(false) };
        let token = self.submitted << 16 | u64::from(zone);
        queue.submit(token, io).map_err(|rejected| rejected.error)?;
        self.busy[zone as usize] += 1;
        self.started.push(now());
        self.submitted += 1;
        Ok(true)
    }

    fn next(&mut self) -> anyhow::Result<Option<(u32, Io)>> {
        let buffer = AlignedBuf::with_len(usize::try_from(self.bench.block)?);
        let room = self.geometry.zone_capacity_blocks;
        let start = |zone: u32| self.geometry.zone_start(ZoneId(zone));
        if self.bench.operation == Operation::Read {
            let zone = u32::try_from(self.rng.below(self.bench.zones.into()))?;
            let offset = self.rng.below(room / self.blocks) * self.blocks;
            return Ok(Some((zone, Io::Read { at: start(zone).plus(offset), into: buffer })));
        }
        let one = self.bench.operation == Operation::Write;
        let can_take = |&zone: &u32| {
            let zone = zone as usize;
            self.filled[zone] + self.blocks <= room && !(one && self.busy[zone] > 0)
        };
        // The emptiest of those that can take one, so that all are used alike.
        let zone = (0..self.bench.zones).filter(can_take).min_by_key(|&zone| self.filled[zone as usize]);
        let Some(zone) = zone else { return Ok(None) };
        let at: Lba = start(zone).plus(self.filled[zone as usize]);
        self.filled[zone as usize] += self.blocks;
        Ok(Some((
            zone,
            if one { Io::Write { at, from: buffer } } else { Io::Append { zone: ZoneId(zone), from: buffer } },
        )))
    }

    fn take(&mut self, completion: Completion) -> anyhow::Result<()> {
        completion.result?;
        self.busy[usize::try_from(completion.token & 0xFFFF)?] -= 1;
        let started = self.started[usize::try_from(completion.token >> 16)?];
        self.latency.record(u64::try_from(now().since(started).as_micros())?)?;
        Ok(())
    }
}
