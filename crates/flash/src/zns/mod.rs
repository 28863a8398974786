//! A zoned drive: where zones lie on the flash, and what each command makes the flash do.
//!
//! A zone is striped over its dies in program units, from a die that differs from zone to zone. Bytes that were admitted
//! to the buffer collect in the zone until they fill a unit; then it is programmed. Finishing programs the rest of the
//! zone as padding unless the drive needs none, resetting erases every die of the zone. States, limits and errors of zones are not here:
//! the device has the one zone state machine, and a command comes here after it was allowed.
mod shape;
mod split;
mod times;
mod zone;

use std::collections::HashMap;

pub use shape::ZonedShape;
use split::Splits;
pub use split::{BlockWear, ReadCounts, ReadOrigin, SplitCounts, SplitMemory, SplitShape};
pub use times::TimedWork;
use times::Times;
use zone::ZoneTiming;

use crate::core::{Class, Core, CoreShape, Done, Erase, HostWrite, Nanos, Program, ReadPart, RequestId};
use crate::jobs::Jobs;
use crate::model::{Answer, Command, FlashWrites, Model, TOKEN_MAX, Ticket};

/// What of a zone a write is for.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The zone, at its write pointer.
    Zone,
    /// A subzone.
    Subzone(u16),
    /// Its window; so many bytes are committed.
    Window(u64),
}

/// What a flash operation was for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A unit of a zone that ends at this byte; the zone's cycle tells a stale one.
    Unit { zone: u32, cycle: u32, end: u64 },
    /// Bytes of a subzone that end at this one; as above.
    SubzoneUnit { id: (u32, u16), cycle: u32, end: u64, bytes: u64 },
    /// Reads ahead for a subzone, up to this byte of it.
    Preread { id: (u32, u16), end: u64 },
    /// Part of a job.
    Job(u64),
}

/// The timing of a zoned drive.
#[derive(Debug)]
pub struct ZonedModel {
    core: Core,
    shape: ZonedShape,
    /// Dies from the first die of a zone to that of the next.
    stride: u64,
    zones: Vec<ZoneTiming>,
    jobs: Jobs,
    purposes: HashMap<u64, Purpose>,
    tags: u64,
    /// Zone, and subzone, of each write on its way, by the request's place.
    zone_of: Vec<(u32, Part)>,
    /// Split zones, on drives that have them.
    splits: Option<Splits>,
    programs_in_flight: u64,
    /// Flushes that wait for programs: (job, number of the newest program they wait for).
    flushes: Vec<(u64, u64)>,
    writes: FlashWrites,
    parts: Vec<ReadPart>,
    times: Times,
}

impl ZonedModel {
    /// A drive of empty zones.
    ///
    /// # Panics
    /// If the dies of a zone do not divide the dies of the drive, or sizes are zero.
    #[must_use]
    pub fn new(core: CoreShape, shape: ZonedShape) -> Self {
        assert!(shape.dies_per_zone > 0 && core.dies.is_multiple_of(shape.dies_per_zone), "dies of a zone divide all");
        assert!(shape.unit_bytes > 0 && shape.sense_bytes > 0, "units and pages have bytes");
        Self {
            core: Core::new(core),
            zones: vec![ZoneTiming::default(); shape.zones as usize],
            stride: stride(shape.dies_per_zone as u64),
            splits: shape.split.map(|split| Splits::new(split, shape.dies_per_zone, shape.zone_capacity_bytes)),
            shape,
            jobs: Jobs::default(),
            purposes: HashMap::new(),
            tags: 0,
            zone_of: Vec::new(),
            programs_in_flight: 0,
            flushes: Vec::new(),
            writes: FlashWrites::default(),
            parts: Vec::new(),
            times: Times::default(),
        }
    }

    /// The shape it was made with.
    #[must_use]
    pub fn shape(&self) -> &ZonedShape {
        &self.shape
    }

    /// Times that a zone was reset with something of it on flash: its wear.
    #[must_use]
    pub fn wear(&self, zone: u32) -> u32 {
        self.zones[zone as usize].erases
    }

    /// Says that a zone already holds so many bytes, all on flash: for drives that are opened with data.
    pub fn preset(&mut self, zone: u32, written_bytes: u64, finished: bool) {
        self.zones[zone as usize] = ZoneTiming::holding(written_bytes, finished);
    }

    /// The die that holds a unit of a zone. Zones that share dies begin far from each other, so that those written side
    /// by side do not follow each other from die to die.
    fn die_of(&self, zone: u32, unit: u64) -> usize {
        let width = self.shape.dies_per_zone as u64;
        let groups = self.core.shape().dies as u64 / width;
        let zone = u64::from(zone);
        let first = zone / groups * self.stride;
        let die = (zone % groups) * width + (first + unit) % width;
        usize::try_from(die).expect("below the number of dies")
    }

