//! The queue of a zoned block device: up to `depth` requests of one thread in flight in the kernel, reads and writes
//! through the block layer, appends as NVMe commands where there are any. Safe code is not enough: the kernel reads and
//! writes buffers after the submitting call has returned.
//!
//! Requests wait in the ring until `start` or `complete`: one call of the system hands all of them over.
//!
//! Always: a buffer that the kernel may touch is owned by a slot, or is the slot's piece of the pinned memory, and does
//! not move; a slot is freed only after its completion was seen; dropping the queue waits for all completions, and leaks
//! the buffers if it cannot.
use std::{collections::VecDeque, fmt, io, os::fd::AsRawFd};

use io_uring::{opcode, types};
use zonda_rt::{DeviceCall, device_call};

use super::{
    device::ZbdDevice,
    failure::Failure,
    ring::{Completed, Pinned, Ring},
    sys,
    zones::{Ticket, Way},
};
use crate::{
    AlignedBuf, Completion, Io, IoQueue, Lba, Rejected, Result, ZoneId,
    owner::Owner,
    queue::{check_depth, check_submit},
};

/// Index of the block device among the registered files.
const BLOCK: types::Fixed = types::Fixed(0);
/// Index of the NVMe character device.
const CHARACTER: types::Fixed = types::Fixed(1);
/// Longest read asked of the kernel at once.
const READ_BYTES_MAX: usize = 1 << 30;

/// A queue whose requests are in flight in the kernel.
pub(super) struct UringQueue {
    ring: Ring,
    pinned: Option<Pinned>,
    device: ZbdDevice,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Appends through the block layer that wait until their zone has no write in flight.
    waiting: VecDeque<Waiting>,
    done: VecDeque<Completion>,
    /// A child after a fork shares the ring, and would take its completions.
    owner: Owner,
}

struct Waiting {
    token: u64,
    zone: ZoneId,
    buffer: AlignedBuf,
}

/// A request in the kernel's hands.
struct Slot {
    token: u64,
    buffer: Option<AlignedBuf>,
    task: Task,
    /// Bytes that are transferred.
    done: usize,
    /// Bytes that are in flight, in the pinned piece or not.
    in_flight: usize,
    is_pinned: bool,
}

enum Task {
    /// The rest of the buffer is zeros already.
    Read {
        at: Lba,
        bytes: usize,
    },
    Write {
        ticket: Ticket,
        append: bool,
    },
    Flush,
}

/// How a request ended: with the block that the drive chose, for an append by command.
type Ended = std::result::Result<Option<u64>, Failure>;

/// What became of the bytes in flight.
enum Step {
    /// More is to be transferred.
    On,
    Ended(Ended),
}

impl UringQueue {
    pub(super) fn new(device: ZbdDevice, depth: u32) -> Result<Self> {
        let slots = check_depth(depth)?;
        let node = &device.shared.node;
        let character = node.passthrough.as_ref().map(|passthrough| passthrough.character().as_raw_fd());
        let files: Vec<_> = [Some(node.block().as_raw_fd()), character].into_iter().flatten().collect();
        let ring = Ring::new(depth, character.is_some(), &files);
        let ring = ring.map_err(|e| node.error("open an io_uring for", e))?;
        let pinned = Pinned::new(&ring, slots);
        Ok(Self {
            ring,
            pinned,
            device,
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            owner: Owner::new(),
        })
    }

