//! The input that is running: what the watchdog and the allocator need in order to name it.
//!
//! Atomics only: the allocator must not allocate or lock while it says which input asked for too much.

use std::{
    process,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use zonda_fuzz::TARGETS;

/// No decoder may work on one input for longer. Inputs are a few blocks, so this is 60,000 times what they need: far enough
/// away that a machine which stands still for a while is not taken for a decoder that does.
const INPUT_TIME_MAX: Duration = Duration::from_secs(60);

static TARGET: AtomicUsize = AtomicUsize::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
static INDEX: AtomicU64 = AtomicU64::new(0);

/// When the input began, in nanoseconds of `zonda_rt::now`; 0 while none runs.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Marks generated input `index` of the target called `name` as running.
pub(crate) fn begin(name: &str, seed: u64, index: u64) {
    let target = TARGETS.iter().position(|target| target.name == name).expect("the name is from TARGETS");
    TARGET.store(target, Ordering::Relaxed);
    SEED.store(seed, Ordering::Relaxed);
    INDEX.store(index, Ordering::Relaxed);
    BEGAN.store(zonda_rt::now().0.max(1), Ordering::Release);
}

/// Marks it as done.
pub(crate) fn end() {
    BEGAN.store(0, Ordering::Release);
}

/// Prints the command that replays the running input. Does not allocate.
pub(crate) fn print_replay() {
    let target = TARGETS[TARGET.load(Ordering::Relaxed)].name;
    let (seed, index) = (SEED.load(Ordering::Relaxed), INDEX.load(Ordering::Relaxed));
    eprintln!("replay: cargo run --package zonda-fuzz --bin smoke -- --target {target} --seed {seed} --input {index}");
}

/// Starts the thread that ends the program when an input runs for too long.
pub(crate) fn start_watchdog() {
    zonda_rt::spawn("watchdog", || {
        loop {
            zonda_rt::sleep(Duration::from_millis(200));
            end_if_hanging();
        }
    });
}

fn end_if_hanging() {
    let began = BEGAN.load(Ordering::Acquire);
    if began != 0 && zonda_rt::now().since(zonda_rt::Time(began)) > INPUT_TIME_MAX {
        eprintln!("hang: one input has run for more than {} s", INPUT_TIME_MAX.as_secs());
        print_replay();
        process::exit(1);
    }
}
