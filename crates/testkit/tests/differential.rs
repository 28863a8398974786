//! Every design beside a `BTreeMap`, on both stores, with several draws of options each; the long run is `zonda-testkit differential`.

use zonda::{Design, StoreKind};
use zonda_testkit::Differential;

#[test]
fn every_design_answers_as_a_map_does() {
    // Options are drawn from the seed, so each run has one of its own.
    let runs = Design::ALL.into_iter().flat_map(|design| StoreKind::ALL.map(|store| (design, store)));
    for (seed, (design, store)) in (1..).zip(runs.cycle().take(2 * 2 * Design::ALL.len())) {
        let run = Differential { seed, operations: 9_000, design, store, keys: 80_000, memory_bytes: 5 << 19 };
        run.run(&mut |_| {}).unwrap_or_else(|trouble| panic!("{run:?}: {trouble}"));
    }
}
