//! The scheduler's state and its choices: pure data, no threads, no real time.

use std::panic::Location;
use std::sync::{Arc, Condvar};
use std::thread;

use super::Options;
use super::report::Failure;
use crate::rng::{Rng, mix, threshold};
use crate::time::nanos;

/// Virtual time that each operation takes (S2).
const OPERATION_NS: u64 = 20;
/// Back-off waits in a row, by all threads, that count as a livelock.
const SPINS_MAX: u64 = 1_000_000;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// What a thread waits for: the address of a lock or condition variable, or the end of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Address(usize),
    Thread(usize),
    Clock,
}

impl Key {
    /// The identity of a primitive. Addresses are only compared, never hashed or ordered: they
    /// differ between runs.
    pub(crate) fn address<T: ?Sized>(primitive: &T) -> Key {
        Key::Address(std::ptr::from_ref(primitive).cast::<()>().addr())
    }
}

/// The operations that the simulator sees; the numbers enter the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Lock = 1,
    TryLock = 2,
    Read = 3,
    Write = 4,
    Unlock = 5,
    Wait = 6,
    Notify = 7,
    Spawn = 8,
    Join = 9,
    Sleep = 10,
    Spin = 11,
    Device = 12,
    Now = 13,
    Pin = 14,
    Latch = 15,
    Finish = 16,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Notified,
    TimedOut,
    /// The simulation ended while this thread was unwinding.
    Ended,
}

/// A simulated thread. Life cycle: 1 ready -> 2 blocked -> 1 ready ... -> 3 finished. The running
/// one is ready.
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) status: Status,
    timed_out: bool,
    /// Where it sleeps, in reality, while another thread has the baton.
    pub(super) turn: Arc<Condvar>,
    /// The real thread, until somebody has joined it; none for the first, which is the caller's.
    pub(super) real: Option<thread::JoinHandle<()>>,
}

pub(super) enum Status {
    Ready,
    Blocked(Blocked),
    Finished,
}

/// What a blocked thread waits for.
pub(super) struct Blocked {
    pub(super) op: Op,
    pub(super) key: Key,
    pub(super) deadline_ns: u64,
    pub(super) at: &'static Location<'static>,
}

/// Everything the scheduler knows; guarded by one lock.
pub(super) struct State {
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) switch_threshold: u64,
    pub(super) clock_ns: u64,
    time_limit_ns: u64,
    pub(super) steps: u64,
    spins: u64,
    pub(super) trace: u64,
    pub(super) threads: Vec<Thread>,
    /// Threads that have not finished, by number.
    live: Vec<usize>,
    /// The thread that holds the baton.
    pub(super) running: usize,
    /// No blocked thread has an earlier deadline (it may be too early: notified threads do not
    /// update it).
    next_deadline_ns: u64,
    pub(super) failure: Option<Failure>,
}

impl State {
    /// A simulation whose first thread, number 0, has the baton.
    pub(super) fn new(options: &Options) -> Self {
        let mut state = Self {
            seed: options.seed,
            rng: Rng::seeded(options.seed),
            switch_threshold: threshold(options.schedule_probability),
            clock_ns: 0,
            time_limit_ns: nanos(options.time_limit),
            steps: 0,
            spins: 0,
            trace: 0,
            threads: Vec::new(),
            live: Vec::new(),
            running: 0,
            next_deadline_ns: NEVER,
            failure: None,
        };
        state.add("main".to_string());
        state
    }

    /// A new ready thread; returns its number.
    pub(super) fn add(&mut self, name: String) -> usize {
        let id = self.threads.len();
        let turn = Arc::new(Condvar::new());
        self.threads.push(Thread { name, status: Status::Ready, timed_out: false, turn, real: None });
        self.live.push(id);
        id
    }

    /// Accounts for one operation of the running thread: time, trace, limits.
    pub(super) fn step(&mut self, op: Op) -> Result<(), Failure> {
        self.steps += 1;
        self.spins = if op == Op::Spin { self.spins + 1 } else { 0 };
        self.trace = mix(self.trace ^ self.clock_ns ^ ((self.running as u64) << 8) ^ op as u64);
        self.advance_to(self.clock_ns + OPERATION_NS)?;
        if self.spins > SPINS_MAX && !self.awaits_event() {
            return Err(self.report("livelock: for long, threads have only spun"));
        }
        Ok(())
    }

