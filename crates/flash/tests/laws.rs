//! What must hold of any model: Little's law, busy time is the sum of services, bytes are conserved.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::rc::Rc;

use zonda_flash::clients::{Client, VirtualTime};
use zonda_flash::model::Model;
use zonda_flash::profile::Profile;
use zonda_flash::workload::{Pace, RandomReader, SharedZone, ZoneSupply, ZoneWriter};
use zonda_flash::zns::ZonedModel;

const READERS: u64 = 12;
const WRITERS: u32 = 4;

/// Readers and writers on a drive for half a second.
fn mixed(name: &str) -> VirtualTime<ZonedModel> {
    let profile = Profile::named(name).unwrap();
    let shape = profile.zoned_shape().unwrap();
    let mut drive = ZonedModel::new(profile.core_shape(1), shape.clone());
    (0..32).for_each(|zone| drive.preset(zone, shape.zone_capacity_bytes, true));
    let starts: Rc<[u64]> = (0..32).map(|zone| zone * shape.zone_size_bytes).collect();
    let reader = |seed| RandomReader::new(Rc::clone(&starts), shape.zone_capacity_bytes, 16 << 10, seed);
    let mut readers: Vec<_> = (0..READERS).map(reader).collect();
    let supply = ZoneSupply::new(32, shape.zones, shape.zone_size_bytes, shape.zone_capacity_bytes);
    let writer = |_| ZoneWriter::new(SharedZone::new(Rc::clone(&supply)), 256 << 10, false, Pace::unlimited());
    let mut writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let mut clients: Vec<&mut dyn Client> = readers.iter_mut().map(|client| client as &mut dyn Client).collect();
    clients.extend(writers.iter_mut().map(|client| client as &mut dyn Client));
    let mut time = VirtualTime::new(drive);
    time.run(&mut clients, 500_000_000);
    time
}

#[test]
fn littles_law_holds() {
    for name in ["zn540", "splitzns"] {
        let time = mixed(name);
        let core = time.model().core();
        // All clients always have one command in flight: L = X W, and X W is the sum of latencies over time.
        let in_flight = core.stats().latency_sum_ns as f64 / time.now() as f64;
        let wanted = READERS as f64 + f64::from(WRITERS);
        assert!((in_flight / wanted - 1.0).abs() < 0.02, "{name}: {in_flight} in flight, {wanted} clients");
    }
}

#[test]
fn busy_time_is_the_sum_of_services() {
    let time = mixed("splitzns");
    for (number, die) in time.model().core().stats().dies.iter().enumerate() {
        assert!(die.reads > 100 && die.programs > 10, "die {number}: {die:?}");
        assert_eq!(die.read_ns, die.reads * 35_000, "die {number}");
        assert_eq!(die.program_ns, die.programs * 960_000, "die {number}");
        assert!(die.busy_ns() <= time.now(), "die {number} was busy for longer than time went on");
    }
}

#[test]
fn bytes_are_conserved() {
    let time = mixed("zn540");
    let core = time.model().core();
    let given_to_dies = time.model().flash_writes().host_bytes;
    let programs: u64 = core.stats().dies.iter().map(|die| die.programs).sum();
    let unit = time.model().shape().unit_bytes;
    assert!(core.stats().written_bytes > 100 << 20);
    // What was written is given to dies but for an incomplete unit of each zone, and the buffer holds what is not done.
    assert!(core.stats().written_bytes - given_to_dies < u64::from(WRITERS) * unit);
    assert_eq!(core.stats().written_bytes - programs * unit, core.buffer_used_bytes());
}
