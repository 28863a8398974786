//! The same run with several clients on threads of the operating system: short, because simulation says more per second.

use zonda_testkit::campaign::{Settings, on_real_threads};

#[test]
fn several_clients_on_real_threads() {
    let settings = Settings { steps: 300, clients: Some(4), ..Settings::default() };
    for seed in 1..6 {
        on_real_threads(seed, &settings).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
    }
}
