//! The switch between the operating system's primitives and shuttle's. Nothing else in the crate
//! names either.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{sync, thread};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{sync, thread};

pub(crate) use sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Atomic integers and fences: `std`'s, or shuttle's under the feature `shuttle`.
pub mod atomic {
    pub use super::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}
