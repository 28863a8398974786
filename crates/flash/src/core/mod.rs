//! The discrete-event model of the flash and its controller: no clock, no thread, no I/O, integer nanoseconds.
//!
//! A drive ([`crate::zns`], [`crate::conventional`]) turns host requests into flash operations and gives both to the
//! core; the core says when each is done. The life of a read: 1 controller (serial part, then delay) -> 2 queue of its
//! die -> 3 sensing -> 4 channel, the die holding the data -> 5 host interface -> answered. Of a write: 1 front end
//! (`front`) -> 2 waits in order for room in the buffer -> 3 admitted: the drive hears of it and programs whole units
//! -> answered after a delay (early acknowledgement), or so long after its programs are done. Of a program: 1 channel, in pieces
//! -> 2 queue of its die -> 3 cells, in slices that reads come between -> done, its room in the buffer is free.
//!
//! **Contract.** Time only goes forward: every call carries a time that is not before the last. `submit`-like calls may
//! be made once all events up to their time were taken with [`Core::step`]; `step(limit)` takes events up to `limit`
//! until there is something to say. What is not yet said can still move later, never earlier: [`Core::not_before`] is a
//! lower bound, so whoever waits asks again at that time. The same calls give the same answers, always.
mod channel;
mod die;
mod events;
mod front;
mod op;
mod request;
mod run;
mod shape;
mod spans;
mod stats;

use std::collections::VecDeque;

use zonda_rt::Rng;

use channel::Channel;
use die::{Die, Phase};
use events::{Event, Events};
use front::Front;
pub use op::Class;
use op::{Op, OpKind};
pub use request::{Attribution, HostWrite};
use request::{Request, Slab};
use shape::transfer_ns;
pub use shape::{CoreShape, Demand};
use spans::Spans;
pub use spans::{Span, Work};
pub use stats::{CoreStats, DieStats};

/// Simulated time and durations, in nanoseconds.
pub type Nanos = u64;

/// No operation, no request.
const NONE: u32 = u32::MAX;

/// A request on its way, as long as it is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u32);

impl RequestId {
    /// Its place in a table of requests in flight; used again after it is answered.
    #[must_use]
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// What the core has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// A host request is answered.
    Answered {
        /// The token it was submitted with.
        token: u64,
        /// When.
        at: Nanos,
        /// Where its time went.
        attribution: Attribution,
    },
    /// A write has room in the buffer: the drive programs it when it has a whole unit.
    Admitted {
        /// The write.
        request: RequestId,
        /// Its token.
        token: u64,
        /// Its length.
        bytes: u64,
        /// When.
        at: Nanos,
    },
    /// A flash operation that the drive issued is done.
    Operation {
        /// The tag it was issued with.
        tag: u64,
        /// When.
        at: Nanos,
    },
}

/// One read of one die: `senses` sensings, then `bytes` over the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPart {
    /// The die.
    pub die: usize,
    /// Sensings one after the other.
    pub senses: u32,
    /// Bytes to move out.
    pub bytes: u64,
    /// Waits for its turn among programs and erases instead of going before them.
    pub in_order: bool,
}

/// A program of one unit, or part of one.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The die.
    pub die: usize,
    /// Bytes that cross the channel.
    pub bytes: u64,
    /// Room in the write buffer that comes free when it is done.
    pub buffer_bytes: u64,
    /// For whom.
    pub class: Class,
    /// Answered when done.
    pub tag: u64,
    /// Without early acknowledgement, the write that waits for it.
    pub for_write: Option<RequestId>,
}

/// An erase on one die.
#[derive(Clone, Copy, Debug)]
pub struct Erase {
    /// The die.
    pub die: usize,
    /// How long it takes.
    pub cell_ns: Nanos,
    /// For whom.
    pub class: Class,
    /// Answered when done.
    pub tag: u64,
}

/// The model; see the module.
#[derive(Debug)]
pub struct Core {
    shape: CoreShape,
    now: Nanos,
    events: Events,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    front: Front,
    requests: Slab<Request>,
    ops: Slab<Op>,
    /// Reads that leave the controller, in order of time: (time, request).
    arriving: VecDeque<(Nanos, u32)>,
    /// Reads on the host interface, in order of time: (time, operation, request).
    on_bus: VecDeque<(Nanos, u32)>,
    read_serial_free: Nanos,
    bus_free: Nanos,
    /// Writes that wait for room: (request, since).
    waiting: VecDeque<(u32, Nanos)>,
    buffer_used: u64,
    said: VecDeque<Done>,
    rng: Rng,
    stats: CoreStats,
    spans: Spans,
}

