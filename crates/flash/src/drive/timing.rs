//! A model that threads wait for: commands are submitted at the drive's time, and block until they are answered.
//!
//! Threads wake up late, and what they then submit would come late too, once for each command: throughput would be some
//! percent too low. So in real time a command counts as submitted when its thread would have submitted it had it heard of
//! its last answer in time, and the model waits for such threads: it does not go beyond an answer that nobody has heard
//! of yet, nor beyond the time at which a thread that has heard of one could submit. It may so fall behind the clock,
//! for at most [`Clock::patience`] for each thread; then it catches up, because those who wait for answers that are long
//! due do not wait at all. A thread that stays away longer is one that computes, or has gone.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use zonda_rt::{Condvar, Mutex, MutexGuard, sleep, thread_ordinal};

use super::clock::{Clock, TimeMode};
use super::waits::Waits;
use crate::core::{CoreStats, Nanos};
use crate::model::{Answer, Command, FlashWrites, Model, Ticket};
use crate::timeline::Timeline;
use crate::trace::TraceEntry;

/// How long to wait at most for a thread that holds the model up: it or its absence may go unnoticed otherwise.
const HELD: Duration = Duration::from_millis(1);

/// A model and its clock, shared by threads.
#[derive(Debug)]
pub(super) struct Timing<M> {
    state: Mutex<State<M>>,
    clock: Clock,
}

/// Always: `between` has an entry for each thread that heard of an answer and has not submitted since, as long as the
/// model waits for it.
#[derive(Debug)]
struct State<M> {
    model: M,
    /// Answers that nobody has heard of yet, by token.
    answers: HashMap<u64, Answer>,
    tokens: u64,
    /// Commands whose time has not come for the model: (when, token).
    coming: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// What they are; commands that are on their way, too.
    commands: HashMap<u64, Sent>,
    between: HashMap<usize, Between>,
    /// Whom to wake for an answer.
    sleepers: HashMap<u64, Arc<Condvar>>,
    scratch: Vec<Answer>,
    /// Every command, if they are taken down.
    trace: Option<Vec<TraceEntry>>,
    waits: Waits,
}

/// A command that is not answered.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Coming(Nanos, Command),
    Submitted(Ticket),
}

/// A thread between an answer and its next command, in the drive's time.
#[derive(Clone, Copy, Debug)]
struct Between {
    /// When it heard of the answer.
    heard: Nanos,
    /// How late that was.
    late: Nanos,
    /// CPU time that it said it would take.
    charged: Nanos,
}

/// A command that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    token: u64,
    command: Command,
    /// When it counts as submitted.
    at: Nanos,
}

