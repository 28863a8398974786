//! Writers of whole ranges: a range is trimmed (or its zone reset) and written from its start to its end, then another is
//! chosen. On zones and on a conventional drive alike, this is how the ZNS paper compares them.
use std::cell::RefCell;
use std::rc::Rc;

use zonda_rt::Rng;

use crate::clients::{Client, Tally};
use crate::core::Nanos;
use crate::model::{Answer, Command};
use crate::workload::Pace;

/// Which range is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each once, in an order that is drawn, so that the drive is full; then any that nobody writes.
    Random,
    /// The one behind the last that was begun.
    Sequential,
}

/// Hands out ranges to be written, none to two writers at a time.
#[derive(Debug)]
pub struct Turns {
    order: Order,
    count: u64,
    rng: Rng,
    /// Of [`Order::Random`]: those that were never handed out, the next one last.
    unwritten: Vec<u64>,
    last: u64,
    in_use: Vec<u64>,
}

impl Turns {
    /// Of ranges `0..count`, of which there are more than writers.
    #[must_use]
    pub fn new(order: Order, count: u64, mut rng: Rng) -> Self {
        let mut unwritten = Vec::new();
        if order == Order::Random {
            unwritten.extend(0..count);
            rng.shuffle(&mut unwritten);
        }
        Self { order, count, rng, unwritten, last: count - 1, in_use: Vec::new() }
    }

    /// The range to write next, in use from now on.
    pub fn take(&mut self) -> u64 {
        loop {
            let range = match self.order {
                Order::Random => self.unwritten.pop().unwrap_or_else(|| self.rng.below(self.count)),
                Order::Sequential => (self.last + 1) % self.count,
            };
            self.last = range;
            if !self.in_use.contains(&range) {
                self.in_use.push(range);
                return range;
            }
        }
    }

    /// Its writer is done with it.
    pub fn give_back(&mut self, range: u64) {
        self.in_use.retain(|&used| used != range);
    }
}

/// The ranges of a drive, shared by its writers.
#[derive(Debug)]
pub struct Ranges {
    turns: RefCell<Turns>,
    count: u64,
    /// Bytes from range to range, and bytes of a range.
    pitch: u64,
    bytes: u64,
    zoned: bool,
}

impl Ranges {
    /// `count` ranges of `bytes`, `pitch` bytes apart; of zones if `zoned`.
    #[must_use]
    pub fn new(count: u64, pitch: u64, bytes: u64, zoned: bool, (order, seed): (Order, u64)) -> Rc<Self> {
        let turns = RefCell::new(Turns::new(order, count, Rng::seeded(seed)));
        Rc::new(Self { turns, count, pitch, bytes, zoned })
    }

    /// Bytes of all ranges.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.count * self.bytes
    }

    /// Starts of all ranges, in bytes.
    #[must_use]
    pub fn starts(&self) -> Rc<[u64]> {
        (0..self.count).map(|range| range * self.pitch).collect()
    }

    fn clear(&self, range: u64) -> Command {
        match self.zoned {
            true => Command::Reset { zone: u32::try_from(range).unwrap_or(u32::MAX) },
            false => Command::Trim { at: range * self.pitch, bytes: self.bytes },
        }
    }
}

/// Writes range after range.
#[derive(Debug)]
pub struct RangeWriter {
    /// Bytes written and latencies, resets and trims not counted.
    pub tally: Tally,
    /// When writes are submitted.
    pub pace: Pace,
    ranges: Rc<Ranges>,
    current: Option<(u64, u64)>,
    bytes: u64,
    clearing: bool,
}

impl RangeWriter {
    /// Writes `bytes` at a time.
    #[must_use]
    pub fn new(ranges: Rc<Ranges>, bytes: u64) -> Self {
        Self { tally: Tally::default(), pace: Pace::unlimited(), ranges, current: None, bytes, clearing: false }
    }
}

impl Client for RangeWriter {
    fn next(&mut self, now: Nanos) -> Option<(Nanos, Command)> {
        if let Some((range, offset)) = self.current {
            if offset + self.bytes <= self.ranges.bytes {
                self.clearing = false;
                self.current = Some((range, offset + self.bytes));
                let at = range * self.ranges.pitch + offset;
                return Some((self.pace.next(now), Command::Write { at, bytes: self.bytes, stream: 0 }));
            }
            self.ranges.turns.borrow_mut().give_back(range);
        }
        let range = self.ranges.turns.borrow_mut().take();
        (self.current, self.clearing) = (Some((range, 0)), true);
        Some((now, self.ranges.clear(range)))
    }

    fn answered(&mut self, submitted: Nanos, answer: &Answer) {
        if !self.clearing {
            self.tally.record(submitted, answer, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A drive that is said to be full has no range that was never written.
    #[test]
    fn every_range_is_written_once_before_any_is_written_again() {
        for order in [Order::Random, Order::Sequential] {
            let ranges = Ranges::new(64, 4096, 4096, false, (order, 1));
            let turn = || {
                let range = ranges.turns.borrow_mut().take();
                ranges.turns.borrow_mut().give_back(range);
                range
            };
            let first: Vec<u64> = (0..64).map(|_| turn()).collect();
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 64, "{order:?}: {first:?}");
            let again: Vec<u64> = (0..64).map(|_| turn()).collect();
            assert_eq!(first == again, order == Order::Sequential, "{again:?}");
        }
    }

    #[test]
    fn no_range_has_two_writers() {
        let mut turns = Turns::new(Order::Random, 5, Rng::seeded(1));
        let mut held: Vec<u64> = (0..4).map(|_| turns.take()).collect();
        for _ in 0..100 {
            turns.give_back(held.remove(0));
            held.push(turns.take());
            assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), 4, "{held:?}");
        }
    }
}
