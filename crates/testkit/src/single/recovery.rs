//! Opening after a cut, with more cuts during recovery, and comparing what is there with the model.

use std::sync::Arc;

use zonda_device::CutAt;

use crate::{
    Answer, Subject,
    model::{Pairs, show, show_value},
    subject::collect,
};

use super::Single;

/// Openings of which some are cut short; the last is not.
const ATTEMPTS: u32 = 3;

impl Single {
    /// Turns the power on and opens the store until an opening is not cut short; then everything is compared.
    pub(super) fn reopen(&mut self) -> Result<Arc<dyn Subject>, String> {
        self.restart();
        for attempt in 0..=ATTEMPTS {
            if attempt < ATTEMPTS && self.rng.chance(0.2) {
                self.world.arm(CutAt::Operation(1 + self.rng.below(self.opening.max(1))));
            }
            let opened = self.world.open();
            self.world.arm(None);
            match opened {
                Ok(subject) if self.world.cut().is_none() => {
                    self.opening = self.world.power().operations();
                    self.verify(&*subject)?;
                    return Ok(subject);
                }
                Err(error) if self.world.cut().is_none() => {
                    return Err(format!("open failed with the power on: {error}"));
                }
                _ => {}
            }
            self.restart();
            self.outcome.hit("recovery");
        }
        unreachable!("the last opening is not cut short")
    }

    fn restart(&mut self) {
        let report = self.world.cut();
        if let Some(report) = report.filter(|report| report.label != "recovery") {
            self.outcome.hit(report.label);
        }
        self.outcome.cuts += 1;
        if self.model.is_unlogged() {
            self.outcome.hit("no log");
        }
        self.say(|| format!("--- power cut: {report:?}"));
        self.world.restart(&mut self.rng);
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
