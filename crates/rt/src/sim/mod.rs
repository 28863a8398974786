//! Virtual time: run a multi-threaded program so that a seed decides every interleaving.
//!
//! [`run`] makes the calling thread the first simulated thread. Threads that it
//! [`spawn`](crate::spawn)s are real, but only the holder of the *baton* runs. Each operation of
//! this crate is a scheduling point, where the seeded generator may pass the baton on. What is
//! guaranteed:
//!
//! - S1 One thread of a simulation runs at a time, so a program whose randomness is seeded behaves
//!   alike for the same seed; [`trace_hash`] is the witness. (Addresses, `HashMap`'s default hasher
//!   and real time are not seeded.)
//! - S2 Virtual time advances by 20 ns per operation, and jumps to the next deadline when nobody
//!   can run. It never passes a deadline without making its thread ready.
//! - S3 When nobody can run and there is no deadline, the simulation fails and names every thread,
//!   what it waits for and the line that waits. So it does when threads only spin, and at the time
//!   limit.
//! - S4 A panic in any thread, or a failure, ends the simulation: all other threads unwind at their
//!   next operation, and [`run`] panics with the cause after the last thread is gone. When the
//!   first thread returns, the others are unwound in the same way, as at the exit of a process:
//!   join what matters.
//!
//! Several simulations may run in one process at once (tests do); they share nothing. Simulated
//! threads must not block on anything that another simulation, a plain thread or `std` releases.

mod here;
mod join;
mod report;
mod state;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) use here::Here;
pub(crate) use join::Joinable;
pub(crate) use state::{Key, Op, Woken};

use here::{Sim, Unwound};
use report::Failure;

/// Simulations in progress in this process: zero means that nobody needs to look further.
static SIMULATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Rc<Here>>> = const { RefCell::new(None) };
    static LAST_TRACE: Cell<u64> = const { Cell::new(0) };
}

/// How a simulation runs; [`Options::seeded`] has sensible values for all but the seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides every choice of the scheduler.
    pub seed: u64,
    /// How likely a scheduling point passes the baton on, 0 to 1. See [`schedule_probability`].
    pub schedule_probability: f64,
    /// Virtual time after which the simulation fails: catches programs that wait for ever while a
    /// timer ticks.
    pub time_limit: Duration,
}

impl Options {
    /// The defaults: switch at one point in eight, at most one virtual hour.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, schedule_probability: 0.125, time_limit: Duration::from_secs(3_600) }
    }
}

/// Runs `f` as the first thread of a simulation with the default [`Options`] and returns its
/// result.
///
/// ```
/// use std::time::Duration;
/// let slept = zonda_rt::sim::run(42, || {
///     let start = zonda_rt::now();
///     zonda_rt::sleep(Duration::from_secs(60));
///     zonda_rt::now().since(start)
/// });
/// assert!(slept >= Duration::from_secs(60)); // at once in real time
/// ```
///
/// # Panics
/// With the program's own panic, from whichever thread; or with a report of a deadlock, a livelock
/// or the time limit (S3, S4). Also if called inside a simulation: they do not nest.
pub fn run<T>(seed: u64, f: impl FnOnce() -> T) -> T {
    run_with(&Options::seeded(seed), f)
}

/// As [`run`], with all options.
///
/// # Panics
/// As [`run`].
pub fn run_with<T>(options: &Options, f: impl FnOnce() -> T) -> T {
    assert!(!active(), "a simulation inside a simulation: they do not nest");
    let sim = Arc::new(Sim::new(options));
    let result = {
        let _membership = Membership::enter(&sim, 0);
        let result = catch_unwind(AssertUnwindSafe(f));
        sim.end();
        result
    };
    LAST_TRACE.set(sim.trace_hash());
    let failure = sim.take_failure();
    match (result, failure) {
        (Ok(value), None) => value,
        (Err(payload), _) if !payload.is::<Unwound>() => resume_unwind(payload),
        (_, Some(Failure::Panic(payload))) => resume_unwind(payload),
        (_, Some(Failure::Report(report))) => panic!("{report}"),
        (Err(payload), None) => resume_unwind(payload),
    }
}

/// Whether the calling thread is simulated. Outside of any simulation it costs one relaxed load.
pub fn active() -> bool {
    possible() && current().is_some()
}

/// The seed of the simulation that the calling thread belongs to.
pub fn seed() -> Option<u64> {
    current().map(|here| here.seed())
}

/// A hash of every scheduling decision so far; after [`run`], of the last simulation run by this
/// thread.
///
/// Equal hashes mean equal interleavings, at the cost of one multiplication per operation.
pub fn trace_hash() -> u64 {
    current().map_or_else(|| LAST_TRACE.get(), |here| here.trace_hash())
}

/// Sets how likely each scheduling point passes the baton on, from now on in this simulation.
///
/// 0 switches only when a thread must wait (fastest), 1 at every operation. No effect outside of a
/// simulation.
pub fn schedule_probability(probability: f64) {
    if let Some(here) = current() {
        here.schedule_probability(probability);
    }
}

/// Where an operation finds itself.
pub(crate) enum Entry {
    /// In a running simulation.
    Inside(Rc<Here>),
    /// In a destructor of a thread that unwinds after the end of its simulation: act as on the
    /// operating system, but never wait for long.
    Ended,
    /// In a plain thread.
    Outside,
}

/// False outside of simulations, at the cost of one relaxed load: the fast path of every operation.
#[inline]
pub(crate) fn possible() -> bool {
    SIMULATIONS.load(Ordering::Relaxed) != 0
}

fn current() -> Option<Rc<Here>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Begins an operation; unwinds the thread if its simulation has ended (S4).
pub(crate) fn enter() -> Entry {
    let Some(here) = current() else {
        return Entry::Outside;
    };
    if here.ended() {
        here.unwind_if_ended();
        return Entry::Ended;
    }
    Entry::Inside(here)
}

/// A scheduling point for operations that do not wait.
#[inline]
pub(crate) fn point(op: Op) {
    if possible()
        && let Entry::Inside(here) = enter()
    {
        here.point(op);
    }
}

/// After a lock was released, in a destructor: never unwinds.
#[cold]
pub(crate) fn released(key: Key) {
    if let Some(here) = current() {
        here.wake(key, true, Op::Unlock);
    }
}

/// Before a condition variable is notified, perhaps in a destructor: never unwinds.
#[inline]
pub(crate) fn notify(key: Key, all: bool) {
    if possible()
        && let Some(here) = current()
    {
        here.wake(key, all, Op::Notify);
    }
}

/// A short real pause, for waits in destructors after the end of the simulation.
pub(crate) fn pause_ended() {
    if let Some(here) = current() {
        here.pause_ended();
    }
}

/// Makes the thread a member of a simulation until dropped.
struct Membership;

impl Membership {
    fn enter(sim: &Arc<Sim>, id: usize) -> Self {
        SIMULATIONS.fetch_add(1, Ordering::Relaxed);
        CURRENT.set(Some(Rc::new(Here::new(Arc::clone(sim), id))));
        Self
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        CURRENT.set(None);
        SIMULATIONS.fetch_sub(1, Ordering::Relaxed);
    }
}