    /// Whether time alone will make a thread ready that does not just spin.
    fn awaits_event(&self) -> bool {
        self.live.iter().any(|&id| match &self.threads[id].status {
            Status::Blocked(blocked) => blocked.op != Op::Spin && blocked.deadline_ns != NEVER,
            _ => false,
        })
    }

    /// Whether this scheduling point passes the baton on, if there is somebody to take it.
    pub(super) fn wants_switch(&mut self) -> bool {
        self.rng.passes(self.switch_threshold)
    }

    /// The running thread waits; the caller then chooses who runs next.
    pub(super) fn block(&mut self, blocked: Blocked) {
        self.next_deadline_ns = self.next_deadline_ns.min(blocked.deadline_ns);
        let thread = &mut self.threads[self.running];
        thread.timed_out = false;
        thread.status = Status::Blocked(blocked);
    }

    /// The instant `after_ns` from now, or never.
    pub(super) fn deadline(&self, after_ns: Option<u64>) -> u64 {
        after_ns.map_or(NEVER, |after_ns| self.clock_ns.saturating_add(after_ns))
    }

    pub(super) fn woken(&self, id: usize) -> Woken {
        if self.threads[id].timed_out { Woken::TimedOut } else { Woken::Notified }
    }

    /// Makes all threads that wait for `key` ready, or one of them, chosen by the seed.
    pub(super) fn wake(&mut self, key: Key, all: bool) {
        let threads = &self.threads;
        let waits = |id: &&usize| matches!(&threads[**id].status, Status::Blocked(b) if b.key == key);
        let waiters = self.live.iter().filter(waits).count();
        if waiters == 0 {
            return;
        }
        let chosen = if all { None } else { Some(self.rng.index(waiters)) };
        let woken: Vec<usize> = self.live.iter().filter(waits).copied().collect();
        for (index, id) in woken.into_iter().enumerate() {
            if chosen.is_none_or(|chosen| chosen == index) {
                self.threads[id].status = Status::Ready;
            }
        }
    }

    /// The thread is no more; whoever joins it becomes ready.
    pub(super) fn finish(&mut self, id: usize) {
        self.threads[id].status = Status::Finished;
        self.live.retain(|&live| live != id);
        self.wake(Key::Thread(id), true);
    }

    pub(super) fn finished(&self, id: usize) -> bool {
        matches!(self.threads[id].status, Status::Finished)
    }

    /// A ready thread, chosen by the seed; time jumps ahead if all must wait (S2).
    ///
    /// # Errors
    /// The report of a deadlock (S3), or that the time limit is reached.
    pub(super) fn choose(&mut self) -> Result<usize, Failure> {
        loop {
            let ready = self.live.iter().filter(|&&id| self.is_ready(id)).count();
            if ready > 0 {
                let chosen = if ready == 1 { 0 } else { self.rng.index(ready) };
                let mut ids = self.live.iter().copied().filter(|&id| self.is_ready(id));
                return Ok(ids.nth(chosen).expect("chosen is below the number of ready threads"));
            }
            if self.next_deadline_ns == NEVER {
                return Err(self.report("deadlock: every thread waits"));
            }
            self.advance_to(self.next_deadline_ns)?;
        }
    }

    fn is_ready(&self, id: usize) -> bool {
        matches!(self.threads[id].status, Status::Ready)
    }

    /// Lets time pass for a running thread that polls.
    pub(super) fn pass_time(&mut self, duration_ns: u64) -> Result<(), Failure> {
        self.advance_to(self.clock_ns.saturating_add(duration_ns))
    }

    /// Moves the clock, and makes threads ready whose deadline has come.
    fn advance_to(&mut self, clock_ns: u64) -> Result<(), Failure> {
        self.clock_ns = self.clock_ns.max(clock_ns);
        if self.clock_ns >= self.next_deadline_ns {
            self.fire();
        }
        if self.clock_ns > self.time_limit_ns {
            return Err(self.report("the limit of virtual time is reached (raise Options::time_limit if it should be)"));
        }
        Ok(())
    }

    fn fire(&mut self) {
        self.next_deadline_ns = NEVER;
        for &id in &self.live {
            let thread = &mut self.threads[id];
            let Status::Blocked(blocked) = &thread.status else {
                continue;
            };
            if blocked.deadline_ns <= self.clock_ns {
                thread.timed_out = true;
                thread.status = Status::Ready;
            } else {
                self.next_deadline_ns = self.next_deadline_ns.min(blocked.deadline_ns);
            }
        }
    }
}
