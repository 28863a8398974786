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
    /// Any that nobody writes.
    Random,
    /// The one behind the last that was begun.
    Sequential,
}

/// The ranges of a drive, shared by its writers.
#[derive(Debug)]
pub struct Ranges {
    state: RefCell<State>,
    count: u64,
    /// Bytes from range to range, and bytes of a range.
    pitch: u64,
    bytes: u64,
    zoned: bool,
    order: Order,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    last: u64,
    in_use: Vec<u64>,
}

impl Ranges {
    /// `count` ranges of `bytes`, `pitch` bytes apart; of zones if `zoned`.
    #[must_use]
    pub fn new(count: u64, pitch: u64, bytes: u64, zoned: bool, (order, seed): (Order, u64)) -> Rc<Self> {
        let state = State { rng: Rng::seeded(seed), last: count - 1, in_use: Vec::new() };
        Rc::new(Self { state: RefCell::new(state), count, pitch, bytes, zoned, order })
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

    fn take(&self) -> u64 {
        let state = &mut *self.state.borrow_mut();
        loop {
            let range = match self.order {
                Order::Random => state.rng.below(self.count),
                Order::Sequential => (state.last + 1) % self.count,
            };
            state.last = range;
            if !state.in_use.contains(&range) {
                state.in_use.push(range);
                return range;
            }
        }
    }

    fn give_back(&self, range: u64) {
        self.state.borrow_mut().in_use.retain(|&used| used != range);
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
            self.ranges.give_back(range);
        }
        let range = self.ranges.take();
        (self.current, self.clearing) = (Some((range, 0)), true);
        Some((now, self.ranges.clear(range)))
    }

    fn answered(&mut self, submitted: Nanos, answer: &Answer) {
        if !self.clearing {
            self.tally.record(submitted, answer, self.bytes);
        }
    }
}
