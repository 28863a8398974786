//! Every design beside a `BTreeMap`, on both stores; the long run is `zonda-testkit differential`.

use zonda::{Design, StoreKind};
use zonda_testkit::Differential;

#[test]
fn every_design_answers_as_a_map_does() {
    for (seed, design) in (1..).zip(Design::ALL) {
        for store in StoreKind::ALL {
            let run = Differential { seed, operations: 20_000, design, store, keys: 120_000, memory_bytes: 2 << 20 };
            run.run(&mut |_| {}).unwrap_or_else(|trouble| panic!("{run:?}: {trouble}"));
        }
    }
}