impl Core {
    /// An idle core.
    #[must_use]
    pub fn new(shape: CoreShape) -> Self {
        let stats = CoreStats {
            dies: vec![DieStats::default(); shape.dies],
            channel_busy_ns: vec![0; shape.channels],
            ..CoreStats::default()
        };
        Self {
            now: 0,
            events: Events::default(),
            dies: (0..shape.dies).map(|_| Die::new(shape.reads_per_gap)).collect(),
            channels: (0..shape.channels).map(|_| Channel::default()).collect(),
            front: Front::default(),
            requests: Slab::default(),
            ops: Slab::default(),
            arriving: VecDeque::new(),
            on_bus: VecDeque::new(),
            read_serial_free: 0,
            bus_free: 0,
            waiting: VecDeque::new(),
            buffer_used: 0,
            said: VecDeque::new(),
            rng: Rng::seeded(shape.seed),
            stats,
            spans: Spans::default(),
            shape,
        }
    }

    /// Keeps what dies do in this window of time, and forgets what was kept before.
    pub fn watch(&mut self, window: std::ops::Range<Nanos>) {
        self.spans.watch(window);
    }

    /// The window that is watched.
    #[must_use]
    pub fn watched(&self) -> std::ops::Range<Nanos> {
        self.spans.window()
    }

