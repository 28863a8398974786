//! One of several clients: does operations and writes down what it saw and when.

use std::{collections::BTreeMap, sync::Arc};

use zonda_rt::{
    Rng,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    Answer, Change, Event, Excuse, Pair, Refusal, Subject, View,
    history::{Shown, Value},
    model::show,
    restructures::Restructures,
    subject::{check_refusal, collect, collect_backwards},
};

use super::registers::{BATCH_MAX, GROUP, GROUPS, Registers, decode};

/// Of twenty steps, how many write.
const WRITES: u64 = 12;

/// What a client saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: Vec<(u32, Event)>,
    /// The latest call of a sync or synced write that returned.
    pub(super) synced_until: u64,
    /// What snapshots showed.
    pub(super) shown: Vec<Shown>,
    pub(super) steps: u64,
    pub(super) refused: u64,
    /// Snapshots walked, and those of them that had been given up.
    pub(super) looks: u64,
    /// See `looks`.
    pub(super) given_up: u64,
    pub(super) restructures: Restructures,
}

/// What a snapshot shows forwards, backwards and key by key.
type Looks = (Vec<Pair>, Vec<Pair>, Vec<Option<Vec<u8>>>);

/// A client.
pub(super) struct Client {
    subject: Arc<dyn Subject>,
    excuse: Excuse,
    clock: Arc<AtomicU64>,
    registers: Registers,
    rng: Rng,
    seen: Seen,
    /// The last value that it saw of each key, for replacements.
    known: BTreeMap<u32, Value>,
}

/// Whether to go on, or what was wrong.
type Went = Result<bool, String>;

impl Client {
    pub(super) fn new(
        subject: &Arc<dyn Subject>,
        excuse: Excuse,
        clock: &Arc<AtomicU64>,
        registers: Registers,
        rng: Rng,
    ) -> Self {
        let (subject, clock) = (Arc::clone(subject), Arc::clone(clock));
        let seen = Seen { restructures: Restructures::since(subject.tally()), ..Seen::default() };
        Self { subject, excuse, clock, registers, rng, seen, known: BTreeMap::new() }
    }

    /// Does up to `steps` operations, until the power goes; only the first `writing_steps` may write.
    pub(super) fn run(mut self, steps: u64, writing_steps: u64) -> Result<Seen, String> {
        for step in 0..steps {
            let goes_on = self.step(step < writing_steps)?;
            self.seen.steps += 1;
            self.seen.restructures.note(self.subject.tally());
            if !goes_on || self.excuse.is_cut() {
                break;
            }
        }
        Ok(self.seen)
    }

