//! The queue on `io_uring`: up to `depth` requests of one thread in flight in the kernel. Safe code is not enough: the
//! kernel reads and writes buffers after the submitting call has returned.
//!
//! Requests wait in the ring until `start` or `complete`: one call of the system hands all of them over.
//!
//! Always: a buffer that the kernel may touch is owned by a slot of the queue and does not move (its bytes are on the
//! heap); a slot is freed only after its completion was seen; dropping the queue waits for all completions, and leaks
//! the buffers if it cannot. One flush at a time is in the kernel, on an opening of the file that is the queue's own: the
//! system tells only one flush of an opening that data is lost.
use std::{collections::VecDeque, fmt, fs::File, io, os::fd::AsRawFd};

use io_uring::{IoUring, opcode, squeue, types};
use zonda_rt::{DeviceCall, device_call};

use super::{
    host_file::HostFile,
    queue::{Started, Target, Transfer},
};
use crate::error::READ;
use crate::{
    AlignedBuf, Completion, Io, IoQueue, Rejected, Result,
    owner::Owner,
    queue::{check_depth, check_submit},
};

/// The data file's index among the registered files.
const DATA_FILE: types::Fixed = types::Fixed(0);
/// Index of the queue's own opening of the file, for flushes.
const SYNCED_FILE: types::Fixed = types::Fixed(2);
/// Longest transfer asked of the kernel at once; what remains of a longer one is done plainly.
const TRANSFER_BYTES_MAX: u32 = 1 << 30;

/// A queue whose requests are in flight in the kernel.
pub(crate) struct UringQueue<T: Target> {
    ring: IoUring,
    target: T,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Flushes that wait for the one in the kernel.
    waiting: VecDeque<Slot>,
    is_flushing: bool,
    /// A flush has looked for what was lost before the queue was opened.
    has_looked_back: bool,
    done: VecDeque<Completion>,
    /// A child after a fork shares the ring, and would take its completions.
    owner: Owner,
    /// Slots that the kernel has ended, with their results; empty between calls.
    reaped: Vec<(u64, i32)>,
}

/// A request in the kernel's hands.
struct Slot {
    token: u64,
    buffer: Option<AlignedBuf>,
    started: Started,
}

impl<T: Target> UringQueue<T> {
    pub(crate) fn new(target: T, depth: u32) -> Result<Self> {
        let slots = check_depth(depth)?;
        let synced = target.file().open_again()?;
        let opened = open_ring(target.file(), &synced, depth);
        let ring = opened.map_err(|e| target.file().error("open an io_uring for", e))?;
        Ok(Self {
            ring,
            target,
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            waiting: VecDeque::new(),
            is_flushing: false,
            has_looked_back: false,
            done: VecDeque::new(),
            owner: Owner::new(),
            reaped: Vec::with_capacity(slots),
        })
    }

    fn in_kernel(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Hands a request to the kernel; a flush in its turn.
    fn begin(&mut self, slot: Slot) {
        match slot.started.transfer {
            Transfer::Sync if self.is_flushing => self.waiting.push_back(slot),
            Transfer::Sync => {
                self.is_flushing = true;
                self.hand_over(slot);
            }
            _ => self.hand_over(slot),
        }
    }

    /// After a flush: hands over the next one, or tells all of them that the data is lost.
    fn begin_next_flush(&mut self) {
        self.is_flushing = false;
        while !self.is_flushing
            && let Some(slot) = self.waiting.pop_front()
        {
            match self.target.file().check_sync() {
                Ok(()) => self.begin(slot),
                lost => self.tell(slot.token, slot.buffer, slot.started, lost),
            }
        }
        if self.is_flushing {
            // Who only polls submits nothing. What is not taken now is handed over later.
            let _told_later = self.ring.submit();
        }
    }

    /// Puts a started request into a slot and its entry into the ring.
    fn hand_over(&mut self, slot: Slot) {
        let index = self.free.pop().expect("submit has checked that a slot is free");
        let slot = self.slots[index].insert(slot);
        let entry = entry_for(slot).user_data(index as u64);
        // SAFETY: the entry points into the slot's buffer, which is owned by the slot and stays where it is until its
        // completion is seen; its length is the buffer's. The file is registered and open for as long as `target`
        // lives.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has at least as many entries as there are slots");
    }

    /// Moves what the kernel has completed to `done`.
    fn reap(&mut self) {
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(self.ring.completion().map(|c| (c.user_data(), c.result())));
        for (index, result) in reaped.drain(..) {
            let index = usize::try_from(index).expect("user data is a slot's index");
            let slot = self.slots[index].take().expect("a request completes once");
            self.free.push(index);
            self.end(slot, result);
        }
        self.reaped = reaped;
    }

    fn end(&mut self, slot: Slot, result: i32) {
        let Slot { token, mut buffer, started } = slot;
        let transfer = started.transfer;
        let outcome = settle(self.target.file(), transfer, buffer.as_deref_mut(), result);
        match transfer {
            Transfer::Sync => {
                let outcome = outcome.and_then(|()| self.look_back());
                self.tell(token, buffer, started, outcome);
                self.begin_next_flush();
            }
            _ => self.tell(token, buffer, started, outcome),
        }
    }

    /// At the first flush: the queue's opening of the file is not told of what another was told before, perhaps to a queue
    /// that has not looked yet. The device's own is.
    fn look_back(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_looked_back, true) {
            return Ok(());
        }
        self.target.file().sync()
    }

