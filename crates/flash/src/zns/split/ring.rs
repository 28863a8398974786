//! The SubZone Ring: writes to subzones wait in memory, in a queue for each chip, and a flush takes one page (of all
//! planes) from every queue, so that all chips work at once on what few subzones would keep one chip busy with.
//!
//! A write is done when it is in the ring. When the ring is full, steps are taken until there is room for what waits. A
//! page that is not complete stays: its subzone adds to it, or finishes. What is in the ring is read from there: a
//! subzone knows up to where it is on flash, so no queue is searched.
use std::collections::VecDeque;

use super::{Id, ZonedModel};
use crate::core::{Nanos, RequestId};

/// Pages of subzones on their way to flash. Always: `used` is what is in the ring or being programmed from it.
#[derive(Debug)]
pub(super) struct Ring {
    capacity: u64,
    used: u64,
    in_flight: u64,
    /// Whole pages by chip: whose, and where in the subzone they end.
    chips: Vec<VecDeque<(Id, u64)>>,
    /// Writes that wait for room, in order.
    waiting: VecDeque<(RequestId, Id, u64)>,
}

impl Ring {
    pub(super) fn new(chips: usize, capacity: u64) -> Self {
        Self { capacity, used: 0, in_flight: 0, chips: vec![VecDeque::new(); chips], waiting: VecDeque::new() }
    }

    /// Forgets what is in it, but not what is being programmed.
    pub(super) fn forget(&mut self) {
        self.chips.iter_mut().for_each(VecDeque::clear);
        self.used = self.in_flight;
    }

    fn fits(&self, bytes: u64) -> bool {
        self.used == 0 || self.used + bytes <= self.capacity
    }

    /// True if what is being programmed makes too little room for what waits.
    fn wants_a_step(&self) -> bool {
        let needed: u64 = self.waiting.iter().map(|&(_, _, bytes)| bytes).sum();
        !self.waiting.is_empty() && (self.used - self.in_flight) + needed > self.capacity
    }
}

impl ZonedModel {
    /// A write comes to the ring.
    pub(super) fn ring_takes(&mut self, at: Nanos, request: RequestId, id: Id, bytes: u64) {
        let ring = &mut self.splits().ring;
        if ring.waiting.is_empty() && ring.fits(bytes) {
            return self.ring_admits(request, id, bytes);
        }
        ring.waiting.push_back((request, id, bytes));
        self.splits().counts.ring_waits += 1;
        self.ring_makes_room(at);
    }

    fn ring_admits(&mut self, request: RequestId, id: Id, bytes: u64) {
        let unit = self.shape.unit_bytes;
        let splits = self.splits();
        splits.ring.used += bytes;
        let chip = splits.chip_of(id);
        let timing = &mut splits.subzone(id).timing;
        let before = timing.admitted();
        timing.admit(bytes);
        let after = timing.admitted();
        let is_full = after >= splits.subzone_bytes;
        let queue = &mut splits.ring.chips[usize::from(chip)];
        queue.extend((before / unit + 1..=after / unit).map(|page| (id, page * unit)));
        if is_full && !after.is_multiple_of(unit) {
            queue.push_back((id, after));
        }
        if !self.core.shape().early_ack {
            self.core.release(request);
        }
    }

    /// Takes steps while what waits would not find room otherwise.
    fn ring_makes_room(&mut self, at: Nanos) {
        while self.splits().ring.wants_a_step() {
            if !self.ring_step(at) {
                // Nothing but incomplete pages: they have to go as they are.
                if !self.ring_takes_rests() {
                    return;
                }
            }
        }
    }

    /// Flushes one page of every chip that has one; false if none has.
    fn ring_step(&mut self, at: Nanos) -> bool {
        let chips = self.splits().ring.chips.len();
        let mut pages = 0;
        for chip in 0..chips {
            let Some((id, end)) = self.splits().ring.chips[chip].pop_front() else { continue };
            let bytes = end - self.splits().subzone(id).timing.dispatched();
            self.splits().ring.in_flight += bytes;
            self.program_page(at, id, end, None);
            pages += 1;
        }
        let counts = &mut self.splits().counts;
        counts.ring_steps += u64::from(pages > 0);
        counts.ring_pages += pages;
        pages > 0
    }

    /// Puts the incomplete page of a subzone into its queue.
    pub(super) fn ring_takes_rest(&mut self, id: Id) -> bool {
        let unit = self.shape.unit_bytes;
        let splits = self.splits();
        let timing = &splits.subzone(id).timing;
        let end = timing.admitted();
        if end.is_multiple_of(unit) || timing.dispatched() >= end {
            return false;
        }
        let chip = usize::from(splits.chip_of(id));
        if splits.ring.chips[chip].contains(&(id, end)) {
            return false;
        }
        splits.ring.chips[chip].push_back((id, end));
        true
    }

    fn ring_takes_rests(&mut self) -> bool {
        let ids: Vec<Id> = self.in_ring().into_iter().map(|(zone, index, _)| (zone, index)).collect();
        ids.into_iter().fold(false, |any, id| self.ring_takes_rest(id) | any)
    }

    /// Flushes everything: what a flush does when the ring is lost with the power.
    pub(super) fn drain_ring(&mut self, at: Nanos) {
        self.ring_takes_rests();
        while self.ring_step(at) {}
    }

    /// A page of the ring is on flash.
    pub(super) fn ring_flushed(&mut self, at: Nanos, bytes: u64) {
        let ring = &mut self.splits().ring;
        ring.used -= bytes;
        ring.in_flight -= bytes;
        self.ring_lets_in(at);
    }

    fn ring_lets_in(&mut self, at: Nanos) {
        while let Some(&(request, id, bytes)) = self.splits().ring.waiting.front() {
            if !self.splits().ring.fits(bytes) {
                break;
            }
            self.splits().ring.waiting.pop_front();
            self.ring_admits(request, id, bytes);
        }
        self.ring_makes_room(at);
    }

    /// A subzone was reset: what is in the ring of it, and not on its way, is not needed.
    pub(super) fn ring_drops(&mut self, at: Nanos, id: Id, bytes: u64) {
        let ring = &mut self.splits().ring;
        if ring.capacity == 0 {
            return;
        }
        ring.chips.iter_mut().for_each(|queue| queue.retain(|&(other, _)| other != id));
        ring.used -= bytes;
        self.ring_lets_in(at);
    }
}
