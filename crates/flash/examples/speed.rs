//! How fast the model is: simulated I/Os a second of one CPU, attribution on.
use std::rc::Rc;

use zonda_flash::clients::{Client, VirtualTime};
use zonda_flash::model::Model;
use zonda_flash::profile::{Profile, ProfileError};
use zonda_flash::workload::{Pace, RandomReader, SharedZone, ZoneSupply, ZoneWriter};
use zonda_flash::zns::ZonedModel;

/// Simulated time of a measurement.
const SECONDS: u64 = 5;

fn main() -> Result<(), ProfileError> {
    measure("4 KiB random reads, depth 32", 32, 0)?;
    measure("70/30 reads and writes of 4 KiB, 28 + 4 clients", 28, 4)
}

fn measure(name: &str, readers: u64, writers: u32) -> Result<(), ProfileError> {
    let profile = Profile::named("zn540")?;
    let shape = profile.zoned_shape().ok_or_else(|| ProfileError("zn540 is zoned".to_owned()))?;
    let mut drive = ZonedModel::new(profile.core_shape(1), shape.clone());
    let starts: Rc<[u64]> = (0..64).map(|zone| zone * shape.zone_size_bytes).collect();
    for zone in 0..64 {
        drive.preset(zone, shape.zone_capacity_bytes, false);
    }
    let reader = |seed| RandomReader::new(Rc::clone(&starts), shape.zone_capacity_bytes, 4096, seed);
    let mut readers: Vec<_> = (0..readers).map(reader).collect();
    let supply = ZoneSupply::new(64, shape.zones, shape.zone_size_bytes, shape.zone_capacity_bytes);
    let pace = || Pace::rate(4096, 4096 * 14_500, 0);
    let writer = |_| ZoneWriter::new(SharedZone::new(Rc::clone(&supply)), 4096, false, pace());
    let mut writers: Vec<_> = (0..writers).map(writer).collect();
    let mut clients: Vec<&mut dyn Client> = readers.iter_mut().map(|client| client as &mut dyn Client).collect();
    clients.extend(writers.iter_mut().map(|client| client as &mut dyn Client));
    let mut time = VirtualTime::new(drive);
    let start = cpu_seconds();
    time.run(&mut clients, SECONDS * 1_000_000_000);
    let cpu = cpu_seconds() - start;
    let core = time.model().core();
    let answered = core.stats().answered as f64;
    let written = writers.iter().map(|writer| writer.tally.latency.count()).sum::<u64>() as f64;
    println!(
        "{name}: {answered:.0} I/Os ({:.0} % writes) in {cpu:.2} CPU s = {:.2} million/s; {:.2} scheduled events each",
        written / answered * 100.0,
        answered / cpu / 1e6,
        core.events_taken() as f64 / answered
    );
    Ok(())
}

/// CPU time of this process: it has one thread. From the system's clock ticks, 10 ms each.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}
