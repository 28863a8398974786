//! The contracts hold on virtual time too: no call blocks the simulator, and a seed replays.
use std::sync::Arc;

use zonda_device::{Faulty, MemDevice, PowerCut, conformance};
use zonda_rt::sim;

#[test]
fn decorators_conform_on_virtual_time() {
    for seed in 0..4 {
        sim::run(seed, || {
            conformance::zoned(&mut |geometry| {
                Arc::new(PowerCut::new(geometry).expect("the suite asks for sensible shapes"))
            })
            .assert_passed();
            conformance::zoned(&mut |geometry| {
                let device = MemDevice::new(geometry).expect("the suite asks for sensible shapes");
                Arc::new(Faulty::new(device, seed))
            })
            .assert_passed();
        });
    }
}
