//! A conventional drive: the same flash behind a translation layer.
//!
//! A write is placed when it is admitted to the buffer, in the open superblock of its stream, and programmed when it
//! completes a unit. What it writes of a mapping unit in part shares a slot with more of it that comes before the slot is
//! programmed: until the parts are as much as the unit, so that a byte of the host takes a byte of flash at least. When few superblocks are
//! free, collection reads what is live in a victim unit by unit, places it again, and erases the victim. A write that would take the
//! superblock that collection needs waits in the buffer: that is how collection slows the host down.
pub mod ftl;
mod shape;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use ftl::{Ftl, Slot};
use shape::FOR_COLLECTION;
pub use shape::{ConventionalShape, Policy};

use crate::core::{Class, Core, CoreShape, Done, Erase, HostWrite, Nanos, Program, ReadPart, RequestId};
use crate::jobs::Jobs;
use crate::model::{Answer, Command, FlashWrites, Model, TOKEN_MAX, Ticket};

/// What a flash operation was for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// Programs so many slots of a superblock, in the life that it had after so many erases.
    Unit { block: u32, slots: u32, life: u32, collection: bool },
    /// Read what is live in these slots of the victim.
    Collected { first: u32, end: u32 },
    /// Erases a superblock's part of one die.
    Erase { block: u32 },
}

/// A write that is admitted and not yet placed: bytes of the host.
#[derive(Clone, Copy, Debug)]
struct Placing {
    from: u64,
    to: u64,
    stream: u32,
    /// Without a buffer: the write that waits for its programs.
    request: Option<RequestId>,
}

/// A flush that waits for acknowledged writes to be placed.
#[derive(Clone, Copy, Debug)]
struct ComingFlush {
    token: u64,
    submitted: Nanos,
    /// Writes in front of it.
    writes: usize,
}

/// The victim and how far its collection has come.
#[derive(Clone, Copy, Debug)]
struct Collecting {
    block: u32,
    next: u32,
    reads: u32,
}

/// How far a superblock has come, in slots.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Placed in it.
    placed: u32,
    /// Given to the dies.
    dispatched: u32,
    /// On flash; units are taken to end in their order, which errs by the units in flight only.
    on_flash: u32,
    /// Host's slots among those placed and not dispatched.
    host_waiting: u32,
    /// What of these slots the host wrote.
    host_waiting_bytes: u64,
    /// Dies that are still erasing it.
    erasing: u32,
}

/// What a write is about, by its request's place: bytes of the host.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    from: u64,
    to: u64,
    stream: u32,
}

/// The timing of a conventional drive.
#[derive(Debug)]
pub struct ConventionalModel {
    core: Core,
    shape: ConventionalShape,
    ftl: Ftl,
    progress: Vec<Progress>,
    targets: Vec<Target>,
    placing: VecDeque<Placing>,
    /// Slots in the write buffer that have room for more of their units, with what of them the host wrote.
    unfilled: HashMap<u32, u64>,
    collecting: Option<Collecting>,
    /// Superblocks that are being erased.
    erasing: usize,
    collect_programs: u32,
    host_programs: u64,
    jobs: Jobs,
    /// Flushes that wait for programs: (job, number of the newest program they wait for).
    flushes: Vec<(u64, u64)>,
    /// Flushes before that, in order.
    coming_flushes: VecDeque<ComingFlush>,
    purposes: HashMap<u64, Purpose>,
    tags: u64,
    writes: FlashWrites,
    parts: Vec<ReadPart>,
}

impl ConventionalModel {
    /// An empty drive.
    ///
    /// # Panics
    /// If no drive can be made of the shape: see [`ConventionalShape::check`].
    #[must_use]
    pub fn new(core: CoreShape, shape: ConventionalShape) -> Self {
        assert_eq!(shape.check(), Ok(()), "the shape was checked");
        Self {
            core: Core::new(core),
            ftl: Ftl::new(&shape),
            progress: vec![Progress::default(); shape.superblocks],
            shape,
            targets: Vec::new(),
            placing: VecDeque::new(),
            unfilled: HashMap::new(),
            collecting: None,
            erasing: 0,
            collect_programs: 0,
            host_programs: 0,
            jobs: Jobs::default(),
            flushes: Vec::new(),
            coming_flushes: VecDeque::new(),
            purposes: HashMap::new(),
            tags: 0,
            writes: FlashWrites::default(),
            parts: Vec::new(),
        }
    }

