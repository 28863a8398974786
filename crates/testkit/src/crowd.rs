//! A run with several clients that share a few keys. No model can say what each answer must be; the histories of the keys say whether
//! all answers together can be true (see [`history`](crate::history)).

mod client;
mod registers;

use std::{collections::BTreeMap, sync::Arc};

use zonda_rt::{Rng, atomic::AtomicU64};

use crate::{
    KeyHistory, Outcome, Subject, Trouble, Workers, World,
    history::{Shown, Value, is_of_one_moment, linearizable, survives},
    subject::collect,
    world::draw_cut,
};

use crate::openings::{OPERATIONS, Openings};
use client::{Client, Seen};
use registers::{Registers, decode};

/// The share of lives in whose second half nobody writes.
const QUIET_ENDS: f64 = 0.3;

/// A run with several clients.
pub struct Crowd {
    world: World,
    rng: Rng,
    clients: u64,
    registers: Registers,
    /// What the store holds at the start of a life.
    start: BTreeMap<u32, Value>,
    /// Ticks and value numbers: both only grow, over all lives.
    clock: Arc<AtomicU64>,
    outcome: Outcome,
    steps: u64,
    /// Device operations of the last opening: where to cut the next.
    opening: u64,
}

/// What all clients of a life saw.
#[derive(Default)]
struct Account {
    keys: BTreeMap<u32, KeyHistory>,
    shown: Vec<Shown>,
    synced_until: u64,
}

impl Openings for Crowd {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn opening(&mut self) -> &mut u64 {
        &mut self.opening
    }

    fn outcome(&mut self) -> &mut Outcome {
        &mut self.outcome
    }

    fn restart(&mut self) {
        let report = self.world.cut();
        if let Some(report) = report.filter(|report| report.label != "recovery") {
            self.outcome.hit(report.label);
        }
        self.outcome.cuts += 1;
        self.outcome.failures += self.world.failed();
        self.world.restart(&mut self.rng);
    }
}

impl Crowd {
    /// A run of about `steps` operations by `clients` clients, on a world with an empty device whose zones hold `value_bytes_max` bytes and
    /// more.
    #[must_use]
    pub fn new(world: World, mut rng: Rng, clients: u64, steps: u64, value_bytes_max: usize) -> Self {
        let registers = Registers::draw(&mut rng, value_bytes_max);
        let start = (0..registers.count).map(|key| (key, None)).collect();
        let clock = Arc::new(AtomicU64::new(1));
        Self { world, rng, clients, registers, start, clock, outcome: Outcome::default(), steps, opening: OPERATIONS }
    }

    /// Runs.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn run(mut self) -> Result<Outcome, Trouble> {
        let result = self.lives();
        result.map_err(|what| Trouble { step: self.outcome.steps, what })?;
        Ok(self.outcome)
    }

    fn lives(&mut self) -> Result<(), String> {
        let mut subject = self.world.create().map_err(|error| format!("create failed: {error}"))?;
        while self.outcome.steps < self.steps {
            let account = self.live(&subject)?;
            let tally = subject.tally();
            tally.nothing_is_kept()?;
            self.outcome.count(tally);
            drop(subject);
            subject = self.reopen(account)?;
        }
        Ok(())
    }

    /// From an opening to a cut: every answer of every client, checked.
    fn live(&mut self, subject: &Arc<dyn Subject>) -> Result<Account, String> {
        self.world.arm(draw_cut(&mut self.rng, self.world.labels(), 60));
        self.world.arm_failure("life");
        let workers = Workers::start(subject, &self.world.excuse());
        let steps = 10 + self.rng.below(60);
        // Nobody writes any more then, as all have about the same pace.
        let writing_steps = if self.rng.chance(QUIET_ENDS) { steps / 2 } else { steps };
        let spawn = |number| {
            let client = Client::new(subject, self.world.excuse(), &self.clock, self.registers, self.rng.fork());
            zonda_rt::spawn(format!("client {number}"), move || client.run(steps, writing_steps))
        };
        let handles: Vec<_> = (0..self.clients).map(spawn).collect();
        let seen: Vec<_> =
            handles.into_iter().map(|handle| handle.join().map_err(|panicked| panicked.to_string())).collect();
        workers.stop()?;
        let account = self.account(seen)?;
        for (key, history) in &account.keys {
            linearizable(history.start, &history.events).map_err(|why| format!("I5 key {key}: {why}"))?;
        }
        account.shown.iter().try_for_each(|shown| is_of_one_moment(&account.keys, shown))?;
        Ok(account)
    }

    fn account(&mut self, seen: Vec<Result<Result<Seen, String>, String>>) -> Result<Account, String> {
        let start = self.start.iter().map(|(&key, &start)| (key, KeyHistory { start, ..KeyHistory::default() }));
        let mut account = Account { keys: start.collect(), ..Account::default() };
        for seen in seen {
            let seen = seen??;
            account.synced_until = account.synced_until.max(seen.synced_until);
            self.outcome.steps += seen.steps;
            self.outcome.refused += seen.refused;
            self.outcome.looks += seen.looks;
            self.outcome.given_up += seen.given_up;
            if self.world.cut().is_some() {
                seen.restructures.cut(&mut self.outcome);
            }
            account.shown.extend(seen.shown);
            for (key, event) in seen.events {
                account.keys.entry(key).or_default().events.push(event);
            }
        }
        Ok(account)
    }

    /// Turns the power off and on until an opening is not cut short, and compares what is there with what may be there.
    fn reopen(&mut self, mut account: Account) -> Result<Arc<dyn Subject>, String> {
        self.restart();
        let subject = self.open_between_cuts()?;
        let found = self.everything(&*subject)?;
        for (key, history) in &mut account.keys {
            history.found = found[key];
        }
        survives(&account.keys, account.synced_until)?;
        self.registers.check_groups(&found)?;
        subject.check().map_err(|error| format!("check after recovery: {error}"))?;
        self.start = found;
        Ok(subject)
    }

    fn everything(&self, subject: &dyn Subject) -> Result<BTreeMap<u32, Value>, String> {
        let view = subject.snapshot().map_err(|error| format!("snapshot after a cut: {error}"))?;
        let pairs = collect(&*view).map_err(|error| format!("reading everything after a cut: {error}"))?;
        let mut found: BTreeMap<u32, Value> = (0..self.registers.count).map(|key| (key, None)).collect();
        for (key, value) in pairs {
            let number = decode(self.registers, &value)?;
            found.insert(self.registers.number_of(&key)?, Some(number));
        }
        Ok(found)
    }
}