impl<M: Model> Timing<M> {
    pub(super) fn new(model: M, mode: TimeMode) -> Self {
        let state = State {
            model,
            answers: HashMap::new(),
            tokens: 0,
            coming: BinaryHeap::new(),
            commands: HashMap::new(),
            between: HashMap::new(),
            sleepers: HashMap::new(),
            scratch: Vec::new(),
            trace: None,
            waits: Waits::default(),
        };
        Self { state: Mutex::new(state), clock: Clock::new(mode) }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Submits a command now, as far as this thread can help it.
    pub(super) fn submit(&self, command: Command) -> Pending {
        let mut state = self.state.lock();
        let now = if self.clock.mode() == TimeMode::Untimed { 0 } else { self.clock.now() };
        let at = match state.between.remove(&thread_ordinal()) {
            Some(between) if between.is_waited_for(now, &self.clock) => between.submits(now),
            Some(between) => now + between.charged,
            None => now,
        };
        state.tokens += 1;
        let token = state.tokens;
        let at = at.max(state.model.core().now());
        if self.clock.is_real() {
            state.commands.insert(token, Sent::Coming(at, command));
            state.coming.push(Reverse((at, token)));
            state.go_on(&self.clock);
        } else {
            state.advance(at);
            state.give(at, token, command);
        }
        Pending { token, command, at }
    }

    /// This thread computes for so long before its next command, in the drive's time. In real time it is counted, not
    /// waited for: a host whose processors are not slowed down as the drive is.
    pub(super) fn charge(&self, time: Duration) {
        match (self.clock.mode(), self.clock.is_real()) {
            (TimeMode::Untimed, _) => {}
            (_, false) => sleep(time),
            (_, true) => {
                let now = self.clock.now();
                let nothing = Between { heard: now, late: 0, charged: 0 };
                let mut state = self.state.lock();
                let between = state.between.entry(thread_ordinal()).or_insert(nothing);
                between.charged += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            }
        }
    }

    /// Waits for the answer.
    pub(super) fn wait(&self, pending: Pending) -> Answer {
        loop {
            match self.poll(pending) {
                Ok(answer) => return answer,
                Err(not_before) => self.wait_until(not_before, &[pending]),
            }
        }
    }

    /// The answer if it has been given, or a time before which it will not be. Untimed, time jumps to it.
    pub(super) fn poll(&self, pending: Pending) -> Result<Answer, Nanos> {
        let mut state = self.state.lock();
        match self.clock.mode() {
            TimeMode::Untimed => state.advance_until(pending.token),
            TimeMode::Timed { .. } if self.clock.is_real() => _ = state.go_on(&self.clock),
            TimeMode::Timed { .. } => state.advance(self.clock.now()),
        }
        let Some(answer) = state.answers.remove(&pending.token) else { return Err(state.not_before(pending)) };
        state.waits.note(&pending.command, answer.at.saturating_sub(pending.at));
        if self.clock.is_real() {
            let heard = self.clock.now();
            let late = heard.saturating_sub(answer.at);
            state.between.insert(thread_ordinal(), Between { heard, late, charged: 0 });
        }
        Ok(answer)
    }

    /// Waits until one of these commands may be answered; it is polled next.
    pub(super) fn wait_until(&self, not_before: Nanos, pending: &[Pending]) {
        let left = self.clock.dilated(not_before.saturating_sub(self.clock.now()));
        if !self.clock.is_real() {
            return sleep(left.max(Duration::from_nanos(1)));
        }
        thread_local! {
            static WAKE: Arc<Condvar> = Arc::new(Condvar::new());
        }
        // What a program closes when it exits may come after the thread's own.
        let wake = WAKE.try_with(Arc::clone).unwrap_or_default();
        let mut state = self.state.lock();
        if pending.iter().any(|pending| state.answers.contains_key(&pending.token)) {
            return;
        }
        // What is due already waits for a late thread, whose next command wakes this one.
        let left = if left.is_zero() { HELD } else { left };
        state.sleepers.extend(pending.iter().map(|pending| (pending.token, Arc::clone(&wake))));
        let (mut state, _): (MutexGuard<'_, State<M>>, bool) = wake.wait_timeout(state, left);
        for pending in pending {
            state.sleepers.remove(&pending.token);
        }
    }

    /// Submits a command and waits for its answer.
    pub(super) fn perform(&self, command: Command) -> Answer {
        let pending = self.submit(command);
        self.wait(pending)
    }

    /// What the flash did by now.
    pub(super) fn stats(&self) -> (CoreStats, FlashWrites, Waits) {
        let (state, now) = self.up_to_now();
        (state.model.core().stats_at(now), state.model.flash_writes(), state.waits)
    }

    /// The state as it is by now, whoever called last, and how far the model is: it may wait for a late thread. Untimed it stays where the
    /// last answer left it.
    fn up_to_now(&self) -> (MutexGuard<'_, State<M>>, Nanos) {
        let mut state = self.state.lock();
        let at = match self.clock.mode() {
            TimeMode::Untimed => state.model.core().now(),
            TimeMode::Timed { .. } if self.clock.is_real() => state.go_on(&self.clock),
            TimeMode::Timed { .. } => {
                let now = self.clock.now().max(state.model.core().now());
                state.advance(now);
                now
            }
        };
        (state, at)
    }

    /// Takes down every command from now on, and what dies do in `window`, counted from now.
    pub(super) fn watch(&self, window: Range<Nanos>) {
        let state = &mut *self.state.lock();
        // The model is where it was last asked.
        let clock = if self.clock.mode() == TimeMode::Untimed { 0 } else { self.clock.now() };
        let now = state.model.core().now().max(clock);
        state.model.core_mut().watch(now + window.start..now.saturating_add(window.end));
        state.trace = Some(Vec::new());
    }

    /// What was taken down, and what dies did in the window.
    pub(super) fn seen(&self) -> Timeline {
        let (state, _) = self.up_to_now();
        let core = state.model.core();
        Timeline {
            window: core.watched(),
            dies: core.shape().dies,
            zone_size_bytes: state.model.zone_size_bytes(),
            spans: core.spans().to_vec(),
            commands: state.trace.clone().unwrap_or_default(),
        }
    }

    /// Changes the model.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        change(&mut self.up_to_now().0.model)
    }

    /// Looks at the model.
    pub(super) fn with<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.up_to_now().0.model)
    }
}