    /// The shape it was made with.
    #[must_use]
    pub fn shape(&self) -> &ConventionalShape {
        &self.shape
    }

    /// The map, for what it can tell.
    #[must_use]
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    fn units_of(&self, at: u64, bytes: u64) -> Range<u64> {
        at / self.shape.map_bytes..(at + bytes).div_ceil(self.shape.map_bytes).min(self.shape.logical_units())
    }

    fn place_of(&self, slot: Slot) -> (u32, u32) {
        let slots = small(self.shape.slots_per_block());
        (slot.0 / slots, slot.0 % slots)
    }

    fn die_of(&self, block: u32, index: u32) -> usize {
        let unit = u64::from(index) / self.shape.slots_per_unit();
        usize::try_from((unit + u64::from(block)) % self.core.shape().dies as u64).expect("below the number of dies")
    }

    fn read(&mut self, now: Nanos, token: u64, at: u64, bytes: u64) -> RequestId {
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        let mut last = None;
        for unit in self.units_of(at, bytes) {
            let from = at.max(unit * self.shape.map_bytes);
            let to = (at + bytes).min((unit + 1) * self.shape.map_bytes);
            last = self.read_unit(unit, to - from, last, &mut parts);
        }
        let request = self.core.read(now, token, &parts, bytes);
        self.parts = parts;
        request
    }

    /// Adds the read of one mapping unit, to the last one's command if it lies behind it in the same program unit, as on zones. Returns
    /// the last page of the command.
    fn read_unit(&self, unit: u64, bytes: u64, last: Option<u64>, parts: &mut Vec<ReadPart>) -> Option<u64> {
        let (place, die) = match self.ftl.lookup(unit) {
            Some(slot) => {
                let (block, index) = self.place_of(slot);
                if index >= self.progress[block as usize].on_flash {
                    return None;
                }
                (u64::from(slot.0), self.die_of(block, index))
            }
            None if self.ftl.is_held(unit) => self.place_of_held(unit),
            None => return None,
        };
        let in_order = self.core.shape().reads_in_order;
        let row = place * self.shape.map_bytes / self.shape.sense_bytes;
        let begins_unit = row.is_multiple_of(self.shape.unit_bytes / self.shape.sense_bytes);
        match parts.last_mut() {
            Some(part) if last == Some(row) => part.bytes += bytes,
            Some(part) if !begins_unit && last == Some(row - 1) => {
                part.senses += 1;
                part.bytes += bytes;
            }
            _ => parts.push(ReadPart { die, senses: 1, bytes, in_order }),
        }
        Some(row)
    }

    /// Where what was written in an earlier life may lie: behind all slots, in the order of units, over all dies.
    fn place_of_held(&self, unit: u64) -> (u64, usize) {
        let place = self.shape.slots_per_block() * self.shape.superblocks as u64 + unit;
        let die = place / self.shape.slots_per_unit() % self.core.shape().dies as u64;
        (place, usize::try_from(die).expect("below the number of dies"))
    }

    /// The drive holds data in every mapping unit that this model does not know of: a read finds it on flash. How it lies there, and what
    /// collection would have to do with it, nobody knows: for writes the drive is new.
    pub fn hold_all(&mut self) {
        self.ftl.hold_all();
    }

    fn write(&mut self, now: Nanos, token: u64, target: Target, bytes: u64) -> RequestId {
        let request = self.core.write(now, token, bytes, HostWrite::Write);
        let place = request.place();
        if self.targets.len() <= place {
            self.targets.resize(place + 1, Target::default());
        }
        self.targets[place] = target;
        request
    }

