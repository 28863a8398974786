//! Passing the baton: the scheduler's lock, and a simulated thread's view of its simulation.

use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::join::Joinable;
use super::report::Failure;
use super::state::{Blocked, Key, Op, State, Woken};
use super::{Membership, Options};
use crate::rng::threshold;
use crate::time::{Time, nanos};

/// The payload that unwinds the threads of a simulation that has ended (S4); no message is printed
/// for it.
pub(super) struct Unwound;

/// Pauses of 1 ms in destructors, after the end, before the process gives up: they wait for what
/// will not come.
const ENDED_PAUSES_MAX: u32 = 20_000;

/// One simulation, shared by its threads.
pub(crate) struct Sim {
    state: Mutex<State>,
    /// Set once, under the lock of `state`.
    ended: AtomicBool,
    ended_pauses: AtomicU32,
}

impl Sim {
    pub(super) fn new(options: &Options) -> Self {
        let state = Mutex::new(State::new(options));
        Self { state, ended: AtomicBool::new(false), ended_pauses: AtomicU32::new(0) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.state().trace
    }

    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.state().failure.take()
    }

    /// Ends the simulation and waits until its other threads have unwound and are gone.
    pub(super) fn end(&self) {
        let mut state = self.state();
        self.release_all(&state);
        let real: Vec<_> = state.threads.iter_mut().filter_map(|thread| thread.real.take()).collect();
        drop(state);
        for thread in real {
            // The panic that matters, if any, is already recorded in the state.
            let _ = thread.join();
        }
    }

    /// Ends the simulation because of `failure`. A panic of the program outranks what follows from
    /// it.
    fn fail(&self, state: &mut State, failure: Failure) {
        let outranks = matches!((&state.failure, &failure), (Some(Failure::Report(_)), Failure::Panic(_)));
        if state.failure.is_none() || outranks {
            state.failure = Some(failure);
        }
        self.release_all(state);
    }

    /// Lets every thread run, so that it unwinds.
    fn release_all(&self, state: &State) {
        self.ended.store(true, Ordering::Release);
        for thread in &state.threads {
            thread.turn.notify_all();
        }
    }

    /// Gives the baton to a ready thread, or ends the simulation if that is impossible.
    fn pass_on(&self, state: &mut State) {
        match state.choose() {
            Ok(next) if next == state.running => {}
            Ok(next) => {
                state.running = next;
                state.threads[next].turn.notify_all();
            }
            Err(failure) => self.fail(state, failure),
        }
    }

    /// Sleeps, in reality, until thread `id` has the baton or the simulation has ended.
    fn await_turn<'a>(&self, mut state: MutexGuard<'a, State>, id: usize) -> MutexGuard<'a, State> {
        let turn = Arc::clone(&state.threads[id].turn);
        while state.running != id && !self.ended() {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// The whole life of a spawned thread.
    fn thread_main<T>(self: &Arc<Self>, id: usize, result: &Mutex<Option<T>>, f: impl FnOnce() -> T) {
        let _membership = Membership::enter(self, id);
        let run = || {
            drop(self.await_turn(self.state(), id));
            if self.ended() { None } else { Some(f()) }
        };
        let outcome = catch_unwind(AssertUnwindSafe(run));
        let panicked = self.deposit(outcome, result);
        let mut state = self.state();
        state.finish(id);
        match panicked {
            Some(payload) => self.fail(&mut state, Failure::Panic(payload)),
            None if !self.ended() => self.finish_turn(&mut state),
            None => {}
        }
    }

    /// Puts the result where the joiner finds it; returns the payload of a panic of the program's
    /// own.
    fn deposit<T>(&self, outcome: thread::Result<Option<T>>, result: &Mutex<Option<T>>) -> Option<Box<dyn Any + Send>> {
        match outcome {
            Ok(value) => {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = value;
                None
            }
            Err(payload) if payload.is::<Unwound>() => None,
            Err(payload) => Some(payload),
        }
    }

    fn finish_turn(&self, state: &mut State) {
        match state.step(Op::Finish) {
            Ok(()) => self.pass_on(state),
            Err(failure) => self.fail(state, failure),
        }
    }
}

/// A simulated thread's own view: what the primitives call.
pub(crate) struct Here {
    sim: Arc<Sim>,
    id: usize,
}

impl Here {
    pub(super) fn new(sim: Arc<Sim>, id: usize) -> Self {
        Self { sim, id }
    }

    pub(crate) fn id(&self) -> usize {
        self.id
    }

    pub(super) fn sim(&self) -> &Arc<Sim> {
        &self.sim
    }

    pub(super) fn ended(&self) -> bool {
        self.sim.ended()
    }

    /// Unwinds the thread after the end, unless it unwinds already.
    pub(super) fn unwind_if_ended(&self) {
        if self.ended() && !thread::panicking() {
            resume_unwind(Box::new(Unwound));
        }
    }