impl Between {
    /// True if the model waits for the thread.
    fn is_waited_for(&self, now: Nanos, clock: &Clock) -> bool {
        now.saturating_sub(self.heard) <= clock.patience()
    }

    /// When a command of the thread counts as submitted if it is so now.
    fn submits(&self, now: Nanos) -> Nanos {
        (now + self.charged).saturating_sub(self.late)
    }
}

impl<M: Model> State<M> {
    /// Lets the model go on as far as the clock and late threads allow; how far that is.
    fn go_on(&mut self, clock: &Clock) -> Nanos {
        let now = clock.now();
        self.between.retain(|_, between| between.is_waited_for(now, clock) || between.charged > 0);
        let limit = |state: &Self| {
            let unheard = state.answers.values().map(|answer| answer.at);
            let between = state.between.values().filter(|between| between.is_waited_for(now, clock));
            let held = unheard.chain(between.map(|between| between.submits(now))).min().unwrap_or(now);
            held.clamp(now.saturating_sub(clock.patience()), now)
        };
        let mut end = limit(self);
        loop {
            let coming = self.coming.peek().map(|Reverse((at, _))| *at);
            let event = self.model.next_event();
            let Some(next) = coming.into_iter().chain(event).min().filter(|&next| next <= end) else { break };
            let known = self.answers.len();
            self.advance(next.max(self.model.core().now()));
            self.submit_due(next);
            if self.answers.len() > known {
                end = limit(self);
            }
        }
        let at = end.max(self.model.core().now());
        self.advance(at);
        at
    }

    /// Gives the model what is to be submitted by `at`.
    fn submit_due(&mut self, at: Nanos) {
        while let Some(&Reverse((when, token))) = self.coming.peek().filter(|Reverse((when, _))| *when <= at) {
            self.coming.pop();
            if let Some(&Sent::Coming(_, command)) = self.commands.get(&token) {
                self.give(when.max(self.model.core().now()), token, command);
            }
        }
    }

    fn give(&mut self, at: Nanos, token: u64, command: Command) {
        if let Some(trace) = &mut self.trace {
            trace.push(TraceEntry { at, command });
        }
        let ticket = self.model.submit(at, token, command);
        self.commands.insert(token, Sent::Submitted(ticket));
    }

    fn not_before(&self, pending: Pending) -> Nanos {
        match self.commands.get(&pending.token) {
            Some(&Sent::Coming(at, _)) => at,
            Some(&Sent::Submitted(ticket)) => self.model.not_before(ticket),
            None => self.model.core().now(),
        }
    }

    fn advance(&mut self, to: Nanos) {
        self.model.advance(to, &mut self.scratch);
        for answer in self.scratch.drain(..) {
            self.commands.remove(&answer.token);
            if let Some(sleeper) = self.sleepers.get(&answer.token) {
                sleeper.notify_one();
            }
            self.answers.insert(answer.token, answer);
        }
    }

    fn advance_until(&mut self, token: u64) {
        while !self.answers.contains_key(&token) {
            let next = self.model.next_event().expect("a command that is not answered has an event to come");
            self.advance(next);
        }
    }
}
