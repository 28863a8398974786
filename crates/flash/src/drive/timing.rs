//! A model that threads wait for: commands are submitted at the drive's time, and block until they are answered.
use std::collections::HashMap;

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};

use super::clock::{Clock, TimeMode};
use crate::core::{CoreStats, Nanos};
use crate::model::{Answer, Command, FlashWrites, Model, Ticket};

/// A model and its clock, shared by threads.
#[derive(Debug)]
pub(super) struct Timing<M> {
    state: Mutex<State<M>>,
    clock: Clock,
}

#[derive(Debug)]
struct State<M> {
    model: M,
    /// Answers that nobody has taken yet, by token.
    answers: HashMap<u64, Answer>,
    tokens: u64,
    scratch: Vec<Answer>,
}

/// A command that was submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    token: u64,
    ticket: Ticket,
}

static DRIVES: AtomicU64 = AtomicU64::new(1);

impl<M: Model> Timing<M> {
    pub(super) fn new(model: M, mode: TimeMode) -> Self {
        let state = State { model, answers: HashMap::new(), tokens: 0, scratch: Vec::new() };
        let drive = DRIVES.fetch_add(1, Ordering::Relaxed);
        Self { state: Mutex::new(state), clock: Clock::new(mode, drive) }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Submits a command now.
    pub(super) fn submit(&self, command: Command) -> Pending {
        let untimed = self.clock.mode() == TimeMode::Untimed;
        let at = if untimed { 0 } else { self.clock.submission() };
        let mut state = self.state.lock();
        let at = at.max(state.model.core().now());
        state.advance(at);
        state.tokens += 1;
        let token = state.tokens;
        let ticket = state.model.submit(at, token, command);
        Pending { token, ticket }
    }

    /// Waits for the answer.
    pub(super) fn wait(&self, pending: Pending) -> Answer {
        loop {
            match self.poll(pending) {
                Ok(answer) => {
                    self.clock.heard(answer.at);
                    return answer;
                }
                Err(not_before) => self.clock.sleep_until(not_before),
            }
        }
    }

    /// The answer if it has been given, or a time before which it will not be. Untimed, time jumps to it.
    pub(super) fn poll(&self, pending: Pending) -> Result<Answer, Nanos> {
        let mut state = self.state.lock();
        match self.clock.mode() {
            TimeMode::Untimed => state.advance_until(pending.token),
            TimeMode::Timed { .. } => state.advance(self.clock.horizon()),
        }
        match state.answers.remove(&pending.token) {
            Some(answer) => Ok(answer),
            None => Err(state.model.not_before(pending.ticket)),
        }
    }

    /// Submits a command and waits for its answer.
    pub(super) fn perform(&self, command: Command) -> Answer {
        let pending = self.submit(command);
        self.wait(pending)
    }

    pub(super) fn stats(&self) -> (CoreStats, FlashWrites) {
        let state = self.state.lock();
        (state.model.core().stats().clone(), state.model.flash_writes())
    }

    /// Looks at the model.
    pub(super) fn with<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.state.lock().model)
    }
}

impl<M: Model> State<M> {
    fn advance(&mut self, to: Nanos) {
        self.model.advance(to, &mut self.scratch);
        self.answers.extend(self.scratch.drain(..).map(|answer| (answer.token, answer)));
    }

    fn advance_until(&mut self, token: u64) {
        while !self.answers.contains_key(&token) {
            let next = self.model.next_event().expect("a command that is not answered has an event to come");
            self.advance(next);
        }
    }
}
