//! The simulator's place under the feature `shuttle`: present, but inert. shuttle schedules
//! everything.

use std::time::Duration;

pub(crate) use inert::{Entry, Here, Joinable, Key, Op, Woken};

/// How a simulation would run; ignored under shuttle.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ignored: shuttle's scheduler has its own seed.
    pub seed: u64,
    /// Ignored.
    pub schedule_probability: f64,
    /// Ignored: shuttle has no time.
    pub time_limit: Duration,
}

impl Options {
    /// Options that will be ignored.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, schedule_probability: 0.125, time_limit: Duration::from_secs(3_600) }
    }
}

/// Calls `f`: it must run inside a shuttle test.
pub fn run<T>(_seed: u64, f: impl FnOnce() -> T) -> T {
    f()
}

/// Calls `f`: it must run inside a shuttle test.
pub fn run_with<T>(_options: &Options, f: impl FnOnce() -> T) -> T {
    f()
}

/// Always false.
pub fn active() -> bool {
    false
}

/// Always `None`.
pub fn seed() -> Option<u64> {
    None
}

/// Always 0.
pub fn trace_hash() -> u64 {
    0
}

/// No effect.
pub fn schedule_probability(_probability: f64) {}

pub(crate) const fn possible() -> bool {
    false
}

pub(crate) fn enter() -> Entry {
    Entry::Outside
}

pub(crate) fn point(_op: Op) {}

pub(crate) fn released(_key: Key) {}

pub(crate) fn notify(_key: Key, _all: bool) {}

pub(crate) fn pause_ended() {}

/// Types without values that satisfy the callers; the compiler removes every use.
mod inert {
    #![expect(dead_code, reason = "the names exist for callers whose simulated branch is never taken")]

    use std::convert::Infallible;
    use std::marker::PhantomData;
    use std::time::Duration;

    use crate::time::Time;

    #[derive(Clone, Copy)]
    pub(crate) struct Key;

    impl Key {
        pub(crate) fn address<T: ?Sized>(_primitive: &T) -> Key {
            Key
        }
    }

    #[derive(Clone, Copy)]
    pub(crate) enum Op {
        Lock,
        TryLock,
        Read,
        Write,
        Wait,
        Sleep,
        Spin,
        Device,
        Pin,
        Latch,
    }

    #[derive(PartialEq, Eq)]
    pub(crate) enum Woken {
        TimedOut,
        Ended,
    }

    pub(crate) enum Entry {
        Inside(Here),
        Ended,
        Outside,
    }

    pub(crate) struct Here(Infallible);

    impl Here {
        pub(crate) fn id(&self) -> usize {
            match self.0 {}
        }

        pub(crate) fn point(&self, _op: Op) {
            match self.0 {}
        }

        pub(crate) fn wake_all(&self, _key: Key) {
            match self.0 {}
        }

        pub(crate) fn block(&self, _op: Op, _key: Key, _timeout: Option<Duration>) -> Woken {
            match self.0 {}
        }

        pub(crate) fn sleep(&self, _duration: Duration, _op: Op) {
            match self.0 {}
        }

        pub(crate) fn relax(&self, _duration: Duration) {
            match self.0 {}
        }

        pub(crate) fn now(&self) -> Time {
            match self.0 {}
        }

        pub(crate) fn vary(&self, _mean: Duration) -> Duration {
            match self.0 {}
        }

        pub(crate) fn spawn<T, F>(&self, _name: String, _f: F) -> std::io::Result<Joinable<T>> {
            match self.0 {}
        }
    }

    pub(crate) struct Joinable<T>(Infallible, PhantomData<T>);

    impl<T> Joinable<T> {
        pub(crate) fn join(self) -> Option<T> {
            match self.0 {}
        }
    }
}