    fn in_kernel(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn start(&mut self, token: u64, io: Io) {
        match io {
            Io::Read { at, into } => self.start_read(token, at, into),
            Io::Write { at, from } => self.start_write(token, at, from),
            Io::Append { zone, from } => self.start_append(Waiting { token, zone, buffer: from }),
            Io::Flush => self.start_flush(token),
        }
    }

    fn start_read(&mut self, token: u64, at: Lba, mut into: AlignedBuf) {
        match self.device.shared.readable_bytes(at, &into) {
            Err(error) => self.tell(token, Err(error), Some(into)),
            Ok(bytes) => {
                into[bytes..].fill(0);
                self.hand_over(Slot::new(token, Some(into), Task::Read { at, bytes }));
            }
        }
    }

    fn start_write(&mut self, token: u64, at: Lba, from: AlignedBuf) {
        let shared = &self.device.shared;
        let blocks = shared.node.check_writable().and_then(|()| shared.geometry.check_buffer(&from));
        match blocks.and_then(|blocks| shared.zones.begin_write(at, blocks)) {
            Err(error) => self.tell(token, Err(error), Some(from)),
            Ok(ticket) => self.hand_over(Slot::new(token, Some(from), Task::Write { ticket, append: false })),
        }
    }

    fn start_append(&mut self, append: Waiting) {
        let shared = &self.device.shared;
        let blocks = shared.node.check_writable().and_then(|()| shared.geometry.check_buffer(&append.buffer));
        match blocks.and_then(|blocks| shared.zones.begin_append(append.zone, blocks)) {
            Err(error) => self.tell(append.token, Err(error), Some(append.buffer)),
            Ok(None) => self.waiting.push_back(append),
            Ok(Some(ticket)) => {
                let task = Task::Write { ticket, append: true };
                self.hand_over(Slot::new(append.token, Some(append.buffer), task));
            }
        }
    }

    fn start_flush(&mut self, token: u64) {
        let node = &self.device.shared.node;
        match node.check_writable().and_then(|()| node.check_flush()) {
            Err(error) => self.tell(token, Err(error), None),
            Ok(()) => self.hand_over(Slot::new(token, None, Task::Flush)),
        }
    }

    fn tell(&mut self, token: u64, result: Result<Lba>, buffer: Option<AlignedBuf>) {
        self.done.push_back(Completion { token, result, buffer });
    }

    /// Puts a started request into a slot and an entry for its first bytes into the ring.
    fn hand_over(&mut self, slot: Slot) {
        if slot.total_bytes() == 0 && !matches!(slot.task, Task::Flush) {
            return self.end(slot, Ok(None));
        }
        let index = self.free.pop().expect("submit has checked that a slot is free");
        self.slots[index] = Some(slot);
        self.hand_on_next(index);
    }

    /// Puts an entry for the next bytes of a slot's request into the ring.
    fn hand_on_next(&mut self, index: usize) {
        let transfer_bytes_max = self.device.shared.node.transfer_bytes_max();
        let slot = self.slots[index].as_mut().expect("the slot is taken");
        slot.in_flight = slot.next_bytes(transfer_bytes_max);
        if let Some(command) = slot.command(&self.device) {
            let entry = opcode::UringCmd80::new(CHARACTER, sys::NVME_URING_IO).cmd(command.to_bytes()).build();
            // SAFETY: the command points into the slot's buffer, which stays where it is until its completion is seen,
            // and is no longer than what is left there. The files are open for as long as the device.
            unsafe { self.ring.push_wide(entry.user_data(index as u64)) };
        } else {
            let entry = slot.entry(index, self.pinned.as_mut(), self.device.shared.byte_of(slot.at(&self.device)));
            // SAFETY: as above; or it points into the slot's piece of the pinned memory.
            unsafe { self.ring.push(entry.user_data(index as u64)) };
        }
    }

    /// Moves what the kernel has completed to `done`, and starts what waited for that.
    fn reap(&mut self) {
        let mut has_more = !self.waiting.is_empty();
        for completed in self.ring.take() {
            let index = usize::try_from(completed.number).expect("the number is a slot's index");
            let slot = self.slots[index].as_mut().expect("a request completes once");
            match slot.step(index, &completed, self.pinned.as_mut()) {
                Step::On => {
                    has_more = true;
                    self.hand_on_next(index);
                }
                Step::Ended(outcome) => {
                    let slot = self.slots[index].take().expect("a request completes once");
                    self.free.push(index);
                    self.end(slot, outcome);
                }
            }
        }
        for append in std::mem::take(&mut self.waiting) {
            self.start_append(append);
        }
        if has_more {
            // Who only polls submits nothing. What is not taken now is handed over later.
            let _told_later = self.ring.submit_and_wait(0);
        }
    }

    fn end(&mut self, slot: Slot, outcome: Ended) {
        let Slot { token, buffer, task, .. } = slot;
        let shared = &self.device.shared;
        let bytes = buffer.as_ref().map_or(0, |buffer| buffer.len());
        let result = match task {
            Task::Read { at, .. } => {
                let outcome = outcome.map(drop).map_err(|failure| io::Error::from_raw_os_error(failure.errno()));
                shared.end_read(at, bytes, outcome).map(|()| at)
            }
            Task::Write { ticket, append } => {
                let at = shared.geometry.zone_start(ticket.grant.zone()).plus(ticket.grant.offset());
                let went = outcome.map(|place| place.map_or(at, Lba));
                let went = shared.or_again(&ticket, buffer.as_deref().unwrap_or_default(), append, went);
                shared.end_write(ticket, bytes, append, went)
            }
            Task::Flush => {
                let outcome =
                    outcome.map_err(|failure| shared.node.flush_error(io::Error::from_raw_os_error(failure.errno())));
                shared.end_flush(outcome.map(drop))
            }
        };
        self.tell(token, result, buffer);
    }

    /// Waits until `wanted` requests are done.
    fn wait_for(&mut self, wanted: usize) -> Result<()> {
        self.reap();
        while self.done.len() < wanted {
            if self.in_kernel() == 0 {
                self.wait_for_others();
            } else {
                let missing = (wanted - self.done.len()).min(self.in_kernel());
                match self.ring.submit_and_wait(missing.min(1)) {
                    Ok(_) => {}
                    Err(e) if is_passing(&e) => {}
                    Err(e) => return Err(self.device.shared.node.error("wait for the io_uring of", e)),
                }
            }
            self.reap();
        }
        Ok(())
    }

    /// All that is left waits for a zone that somebody else writes.
    fn wait_for_others(&mut self) {
        let Some(append) = self.waiting.pop_front() else { return };
        self.device.shared.zones.wait_for_turn(append.zone);
        self.waiting.push_front(append);
    }
}

impl Slot {
    fn new(token: u64, buffer: Option<AlignedBuf>, task: Task) -> Self {
        Self { token, buffer, task, done: 0, in_flight: 0, is_pinned: false }
    }