    fn split(&self, at: u64) -> (u32, u64) {
        let zone = u32::try_from(at / self.shape.zone_size_bytes).unwrap_or(u32::MAX);
        (zone, at % self.shape.zone_size_bytes)
    }

    fn read(&mut self, now: Nanos, token: u64, at: u64, bytes: u64) -> RequestId {
        let (zone, offset) = self.split(at);
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        self.parts_of(zone, offset, bytes, &mut parts);
        let request = self.core.read(now, token, &parts, bytes);
        self.parts = parts;
        request
    }

    fn read_any(&mut self, now: Nanos, token: u64, (at, bytes): (u64, u64), origin: Option<ReadOrigin>) -> Ticket {
        let (zone, offset) = self.split(at);
        match self.is_split(zone) {
            true => self.read_split(now, token, (zone, offset, bytes), origin),
            false => Ticket::Request(self.read(now, token, at, bytes)),
        }
    }

    /// Die reads for the part of a range that is on flash; the rest is in the buffer, or nowhere.
    fn parts_of(&self, zone: u32, offset: u64, bytes: u64, parts: &mut Vec<ReadPart>) {
        let on_flash = self.zones.get(zone as usize).map_or(0, ZoneTiming::on_flash);
        let end = (offset + bytes).min(on_flash);
        let mut from = offset;
        while from < end {
            let unit = from / self.shape.unit_bytes;
            let to = end.min((unit + 1) * self.shape.unit_bytes);
            let rows = to.div_ceil(self.shape.sense_bytes) - from / self.shape.sense_bytes;
            let senses = u32::try_from(rows).unwrap_or(u32::MAX);
            let in_order = self.core.shape().reads_in_order;
            parts.push(ReadPart { die: self.die_of(zone, unit), senses, bytes: to - from, in_order });
            from = to;
        }
    }

    /// Remembers where a write goes.
    fn aim(&mut self, request: RequestId, zone: u32, part: Part) -> RequestId {
        let place = request.place();
        if self.zone_of.len() <= place {
            self.zone_of.resize(place + 1, (0, Part::Zone));
        }
        self.zone_of[place] = (zone, part);
        request
    }

    /// A write is in the buffer: units that it completes are programmed. Without a buffer all of it is.
    fn admitted(&mut self, at: Nanos, request: RequestId, bytes: u64) {
        let (zone, part) = self.zone_of[request.place()];
        match part {
            Part::Zone => {}
            Part::Subzone(index) => return self.subzone_admitted(at, request, (zone, index), bytes),
            Part::Window(committed) => return self.window_written(at, request, zone, (bytes, committed)),
        }
        let capacity = self.shape.zone_capacity_bytes;
        let timing = &mut self.zones[zone as usize];
        timing.admit(bytes);
        let (admitted, partial) = (timing.admitted(), !self.core.shape().early_ack);
        let write = partial.then_some(request);
        if partial || admitted >= capacity {
            let units = self.units_to(zone, admitted);
            if partial {
                self.core.expect_programs(request, u32::try_from(units).unwrap_or(u32::MAX));
            }
            self.program_to(at, zone, admitted, write);
        } else {
            self.program_to(at, zone, admitted / self.shape.unit_bytes * self.shape.unit_bytes, write);
        }
    }

    /// A write to a window is in memory that needs no flash; what leaves the window does.
    fn window_written(&mut self, at: Nanos, request: RequestId, zone: u32, (bytes, committed): (u64, u64)) {
        self.core.release_buffer(bytes);
        self.commit_window(at, zone, committed);
        if !self.core.shape().early_ack {
            self.core.expect_programs(request, 1);
            self.core.release(request);
        }
    }

    fn commit_window(&mut self, at: Nanos, zone: u32, bytes: u64) {
        self.core.take_buffer(bytes);
        let timing = &mut self.zones[zone as usize];
        timing.admit(bytes);
        let admitted = timing.admitted();
        let is_all = admitted >= self.shape.zone_capacity_bytes || !self.core.shape().early_ack;
        let end = if is_all { admitted } else { admitted / self.shape.unit_bytes * self.shape.unit_bytes };
        self.program_to(at, zone, end, None);
    }

    fn units_to(&self, zone: u32, end: u64) -> u64 {
        let from = self.zones[zone as usize].dispatched();
        end.div_ceil(self.shape.unit_bytes) - from / self.shape.unit_bytes
    }

