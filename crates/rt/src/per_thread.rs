//! A value in several copies, for counters that threads must not share.

use std::fmt;

use crate::thread::thread_ordinal;

/// Enough that the threads of a machine seldom meet at one copy.
const COPIES: usize = 16;

/// A value in 16 copies, each in cache lines of its own (128 bytes): a thread changes [its own](Self::mine), whoever asks adds
/// [all](Self::sum) up. Two threads may share a copy, so a `T` that changes is made of atomics.
///
/// Cost: [`mine`](Self::mine) one thread-local read; [`sum`](Self::sum) a walk over all copies. 2 KiB or more.
pub struct PerThread<T> {
    copies: Box<[Padded<T>]>,
}

#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self { copies: (0..COPIES).map(|_| Padded::default()).collect() }
    }
}

impl<T> PerThread<T> {
    /// The copy of the current thread.
    pub fn mine(&self) -> &T {
        &self.copies[thread_ordinal() % COPIES].0
    }

    /// The sum of what `of` says of each copy. Each is read once, one after the other: counts that only grow never seem to shrink.
    pub fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.copies.iter().map(|copy| of(&copy.0)).sum()
    }
}

impl<T: fmt::Debug> fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.copies.iter().map(|copy| &copy.0)).finish()
    }
}
