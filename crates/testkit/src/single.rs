//! A run with one client, whose model is exact: every answer is compared, and after a power cut the store must hold the model as of
//! some moment between the last sync and the cut.

mod client;
mod recovery;

use std::sync::Arc;

use zonda_device::CutAt;
use zonda_rt::Rng;

use crate::openings::OPERATIONS;
use crate::{Model, Outcome, Profile, Subject, Trouble, Workers, World, world::draw_cut};

use client::Client;

/// A run with one client.
pub struct Single {
    world: World,
    profile: Profile,
    rng: Rng,
    model: Model,
    outcome: Outcome,
    /// Operations until the run ends.
    steps: u64,
    /// Device operations of the last opening: where to cut the next.
    opening: u64,
    /// Those of the longest closing, and what decides where closings are cut.
    closing: u64,
    /// See `closing`.
    closings: Rng,
    /// Print every operation.
    verbose: bool,
}

impl Single {
    /// A run of `steps` operations on a world with an empty device.
    #[must_use]
    pub fn new(world: World, profile: Profile, rng: Rng, steps: u64) -> Self {
        let (model, outcome) = (Model::default(), Outcome::default());
        // Of its own, so that older seeds mean what they did but for this.
        let closings = rng.clone().fork();
        Self {
            world,
            profile,
            rng,
            model,
            outcome,
            steps,
            opening: OPERATIONS,
            closing: OPERATIONS,
            closings,
            verbose: false,
        }
    }

    /// Whether the store has a log; else the model expects less after a cut.
    #[must_use]
    pub fn logged(mut self, logged: bool) -> Self {
        self.model = if logged { Model::default() } else { Model::without_log() };
        self
    }

    /// Prints every operation and every cut to standard error. Takes no lock of the simulation: a verbose run is the same run.
    #[must_use]
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.verbose = verbose;
        self
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
            self.live(subject)?;
            subject = self.reopen()?;
        }
        Ok(())
    }

    /// From an opening to a cut or a close. Ends with every handle to the subject gone.
    fn live(&mut self, subject: Arc<dyn Subject>) -> Result<(), String> {
        let ends_cleanly = self.rng.chance(0.08);
        if !ends_cleanly {
            self.world.arm(draw_cut(&mut self.rng, self.world.labels(), self.profile.life_steps));
        }
        self.world.arm_failure("life");
        let workers = Workers::start(&subject, &self.world.excuse());
        let worked = self.work(&subject);
        let stopped = workers.stop();
        worked?;
        stopped?;
        if ends_cleanly {
            self.close(&*subject)?;
        }
        let tally = subject.tally();
        tally.nothing_is_kept()?;
        self.outcome.count(tally);
        Ok(())
    }

    fn work(&mut self, subject: &Arc<dyn Subject>) -> Result<(), String> {
        let steps = (1 + self.rng.below(2 * self.profile.life_steps)).min(self.steps - self.outcome.steps);
        let mut client = Client::new(self, subject);
        for _ in 0..steps {
            if !client.step()? {
                break;
            }
        }
        Ok(())
    }

    /// Closes the subject; of half of the closings the power goes in the middle.
    fn close(&mut self, subject: &dyn Subject) -> Result<(), String> {
        if self.closings.chance(0.5) {
            self.world.arm(CutAt::Operation(1 + self.closings.below(self.closing)));
        }
        let before = self.world.power().operations();
        match subject.close() {
            Ok(()) => self.model.closed(),
            Err(_) if self.world.excuse().holds() => {}
            Err(error) => return Err(format!("close failed with the power on: {error}")),
        }
        if self.world.cut().is_some() {
            self.outcome.hit("close");
        }
        if self.world.excuse().holds() {
            return Ok(());
        }
        self.closing = self.closing.max(self.world.power().operations() - before);
        self.outcome.closes += 1;
        Ok(())
    }

    fn say(&self, words: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{:>6} {}", self.outcome.steps, words());
        }
    }
}