    fn tell(&mut self, token: u64, buffer: Option<AlignedBuf>, started: Started, outcome: Result<()>) {
        let bytes = buffer.as_ref().map_or(0, |b| b.len());
        let result = self.target.end(started, bytes, outcome);
        self.done.push_back(Completion { token, result, buffer });
    }

    /// Waits until `wanted` requests are done.
    fn wait_for(&mut self, wanted: usize) -> Result<()> {
        self.reap();
        while self.done.len() < wanted {
            // A flush that waits must go on as soon as it can.
            let most = if self.waiting.is_empty() { self.in_kernel() } else { 1 };
            match self.ring.submit_and_wait(most.min(wanted - self.done.len())) {
                Ok(_) => {}
                Err(e) if is_passing(&e) => {}
                Err(e) => return Err(self.target.file().error("wait for the io_uring of", e)),
            }
            self.reap();
        }
        Ok(())
    }
}

impl<T: Target> IoQueue for UringQueue<T> {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        let io = check_submit(&self.owner, self, io)?;
        let planned = device_call(DeviceCall::Submit, || self.target.start(&io));
        let mut buffer = into_buffer(io);
        match planned {
            Err(error) => self.done.push_back(Completion { token, result: Err(error), buffer }),
            Ok(started) => {
                let in_kernel = clear_beyond(started.transfer, buffer.as_deref_mut());
                if in_kernel {
                    self.begin(Slot { token, buffer, started });
                } else {
                    self.tell(token, buffer, started, Ok(()));
                }
            }
        }
        Ok(())
    }

    fn start(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        // If the kernel takes nothing now, the entries stay in the ring: `complete` hands them over again and tells the
        // error.
        let _told_later = device_call(DeviceCall::Submit, || self.ring.submit());
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

impl<T: Target> Drop for UringQueue<T> {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // The ring is the parent's, and so is what is in flight.
            return;
        }
        let all = self.in_flight();
        if self.wait_for(all).is_err() {
            // The kernel may still write to the buffers and the file: never free them, never unlock it.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(self.target.clone());
        }
    }
}

impl<T: Target> fmt::Debug for UringQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UringQueue({} of {} in flight)", self.in_flight(), self.depth())
    }
}

fn open_ring(file: &HostFile, synced: &File, depth: u32) -> io::Result<IoUring> {
    let ring = IoUring::new(depth.next_power_of_two())?;
    // The second file is for its lock: should this process be killed, the kernel lets go of it only when all requests
    // in flight have ended, and nobody else can open the device before.
    ring.submitter().register_files(&[file.data().as_raw_fd(), file.locked().as_raw_fd(), synced.as_raw_fd()])?;
    Ok(ring)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

fn into_buffer(io: Io) -> Option<AlignedBuf> {
    match io {
        Io::Read { into, .. } => Some(into),
        Io::Write { from, .. } | Io::Append { from, .. } => Some(from),
        Io::Flush => None,
    }
}

/// Zeros what a read does not fetch. False if nothing is left for the kernel to do.
fn clear_beyond(transfer: Transfer, buffer: Option<&mut [u8]>) -> bool {
    match (transfer, buffer) {
        (Transfer::Read { bytes, .. }, Some(buffer)) => {
            buffer[bytes..].fill(0);
            bytes > 0
        }
        _ => true,
    }
}

fn entry_for(slot: &mut Slot) -> squeue::Entry {
    let buffer = slot.buffer.as_deref_mut().unwrap_or_default();
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).min(TRANSFER_BYTES_MAX);
    match slot.started.transfer {
        Transfer::Read { offset, bytes } => {
            opcode::Read::new(DATA_FILE, buffer.as_mut_ptr(), length(bytes)).offset(offset).build()
        }
        Transfer::Write { offset } => {
            opcode::Write::new(DATA_FILE, buffer.as_ptr(), length(buffer.len())).offset(offset).build()
        }
        Transfer::Sync => opcode::Fsync::new(SYNCED_FILE).flags(types::FsyncFlags::DATASYNC).build(),
    }
}

