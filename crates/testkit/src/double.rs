//! The simplest subject that keeps its promises: a map in memory and a log of its changes on the device, never cleaned.
//!
//! The harness is tested on it: it must find nothing wrong with a [`LogMap`], and find each of its [`Flaw`]s.

use std::{
    ops::Bound,
    sync::{Arc, Weak},
};

use zonda_device::{AlignedBuf, DeviceError, Geometry, ZoneId, ZonedDevice, cut_label};
use zonda_rt::Mutex;

use crate::{Answer, Change, Maker, Pair, Pairs, Refusal, Subject, Tally, View, Walk, Work, model};

/// A mistake that a [`LogMap`] can be told to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Synced writes are not flushed.
    NoFlush,
    /// Recovery takes the first half of a batch whose record is the last.
    HalfBatch,
    /// Recovery goes on after a gap in the log.
    IgnoresGaps,
    /// Reads sometimes miss the newest value of a key that was deleted and put again.
    StaleReads,
    /// Snapshots show later changes.
    LiveSnapshots,
    /// They do so backwards only.
    LiveBackwards,
    /// A replacement does not exclude other writers.
    LooseReplace,
    /// Some deletes are refused for space, of which there is plenty.
    RefusesDeletes,
    /// Some puts are.
    RefusesPuts,
    /// What was kept for snapshots is kept when they are gone.
    KeepsForEver,
    /// Snapshots are given up as soon as they are taken, from the first write of a life on. No answer is wrong, so that no run fails for
    /// it.
    GivesUp,
    /// A flush that fails while the power is on counts as done. Only where calls fail can that be found.
    TrustsFailedFlushes,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::NoFlush,
        Self::HalfBatch,
        Self::IgnoresGaps,
        Self::StaleReads,
        Self::LiveSnapshots,
        Self::LiveBackwards,
        Self::LooseReplace,
        Self::RefusesDeletes,
        Self::RefusesPuts,
        Self::KeepsForEver,
        Self::GivesUp,
        Self::TrustsFailedFlushes,
    ];
}

/// Makes [`LogMap`]s, flawed or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogMapMaker {
    /// What they do wrong.
    pub flaw: Option<Flaw>,
}

impl Maker for LogMapMaker {
    fn create(&self, ground: crate::Ground) -> Answer<Arc<dyn Subject>> {
        self.open(ground)
    }

    fn open(&self, ground: crate::Ground) -> Answer<Arc<dyn Subject>> {
        let device = ground.zones()?;
        let state = State::recover(&*device, self.flaw)?;
        Ok(Arc::new_cyclic(|this| LogMap { device, flaw: self.flaw, state: Mutex::new(state), this: this.clone() }))
    }
}

/// A map with a log.
pub struct LogMap {
    device: Arc<dyn ZonedDevice>,
    flaw: Option<Flaw>,
    state: Mutex<State>,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    pairs: Pairs,
    /// Values that were overwritten, for stale reads.
    older: Pairs,
    /// The zones that are written, in turn: so a crash leaves gaps.
    zones: [u32; 2],
    /// Times the map was opened.
    life: u64,
    /// Records before the next; equal to `first` before the first of this life.
    sequence: u64,
    first: u64,
}

/// One atomic unit, as it lies in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    life: u64,
    sequence: u64,
    /// Of the first record of a life: what lies at and behind `sequence` from earlier lives is void.
    begins: bool,
    unit: Vec<Change>,
}

const BLOCK: usize = 4096;
const ZONES: u32 = 1 << 11;
const ZONE_BLOCKS: u64 = 256;

/// A device for a [`LogMap`]: large, because it is never cleaned.
#[must_use]
pub fn geometry() -> Geometry {
    Geometry::new(ZONE_BLOCKS * BLOCK as u64, ZONES)
}

impl State {
    /// Replays every record up to the first gap; the next record goes to a new zone.
    fn recover(device: &dyn ZonedDevice, flaw: Option<Flaw>) -> Answer<Self> {
        let mut state = Self { zones: [0, 1], ..Self::default() };
        let mut records: Vec<Record> = Vec::new();
        for zone in device.report(ZoneId(0), ZONES)? {
            let blocks = usize::try_from(zone.written_blocks()).expect("a zone of 256 blocks");
            if blocks > 0 {
                state.zones = [zone.zone.0 + 1, zone.zone.0 + 2];
                let mut bytes = AlignedBuf::with_len(blocks * BLOCK);
                device.read(zone.start, &mut bytes)?;
                records.extend(decode(&bytes));
            }
        }
        records.sort_by_key(|record| (record.life, record.sequence));
        // Void records count too: their numbers must not come again.
        state.life = records.last().map_or(0, |last| last.life) + 1;
        let mut log = Vec::new();
        records.into_iter().for_each(|record| extend(&mut log, record, flaw));
        if let (Some(Flaw::HalfBatch), Some(last)) = (flaw, log.last_mut()) {
            last.unit.truncate(last.unit.len().div_ceil(2));
        }
        log.iter().flat_map(|record| &record.unit).for_each(|change| model::apply(&mut state.pairs, change));
        (state.sequence, state.first) = (log.len() as u64, log.len() as u64);
        Ok(state)
    }