    fn total_bytes(&self) -> usize {
        match &self.task {
            Task::Read { bytes, .. } => *bytes,
            Task::Write { .. } => self.buffer.as_ref().map_or(0, |buffer| buffer.len()),
            Task::Flush => 0,
        }
    }

    /// Bytes to ask for next: writes only as many as the kernel does not split, since the parts could overtake each
    /// other.
    fn next_bytes(&self, transfer_bytes_max: usize) -> usize {
        let most = if matches!(self.task, Task::Write { .. }) { transfer_bytes_max } else { READ_BYTES_MAX };
        (self.total_bytes() - self.done).min(most)
    }

    /// The request's first block.
    fn at(&self, device: &ZbdDevice) -> Lba {
        match &self.task {
            Task::Read { at, .. } => *at,
            Task::Write { ticket, .. } => {
                device.shared.geometry.zone_start(ticket.grant.zone()).plus(ticket.grant.offset())
            }
            Task::Flush => Lba(0),
        }
    }

    /// The NVMe command for the next bytes; `None` if they go through the block layer.
    fn command(&mut self, device: &ZbdDevice) -> Option<sys::NvmeCommand> {
        let Task::Write { ticket, append } = &self.task else { return None };
        let passthrough = device.shared.node.passthrough.as_ref().filter(|_| ticket.way == Way::Command)?;
        let block_bytes = u64::from(device.shared.geometry.block_bytes);
        let next = device.shared.command(ticket, *append).advanced(self.done as u64 / block_bytes);
        let mut command = passthrough.command(next, self.in_flight as u64 / block_bytes);
        let data = &mut self.buffer.as_deref_mut().expect("a write has data")[self.done..];
        command.data = data.as_mut_ptr().expose_provenance() as u64;
        command.data_bytes = u32::try_from(self.in_flight).expect("no longer than one transfer");
        Some(command)
    }

    /// The ring's entry for the next bytes through the block layer. `index` is the slot's, `offset` the device byte at
    /// which the whole request begins.
    fn entry(&mut self, index: usize, pinned: Option<&mut Pinned>, offset: u64) -> io_uring::squeue::Entry {
        let (from, bytes) = (self.done, self.in_flight);
        let length = u32::try_from(bytes).expect("no longer than one transfer");
        let offset = offset + from as u64;
        let piece = pinned.and_then(|pinned| pinned.piece(index, bytes));
        self.is_pinned = piece.is_some();
        let data = self.buffer.as_deref_mut().unwrap_or_default();
        match (&self.task, piece) {
            (Task::Flush, _) => opcode::Fsync::new(BLOCK).flags(types::FsyncFlags::DATASYNC).build(),
            (Task::Read { .. }, Some(piece)) => {
                opcode::ReadFixed::new(BLOCK, piece.as_mut_ptr(), length, 0).offset(offset).build()
            }
            (Task::Read { .. }, None) => {
                opcode::Read::new(BLOCK, data[from..].as_mut_ptr(), length).offset(offset).build()
            }
            (Task::Write { .. }, Some(piece)) => {
                piece.copy_from_slice(&data[from..from + bytes]);
                opcode::WriteFixed::new(BLOCK, piece.as_ptr(), length, 0).offset(offset).build()
            }
            (Task::Write { .. }, None) => {
                opcode::Write::new(BLOCK, data[from..].as_ptr(), length).offset(offset).build()
            }
        }
    }

