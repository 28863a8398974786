//! Opening after a cut, and comparing what is there with the model.

use std::sync::Arc;

use zonda_rt::Rng;

use crate::{
    Answer, Outcome, Subject, World,
    model::{Pairs, show, show_value},
    openings::Openings,
    subject::collect,
};

use super::Single;

impl Openings for Single {
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
        if self.model.is_unlogged() {
            self.outcome.hit("no log");
        }
        self.say(|| format!("--- power cut: {report:?}"));
        self.world.restart(&mut self.rng);
    }
}

impl Single {
    /// Turns the power on and opens the store; then everything is compared.
    pub(super) fn reopen(&mut self) -> Result<Arc<dyn Subject>, String> {
        self.restart();
        let subject = self.open_between_cuts()?;
        self.verify(&*subject)?;
        Ok(subject)
    }

    /// The store holds what it must, a check finds nothing, and point reads agree with the scan.
    fn verify(&mut self, subject: &dyn Subject) -> Result<(), String> {
        let found = everything(subject).map_err(|error| format!("reading everything after a cut: {error}"))?;
        let unsynced = self.model.unsynced() as u64;
        let survived = self.model.recover(&found)? as u64;
        self.say(|| format!("--- recovered {survived} of {unsynced} unsynced changes, {} pairs", found.len()));
        self.outcome.survived += survived;
        self.outcome.lost += unsynced - survived;
        subject.check().map_err(|error| format!("check after recovery: {error}"))?;
        self.spot_check(subject)
    }

    fn spot_check(&mut self, subject: &dyn Subject) -> Result<(), String> {
        for _ in 0..20 {
            let key = self.profile.any_key(&mut self.rng);
            let found = subject.get(&key).map_err(|error| format!("get after recovery: {error}"))?;
            let expected = self.model.now().get(&key);
            if found.as_ref() != expected {
                let (key, found, expected) = (show(&key), show_value(found.as_ref()), show_value(expected));
                return Err(format!("I5 after recovery a get of {key} answered {found}, a scan {expected}"));
            }
        }
        Ok(())
    }
}

fn everything(subject: &dyn Subject) -> Answer<Pairs> {
    Ok(collect(&*subject.snapshot()?)?.into_iter().collect())
}