    fn admitted(&mut self, at: Nanos, request: RequestId, bytes: u64) {
        let Target { from, to, stream } = self.targets[request.place()];
        let units = self.units_of(from, to - from);
        self.core.take_buffer(((units.end - units.start) * self.shape.map_bytes).saturating_sub(bytes));
        let request = (!self.core.shape().early_ack).then_some(request);
        if let Some(request) = request {
            self.core.expect_programs(request, 1);
        }
        self.placing.push_back(Placing { from, to, stream, request });
        self.place_waiting(at);
    }

    /// Places admitted writes while there is a superblock for them.
    fn place_waiting(&mut self, at: Nanos) {
        while let Some(&write) = self.placing.front() {
            let unit_end = (write.from / self.shape.map_bytes + 1) * self.shape.map_bytes;
            let part = Placing { to: write.to.min(unit_end), ..write };
            let Some(slot) = self.join(at, &part).or_else(|| self.place(at, &part)) else { return };
            if part.to < write.to {
                self.placing[0].from = part.to;
                continue;
            }
            self.placing.pop_front();
            if let Some(request) = write.request {
                let (block, _) = self.place_of(slot);
                self.dispatch(at, block, Some(request));
                self.core.release(request);
            }
            self.begin_coming_flushes(at);
        }
    }

    /// Adds a part of a unit to what of it waits in the buffer, if that has room for it, and gives back the room in the buffer that the
    /// part took for a unit.
    fn join(&mut self, at: Nanos, part: &Placing) -> Option<Slot> {
        let (map, bytes) = (self.shape.map_bytes, part.to - part.from);
        if bytes == map {
            return None;
        }
        let slot = self.ftl.lookup(part.from / map)?;
        let held = self.unfilled.get_mut(&slot.0).filter(|held| **held + bytes <= map)?;
        *held += bytes;
        let is_whole = *held == map;
        let (block, index) = self.place_of(slot);
        let progress = &mut self.progress[block as usize];
        progress.host_waiting_bytes += bytes;
        let is_last = progress.placed == index + 1;
        self.core.release_buffer(map);
        if is_whole {
            self.unfilled.remove(&slot.0);
        }
        if is_whole && is_last && self.ends_unit(index) {
            self.dispatch(at, block, None);
        }
        Some(slot)
    }

    /// Gives a unit, or what is written of it, a slot of its own; `None` if it must wait.
    fn place(&mut self, at: Nanos, part: &Placing) -> Option<Slot> {
        if self.must_wait(part.stream) {
            return None;
        }
        let slot = self.ftl.write(part.from / self.shape.map_bytes, part.stream).expect("a superblock is free or open");
        self.placed(at, slot, Some(part));
        Some(slot)
    }

    /// Whether the host may not place a unit: it would take what collection needs to go on, a free superblock, or what is left of
    /// the open one that the two share.
    fn must_wait(&self, stream: u32) -> bool {
        let free = self.ftl.free_blocks();
        let is_shared = self.ftl.shares_with_collection(stream);
        self.ftl.needs_block(stream) && free <= FOR_COLLECTION || is_shared && free < FOR_COLLECTION
    }

    /// A slot has been filled: a unit that is now full is programmed. If it ends with a part of a mapping unit of the host, it waits for
    /// the rest until the next slot is filled, but for the last unit of a superblock.
    fn placed(&mut self, at: Nanos, slot: Slot, host: Option<&Placing>) {
        let (block, index) = self.place_of(slot);
        if u64::from(index).is_multiple_of(self.shape.slots_per_unit()) {
            self.dispatch(at, block, None);
        }
        let progress = &mut self.progress[block as usize];
        progress.placed = index + 1;
        let mut is_part = false;
        if let Some(part) = host {
            let bytes = part.to - part.from;
            progress.host_waiting += 1;
            progress.host_waiting_bytes += bytes;
            is_part = bytes < self.shape.map_bytes && part.request.is_none();
            if is_part {
                self.unfilled.insert(slot.0, bytes);
            }
        }
        let is_last = u64::from(index + 1) == self.shape.slots_per_block();
        if self.ends_unit(index) && (!is_part || is_last) {
            self.dispatch(at, block, host.and_then(|part| part.request));
        }
    }