    /// Programs what the zone holds up to `end`, unit by unit.
    fn program_to(&mut self, at: Nanos, zone: u32, end: u64, for_write: Option<RequestId>) {
        loop {
            let from = self.zones[zone as usize].dispatched();
            if from >= end {
                return;
            }
            let unit = from / self.shape.unit_bytes;
            let to = end.min((unit + 1) * self.shape.unit_bytes);
            let cycle = self.zones[zone as usize].dispatch(to);
            let tag = self.tag(Purpose::Unit { zone, cycle, end: to });
            let bytes = to - from;
            self.writes.host_bytes += bytes;
            self.programs_in_flight += 1;
            let die = self.die_of(zone, unit);
            self.core.program(at, &Program { die, bytes, buffer_bytes: bytes, class: Class::Host, tag, for_write });
        }
    }

    fn tag(&mut self, purpose: Purpose) -> u64 {
        self.tags += 1;
        self.purposes.insert(self.tags, purpose);
        self.tags
    }

    fn finish(&mut self, now: Nanos, token: u64, zone: u32) -> Ticket {
        let timing = &self.zones[zone as usize];
        let (admitted, capacity) = (timing.admitted(), self.shape.zone_capacity_bytes);
        if admitted == 0 || timing.is_finished() || admitted >= capacity {
            self.zones[zone as usize].finish();
            return Ticket::Request(self.core.delay(now, token, self.shape.finish_empty_ns));
        }
        self.program_to(now, zone, admitted, None);
        let first = admitted.div_ceil(self.shape.unit_bytes);
        let last = if self.shape.finish_pads { capacity.div_ceil(self.shape.unit_bytes) } else { first };
        let job = self.jobs.begin(token, now, last.saturating_sub(first) + 1);
        self.core.delay(now, TOKEN_MAX + job, self.shape.finish_min_ns);
        for unit in first..last {
            let tag = self.tag(Purpose::Job(job));
            self.writes.padding_bytes += self.shape.unit_bytes;
            let die = self.die_of(zone, unit);
            let padding = Program { die, bytes: 0, buffer_bytes: 0, class: Class::Padding, tag, for_write: None };
            self.core.program(now, &padding);
        }
        self.zones[zone as usize].finish();
        Ticket::Job
    }

    fn reset(&mut self, now: Nanos, token: u64, zone: u32) -> Ticket {
        let timing = &mut self.zones[zone as usize];
        if timing.is_untouched() {
            return Ticket::Request(self.core.delay(now, token, self.shape.reset_empty_ns));
        }
        let capacity = self.shape.zone_capacity_bytes;
        let written = timing.admitted();
        // What is only in the buffer costs no more than an open zone.
        let unfinished = !timing.is_finished() && written < capacity && timing.dispatched() > 0;
        let units = timing.dispatched().div_ceil(self.shape.unit_bytes);
        let dropped = timing.reset();
        self.core.release_buffer(dropped);
        let share = |ns: Nanos| share_of(ns, written.min(capacity), capacity);
        let takes = self.shape.reset_base_ns
            + share(self.shape.reset_occupancy_ns)
            + if unfinished { self.shape.reset_unfinished_ns } else { 0 };
        let (width, block_ns) = (self.shape.dies_per_zone as u64, self.core.shape().erase_ns);
        let (dies, erase_ns) = match self.shape.reset_erases_blocks {
            true => (units.min(width), block_ns),
            // Where nothing was programmed nothing is erased.
            false => (width * units.min(1), share(block_ns)),
        };
        let job = self.jobs.begin(token, now, dies + 1);
        self.core.delay(now, TOKEN_MAX + job, takes);
        for unit in 0..dies {
            let tag = self.tag(Purpose::Job(job));
            let die = self.die_of(zone, unit);
            self.note_erase(zone, die);
            self.core.erase(now, &Erase { die, cell_ns: erase_ns, class: Class::Host, tag });
        }
        Ticket::Job
    }

    fn flush(&mut self, now: Nanos, token: u64) -> Ticket {
        if self.shape.durable_buffer {
            return Ticket::Request(self.core.delay(now, token, self.shape.flush_ns));
        }
        self.program_partial_units(now);
        if self.programs_in_flight == 0 {
            return Ticket::Request(self.core.delay(now, token, self.shape.flush_ns));
        }
        let job = self.jobs.begin(token, now, self.programs_in_flight);
        self.flushes.push((job, self.tags));
        Ticket::Job
    }

