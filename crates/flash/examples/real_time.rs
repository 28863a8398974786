//! Real time against virtual time: the same closed loop of random reads of 4 KiB, by threads at dilation 10 and by
//! clients of the model alone, with and without 50 us of CPU time per operation, which is charged to the drive's clock.
//! A run that takes more than 60 % of the CPUs is void.
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{AlignedBuf, Geometry, Lba, Result, ZoneId, ZonedDevice};
use zonda_flash::clients::{Client, VirtualTime};
use zonda_flash::core::Nanos;
use zonda_flash::drive::{FlashZoned, NullZones, TimeMode};
use zonda_flash::histogram::Histogram;
use zonda_flash::model::{Answer, Command};
use zonda_flash::profile::Profile;
use zonda_flash::zns::ZonedModel;
use zonda_rt::{Rng, Seed, now, spawn};

const K: u32 = 10;
/// Zones that are read.
const ZONES: u32 = 64;
/// Simulated length of a run.
const SECONDS: f64 = 0.5;

fn main() -> Result<()> {
    println!("threads  think    virtual/s     real/s   error   virtual p99  real p99   error   CPU share");
    for think_us in [0, 50] {
        for threads in [4, 16, 32] {
            compare(threads, think_us)?;
        }
    }
    Ok(())
}

fn compare(threads: u64, think_us: u64) -> Result<()> {
    let profile = Profile::named("zn540").expect("a built-in profile");
    let alone = virtual_run(&profile, threads, think_us * 1_000);
    let (real, share) = real_run(&profile, threads, Duration::from_micros(think_us))?;
    let rate = |histogram: &Histogram| histogram.count() as f64 / SECONDS;
    let p99 = |histogram: &Histogram| histogram.quantile_ns(0.99) as f64 / 1e3;
    let error = |found: f64, wanted: f64| (found / wanted - 1.0) * 100.0;
    println!(
        "{threads:7} {think_us:3} us  {:11.0} {:10.0} {:+6.1} %  {:8.1} us {:8.1} us {:+6.1} %  {:5.0} %{}",
        rate(&alone),
        rate(&real),
        error(rate(&real), rate(&alone)),
        p99(&alone),
        p99(&real),
        error(p99(&real), p99(&alone)),
        share * 100.0,
        if share > 0.6 { "  VOID" } else { "" }
    );
    Ok(())
}

/// Reads at random and thinks in between.
struct Thinker {
    rng: Rng,
    think_ns: Nanos,
    histogram: Histogram,
    zone_blocks: u64,
    capacity_blocks: u64,
}

impl Thinker {
    fn new(number: u64, think_ns: Nanos, profile: &Profile) -> Self {
        let shape = profile.zoned_shape().expect("zoned");
        Self {
            rng: Seed(number).derive("thinker").rng(),
            think_ns,
            histogram: Histogram::default(),
            zone_blocks: shape.zone_size_bytes / 4096,
            capacity_blocks: shape.zone_capacity_bytes / 4096,
        }
    }

    fn block(&mut self) -> u64 {
        self.rng.below(ZONES.into()) * self.zone_blocks + self.rng.below(self.capacity_blocks)
    }
}

impl Client for Thinker {
    fn next(&mut self, now: Nanos) -> Option<(Nanos, Command)> {
        let at = self.block() * 4096;
        Some((now + self.think_ns, Command::Read { at, bytes: 4096 }))
    }

    fn answered(&mut self, submitted: Nanos, answer: &Answer) {
        self.histogram.record(answer.at - submitted);
    }
}

fn virtual_run(profile: &Profile, threads: u64, think_ns: Nanos) -> Histogram {
    let shape = profile.zoned_shape().expect("zoned");
    let mut model = ZonedModel::new(profile.core_shape(1), shape.clone());
    (0..ZONES).for_each(|zone| model.preset(zone, shape.zone_capacity_bytes, true));
    let mut thinkers: Vec<_> = (0..threads).map(|number| Thinker::new(number, think_ns, profile)).collect();
    let mut clients: Vec<&mut dyn Client> = thinkers.iter_mut().map(|client| client as &mut dyn Client).collect();
    VirtualTime::new(model).run(&mut clients, nanos(SECONDS));
    let mut all = Histogram::default();
    thinkers.iter().for_each(|thinker| all.merge(&thinker.histogram));
    all
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a run")]
fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9) as Nanos
}

fn real_run(profile: &Profile, threads: u64, think: Duration) -> Result<(Histogram, f64)> {
    let shape = profile.zoned_shape().expect("zoned");
    let geometry = Geometry::new(shape.zone_size_bytes, shape.zones)
        .with_capacity_blocks(shape.zone_capacity_bytes / 4096)
        .with_limits(14, 14);
    let data = NullZones::new(geometry)?;
    (0..ZONES).try_for_each(|zone| data.finish(ZoneId(zone)))?;
    let drive = FlashZoned::over(Arc::new(data), profile, TimeMode::Timed { k: K }, 1)?;
    let (start, cpu) = (now(), cpu_seconds());
    let deadline = start + Duration::from_secs_f64(SECONDS * f64::from(K));
    let work = |number: u64| {
        let (drive, mut thinker) = (drive.clone(), Thinker::new(number, 0, profile));
        move || -> Result<Histogram> {
            let mut block = AlignedBuf::with_len(4096);
            while now() < deadline {
                drive.charge_cpu(think);
                let at = Lba(thinker.block());
                let answer = drive.read_attributed(at, &mut block)?;
                thinker.histogram.record(answer.attribution.total_ns());
            }
            Ok(thinker.histogram)
        }
    };
    let threads: Vec<_> = (0..threads).map(|number| spawn(format!("reader {number}"), work(number))).collect();
    let mut all = Histogram::default();
    for thread in threads {
        all.merge(&thread.join().expect("no panic")?);
    }
    let passed = now().since(start).as_secs_f64();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    Ok((all, (cpu_seconds() - cpu) / passed / cpus))
}

/// CPU time of this process, from the system's clock ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}
