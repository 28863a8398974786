//! Clients for measurements: random readers and writers of zones or ranges, with or without a rate.
use std::cell::Cell;
use std::rc::Rc;

use zonda_rt::Rng;

use crate::clients::{Client, Tally};
use crate::core::Nanos;
use crate::model::{Answer, Command};

/// When commands are submitted: at once, or spread evenly; a late one does not delay those behind it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval_ns: Nanos,
    due: Nanos,
}

impl Pace {
    /// As fast as answers come.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { interval_ns: 0, due: 0 }
    }

    /// Commands of `bytes` at `bytes_per_s`, from `start` on.
    #[must_use]
    pub fn rate(bytes: u64, bytes_per_s: u64, start: Nanos) -> Self {
        Self { interval_ns: bytes * 1_000_000_000 / bytes_per_s.max(1), due: start }
    }

    /// When the next command is submitted, asked at `now`.
    pub fn next(&mut self, now: Nanos) -> Nanos {
        if self.interval_ns == 0 {
            return now;
        }
        let at = self.due.max(now);
        self.due += self.interval_ns;
        at
    }
}

/// Reads at random, aligned places of a set of ranges of one length.
#[derive(Debug)]
pub struct RandomReader {
    /// What it met.
    pub tally: Tally,
    count_from: Nanos,
    starts: Rc<[u64]>,
    length: u64,
    bytes: u64,
    rng: Rng,
}

impl RandomReader {
    /// Reads of `bytes` in the ranges of `length` bytes from each of `starts`.
    #[must_use]
    pub fn new(starts: Rc<[u64]>, length: u64, bytes: u64, seed: u64) -> Self {
        Self { tally: Tally::default(), count_from: 0, starts, length, bytes, rng: Rng::seeded(seed) }
    }

    /// Counts answers to what is submitted from `at` on: the drive has warmed up then.
    #[must_use]
    pub fn counting_from(mut self, at: Nanos) -> Self {
        self.count_from = at;
        self
    }
}

impl Client for RandomReader {
    fn next(&mut self, now: Nanos) -> Option<(Nanos, Command)> {
        let start = self.starts[self.rng.index(self.starts.len())];
        let at = start + self.rng.below(self.length / self.bytes) * self.bytes;
        Some((now, Command::Read { at, bytes: self.bytes }))
    }

    fn answered(&mut self, submitted: Nanos, answer: &Answer) {
        if submitted >= self.count_from {
            self.tally.record(submitted, answer, self.bytes);
        }
    }
}

/// The zones that a group of writers fills one after the other: each writer takes the next free one.
#[derive(Debug)]
pub struct ZoneSupply {
    next: Cell<u32>,
    zones: u32,
    size_bytes: u64,
    capacity_bytes: u64,
}

impl ZoneSupply {
    /// Zones from `first` on, as many as there are.
    #[must_use]
    pub fn new(first: u32, zones: u32, size_bytes: u64, capacity_bytes: u64) -> Rc<Self> {
        Rc::new(Self { next: Cell::new(first), zones, size_bytes, capacity_bytes })
    }

    fn take(&self) -> u32 {
        let zone = self.next.get();
        assert!(zone < self.zones, "the run is too long for {} zones", self.zones);
        self.next.set(zone + 1);
        zone
    }
}

/// The zone that several writers append to, and how much is in it.
#[derive(Debug)]
pub struct SharedZone {
    supply: Rc<ZoneSupply>,
    at: Cell<Option<(u32, u64)>>,
}

impl SharedZone {
    /// No zone yet.
    #[must_use]
    pub fn new(supply: Rc<ZoneSupply>) -> Rc<Self> {
        Rc::new(Self { supply, at: Cell::new(None) })
    }

    /// The zone and offset of the next `bytes`.
    fn take(&self, bytes: u64) -> (u32, u64) {
        let (zone, offset) = match self.at.get() {
            Some((zone, offset)) if offset + bytes <= self.supply.capacity_bytes => (zone, offset),
            _ => (self.supply.take(), 0),
        };
        self.at.set(Some((zone, offset + bytes)));
        (zone, offset)
    }
}

/// Writes or appends in order, zone after zone.
#[derive(Debug)]
pub struct ZoneWriter {
    /// What it met.
    pub tally: Tally,
    count_from: Nanos,
    zone: Rc<SharedZone>,
    bytes: u64,
    append: bool,
    pace: Pace,
}

impl ZoneWriter {
    /// Writes `bytes` at a time to a zone that other writers may share.
    #[must_use]
    pub fn new(zone: Rc<SharedZone>, bytes: u64, append: bool, pace: Pace) -> Self {
        Self { tally: Tally::default(), count_from: 0, zone, bytes, append, pace }
    }

    /// Counts answers to what is submitted from `at` on: the drive has warmed up then.
    #[must_use]
    pub fn counting_from(mut self, at: Nanos) -> Self {
        self.count_from = at;
        self
    }
}

impl Client for ZoneWriter {
    fn next(&mut self, now: Nanos) -> Option<(Nanos, Command)> {
        let at = self.pace.next(now);
        let (zone, offset) = self.zone.take(self.bytes);
        let command = match self.append {
            true => Command::Append { zone, bytes: self.bytes },
            false => {
                let at = u64::from(zone) * self.zone.supply.size_bytes + offset;
                Command::Write { at, bytes: self.bytes, stream: 0 }
            }
        };
        Some((at, command))
    }

    fn answered(&mut self, submitted: Nanos, answer: &Answer) {
        if submitted >= self.count_from {
            self.tally.record(submitted, answer, self.bytes);
        }
    }
}
