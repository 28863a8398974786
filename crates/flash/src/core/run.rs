//! What each event does.
use super::{
    Attribution, Class, Core, Done, NONE, Nanos, OpKind, RequestId, Span, Work,
    die::{Next, Phase},
    events::Event,
    transfer_ns,
};

/// The source of the next event.
enum Source {
    Arriving,
    OnBus,
    Events,
}

impl Core {
    /// Does the earliest event if it is not after `limit`.
    pub(super) fn take_event(&mut self, limit: Nanos) -> bool {
        let bus = self.on_bus.front().map_or(u64::MAX, |e| e.0);
        let arrival = self.arriving.front().map_or(u64::MAX, |e| e.0);
        let other = self.events.next_at().unwrap_or(u64::MAX);
        let (at, source) = match () {
            () if bus <= arrival && bus <= other => (bus, Source::OnBus),
            () if arrival <= other => (arrival, Source::Arriving),
            () => (other, Source::Events),
        };
        if at > limit || at == u64::MAX {
            return false;
        }
        self.now = at;
        match source {
            Source::OnBus => self.leave_bus(),
            Source::Arriving => self.arrive(),
            Source::Events => self.take_scheduled(),
        }
        true
    }

    fn take_scheduled(&mut self) {
        let Some((_, event)) = self.events.take() else { return };
        match event {
            Event::Sensed { die } => self.sensed(die),
            Event::Suspend { die, version } => self.suspend(die, version),
            Event::CellEnd { die, version } => self.cell_end(die, version),
            Event::ChannelFree { channel } => self.channel_free(channel),
            Event::FrontDone { version } => self.front_done(version),
            Event::Answer { request } => self.answer(request),
        }
    }

    /// A host read leaves the controller: its parts go to their dies.
    fn arrive(&mut self) {
        let Some((_, request)) = self.arriving.pop_front() else { return };
        let mut op = self.requests[request].first_op;
        if op == NONE {
            self.join_bus(request, NONE, Attribution::default());
        }
        while op != NONE {
            let next = self.ops[op].next;
            self.ops[op].queued_at = self.now;
            self.ops[op].times.controller_ns = self.requests[request].attribution.controller_ns;
            self.reach_die(op);
            op = next;
        }
    }

    /// An operation joins the queue of its die.
    pub(super) fn reach_die(&mut self, id: u32) {
        let op = &mut self.ops[id];
        op.queued_at = self.now;
        let number = op.die;
        let (is_read, in_order) = (op.kind == OpKind::Read, op.in_order);
        let die = &mut self.dies[usize::from(number)];
        if is_read {
            op.behind_cell = die.in_cell();
            let class = op.class;
            let ops = &self.ops;
            let collecting = class == Class::Host && die.is_collecting(|other| ops[other].class);
            self.ops[id].behind_collection = collecting;
        }
        die.queue(id, &self.ops[id]);
        match die.phase {
            Phase::Idle => self.dispatch(number),
            Phase::Cell if is_read && !in_order => self.ask_to_suspend(number),
            _ => {}
        }
    }

    /// Schedules the interruption of what runs, for a read that waits.
    fn ask_to_suspend(&mut self, number: u16) {
        let die = &mut self.dies[usize::from(number)];
        if die.suspending {
            return;
        }
        let slice_ns = match die.cell_class {
            Class::Collection => self.shape.collection_slice_ns,
            _ => self.shape.slice_ns,
        };
        if let Some(at) = die.next_gap(self.now, slice_ns) {
            die.suspending = true;
            let version = die.version;
            self.events.add(at, Event::Suspend { die: number, version });
        }
    }

    /// Gives an idle die something to do.
    fn dispatch(&mut self, number: u16) {
        let die = &mut self.dies[usize::from(number)];
        die.since = self.now;
        match die.next() {
            Next::Read(op) => self.start_read(number, op),
            Next::Resume(op) => self.run_cell(number, op, self.shape.resume_ns),
            Next::Start(op) if self.ops[op].kind == OpKind::Read => self.start_read(number, op),
            Next::Start(op) => self.run_cell(number, op, 0),
            Next::Nothing => {}
        }
    }

    fn start_read(&mut self, number: u16, id: u32) {
        let die = &mut self.dies[usize::from(number)];
        (die.phase, die.op) = (Phase::Sensing, id);
        let op = &mut self.ops[id];
        let waited = self.now - op.queued_at;
        let times = &mut op.times;
        match (op.behind_collection, op.behind_cell) {
            (true, _) => times.collection_ns += waited,
            (false, true) => times.suspended_ns += waited,
            (false, false) => times.die_ns += waited,
        }
        times.cell_ns = op.cell_ns;
        let sensed = self.now + op.cell_ns;
        if op.owner != NONE {
            let request = &mut self.requests[op.owner];
            request.not_before = request.not_before.max(sensed);
        }
        self.stats.dies[usize::from(number)].reads += 1;
        self.events.add(sensed, Event::Sensed { die: number });
    }