    fn append(&mut self, device: &dyn ZonedDevice, unit: &[Change]) -> Answer<()> {
        let begins = self.sequence == self.first;
        let record = Record { life: self.life, sequence: self.sequence, begins, unit: unit.to_vec() };
        let bytes = AlignedBuf::from_slice(&encode(&record));
        let zone = &mut self.zones[usize::from(self.sequence % 2 == 1)];
        let full = device.report(ZoneId(*zone), 1)?[0].written_blocks() + (bytes.len() / BLOCK) as u64 > ZONE_BLOCKS;
        *zone += 2 * u32::from(full);
        let _label = cut_label("log");
        device.append(ZoneId(*zone), &bytes)?;
        self.sequence += 1;
        Ok(())
    }

    fn apply(&mut self, unit: &[Change]) {
        for change in unit {
            if let Some(old) = self.pairs.get(change.key()) {
                self.older.insert(change.key().to_vec(), old.clone());
            }
            model::apply(&mut self.pairs, change);
        }
    }
}

/// Adds a record to the log, if it continues it.
fn extend(log: &mut Vec<Record>, record: Record, flaw: Option<Flaw>) {
    let life = log.last().map_or(1, |last| last.life);
    if record.begins && record.sequence <= log.len() as u64 {
        log.truncate(usize::try_from(record.sequence).expect("at most the length"));
        log.push(record);
    } else if record.life == life && (record.sequence == log.len() as u64 || flaw == Some(Flaw::IgnoresGaps)) {
        log.push(record);
    }
}

/// Length, checksum, numbers, then each change: whether it puts, lengths, bytes; padded to blocks.
fn encode(record: &Record) -> Vec<u8> {
    let mut body = Vec::new();
    for number in [record.life, record.sequence, u64::from(record.begins)] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    for change in &record.unit {
        body.push(u8::from(change.value().is_some()));
        for part in [change.key(), change.value().unwrap_or_default()] {
            body.extend_from_slice(&(part.len() as u64).to_le_bytes());
            body.extend_from_slice(part);
        }
    }
    let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&u64::from(crc32c::crc32c(&body)).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// The records of a zone, up to the first that is not whole.
fn decode(mut bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
    std::iter::from_fn(move || {
        let mut rest = bytes;
        let len = usize::try_from(take_number(&mut rest)?).ok()?;
        let crc = take_number(&mut rest)?;
        let body = rest.get(..len)?;
        if u64::from(crc32c::crc32c(body)) != crc || len == 0 {
            return None;
        }
        bytes = bytes.get((16 + len).next_multiple_of(BLOCK)..).unwrap_or_default();
        decode_body(body)
    })
}

fn decode_body(mut body: &[u8]) -> Option<Record> {
    let (life, sequence, begins) = (take_number(&mut body)?, take_number(&mut body)?, take_number(&mut body)? == 1);
    let mut unit = Vec::new();
    while let Some((&puts, rest)) = body.split_first() {
        body = rest;
        let (key, value) = (take_part(&mut body)?, take_part(&mut body)?);
        unit.push(if puts == 1 { Change::Put { key, value } } else { Change::Delete { key } });
    }
    Some(Record { life, sequence, begins, unit })
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*head))
}

