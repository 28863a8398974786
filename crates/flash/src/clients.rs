//! Virtual time: clients with clocks of their own drive a model; the earliest goes first.
//!
//! A client is a generator of commands. It submits one, waits for its answer, and says when it submits the next: at once,
//! after thinking, or by a rate. Everything happens in the order of virtual time and, at equal times, of the clients'
//! numbers, so that a run depends on the model, the clients and their seeds only.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::core::{Attribution, Nanos};
use crate::model::{Answer, Command, Model};

/// Something that uses a drive, one command at a time.
pub trait Client {
    /// The next command and when to submit it, not before `now`; `None` ends the client.
    fn next(&mut self, now: Nanos) -> Option<(Nanos, Command)>;

    /// Hears of the answer to its command. `submitted` is when it had been submitted.
    fn answered(&mut self, submitted: Nanos, answer: &Answer);
}

/// A model and its clients.
#[derive(Debug)]
pub struct VirtualTime<M> {
    model: M,
    now: Nanos,
    /// Commands that were due after the end of the last run, by client.
    carried: Vec<Option<(Nanos, Command)>>,
}

#[derive(Clone, Copy)]
struct Waiting {
    submitted: Nanos,
    command: Option<Command>,
}

impl<M: Model> VirtualTime<M> {
    /// A model at the time where it is.
    pub fn new(model: M) -> Self {
        let now = model.core().now();
        Self { model, now, carried: Vec::new() }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model, to be changed between runs.
    pub fn model_mut(&mut self) -> &mut M {
        &mut self.model
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Drops what was due after the end of the last run: the next run is with other clients.
    pub fn forget_carried(&mut self) {
        self.carried.clear();
    }

    /// Lets the clients work until `end` or until all have ended. Commands on their way at `end` are answered, and the
    /// time is then at least `end` unless all clients ended before. A next run with the same clients goes on where this
    /// one stopped.
    pub fn run(&mut self, clients: &mut [&mut dyn Client], end: Nanos) {
        let mut due: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
        let mut waiting = vec![Waiting { submitted: 0, command: None }; clients.len()];
        let now = self.now;
        self.carried.resize(clients.len(), None);
        for (number, client) in clients.iter_mut().enumerate() {
            match self.carried[number].take() {
                Some((at, command)) => {
                    let at = at.max(now);
                    waiting[number] = Waiting { submitted: at, command: Some(command) };
                    due.push(Reverse((at, number)));
                }
                None => ask(&mut **client, number, now, &mut waiting, &mut due),
            }
        }
        let mut in_flight = 0_usize;
        let mut answers = Vec::new();
        loop {
            let next_due = due.peek().map(|Reverse((at, _))| *at).filter(|&at| at < end);
            let next_event = if in_flight > 0 { self.model.next_event() } else { None };
            match (next_due, next_event) {
                (Some(at), event) if event.is_none_or(|event| at < event) => {
                    // Events of commands that nobody waits for are taken too.
                    self.model.advance(at, &mut answers);
                    let Some(Reverse((_, number))) = due.pop() else { return };
                    self.now = at;
                    if let Some(command) = waiting[number].command.take() {
                        self.model.submit(at, number as u64, command);
                        in_flight += 1;
                    }
                }
                (_, Some(event)) => self.model.advance(event, &mut answers),
                (None, None) => break,
                (Some(_), None) => unreachable!("covered by the first arm"),
            }
            for answer in answers.drain(..) {
                in_flight -= 1;
                self.now = self.now.max(answer.at);
                let number = usize::try_from(answer.token).expect("a client's number");
                clients[number].answered(waiting[number].submitted, &answer);
                if answer.at < end {
                    ask(&mut *clients[number], number, answer.at, &mut waiting, &mut due);
                }
            }
        }
        self.now = self.now.max(self.model.core().now());
        for Reverse((at, number)) in due.drain() {
            self.carried[number] = waiting[number].command.map(|command| (at, command));
        }
        if self.carried.iter().any(Option::is_some) {
            self.now = self.now.max(end);
            self.model.advance(self.now, &mut answers);
        }
    }
}

fn ask(
    client: &mut dyn Client,
    number: usize,
    now: Nanos,
    waiting: &mut [Waiting],
    due: &mut BinaryHeap<Reverse<(Nanos, usize)>>,
) {
    if let Some((at, command)) = client.next(now) {
        assert!(at >= now, "client {number} submits at {at}, which is before {now}");
        waiting[number] = Waiting { submitted: at, command: Some(command) };
        due.push(Reverse((at, number)));
    }
}

/// What a client met: counts, latencies, and where the time went.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Latencies.
    pub latency: crate::histogram::Histogram,
    /// Bytes asked for.
    pub bytes: u64,
    /// Sums of the parts of the latencies.
    pub attribution: Attribution,
}

impl Tally {
    /// Counts an answer.
    pub fn record(&mut self, submitted: Nanos, answer: &Answer, bytes: u64) {
        self.latency.record(answer.at - submitted);
        self.bytes += bytes;
        self.attribution.add(&answer.attribution);
    }
}
