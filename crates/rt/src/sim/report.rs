//! Why a simulation failed, in words that name every thread.

use std::any::Any;
use std::fmt::Write as _;

use super::state::{Blocked, Op, State, Status};

/// What ended a simulation.
pub(super) enum Failure {
    /// The program's own panic.
    Panic(Box<dyn Any + Send>),
    /// The scheduler's finding: deadlock, livelock, time limit.
    Report(String),
}

impl State {
    /// The finding `why`, with the seed and the state of every thread that lives.
    pub(super) fn report(&self, why: &str) -> Failure {
        let mut text = format!(
            "simulation of seed {} failed after {} operations at {} ns of virtual time: {why}",
            self.seed, self.steps, self.clock_ns
        );
        for (id, thread) in self.threads.iter().enumerate() {
            let doing = match &thread.status {
                Status::Ready => "is ready to run".to_string(),
                Status::Blocked(blocked) => self.describe(blocked),
                Status::Finished => continue,
            };
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  thread {id} '{}' {doing}", thread.name);
        }
        Failure::Report(text)
    }

    fn describe(&self, blocked: &Blocked) -> String {
        let what = match blocked.key {
            super::Key::Thread(id) => format!("the end of thread {id} '{}'", self.threads[id].name),
            _ => what(blocked.op).to_string(),
        };
        let until = match blocked.deadline_ns {
            u64::MAX => String::new(),
            deadline_ns => format!(" until {deadline_ns} ns"),
        };
        format!("waits for {what}{until} at {}", blocked.at)
    }
}

/// The object of "waits for".
fn what(op: Op) -> &'static str {
    match op {
        Op::Lock => "a mutex",
        Op::Read => "a lock to read",
        Op::Write => "a lock to write",
        Op::Wait => "a condition variable",
        Op::Sleep => "time to pass",
        Op::Spin => "a latch, spinning,",
        Op::Device => "a device",
        _ => "something else",
    }
}