    /// True for the last slot of a program unit.
    fn ends_unit(&self, index: u32) -> bool {
        u64::from(index + 1).is_multiple_of(self.shape.slots_per_unit())
    }

    /// Programs what is placed in a superblock and not yet given to a die: a unit, or part of one.
    fn dispatch(&mut self, at: Nanos, block: u32, for_write: Option<RequestId>) {
        let progress = &mut self.progress[block as usize];
        let (from, slots) = (progress.dispatched, progress.placed - progress.dispatched);
        if slots == 0 {
            return;
        }
        let host = std::mem::take(&mut progress.host_waiting);
        let host_bytes = std::mem::take(&mut progress.host_waiting_bytes);
        progress.dispatched = progress.placed;
        if !self.unfilled.is_empty() {
            let first = self.ftl.slots_of(block).start + from;
            (first..first + slots).for_each(|slot| _ = self.unfilled.remove(&slot));
        }
        let collection = host == 0;
        let map = self.shape.map_bytes;
        let (buffer_bytes, bytes) = (u64::from(host) * map, u64::from(slots) * map);
        self.writes.host_bytes += host_bytes;
        self.writes.rounding_bytes += buffer_bytes - host_bytes;
        self.writes.collection_bytes += bytes - buffer_bytes;
        self.collect_programs += u32::from(collection);
        self.host_programs += u64::from(!collection);
        let life = self.ftl.erases(block);
        let tag = self.tag(Purpose::Unit { block, slots, life, collection });
        let class = if collection { Class::Collection } else { Class::Host };
        if let Some(request) = for_write {
            self.core.expect_programs(request, 1);
        }
        let die = self.die_of(block, from);
        self.core.program(at, &Program { die, bytes, buffer_bytes, class, tag, for_write });
    }

    fn tag(&mut self, purpose: Purpose) -> u64 {
        self.tags += 1;
        self.purposes.insert(self.tags, purpose);
        self.tags
    }

    /// Goes on with collection as far as it may.
    fn collect(&mut self, at: Nanos) {
        while let Some(mut collecting) = self.collecting.or_else(|| self.begin_collecting()) {
            let depth = self.shape.collect_depth_at(self.ftl.free_blocks() + self.erasing);
            self.collecting = Some(collecting);
            let end = self.ftl.slots_of(collecting.block).end;
            if collecting.next < end {
                if collecting.reads + self.collect_programs >= depth {
                    return;
                }
                let unit_end = (collecting.next + small(self.shape.slots_per_unit())).min(end);
                let first = std::mem::replace(&mut collecting.next, unit_end);
                collecting.reads += u32::from(self.collect_unit(at, first, unit_end));
                self.collecting = Some(collecting);
            } else if collecting.reads == 0 {
                self.collecting = None;
                self.erase(at, collecting.block);
            } else {
                return;
            }
        }
    }

    fn begin_collecting(&mut self) -> Option<Collecting> {
        let free = self.ftl.free_blocks() + self.erasing;
        let idle = self.placing.is_empty() && self.host_programs == 0;
        // What is live in a victim may need one more superblock; those that are being erased are not there yet.
        if self.ftl.free_blocks() == 0 {
            return None;
        }
        if free >= self.shape.collect_below && !(idle && free < self.shape.background_below) {
            return None;
        }
        let block = self.ftl.take_victim()?;
        Some(Collecting { block, next: self.ftl.slots_of(block).start, reads: 0 })
    }