    /// Starts or resumes a program or erase.
    fn run_cell(&mut self, number: u16, id: u32, extra_ns: Nanos) {
        let op = &mut self.ops[id];
        op.cell_ns += extra_ns;
        let die = &mut self.dies[usize::from(number)];
        (die.phase, die.op, die.suspending) = (Phase::Cell, id, false);
        die.cell_class = op.class;
        die.cell_end = self.now + op.cell_ns;
        die.version = die.version.wrapping_add(1);
        let (at, version) = (die.cell_end, die.version);
        self.events.add(at, Event::CellEnd { die: number, version });
        if self.dies[usize::from(number)].has_reads() {
            self.ask_to_suspend(number);
        }
    }

    fn suspend(&mut self, number: u16, version: u32) {
        let die = &mut self.dies[usize::from(number)];
        if die.version != version || die.phase != Phase::Cell {
            return;
        }
        die.suspended = die.op;
        die.version = die.version.wrapping_add(1);
        let left = die.cell_end - self.now;
        let id = die.op;
        self.ops[id].cell_ns = left;
        self.stats.dies[usize::from(number)].suspends += 1;
        self.account_cell(number, id);
        self.free_after_cell(number);
    }

    fn cell_end(&mut self, number: u16, version: u32) {
        let die = &self.dies[usize::from(number)];
        if die.version != version || die.phase != Phase::Cell {
            return;
        }
        let id = die.op;
        self.account_cell(number, id);
        self.finish_cell(number, id);
        self.free_after_cell(number);
    }

    fn free_after_cell(&mut self, number: u16) {
        let die = &mut self.dies[usize::from(number)];
        (die.phase, die.op, die.gap_left) = (Phase::Idle, NONE, self.shape.reads_per_gap);
        self.dispatch(number);
    }

    fn account_cell(&mut self, number: u16, id: u32) {
        let since = self.dies[usize::from(number)].since;
        let (op, passed) = (&self.ops[id], self.now - since);
        let stats = &mut self.stats.dies[usize::from(number)];
        let work = match op.kind {
            OpKind::Erase => Work::Erase,
            _ => Work::Program,
        };
        match work {
            Work::Erase => stats.erase_ns += passed,
            _ => stats.program_ns += passed,
        }
        self.spans.add(Span { die: number, start: since, end: self.now, work, class: op.class });
    }

    fn finish_cell(&mut self, number: u16, id: u32) {
        let op = self.ops[id];
        self.ops.remove(id);
        let stats = &mut self.stats.dies[usize::from(number)];
        match op.kind {
            OpKind::Erase => stats.erases += 1,
            _ => stats.programs += 1,
        }
        self.said.push_back(Done::Operation { tag: op.tag, at: self.now });
        self.buffer_used = self.buffer_used.checked_sub(op.buffer_bytes).expect("no more leaves the buffer than came");
        if op.owner != NONE {
            self.program_done(op.owner);
        }
        self.admit_waiting();
    }

    /// A program, or what else a request waits for that is no read of its own, is done. After the last one comes what a write takes
    /// outside front end and flash.
    pub(super) fn program_done(&mut self, request: u32) {
        let entry = &mut self.requests[request];
        entry.parts_left -= 1;
        if entry.parts_left > 0 {
            return;
        }
        let known = entry.attribution.total_ns();
        entry.attribution.cell_ns += self.now - entry.submitted - known;
        if entry.latency_ns == 0 {
            return self.answer(request);
        }
        entry.attribution.controller_ns += entry.latency_ns;
        entry.not_before = self.now + entry.latency_ns;
        self.events.add(entry.not_before, Event::Answer { request });
    }

    fn sensed(&mut self, number: u16) {
        let die = &mut self.dies[usize::from(number)];
        die.phase = Phase::Output;
        let id = die.op;
        self.join_channel(id);
    }

    /// Data of an operation is ready to be moved.
    pub(super) fn join_channel(&mut self, id: u32) {
        let op = &mut self.ops[id];
        op.queued_at = self.now;
        let number = usize::from(op.die) % self.shape.channels;
        if op.kind == OpKind::Read && self.shape.channel_bytes_per_s == 0 {
            return self.read_moved(id);
        }
        let channel = &mut self.channels[number];
        match op.kind {
            OpKind::Read => channel.queue_read(id),
            _ => channel.queue_program(id),
        }
        if channel.moving.is_none() {
            self.move_next(number);
        }
    }

