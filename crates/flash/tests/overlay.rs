//! Reads through an overlay are in flight together, as without it: in virtual time, on a modelled drive whose dies work side by side.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use zonda_device::{AlignedBuf, Completion, Io, IoQueue, Lba, Overlay, ZoneId, ZonedDevice};
use zonda_flash::drive::Spec;

fn read_of(at: u64, blocks: usize) -> Io {
    Io::Read { at: Lba(at), into: AlignedBuf::with_len(blocks * 4096) }
}

/// Takes all that is in flight.
fn taken(queue: &mut dyn IoQueue) -> Vec<Completion> {
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.complete(1, &mut done).unwrap();
    }
    done
}

#[test]
fn reads_of_the_base_are_in_flight_together() {
    let took = |is_over: bool| {
        zonda_rt::sim::run(1, || {
            let drive: Spec = "test".parse().unwrap();
            let base: Arc<dyn ZonedDevice> = Arc::new(drive.open_zoned().unwrap());
            for zone in 0..2 {
                base.write(base.geometry().zone_start(ZoneId(zone)), &AlignedBuf::with_len(16 * 4096)).unwrap();
            }
            base.flush().unwrap();
            zonda_rt::sleep(std::time::Duration::from_secs(1));
            let over: Arc<dyn ZonedDevice> = Arc::new(Overlay::new(Arc::clone(&base)).unwrap());
            let mut queue = if is_over { over } else { base }.queue(32).unwrap();
            let began = zonda_rt::now();
            for token in 0..32 {
                queue.submit(token, read_of(token / 16 * 256 + token % 16, 1)).unwrap();
            }
            assert!(taken(&mut *queue).iter().all(|completion| completion.result.is_ok()));
            zonda_rt::now().since(began)
        })
    };
    let (over, alone) = (took(true), took(false));
    assert!(over < alone * 11 / 10, "{over:?}, and {alone:?} with nothing over it");
}
