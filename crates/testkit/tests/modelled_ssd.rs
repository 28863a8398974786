//! The engine survives power cuts of a modelled SSD too: its calls take other times, so other things happen side by side.

use zonda_flash::drive::TimeMode;
use zonda_testkit::{
    Outcome,
    campaign::{Settings, simulate},
};

fn campaign(seeds: std::ops::Range<u64>, mode: TimeMode) -> Outcome {
    let settings = Settings { steps: 300, flash: Some(mode), ..Settings::default() };
    let mut all = Outcome::default();
    for seed in seeds {
        let name = if mode == TimeMode::Untimed { "untimed" } else { "timed" };
        let replay = || format!("cargo run -p zonda-testkit -- sim --seed {seed} --steps 300 --flash {name} --verbose");
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {}", replay()));
        all.add(&outcome);
    }
    all
}

#[test]
fn in_virtual_time() {
    let all = campaign(1..13, TimeMode::Timed { k: 1 });
    assert!(all.cuts > 20 && all.survived > 0 && all.lost > 0, "{all:?}");
}

#[test]
fn untimed() {
    let all = campaign(1..13, TimeMode::Untimed);
    assert!(all.cuts > 20, "{all:?}");
}