    /// Reads what is live in one unit of the victim; false if nothing is.
    fn collect_unit(&mut self, at: Nanos, first: u32, end: u32) -> bool {
        let (mut live, mut rows, mut last_row) = (0, 0, None);
        for slot in (first..end).filter(|&slot| self.ftl.live_in(Slot(slot)).is_some()) {
            live += 1;
            let row = u64::from(slot) * self.shape.map_bytes / self.shape.sense_bytes;
            rows += u32::from(last_row.replace(row) != Some(row));
        }
        if live == 0 {
            return false;
        }
        let tag = self.tag(Purpose::Collected { first, end });
        let (block, index) = self.place_of(Slot(first));
        let (die, bytes) = (self.die_of(block, index), live * self.shape.map_bytes);
        let in_order = self.core.shape().reads_in_order;
        let part = ReadPart { die, senses: rows, bytes, in_order };
        self.core.collect(at, &part, Class::Collection, tag);
        true
    }

    fn collected(&mut self, at: Nanos, first: u32, end: u32) {
        for slot in first..end {
            if self.ftl.live_in(Slot(slot)).is_some() {
                let slot = self.ftl.relocate(Slot(slot)).expect("superblocks are kept for collection");
                self.placed(at, slot, None);
            }
        }
        if let Some(collecting) = &mut self.collecting {
            collecting.reads -= 1;
        }
    }

    /// Erases a superblock in which nothing is live, on all dies.
    fn erase(&mut self, at: Nanos, block: u32) {
        let dies = self.core.shape().dies;
        let cell_ns = self.core.shape().erase_ns;
        for die in 0..dies {
            let tag = self.tag(Purpose::Erase { block });
            self.writes.erases += 1;
            self.core.erase(at, &Erase { die, cell_ns, class: Class::Collection, tag });
        }
        self.progress[block as usize].erasing = small(dies as u64);
        self.erasing += 1;
    }

    fn erased_on_one_die(&mut self, block: u32) {
        let progress = &mut self.progress[block as usize];
        progress.erasing -= 1;
        if progress.erasing == 0 {
            *progress = Progress::default();
            self.erasing -= 1;
            self.ftl.erased(block);
        }
    }

    fn operation_done(&mut self, tag: u64, at: Nanos, out: &mut Vec<Answer>) {
        match self.purposes.remove(&tag) {
            Some(Purpose::Unit { block, slots, life, collection }) => {
                // All in it may die, and it be erased, before its last programs have come over the channel.
                if life == self.ftl.erases(block) {
                    self.progress[block as usize].on_flash += slots;
                }
                self.collect_programs -= u32::from(collection);
                self.host_programs -= u64::from(!collection);
                if !collection {
                    self.tell_flushes(tag, at, out);
                }
            }
            Some(Purpose::Collected { first, end }) => self.collected(at, first, end),
            Some(Purpose::Erase { block }) => self.erased_on_one_die(block),
            None => {}
        }
        self.collect(at);
        self.place_waiting(at);
        self.collect(at);
    }

    fn flush(&mut self, now: Nanos, token: u64) -> Ticket {
        if self.shape.durable_buffer {
            return Ticket::Request(self.core.delay(now, token, self.shape.flush_ns));
        }
        self.program_partial_units(now);
        if self.core.shape().early_ack && !self.placing.is_empty() {
            self.coming_flushes.push_back(ComingFlush { token, submitted: now, writes: self.placing.len() });
            return Ticket::Job;
        }
        if self.host_programs == 0 {
            return Ticket::Request(self.core.delay(now, token, self.shape.flush_ns));
        }
        self.begin_flush(token, now);
        Ticket::Job
    }

    /// A flush waits for all programs of the host that are on their way.
    fn begin_flush(&mut self, token: u64, submitted: Nanos) {
        let job = self.jobs.begin(token, submitted, self.host_programs);
        self.flushes.push((job, self.tags));
    }

    /// A write was placed: flushes for which it was the last have programs to wait for.
    fn begin_coming_flushes(&mut self, at: Nanos) {
        self.coming_flushes.iter_mut().for_each(|flush| flush.writes -= 1);
        while let Some(&ComingFlush { token, submitted, writes: 0 }) = self.coming_flushes.front() {
            self.coming_flushes.pop_front();
            self.program_partial_units(at);
            self.begin_flush(token, submitted);
        }
    }

