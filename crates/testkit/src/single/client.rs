//! One client: does an operation on subject and model, and compares.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use zonda_rt::Rng;

use crate::{
    Answer, Change, Operation, Refusal, Subject, View,
    model::{Pairs, show, show_value},
    operation::{Span, borrowed},
    restructures::Restructures,
    subject::check_refusal,
};

use super::Single;

/// Snapshots held at a time.
const HELD_MAX: usize = 3;

/// Whether the client may go on, or what was wrong.
type Went = Result<bool, String>;

/// The client during one life of the subject.
pub(super) struct Client<'a> {
    run: &'a mut Single,
    subject: &'a dyn Subject,
    /// Snapshots and what they must show.
    held: VecDeque<(Box<dyn View>, Pairs)>,
    restructures: Restructures,
}

impl<'a> Client<'a> {
    pub(super) fn new(run: &'a mut Single, subject: &'a Arc<dyn Subject>) -> Self {
        let restructures = Restructures::since(subject.tally());
        Self { run, subject: &**subject, held: VecDeque::new(), restructures }
    }

    /// One operation; false when the power has gone.
    pub(super) fn step(&mut self) -> Went {
        let number = self.run.outcome.steps;
        let operation = Operation::draw(&mut self.run.rng, &self.run.profile, number);
        self.run.say(|| describe(&operation));
        let goes_on = self.perform(operation)? && self.run.world.cut().is_none();
        self.restructures.note(self.subject.tally());
        if !goes_on {
            self.restructures.cut(&mut self.run.outcome);
        }
        self.run.outcome.steps += 1;
        Ok(goes_on)
    }

    fn perform(&mut self, operation: Operation) -> Went {
        match operation {
            Operation::Write { changes, synced } => self.write(changes, synced),
            Operation::Replace { key, matching, value, synced } => self.replace(key, matching, value, synced),
            Operation::Get(key) => self.get(&key),
            Operation::GetMany(keys) => self.get_many(&keys),
            Operation::Scan(span) => self.scan(&span),
            Operation::Hold => self.hold(),
            Operation::Look(span) => self.look(&span),
            Operation::Release => {
                self.held.pop_front();
                Ok(true)
            }
            Operation::Sync => self.sync(),
            Operation::Checkpoint => self.checkpoint(),
            Operation::Compact => self.compact(),
            Operation::Pause(duration) => {
                zonda_rt::sleep(duration);
                Ok(true)
            }
        }
    }

    fn write(&mut self, changes: Vec<Change>, synced: bool) -> Went {
        let answer = self.subject.write(&changes, synced);
        let only_deletes = changes.iter().all(|change| change.value().is_none());
        self.changed(answer, changes, synced, only_deletes).map(|done| done.is_some())
    }

    fn replace(&mut self, key: Vec<u8>, matching: bool, value: Vec<u8>, synced: bool) -> Went {
        let current = self.run.model.now().get(&key).cloned();
        let expected = if matching { current.clone() } else { Some(value.clone()) };
        let answer = self.subject.replace(&key, expected.as_deref(), &value, synced);
        let matched = expected == current;
        let changes = if matched { vec![Change::Put { key: key.clone(), value }] } else { Vec::new() };
        match self.changed(answer, changes, synced && matched, false)? {
            Some(Some(before)) if before != current => Err(wrong("replace", &key, current.as_ref(), before.as_ref())),
            done => Ok(done.is_some()),
        }
    }

    /// Brings the model up to date with a change that was tried; `None` when the power has gone, `Some(None)` when there was no space.
    fn changed<T>(
        &mut self,
        answer: Answer<T>,
        unit: Vec<Change>,
        synced: bool,
        frees: bool,
    ) -> Result<Option<Option<T>>, String> {
        match answer {
            Ok(done) => {
                self.run.model.apply(unit);
                if synced {
                    self.run.model.synced();
                }
                Ok(Some(Some(done)))
            }
            Err(_) if self.run.world.excuse().holds() => {
                self.run.model.apply(unit);
                Ok(None)
            }
            Err(Refusal::NoSpace(why)) if frees => Err(format!("I9 a delete was refused: {why}")),
            Err(Refusal::NoSpace(why)) => {
                self.run.outcome.refused += 1;
                self.check_refusal(&unit, &why)?;
                Ok(Some(None))
            }
            Err(error) => Err(format!("a change failed with the power on: {error}")),
        }
    }

