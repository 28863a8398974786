//! The one place for threads, locks, time, waiting and randomness.
//!
//! Every other crate takes `Mutex`, `Condvar`, `spawn`, `sleep`, `now`, channels and atomics from
//! here, so that three back ends can own every wait:
//!
//! 1. **Operating system** (the default): thin wrappers over `std`. A lock costs one relaxed load
//!    more than std's.
//! 2. **Virtual time** ([`sim`], chosen at run time by [`sim::run`]): the same program runs on real
//!    threads of which only one, the holder of the *baton*, runs at a time. A seeded generator
//!    decides where the baton goes, the clock jumps when everybody sleeps, and a deadlock is
//!    reported with every thread's name. A seed replays for ever.
//! 3. **shuttle** (cargo feature `shuttle`): the primitives and atomics are shuttle's, for
//!    exhaustive-ish search of interleavings in small tests. [`sim`] is inert then.
//!
//! Rules for users:
//! - Block only through this crate. A simulated thread that blocks in `std` stops the simulation.
//! - Wrap each blocking device call in [`device_call`]; compute time from [`now`]; take randomness
//!   as an [`Rng`].
//! - Atomics are not scheduling points of the simulator (they are of shuttle): a loop that polls an
//!   atomic must call [`spin_wait`] or [`yield_now`], or virtual time stands still.

#![cfg_attr(
    not(feature = "shuttle"),
    expect(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "this crate is what the others use instead of std's types"
    )
)]

mod backend;
pub mod channel;
mod condvar;
mod device_call;
pub mod epoch;
mod huge_pages;
mod mapped;
mod mapped_cells;
mod mapped_copies;
mod mutex;
mod per_thread;
mod permutation;
pub mod rng;
mod rwlock;
#[cfg(not(feature = "shuttle"))]
pub mod sim;
#[cfg(feature = "shuttle")]
#[path = "sim_inert.rs"]
pub mod sim;
mod spin;
pub mod stripes;
mod thread;
mod time;

pub use backend::atomic;
pub use condvar::Condvar;
pub use device_call::{DeviceCall, device_call, modelled};
pub use epoch::Epoch;
pub use huge_pages::prefer_huge_pages;
pub use mapped::{MappedBytes, discard_memory, map_memory, unmap_memory};
pub use mapped_cells::{MappedCell, MappedCells};
pub use mapped_copies::{MappedCopies, MappedCopy};
pub use mutex::{Mutex, MutexGuard};
pub use per_thread::PerThread;
pub use permutation::Permutation;
pub use rng::{Rng, Seed};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use spin::{Spin, spin_wait};
pub use stripes::Stripes;
pub use thread::{JoinHandle, Panicked, sleep, spawn, thread_ordinal, try_spawn, yield_now};
pub use time::{Time, now};