    fn step(&mut self, may_write: bool) -> Went {
        let key = self.any_key();
        let drawn = if may_write { self.rng.below(20) } else { WRITES + self.rng.below(20 - WRITES) };
        match drawn {
            0..5 => self.put(key),
            5..6 => self.write(vec![(key, None)]),
            6..8 => self.put_group(),
            8..9 => self.put_some(),
            9..WRITES => self.replace(key),
            WRITES..15 => self.get_any(),
            15..16 => self.get_many(),
            16..18 => self.look(),
            18..19 => self.sync(),
            _ => {
                zonda_rt::sleep(std::time::Duration::from_micros(self.rng.below(500)));
                Ok(true)
            }
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A key outside the groups, which only batches write.
    fn any_key(&mut self) -> u32 {
        let first = GROUPS * GROUP;
        first + u32::try_from(self.rng.below(u64::from(self.registers.count - first))).expect("below a u32")
    }

    fn any_register(&mut self) -> u32 {
        u32::try_from(self.rng.below(u64::from(self.registers.count))).expect("below a u32")
    }

    fn put(&mut self, key: u32) -> Went {
        let number = self.tick();
        self.write(vec![(key, Some(number))])
    }

    fn put_group(&mut self) -> Went {
        let group = u32::try_from(self.rng.below(u64::from(GROUPS))).expect("below a u32");
        let number = if self.rng.chance(0.15) { None } else { Some(self.tick()) };
        self.write(Registers::group(group).map(|key| (key, number)).collect())
    }

    /// A batch of keys that others write too, in any order, each once.
    fn put_some(&mut self) -> Went {
        let mut writes: Vec<(u32, Value)> = Vec::new();
        for _ in 0..2 + self.rng.below(BATCH_MAX - 1) {
            let key = self.any_key();
            if writes.iter().all(|(other, _)| *other != key) {
                let number = if self.rng.chance(0.15) { None } else { Some(self.tick()) };
                writes.push((key, number));
            }
        }
        self.write(writes)
    }

    fn write(&mut self, writes: Vec<(u32, Value)>) -> Went {
        let synced = self.rng.chance(0.15);
        let changes: Vec<Change> = writes.iter().map(|&(key, number)| self.change(key, number)).collect();
        let called = self.tick();
        let answer = self.subject.write(&changes, synced);
        let frees = writes.iter().all(|(_, number)| number.is_none());
        let Some(returned) = self.returned(&answer, called, synced, frees)? else { return Ok(true) };
        for (key, number) in writes {
            self.seen.events.push((key, Event { called, returned, sees: None, leaves: Some(number), synced }));
        }
        Ok(returned.is_some())
    }

    fn change(&self, key: u32, number: Value) -> Change {
        let key = self.registers.key(key);
        match number {
            Some(number) => Change::Put { key, value: self.registers.value(number) },
            None => Change::Delete { key },
        }
    }

    /// When a change returned: `None` if it was refused, `Some(None)` if it was cut short.
    fn returned<T>(
        &mut self,
        answer: &Answer<T>,
        called: u64,
        synced: bool,
        frees: bool,
    ) -> Result<Option<Option<u64>>, String> {
        match answer {
            Ok(_) => {
                if synced {
                    self.seen.synced_until = self.seen.synced_until.max(called);
                }
                Ok(Some(Some(self.tick())))
            }
            Err(_) if self.excuse.holds() => Ok(Some(None)),
            Err(Refusal::NoSpace(why)) if frees => Err(format!("I9 a delete was refused: {why}")),
            Err(Refusal::NoSpace(why)) => {
                self.seen.refused += 1;
                check_refusal(self.registers.device_bytes_max(self.subject.inline_bytes()), &*self.subject, why)?;
                Ok(None)
            }
            Err(error) => Err(format!("a change failed with the power on: {error}")),
        }
    }

    fn replace(&mut self, key: u32) -> Went {
        let expected = self.known.get(&key).copied().flatten();
        let number = self.tick();
        let (key_bytes, value) = (self.registers.key(key), self.registers.value(number));
        let expected_bytes = expected.map(|number| self.registers.value(number));
        let synced = self.rng.chance(0.15);
        let called = self.tick();
        let answer = self.subject.replace(&key_bytes, expected_bytes.as_deref(), &value, synced);
        let matched = |before: &Option<Vec<u8>>| *before == expected_bytes;
        let durable = synced && answer.as_ref().is_ok_and(matched);
        let Some(returned) = self.returned(&answer, called, durable, false)? else { return Ok(true) };
        let before = match &answer {
            Ok(before) => self.decode(before.as_deref())?,
            Err(_) => expected,
        };
        let leaves = (before == expected).then_some(Some(number));
        self.known.insert(key, leaves.unwrap_or(before));
        self.seen.events.push((key, Event { called, returned, sees: Some(before), leaves, synced: durable }));
        Ok(returned.is_some())
    }

    /// Reads a key, of a group or not.
    fn get_any(&mut self) -> Went {
        let key = self.any_register();
        let called = self.tick();
        let answer = self.subject.get(&self.registers.key(key));
        let Some(value) = self.expect(answer, "get")? else { return Ok(false) };
        self.saw(key, called, value.as_deref())?;
        Ok(true)
    }

    fn get_many(&mut self) -> Went {
        let keys: Vec<u32> = (0..3).map(|_| self.any_register()).collect();
        let bytes: Vec<Vec<u8>> = keys.iter().map(|&key| self.registers.key(key)).collect();
        let slices: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let called = self.tick();
        let answer = self.subject.get_many(&slices);
        let Some(values) = self.expect(answer, "multi-get")? else { return Ok(false) };
        for (key, value) in keys.into_iter().zip(values) {
            self.saw(key, called, value.as_deref())?;
        }
        Ok(true)
    }

    /// Takes a snapshot and looks at all of it later, and again: the values are those of the moment at which it was taken.
    fn look(&mut self) -> Went {
        let called = self.tick();
        let answer = self.subject.snapshot();
        let Some(view) = self.expect(answer, "snapshot")? else { return Ok(false) };
        let returned = self.tick();
        zonda_rt::sleep(std::time::Duration::from_micros(self.rng.below(300)));
        self.seen.looks += 1;
        let answer = match self.look_twice(&*view) {
            Err(Refusal::TooOld(_)) => {
                self.seen.given_up += 1;
                return Ok(true);
            }
            answer => answer,
        };
        let Some((pairs, backwards, values)) = self.expect(answer, "snapshot scan")? else { return Ok(false) };
        if backwards != pairs {
            return Err(format!("I5 a snapshot showed {}, and later backwards {}", list(&pairs), list(&backwards)));
        }
        let mut found: BTreeMap<u32, Value> = (0..self.registers.count).map(|key| (key, None)).collect();
        for (key, value) in pairs {
            found.insert(self.registers.number_of(&key)?, self.decode(Some(&value))?);
        }
        self.registers.check_groups(&found)?;
        for (&key, value) in found.keys().zip(&values) {
            let value = self.decode(value.as_deref())?;
            if value != found[&key] {
                return Err(format!(
                    "I5 a multi-get of a snapshot saw {value:?} of key {key}, a walk {:?}",
                    found[&key]
                ));
            }
        }
        let read = |value| Event { called, returned: Some(returned), sees: Some(value), leaves: None, synced: false };
        self.seen.events.extend(found.iter().map(|(&key, &value)| (key, read(value))));
        self.seen.shown.push(Shown { called, returned, found });
        Ok(true)
    }

    /// What a snapshot shows to a walk, some time later to one from the back, and what it has of each key in the order of their numbers.
    fn look_twice(&mut self, view: &dyn View) -> Answer<Looks> {
        let pairs = collect(view)?;
        zonda_rt::sleep(std::time::Duration::from_micros(self.rng.below(300)));
        let backwards = collect_backwards(view)?;
        let keys: Vec<Vec<u8>> = (0..self.registers.count).map(|key| self.registers.key(key)).collect();
        let values = view.get_many(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        Ok((pairs, backwards, values))
    }

    fn sync(&mut self) -> Went {
        let called = self.tick();
        let answer = self.subject.sync();
        let done = self.expect(answer, "sync")?;
        if done.is_some() {
            self.seen.synced_until = self.seen.synced_until.max(called);
        }
        Ok(done.is_some())
    }

    fn saw(&mut self, key: u32, called: u64, value: Option<&[u8]>) -> Result<(), String> {
        let value = self.decode(value)?;
        let returned = Some(self.tick());
        self.known.insert(key, value);
        self.seen.events.push((key, Event { called, returned, sees: Some(value), leaves: None, synced: false }));
        Ok(())
    }

    fn decode(&self, value: Option<&[u8]>) -> Result<Value, String> {
        value.map(|value| decode(self.registers, value)).transpose()
    }

    /// An answer that must be good unless something excuses it; `None` when there is an excuse.
    fn expect<T>(&self, answer: Answer<T>, what: &str) -> Result<Option<T>, String> {
        match answer {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.excuse.holds() => Ok(None),
            Err(error) => Err(format!("{what} failed with the power on: {error}")),
        }
    }
}

/// Pairs for people.
fn list(pairs: &[Pair]) -> String {
    let all: Vec<String> = pairs.iter().map(|(key, value)| format!("{} = {}", show(key), show(value))).collect();
    all.join(", ")
}