    /// Programs what waits for the rest of its unit.
    fn program_partial_units(&mut self, now: Nanos) {
        for zone in 0..self.shape.zones {
            let timing = &self.zones[zone as usize];
            if timing.admitted() > timing.dispatched() {
                self.program_to(now, zone, timing.admitted(), None);
            }
        }
        self.drain_subzones(now);
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

    fn operation_done(&mut self, tag: u64, at: Nanos, out: &mut Vec<Answer>) {
        match self.purposes.remove(&tag) {
            Some(Purpose::Unit { zone, cycle, end }) => {
                self.zones[zone as usize].programmed(cycle, end);
                self.programs_in_flight -= 1;
                self.tell_flushes(tag, at, out);
            }
            Some(Purpose::SubzoneUnit { id, cycle, end, bytes }) => {
                self.programs_in_flight -= 1;
                self.subzone_programmed(at, id, (cycle, end, bytes));
                self.tell_flushes(tag, at, out);
            }
            Some(Purpose::Preread { id, end }) => self.preread_done(tag, id, end),
            Some(Purpose::Job(job)) => out.extend(self.jobs.one_done(job, at)),
            None => {}
        }
    }

    fn tell_flushes(&mut self, tag: u64, at: Nanos, out: &mut Vec<Answer>) {
        let jobs = &mut self.jobs;
        self.flushes.retain(|&(job, newest)| {
            let answer = if tag <= newest { jobs.one_done(job, at) } else { None };
            out.extend(answer);
            answer.is_none()
        });
    }

    fn handle(&mut self, done: Done, out: &mut Vec<Answer>) {
        match done {
            Done::Answered { token, at, .. } if token >= TOKEN_MAX => {
                out.extend(self.jobs.one_done(token - TOKEN_MAX, at));
            }
            Done::Answered { token, at, attribution } => out.push(Answer { token, at, attribution }),
            Done::Admitted { request, at, bytes, .. } => self.admitted(at, request, bytes),
            Done::Operation { tag, at } => self.operation_done(tag, at, out),
        }
        // Many zones with partial units could fill the buffer for ever.
        if self.programs_in_flight == 0 && self.core.writes_waiting() > 0 {
            self.program_partial_units(self.core.now());
        }
    }
}

/// About the golden section of `width`, without a common divisor with it: multiples of it are spread evenly.
fn stride(width: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (width * 618 / 1000..width).find(|&stride| stride > 0 && divisor(stride, width) == 1).unwrap_or(1)
}

fn share_of(ns: Nanos, part: u64, whole: u64) -> Nanos {
    let share = u128::from(ns) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl Model for ZonedModel {
    fn submit(&mut self, now: Nanos, token: u64, command: Command) -> Ticket {
        assert!(token < TOKEN_MAX, "token {token}");
        // Before anything is given up that a write waits for, which gets it now and not at the last event.
        self.core.pass_to(now);
        self.note_submitted(now, token, command);
        let request = match command {
            Command::Read { at, bytes } => return self.read_any(now, token, (at, bytes), None),
            Command::ReadTold { at, bytes, origin } => return self.read_any(now, token, (at, bytes), Some(origin)),
            Command::Write { at, bytes, .. } => {
                let (zone, _) = self.split(at);
                let request = self.core.write(now, token, bytes, HostWrite::Write);
                self.aim(request, zone, Part::Zone)
            }
            Command::WriteWindow { zone, bytes, committed_bytes } => {
                let request = self.core.write(now, token, bytes, HostWrite::Write);
                self.aim(request, zone, Part::Window(committed_bytes))
            }
            Command::CommitWindow { zone, bytes } => {
                self.commit_window(now, zone, bytes);
                self.core.delay(now, token, 0)
            }
            Command::Append { zone, bytes } => {
                let request = self.core.write(now, token, bytes, HostWrite::Append);
                self.aim(request, zone, Part::Zone)
            }
            Command::Open { zone } => {
                self.zones[zone as usize].open();
                self.core.delay(now, token, self.shape.open_ns)
            }
            Command::Split { zone } => self.split_zone(now, token, zone),
            Command::Join { zone } => self.join(now, token, zone),
            Command::AppendSubzone { zone, index, bytes } => self.append_subzone(now, token, (zone, index), bytes),
            Command::FinishSubzone { zone, index } => self.finish_subzone(now, token, (zone, index)),
            Command::ResetSubzone { zone, index } => return self.reset_subzone(now, token, (zone, index)),
            Command::Close { .. } | Command::FinishSplit { .. } => self.core.delay(now, token, self.shape.close_ns),
            Command::Report | Command::Trim { .. } => self.core.delay(now, token, self.shape.report_ns),
            Command::Finish { zone } => return self.finish(now, token, zone),
            Command::Reset { zone } => return self.reset(now, token, zone),
            Command::Flush => return self.flush(now, token),
        };
        Ticket::Request(request)
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Answer>) {
        let before = out.len();
        loop {
            while let Some(done) = self.core.step(to) {
                self.handle(done, out);
            }
            if !self.unblock() {
                break;
            }
        }
        self.times.answered(&out[before..]);
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn zone_size_bytes(&self) -> u64 {
        self.shape.zone_size_bytes
    }

    fn flash_writes(&self) -> FlashWrites {
        self.writes
    }
}

#[cfg(test)]
mod tests;