    /// A scheduling point; may unwind.
    pub(crate) fn point(&self, op: Op) {
        drop(self.offer(self.sim.state(), op));
        self.unwind_if_ended();
    }

    /// Makes waiters of `key` ready, then a scheduling point that never unwinds: destructors call
    /// it.
    pub(super) fn wake(&self, key: Key, all: bool, op: Op) {
        let mut state = self.sim.state();
        if !self.ended() {
            state.wake(key, all);
            drop(self.offer(state, op));
        }
    }

    /// Makes all waiters of `key` ready, with no scheduling point.
    pub(crate) fn wake_all(&self, key: Key) {
        self.sim.state().wake(key, true);
    }

    /// Perhaps passes the baton on and waits for its return. Not while unwinding, to keep a panic's
    /// aftermath short.
    fn offer<'a>(&self, mut state: MutexGuard<'a, State>, op: Op) -> MutexGuard<'a, State> {
        if self.ended() || thread::panicking() {
            return state;
        }
        if let Err(failure) = state.step(op) {
            self.sim.fail(&mut state, failure);
        } else if state.wants_switch() {
            self.sim.pass_on(&mut state);
            state = self.sim.await_turn(state, self.id);
        }
        state
    }

    /// Waits until `key` is woken or `timeout` has passed. No other thread runs before the wait has
    /// begun.
    #[track_caller]
    pub(crate) fn block(&self, op: Op, key: Key, timeout: Option<Duration>) -> Woken {
        let at = Location::caller();
        let mut state = self.sim.state();
        if !self.ended() {
            let stepped = state.step(op);
            let deadline_ns = state.deadline(timeout.map(nanos));
            state.block(Blocked { op, key, deadline_ns, at });
            match stepped {
                Ok(()) => self.sim.pass_on(&mut state),
                Err(failure) => self.sim.fail(&mut state, failure),
            }
            state = self.sim.await_turn(state, self.id);
        }
        let woken = state.woken(self.id);
        drop(state);
        self.unwind_if_ended();
        if self.ended() { Woken::Ended } else { woken }
    }

    /// Waits for virtual time to pass; `op` says what for.
    #[track_caller]
    pub(crate) fn sleep(&self, duration: Duration, op: Op) {
        self.block(op, Key::Clock, Some(duration));
    }

    /// A round of polling: time passes, then any ready thread may run, this one included.
    pub(crate) fn relax(&self, duration: Duration) {
        let mut state = self.sim.state();
        if !self.ended() {
            match state.step(Op::Spin).and_then(|()| state.pass_time(nanos(duration))) {
                Ok(()) => self.sim.pass_on(&mut state),
                Err(failure) => self.sim.fail(&mut state, failure),
            }
            state = self.sim.await_turn(state, self.id);
        }
        drop(state);
        self.unwind_if_ended();
    }

    pub(crate) fn now(&self) -> Time {
        self.point(Op::Now);
        Time(self.sim.state().clock_ns)
    }

    /// `mean` times a seeded factor between 0.5 and 1.5.
    pub(crate) fn vary(&self, mean: Duration) -> Duration {
        let mean_ns = nanos(mean).max(1);
        Duration::from_nanos(mean_ns / 2 + self.sim.state().rng.below(mean_ns))
    }

    pub(super) fn seed(&self) -> u64 {
        self.sim.state().seed
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.sim.trace_hash()
    }

    pub(super) fn schedule_probability(&self, probability: f64) {
        self.sim.state().switch_threshold = threshold(probability);
    }

    /// Starts a simulated thread.
    pub(crate) fn spawn<T, F>(&self, name: String, f: F) -> std::io::Result<Joinable<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let id = self.sim.state().add(name.clone());
        let result = Arc::new(Mutex::new(None));
        let (sim, deposit) = (Arc::clone(&self.sim), Arc::clone(&result));
        let main = move || sim.thread_main(id, &deposit, f);
        match thread::Builder::new().name(name).spawn(main) {
            Ok(real) => self.sim.state().threads[id].real = Some(real),
            Err(error) => {
                self.sim.state().finish(id);
                return Err(error);
            }
        }
        self.point(Op::Spawn);
        Ok(Joinable::new(Arc::clone(&self.sim), id, result))
    }

    /// A pause of 1 ms of real time, for waits in destructors after the end.
    ///
    /// Such a wait may never end. After 20 s of them the process is aborted: a hang would say less.
    pub(super) fn pause_ended(&self) {
        if self.sim.ended_pauses.fetch_add(1, Ordering::Relaxed) >= ENDED_PAUSES_MAX {
            eprintln!("simulation of seed {}: a destructor waits for ever after the end", self.seed());
            std::process::abort();
        }
        thread::sleep(Duration::from_millis(1));
    }
}