/// Judges what the kernel did, and does plainly what it left: the rest of a short transfer, or all if it was not ready.
fn settle(file: &HostFile, transfer: Transfer, buffer: Option<&mut [u8]>, result: i32) -> Result<()> {
    let buffer = buffer.unwrap_or_default();
    let was_not_ready = matches!(-result, libc::EAGAIN | libc::EINTR);
    let (done, error) = match usize::try_from(result) {
        Ok(done) => (done, None),
        Err(_) if was_not_ready => (0, None),
        Err(_) => (0, Some(io::Error::from_raw_os_error(-result))),
    };
    match (transfer, error) {
        (Transfer::Read { .. }, Some(e)) => Err(file.error(READ, e)),
        (Transfer::Write { offset }, Some(e)) => Err(file.write_error(offset, buffer.len() as u64, e)),
        (Transfer::Sync, Some(e)) => Err(file.sync_error(e)),
        (Transfer::Read { offset, bytes }, None) => {
            file.read_data(offset + done as u64, &mut buffer[done.min(bytes)..bytes])
        }
        (Transfer::Write { offset }, None) => file.write_data(offset + done as u64, &buffer[done..]),
        (Transfer::Sync, None) if was_not_ready => file.sync(),
        (Transfer::Sync, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceError, FileBlockDevice, FileOptions};

    /// A queue, where the system lets us have one.
    fn queue(directory: &tempfile::TempDir) -> Option<UringQueue<FileBlockDevice>> {
        let made = FileBlockDevice::create(directory.path().join("device"), 4096, 16, &FileOptions::default());
        UringQueue::new(made.unwrap(), 4).ok()
    }

    #[test]
    fn flushes_go_one_after_the_other_and_none_after_one_that_failed() {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut queue) = queue(&directory) else { return };
        for is_lost in [false, true] {
            (0..3).for_each(|token| queue.submit(token, Io::Flush).unwrap());
            if is_lost {
                drop(queue.target.file().sync_error(io::Error::from_raw_os_error(libc::EIO)));
            }
            let mut done = Vec::new();
            queue.complete(3, &mut done).unwrap();
            assert_eq!(done.iter().map(|completion| completion.token).collect::<Vec<_>>(), [0, 1, 2]);
            let lost = |completion: &&Completion| matches!(completion.result, Err(DeviceError::FlushLost { .. }));
            assert_eq!(done.iter().filter(lost).count(), if is_lost { 2 } else { 0 });
        }
    }
    #[test]
    fn the_first_flush_knows_what_was_lost_before_the_queue_was_opened() {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut queue) = queue(&directory) else { return };
        queue.submit(1, Io::Flush).unwrap();
        drop(queue.target.file().sync_error(io::Error::from_raw_os_error(libc::EIO)));
        let mut done = Vec::new();
        queue.complete(1, &mut done).unwrap();
        assert!(matches!(done[0].result, Err(DeviceError::FlushLost { .. })));
    }

    #[test]
    fn what_the_kernel_did_not_do_is_done_plainly() {
        let directory = tempfile::tempdir().unwrap();
        let Some(queue) = queue(&directory) else { return };
        let file = queue.target.file();
        for (errno, value) in [(libc::EAGAIN, 1), (libc::EINTR, 2)] {
            let mut data = AlignedBuf::from_slice(&[value; 4096]);
            settle(file, Transfer::Write { offset: 65_536 }, Some(&mut data), -errno).unwrap();
            let mut found = AlignedBuf::with_len(4096);
            settle(file, Transfer::Read { offset: 65_536, bytes: 4096 }, Some(&mut found), -errno).unwrap();
            assert_eq!(*found, *data);
            settle(file, Transfer::Sync, None, -errno).unwrap();
            file.check_sync().unwrap();
        }
    }
}
