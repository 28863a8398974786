//! Back-off for latches that have no place to sleep.

use std::time::Duration;

use crate::sim;

/// How long one wait for a latch has gone on; a fresh one for every wait.
#[derive(Debug, Default)]
pub struct Spin {
    rounds: u32,
}

/// The first virtual wait in a simulation, doubled up to 256 times that.
const VIRTUAL_NS: u64 = 250;

impl Spin {
    /// A wait that has not begun.
    pub const fn new() -> Self {
        Self { rounds: 0 }
    }

    /// How often this wait has gone round: for callers that give up and restart.
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Waits a little, and longer each time: spins, then yields, then sleeps (20 to 640 us).
///
/// In a simulation it hands the baton over for a short virtual time, so that whoever holds the
/// latch gets on. Under shuttle it yields.
#[track_caller]
pub fn spin_wait(spin: &mut Spin) {
    let round = spin.rounds;
    spin.rounds = spin.rounds.saturating_add(1);
    if sim::possible() {
        match sim::enter() {
            sim::Entry::Inside(here) => return spin_virtual(&here, round),
            sim::Entry::Ended => return sim::pause_ended(),
            sim::Entry::Outside => {}
        }
    }
    spin_real(round);
}

/// Polls at first, so that the holder may be met at any point; then sleeps, so that time can jump.
#[track_caller]
fn spin_virtual(here: &sim::Here, round: u32) {
    let duration = Duration::from_nanos(VIRTUAL_NS << round.min(8));
    if round < 4 {
        here.relax(duration);
    } else {
        here.sleep(duration, sim::Op::Spin);
    }
}

#[cfg(not(feature = "shuttle"))]
fn spin_real(round: u32) {
    // Rounds of busy waiting (1, 2, 4 .. 32 pause instructions, some 0.3 us in all).
    const BUSY_ROUNDS: u32 = 6;
    // Rounds after which the thread sleeps instead of yielding.
    const YIELD_ROUNDS: u32 = 16;
    // The first sleep, doubled up to 32 times that.
    const SLEEP_US: u64 = 20;
    match round {
        0..BUSY_ROUNDS => (0..1u32 << round).for_each(|_| std::hint::spin_loop()),
        BUSY_ROUNDS..YIELD_ROUNDS => crate::yield_now(),
        _ => crate::sleep(Duration::from_micros(SLEEP_US << (round - YIELD_ROUNDS).min(5))),
    }
}

#[cfg(feature = "shuttle")]
fn spin_real(_round: u32) {
    crate::yield_now();
}
