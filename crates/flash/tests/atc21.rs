//! The ZNS paper's comparison on a small scale: amplification does not depend on it, and a run replays.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use zonda_flash::experiments::atc21::{Overwrite, overwrite};
use zonda_flash::experiments::ranges::Order;
use zonda_flash::profile::Profile;

/// One program unit per die and superblock.
const SCALE: u64 = 170;

fn run(name: &str, order: Order, passes: f64) -> Overwrite {
    overwrite(&Profile::named(name).unwrap(), SCALE, order, passes..=passes, 1).unwrap()
}

fn last_amplification(run: &Overwrite) -> f64 {
    let last = &run.windows[run.windows.len() - 5..];
    last.iter().map(|window| window.amplification).sum::<f64>() / 5.0
}

#[test]
fn conventional_drives_collapse_after_the_first_pass() {
    for (name, passes, amplification) in [("atc21-28op", 5.0, 1.4..1.75), ("atc21-7op", 5.0, 2.3..3.1)] {
        let run = run(name, Order::Random, passes);
        assert!(run.first_pass_mib_s() > 960.0, "{name}: {}", run.first_pass_mib_s());
        let found = last_amplification(&run);
        assert!(amplification.contains(&found), "{name}: {found:.2}");
        let last = run.windows.last().unwrap().mib_s;
        assert!(last < 0.75 * run.first_pass_mib_s(), "{name}: {last}");
    }
}

#[test]
fn ranges_in_order_cost_nothing() {
    let run = run("atc21-28op", Order::Sequential, 2.0);
    assert!(last_amplification(&run) < 1.02, "{}", last_amplification(&run));
}

#[test]
fn a_run_replays_on_any_thread() {
    let once = || run("atc21-28op", Order::Random, 0.3).answers_hash;
    let wanted = once();
    for threads in [1, 2, 4] {
        let running: Vec<_> = (0..threads).map(|n| zonda_rt::spawn(format!("replay {n}"), once)).collect();
        for replay in running {
            assert_eq!(replay.join().unwrap(), wanted);
        }
    }
}