    /// What dies did in the window that is watched, in the order of the ends.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        self.spans.all()
    }

    /// The shape it was made with.
    #[must_use]
    pub fn shape(&self) -> &CoreShape {
        &self.shape
    }

    /// Time of the last event or call.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Sums so far; what a die does counts once it is done, what a channel moves from its beginning.
    #[must_use]
    pub fn stats(&self) -> &CoreStats {
        &self.stats
    }

    /// Sums by `now`, up to which all events were taken, with what has been done of what goes on: between two of them no die and no
    /// channel was busy for longer than time went on.
    #[must_use]
    pub fn stats_at(&self, now: Nanos) -> CoreStats {
        let mut stats = self.stats.clone();
        for (die, stats) in self.dies.iter().zip(&mut stats.dies) {
            let passed = now.saturating_sub(die.since);
            match die.phase {
                Phase::Idle => {}
                Phase::Sensing | Phase::Output => stats.read_ns += passed,
                Phase::Cell if self.ops[die.op].kind == OpKind::Erase => stats.erase_ns += passed,
                Phase::Cell => stats.program_ns += passed,
            }
        }
        for (channel, busy_ns) in self.channels.iter().zip(&mut stats.channel_busy_ns) {
            *busy_ns -= channel.free_at.saturating_sub(now);
        }
        stats
    }

    /// Events taken so far, the price of a simulation.
    #[must_use]
    pub fn events_taken(&self) -> u64 {
        self.events.taken()
    }

    /// Requests that are not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Bytes in the write buffer.
    #[must_use]
    pub fn buffer_used_bytes(&self) -> u64 {
        self.buffer_used
    }

    /// Time in which the write front end was busy.
    #[must_use]
    pub fn front_busy_ns(&self) -> Nanos {
        self.front.busy_ns()
    }

    /// A host read. Without parts (nothing of it is on flash) it costs controller and host interface only.
    pub fn read(&mut self, now: Nanos, token: u64, parts: &[ReadPart], bytes: u64) -> RequestId {
        self.pass_to(now);
        // What no part reads (it is in the buffer, or nowhere) crosses the host interface all the same, with the first that does.
        let rest = bytes.saturating_sub(parts.iter().map(|part| part.bytes).sum());
        let request =
            self.requests.insert(Request { token, submitted: now, bytes: rest, first_op: NONE, ..Request::default() });
        for part in parts.iter().rev() {
            self.add_part(request, part);
        }
        self.read_serial_free = self.read_serial_free.max(now) + self.shape.read_serial_ns;
        let arrives = self.read_serial_free + self.shape.read_latency_ns;
        let entry = &mut self.requests[request];
        // One without parts has its way over the host interface.
        entry.parts_left = u32::try_from(parts.len().max(1)).unwrap_or(u32::MAX);
        entry.not_before = arrives;
        entry.attribution.controller_ns = arrives - now;
        self.arriving.push_back((arrives, request));
        RequestId(request)
    }

    fn add_part(&mut self, request: u32, part: &ReadPart) {
        let cell_ns = self.shape.sense_ns * u64::from(part.senses);
        let next = self.requests[request].first_op;
        let die = self.die_number(part.die);
        let in_order = part.in_order;
        let op = Op { owner: request, next, in_order, ..Op::new(OpKind::Read, die, cell_ns, part.bytes) };
        self.requests[request].first_op = self.ops.insert(op);
    }

    /// A host write or append, at the front end.
    pub fn write(&mut self, now: Nanos, token: u64, bytes: u64, how: HostWrite) -> RequestId {
        self.pass_to(now);
        let (demand, latency) = match how {
            HostWrite::Write => (self.shape.write_demand.of(bytes), self.shape.write_latency_ns),
            HostWrite::Append => (self.shape.append_demand.of(bytes), self.shape.append_latency_ns),
        };
        let latency_ns = if latency == 0 { 0 } else { latency / 2 + self.rng.below(latency + 1) };
        let not_before = now + demand + latency_ns;
        let request = Request { token, submitted: now, bytes, not_before, latency_ns, ..Request::default() };
        let request = self.requests.insert(request);
        self.front.arrive(now, request, demand);
        self.predict_front();
        RequestId(request)
    }

    /// Gives room in the buffer back that no program will: its data was dropped.
    pub fn release_buffer(&mut self, bytes: u64) {
        self.buffer_used = self.buffer_used.checked_sub(bytes).expect("no more leaves the buffer than came");
        self.admit_waiting();
    }

    /// Writes that wait for room in the buffer.
    #[must_use]
    pub fn writes_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Makes a request that no event answers wait for `programs` programs more, or for as many calls of [`release`](Self::release): a
    /// write without early acknowledgement, from its admission on, or a read.
    pub fn expect_programs(&mut self, request: RequestId, programs: u32) {
        self.requests[request.0].parts_left += programs;
    }

    /// Takes back one that [`expect_programs`](Self::expect_programs) expected.
    pub fn release(&mut self, request: RequestId) {
        self.program_done(request.0);
    }

    /// Takes room in the buffer beyond what an admitted write asked for.
    pub fn take_buffer(&mut self, bytes: u64) {
        self.buffer_used += bytes;
    }

    /// A request that takes a fixed time and no flash, such as opening a zone.
    pub fn delay(&mut self, now: Nanos, token: u64, delay_ns: Nanos) -> RequestId {
        self.pass_to(now);
        let not_before = now + delay_ns;
        let attribution = Attribution { controller_ns: delay_ns, ..Attribution::default() };
        let request =
            self.requests.insert(Request { token, submitted: now, not_before, attribution, ..Request::default() });
        self.events.add(not_before, Event::Answer { request });
        RequestId(request)
    }

    /// Programs a unit: over the channel (padding needs none), then into the cells.
    pub fn program(&mut self, now: Nanos, program: &Program) {
        self.pass_to(now);
        let op = Op {
            class: program.class,
            owner: program.for_write.map_or(NONE, |request| request.0),
            tag: program.tag,
            buffer_bytes: program.buffer_bytes,
            queued_at: now,
            ..Op::new(OpKind::Program, self.die_number(program.die), self.shape.program_ns, program.bytes)
        };
        let id = self.ops.insert(op);
        if program.class == Class::Padding || program.bytes == 0 || self.shape.channel_bytes_per_s == 0 {
            self.reach_die(id);
        } else {
            self.join_channel(id);
        }
    }

    /// Erases for a time on one die.
    pub fn erase(&mut self, now: Nanos, erase: &Erase) {
        let &Erase { die, cell_ns, class, tag } = erase;
        self.pass_to(now);
        let op = Op { class, tag, queued_at: now, ..Op::new(OpKind::Erase, self.die_number(die), cell_ns, 0) };
        let id = self.ops.insert(op);
        self.reach_die(id);
    }

    /// A read that no request of the host waits for: sensed and moved out, answered with its tag.
    pub fn collect(&mut self, now: Nanos, part: &ReadPart, class: Class, tag: u64) {
        self.pass_to(now);
        let cell_ns = self.shape.sense_ns * u64::from(part.senses);
        let op = Op {
            class,
            tag,
            queued_at: now,
            in_order: part.in_order,
            ..Op::new(OpKind::Read, self.die_number(part.die), cell_ns, part.bytes)
        };
        let id = self.ops.insert(op);
        self.reach_die(id);
    }

    fn die_number(&self, die: usize) -> u16 {
        assert!(die < self.dies.len(), "die {die} of {}", self.dies.len());
        u16::try_from(die).expect("a drive has fewer than 65,536 dies")
    }

    /// A time before which the request is certainly not answered. It must be in flight.
    #[must_use]
    pub fn not_before(&self, request: RequestId) -> Nanos {
        self.requests[request.0].not_before.max(self.next_event().unwrap_or(self.now))
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        if !self.said.is_empty() {
            return Some(self.now);
        }
        let times = [self.arriving.front().map(|e| e.0), self.on_bus.front().map(|e| e.0), self.events.next_at()];
        times.into_iter().flatten().min()
    }

    /// Takes events up to `limit` until there is something to say; `None` when there is nothing more until then.
    pub fn step(&mut self, limit: Nanos) -> Option<Done> {
        loop {
            if let Some(done) = self.said.pop_front() {
                return Some(done);
            }
            if !self.take_event(limit) {
                return None;
            }
        }
    }

    /// Lets time pass, of which all events were taken: what is said after it is said at that time.
    ///
    /// # Panics
    /// If that is before the last call's.
    pub fn pass_to(&mut self, now: Nanos) {
        debug_assert!(self.next_event().is_none_or(|at| at >= now), "events before {now} were not taken");
        assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        self.now = now;
    }
}

#[cfg(test)]
mod tests;