    fn move_next(&mut self, number: usize) {
        let Some(id) = self.channels[number].next() else { return };
        let op = &mut self.ops[id];
        let bytes = match op.kind {
            OpKind::Read => op.bytes,
            _ => op.bytes_left.min(self.shape.channel_piece_bytes),
        };
        op.bytes_left -= bytes;
        let takes = transfer_ns(bytes, self.shape.channel_bytes_per_s);
        op.times.channel_wait_ns = self.now - op.queued_at;
        op.times.channel_ns = takes;
        self.stats.channel_busy_ns[number] += takes;
        self.channels[number].free_at = self.now + takes;
        let channel = u16::try_from(number).expect("a drive has fewer than 65,536 channels");
        self.events.add(self.now + takes, Event::ChannelFree { channel });
    }

    fn channel_free(&mut self, channel: u16) {
        let number = usize::from(channel);
        let Some(id) = self.channels[number].moving.take() else { return };
        match (self.ops[id].kind, self.ops[id].bytes_left) {
            (OpKind::Read, _) => self.read_moved(id),
            (_, 0) => self.reach_die(id),
            _ => self.channels[number].queue_program(id),
        }
        if self.channels[number].moving.is_none() {
            self.move_next(number);
        }
    }

    /// What a die had sensed is out: the die is free, the data goes on.
    fn read_moved(&mut self, id: u32) {
        let op = self.ops[id];
        let die = &mut self.dies[usize::from(op.die)];
        (die.phase, die.op) = (Phase::Idle, NONE);
        self.stats.dies[usize::from(op.die)].read_ns += self.now - die.since;
        let (start, end) = (die.since, self.now);
        self.spans.add(Span { die: op.die, start, end, work: Work::Read, class: op.class });
        match op.owner {
            NONE => {
                self.ops.remove(id);
                self.said.push_back(Done::Operation { tag: op.tag, at: self.now });
            }
            request => self.join_bus(request, id, op.times),
        }
        self.dispatch(op.die);
    }

    /// Data goes over the host interface, in order.
    fn join_bus(&mut self, request: u32, op: u32, times: Attribution) {
        let of_op = if op == NONE { 0 } else { self.ops[op].bytes };
        let bytes = of_op + std::mem::take(&mut self.requests[request].bytes);
        let takes = self.shape.bus_command_ns + transfer_ns(bytes, self.shape.bus_bytes_per_s);
        self.bus_free = self.bus_free.max(self.now) + takes;
        let entry = &mut self.requests[request];
        entry.not_before = entry.not_before.max(self.bus_free);
        if op != NONE {
            entry.attribution = times;
            self.ops.remove(op);
        }
        entry.attribution.bus_ns = self.bus_free - self.now;
        self.on_bus.push_back((self.bus_free, request));
    }

    fn leave_bus(&mut self) {
        let Some((_, request)) = self.on_bus.pop_front() else { return };
        let entry = &mut self.requests[request];
        entry.parts_left -= 1;
        if entry.parts_left == 0 {
            self.answer(request);
        }
    }

    fn answer(&mut self, request: u32) {
        let entry = self.requests[request];
        self.requests.remove(request);
        self.stats.answer(entry.token, entry.submitted, self.now);
        let done = Done::Answered { token: entry.token, at: self.now, attribution: entry.attribution };
        self.said.push_back(done);
    }

    pub(super) fn predict_front(&mut self) {
        if let Some((at, version)) = self.front.predict() {
            self.events.add(at, Event::FrontDone { version });
        }
    }

    fn front_done(&mut self, version: u32) {
        if !self.front.is_current(version) {
            return;
        }
        while let Some(request) = self.front.leave(self.now) {
            let entry = &mut self.requests[request];
            entry.attribution.controller_ns = self.now - entry.submitted;
            self.waiting.push_back((request, self.now));
        }
        self.predict_front();
        self.admit_waiting();
    }

    /// Lets writes into the buffer, in order, while there is room. One that is larger than the buffer gets in when the
    /// buffer is empty.
    pub(super) fn admit_waiting(&mut self) {
        while let Some(&(request, since)) = self.waiting.front() {
            let bytes = self.requests[request].bytes;
            if self.buffer_used > 0 && self.buffer_used + bytes > self.shape.buffer_bytes {
                return;
            }
            self.waiting.pop_front();
            self.admit(request, since);
        }
    }

    fn admit(&mut self, request: u32, since: Nanos) {
        let entry = &mut self.requests[request];
        entry.attribution.buffer_ns = self.now - since;
        self.buffer_used += entry.bytes;
        self.stats.written_bytes += entry.bytes;
        self.stats.buffer_bytes_max = self.stats.buffer_bytes_max.max(self.buffer_used);
        let (token, bytes) = (entry.token, entry.bytes);
        if self.shape.early_ack {
            entry.attribution.controller_ns += entry.latency_ns;
            entry.not_before = self.now + entry.latency_ns;
            self.events.add(entry.not_before, Event::Answer { request });
        }
        self.said.push_back(Done::Admitted { request: RequestId(request), token, bytes, at: self.now });
    }
}