    /// True if the kernel has done nothing and another try may go well. A command that was interrupted may have reached
    /// the drive.
    fn is_to_be_asked_again(&self, errno: i32) -> bool {
        let is_command = matches!(&self.task, Task::Write { ticket, .. } if ticket.way == Way::Command);
        errno == libc::EAGAIN || (errno == libc::EINTR && !is_command)
    }

    /// Judges what the kernel did with the bytes in flight.
    fn step(&mut self, index: usize, completed: &Completed, pinned: Option<&mut Pinned>) -> Step {
        let Completed { result, command_result, .. } = *completed;
        if self.is_to_be_asked_again(-result) {
            return Step::On;
        }
        if result < 0 {
            return Step::Ended(Err(Failure::System(io::Error::from_raw_os_error(-result))));
        }
        let (moved, place) = match &self.task {
            Task::Flush => return Step::Ended(Ok(None)),
            Task::Write { ticket, append } if ticket.way == Way::Command => {
                if let Some(status) = sys::status_of(result) {
                    return Step::Ended(Err(Failure::Drive(status)));
                }
                (self.in_flight, append.then_some(command_result))
            }
            _ => (usize::try_from(result).expect("not negative"), None),
        };
        if moved == 0 {
            // A device does not end early: it has failed.
            return Step::Ended(Err(Failure::System(io::Error::from_raw_os_error(libc::EIO))));
        }
        self.fetch(index, moved, pinned);
        self.done += moved;
        if self.done < self.total_bytes() { Step::On } else { Step::Ended(Ok(place)) }
    }

    /// Takes what was read out of the pinned memory.
    fn fetch(&mut self, index: usize, bytes: usize, pinned: Option<&mut Pinned>) {
        let Task::Read { .. } = self.task else { return };
        let piece = pinned.filter(|_| self.is_pinned).and_then(|pinned| pinned.piece(index, self.in_flight));
        if let (Some(piece), Some(buffer)) = (piece, self.buffer.as_deref_mut()) {
            buffer[self.done..self.done + bytes].copy_from_slice(&piece[..bytes]);
        }
    }
}

impl IoQueue for UringQueue {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        let io = check_submit(&self.owner, self, io)?;
        device_call(DeviceCall::Submit, || self.start(token, io));
        Ok(())
    }

    fn start(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        // If the kernel takes nothing now, the entries stay in the ring: `complete` hands them over again and tells the
        // error.
        let _told_later = device_call(DeviceCall::Submit, || self.ring.submit_and_wait(0));
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        self.owner.check()?;
        let wanted = min.min(self.in_flight());
        device_call(DeviceCall::Complete, || self.wait_for(wanted))?;
        let count = self.done.len();
        out.extend(self.done.drain(..));
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.in_kernel() + self.waiting.len() + self.done.len()
    }

    fn depth(&self) -> usize {
        self.slots.len()
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // The ring is the parent's, and so is what is in flight.
            return;
        }
        let all = self.in_flight();
        if self.wait_for(all).is_err() {
            // The kernel may still write to the buffers: never free them, never let go of the device.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(self.pinned.take());
            std::mem::forget(self.device.clone());
        }
    }
}

impl fmt::Debug for UringQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UringQueue({} of {} in flight)", self.in_flight(), self.depth())
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_did_not_do_is_asked_for_again() {
        let step = |task, result| {
            let mut slot = Slot::new(1, Some(AlignedBuf::with_len(4096)), task);
            slot.in_flight = slot.total_bytes();
            slot.step(0, &Completed { number: 0, result, command_result: 0 }, None)
        };
        for errno in [libc::EAGAIN, libc::EINTR] {
            assert!(matches!(step(Task::Read { at: Lba(0), bytes: 4096 }, -errno), Step::On));
            assert!(matches!(step(Task::Flush, -errno), Step::On));
        }
        assert!(matches!(step(Task::Flush, -libc::EIO), Step::Ended(Err(_))));
    }
}