fn take_part(from: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(take_number(from)?).ok()?;
    let (head, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(head.to_vec())
}

impl LogMap {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn admit(&self, state: &State, unit: &[Change]) -> Answer<()> {
        let frees = unit.iter().all(|change| change.value().is_none());
        let refuses = self.has(if frees { Flaw::RefusesDeletes } else { Flaw::RefusesPuts });
        if refuses && state.sequence % 16 == 15 { Err(Refusal::NoSpace("a flaw".to_owned())) } else { Ok(()) }
    }

    fn commit(&self, state: &mut State, unit: &[Change]) -> Answer<()> {
        state.append(&*self.device, unit)?;
        state.apply(unit);
        Ok(())
    }

    fn flush(&self, wanted: bool) -> Answer<()> {
        if !wanted || self.has(Flaw::NoFlush) {
            return Ok(());
        }
        match self.device.flush() {
            Err(error) if !self.has(Flaw::TrustsFailedFlushes) || matches!(error, DeviceError::PowerLost) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }
}

impl Subject for LogMap {
    fn write(&self, changes: &[Change], synced: bool) -> Answer<()> {
        let mut state = self.state.lock();
        self.admit(&state, changes)?;
        self.commit(&mut state, changes)?;
        drop(state);
        self.flush(synced)
    }

    fn replace(&self, key: &[u8], expected: Option<&[u8]>, value: &[u8], synced: bool) -> Answer<Option<Vec<u8>>> {
        let mut state = self.state.lock();
        let before = state.pairs.get(key).cloned();
        if self.has(Flaw::LooseReplace) {
            drop(state);
            zonda_rt::yield_now();
            state = self.state.lock();
        }
        if before.as_deref() == expected {
            self.commit(&mut state, &[Change::Put { key: key.to_vec(), value: value.to_vec() }])?;
        }
        drop(state);
        self.flush(synced)?;
        Ok(before)
    }

    fn get(&self, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        let state = self.state.lock();
        let stale =
            if self.has(Flaw::StaleReads) && state.sequence.is_multiple_of(16) { state.older.get(key) } else { None };
        Ok(stale.or_else(|| state.pairs.get(key)).cloned())
    }

    fn get_many(&self, keys: &[&[u8]]) -> Answer<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn snapshot(&self) -> Answer<Box<dyn View>> {
        let live =
            (self.has(Flaw::LiveSnapshots) || self.has(Flaw::LiveBackwards)).then(|| self.this.upgrade()).flatten();
        let state = self.state.lock();
        let given_up = self.has(Flaw::GivesUp) && state.sequence > state.first;
        Ok(Box::new(LogMapView { pairs: state.pairs.clone(), live, given_up }))
    }

    fn sync(&self) -> Answer<()> {
        self.flush(true)
    }

    fn checkpoint(&self) -> Answer<()> {
        self.flush(true)
    }

    fn compact(&self) -> Answer<()> {
        Ok(())
    }

    fn step(&self, _: Work) -> Answer<bool> {
        Ok(false)
    }

    fn check(&self) -> Answer<()> {
        Ok(())
    }

    fn close(&self) -> Answer<()> {
        self.flush(true)
    }

    fn usable_bytes(&self) -> u64 {
        geometry().capacity_bytes()
    }

    fn tally(&self) -> Tally {
        Tally { kept_bytes: u64::from(self.has(Flaw::KeepsForEver)), ..Tally::default() }
    }
}

/// A copy of the map, or with the flaw the map itself.
struct LogMapView {
    pairs: Pairs,
    live: Option<Arc<LogMap>>,
    given_up: bool,
}

impl View for LogMapView {
    fn walk(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Answer<Box<dyn Walk + '_>> {
        if self.given_up {
            return Err(Refusal::TooOld("a flaw".to_owned()));
        }
        let now = self.live.as_ref().map(|map| (map.has(Flaw::LiveSnapshots), map.state.lock().pairs.clone()));
        // One bound at a time: a range of both would panic where they cross.
        let is_above = move |key: &[u8]| match low {
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
            Bound::Unbounded => true,
        };
        let is_below = move |key: &[u8]| match high {
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
            Bound::Unbounded => true,
        };
        let lies_within = move |key: &[u8]| is_above(key) && is_below(key);
        let within = |pairs: Pairs| -> std::vec::IntoIter<Pair> {
            pairs.into_iter().filter(|(key, _)| lies_within(key)).collect::<Vec<_>>().into_iter()
        };
        let (front, back) = match now {
            Some((true, now)) => (within(now), None),
            now => (within(self.pairs.clone()), now.map(|(_, now)| within(now))),
        };
        Ok(Box::new(LogMapWalk { front, back }))
    }
}

/// Both ends of a range; with a flaw the back is that of another.
struct LogMapWalk {
    front: std::vec::IntoIter<Pair>,
    back: Option<std::vec::IntoIter<Pair>>,
}

impl Walk for LogMapWalk {
    fn next(&mut self) -> Answer<Option<Pair>> {
        Ok(self.front.next())
    }

    fn prev(&mut self) -> Answer<Option<Pair>> {
        Ok(self.back.as_mut().unwrap_or(&mut self.front).next_back())
    }
}