    fn check_refusal(&self, unit: &[Change], why: &str) -> Result<(), String> {
        let live = self.run.model.device_bytes_max(unit, self.subject.inline_bytes());
        check_refusal(live, self.subject, why)
    }

    fn get(&mut self, key: &[u8]) -> Went {
        let Some(found) = self.expect(self.subject.get(key), "get")? else { return Ok(false) };
        self.compare("get", key, found.as_ref())
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Went {
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let Some(found) = self.expect(self.subject.get_many(&slices), "multi-get")? else { return Ok(false) };
        if found.len() != keys.len() {
            return Err(format!("multi-get of {} keys answered {}", keys.len(), found.len()));
        }
        keys.iter()
            .zip(&found)
            .try_for_each(|(key, value)| self.compare("multi-get", key, value.as_ref()).map(drop))?;
        Ok(true)
    }

    fn compare(&self, what: &str, key: &[u8], found: Option<&Vec<u8>>) -> Went {
        let expected = self.run.model.now().get(key);
        if expected == found { Ok(true) } else { Err(wrong(what, key, expected, found)) }
    }

    fn scan(&mut self, span: &Span) -> Went {
        let Some(view) = self.expect(self.subject.snapshot(), "snapshot")? else { return Ok(false) };
        let answer = walk(&*view, self.run.model.now(), span, &mut self.run.rng);
        self.looked(answer, "scan")
    }

    fn hold(&mut self) -> Went {
        let Some(view) = self.expect(self.subject.snapshot(), "snapshot")? else { return Ok(false) };
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back((view, self.run.model.now().clone()));
        Ok(true)
    }

    fn look(&mut self, span: &Span) -> Went {
        if self.held.is_empty() {
            return Ok(true);
        }
        let at = self.run.rng.index(self.held.len());
        let (view, pairs) = &self.held[at];
        let answer = get_some(&**view, pairs, span).and_then(|got| match got {
            Ok(()) => walk(&**view, pairs, span, &mut self.run.rng),
            refused => Ok(refused),
        });
        if let Ok(Err(Refusal::TooOld(_))) = answer {
            self.held.remove(at);
        }
        self.looked(answer, "snapshot scan")
    }

    /// The result of a walk: outer errors are wrong answers, inner ones refusals.
    fn looked(&mut self, answer: Result<Answer<()>, String>, what: &str) -> Went {
        self.run.outcome.looks += 1;
        match answer? {
            Err(Refusal::TooOld(_)) => {
                self.run.outcome.given_up += 1;
                Ok(true)
            }
            answer => self.expect(answer, what).map(|done| done.is_some()),
        }
    }

    fn sync(&mut self) -> Went {
        let done = self.expect(self.subject.sync(), "sync")?;
        if done.is_some() {
            self.run.model.synced();
        }
        Ok(done.is_some())
    }

    fn checkpoint(&mut self) -> Went {
        let done = self.expect(self.subject.checkpoint(), "checkpoint")?;
        if done.is_some() {
            self.run.model.checkpointed();
        }
        Ok(done.is_some())
    }

    fn compact(&mut self) -> Went {
        match self.subject.compact() {
            Err(Refusal::NoSpace(_)) if !self.run.world.excuse().holds() => {
                self.run.outcome.refused += 1;
                Ok(true)
            }
            answer => self.expect(answer, "compact").map(|done| done.is_some()),
        }
    }

    /// An answer that must be good unless something excuses it; `None` when there is an excuse.
    fn expect<T>(&self, answer: Answer<T>, what: &str) -> Result<Option<T>, String> {
        match answer {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.run.world.excuse().holds() => Ok(None),
            Err(error) => Err(format!("{what} failed with the power on: {error}")),
        }
    }
}

/// Keys of a snapshot that are asked for at once.
const GOT_MAX: usize = 12;

/// Gets the bounds of a range and keys in it from a snapshot at once, and compares with what must be there.
fn get_some(view: &dyn View, pairs: &Pairs, span: &Span) -> Result<Answer<()>, String> {
    let (low, high) = borrowed(span);
    let bounds = [low, high].into_iter().filter_map(|bound| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    });
    let inside = if is_empty(span) { None } else { Some(pairs.range::<[u8], _>((low, high))) };
    let inside = inside.into_iter().flatten().map(|(key, _)| key.as_slice());
    let keys: Vec<&[u8]> = bounds.chain(inside).take(GOT_MAX).collect();
    let found = match view.get_many(&keys) {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    for (key, found) in keys.iter().zip(found) {
        let expected = pairs.get(*key);
        if expected != found.as_ref() {
            return Err(wrong("multi-get of a snapshot", key, expected, found.as_ref()));
        }
    }
    Ok(Ok(()))
}

/// Walks a range from both ends, as the generator says, and compares with what must be there.
fn walk(view: &dyn View, pairs: &Pairs, span: &Span, rng: &mut Rng) -> Result<Answer<()>, String> {
    let (low, high) = borrowed(span);
    let mut expected: VecDeque<_> =
        if is_empty(span) { VecDeque::new() } else { pairs.range::<[u8], _>((low, high)).collect() };
    let mut walk = match view.walk(low, high) {
        Ok(walk) => walk,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let backwards = [0.0, 0.5, 1.0][rng.index(3)];
    loop {
        let from_back = rng.chance(backwards);
        let found = match if from_back { walk.prev() } else { walk.next() } {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let wanted = if from_back { expected.pop_back() } else { expected.pop_front() };
        if found.as_ref().map(|(key, value)| (key, value)) != wanted {
            return Err(mismatch(from_back, wanted, found.as_ref()));
        }
        if found.is_none() {
            return Ok(Ok(()));
        }
    }
}

/// Ranges for which `BTreeMap::range` would panic.
fn is_empty((low, high): &Span) -> bool {
    use std::ops::Bound::{Excluded, Included};
    match (low, high) {
        (Included(low), Included(high)) => low > high,
        (Included(low) | Excluded(low), Included(high) | Excluded(high)) => low >= high,
        _ => false,
    }
}

fn mismatch(from_back: bool, wanted: Option<(&Vec<u8>, &Vec<u8>)>, found: Option<&crate::Pair>) -> String {
    let pair = |pair: Option<(&Vec<u8>, &Vec<u8>)>| {
        pair.map_or_else(|| "the end".to_owned(), |(key, value)| format!("{} = {}", show(key), show(value)))
    };
    let end = if from_back { "back" } else { "front" };
    format!("I5 a scan answered from the {end} {}, expected {}", pair(found.map(|(k, v)| (k, v))), pair(wanted))
}

fn wrong(what: &str, key: &[u8], expected: Option<&Vec<u8>>, found: Option<&Vec<u8>>) -> String {
    format!("I5 {what} of {} answered {}, expected {}", show(key), show_value(found), show_value(expected))
}

/// An operation in a line.
fn describe(operation: &Operation) -> String {
    match operation {
        Operation::Write { changes, synced } => {
            let change = |change: &Change| match change {
                Change::Put { key, value } => format!("put {} = {}", show(key), show(value)),
                Change::Delete { key } => format!("delete {}", show(key)),
            };
            let all: Vec<String> = changes.iter().map(change).collect();
            format!("{}{}", if *synced { "synced " } else { "" }, all.join(", "))
        }
        Operation::Get(key) => format!("get {}", show(key)),
        Operation::Replace { key, matching, .. } => format!("replace {} matching {matching}", show(key)),
        other => format!("{other:?}"),
    }
}