    /// Programs what the host wrote and what waits for the rest of its unit.
    fn program_partial_units(&mut self, now: Nanos) {
        for block in 0..small(self.shape.superblocks as u64) {
            if self.progress[block as usize].host_waiting > 0 {
                self.dispatch(now, block, None);
            }
        }
    }

    /// A write that is larger than the buffer waits for all of it, also for what waits for the rest of its unit: that is programmed when
    /// nothing else is going on. True if something was.
    fn unblock(&mut self) -> bool {
        if self.core.writes_waiting() == 0 || self.core.next_event().is_some() {
            return false;
        }
        self.program_partial_units(self.core.now());
        self.core.next_event().is_some()
    }

    fn tell_flushes(&mut self, tag: u64, at: Nanos, out: &mut Vec<Answer>) {
        let jobs = &mut self.jobs;
        self.flushes.retain(|&(job, newest)| {
            let answer = if tag <= newest { jobs.one_done(job, at) } else { None };
            out.extend(answer);
            answer.is_none()
        });
    }

    fn trim(&mut self, at: u64, bytes: u64) {
        let first = at.div_ceil(self.shape.map_bytes);
        // What the host sees of the last unit is all there is of it.
        let is_to_the_end = at + bytes >= self.shape.logical_bytes;
        let end = if is_to_the_end { self.shape.logical_units() } else { (at + bytes) / self.shape.map_bytes };
        for unit in first..end {
            self.ftl.trim(unit);
        }
    }

    fn handle(&mut self, done: Done, out: &mut Vec<Answer>) {
        match done {
            Done::Answered { token, at, attribution } => out.push(Answer { token, at, attribution }),
            Done::Admitted { request, at, bytes, .. } => {
                self.admitted(at, request, bytes);
                self.collect(at);
            }
            Done::Operation { tag, at } => self.operation_done(tag, at, out),
        }
        // With nothing on its way to flash, partial units would fill the buffer for ever, and reads beside them never let `unblock` in.
        if self.host_programs == 0 && self.placing.is_empty() && self.core.writes_waiting() > 0 {
            self.program_partial_units(self.core.now());
        }
    }

    /// The drive as if `units` mapping units from `first` had been written in order long ago, at no time.
    pub fn preset(&mut self, first: u64, units: u64) {
        for unit in first..first + units {
            self.ftl.collect_until(self.shape.collect_below.max(FOR_COLLECTION + 1));
            let slot = self.ftl.write(unit, 0).expect("a superblock is free");
            let (block, index) = self.place_of(slot);
            let at = index + 1;
            self.progress[block as usize] =
                Progress { placed: at, dispatched: at, on_flash: at, ..Progress::default() };
        }
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("checked when the map was made")
}

impl Model for ConventionalModel {
    fn submit(&mut self, now: Nanos, token: u64, command: Command) -> Ticket {
        assert!(token < TOKEN_MAX, "token {token}");
        let request = match command {
            Command::Read { at, bytes } | Command::ReadTold { at, bytes, .. } => self.read(now, token, at, bytes),
            Command::Write { at, bytes, stream } => {
                let to = (at + bytes).min(self.shape.logical_bytes);
                self.write(now, token, Target { from: at, to, stream }, bytes)
            }
            Command::Flush => return self.flush(now, token),
            Command::Trim { at, bytes } => {
                self.trim(at, bytes);
                self.core.delay(now, token, self.shape.flush_ns)
            }
            _ => self.core.delay(now, token, 0),
        };
        Ticket::Request(request)
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Answer>) {
        loop {
            while let Some(done) = self.core.step(to) {
                self.handle(done, out);
            }
            if !self.unblock() {
                break;
            }
        }
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn flash_writes(&self) -> FlashWrites {
        self.writes
    }
}

#[cfg(test)]
mod tests;
