//! Many requests in flight from one thread: the queue's contract, and the plain queue that does each request at once.
use std::{collections::VecDeque, fmt::Debug};

use crate::{AlignedBuf, BlockDevice, DeviceError, Lba, Result, ZoneId, ZonedDevice, geometry::within};

/// Most requests of one queue.
pub const QUEUE_DEPTH_MAX: u32 = 1024;

/// A request. Its buffer travels with it and comes back in the [`Completion`].
#[derive(Debug)]
pub enum Io {
    /// Fills `into` from `at`.
    Read {
        /// First block.
        at: Lba,
        /// As many whole blocks as to read.
        into: AlignedBuf,
    },
    /// Writes `from` at `at`.
    Write {
        /// First block.
        at: Lba,
        /// Whole blocks.
        from: AlignedBuf,
    },
    /// Appends `from` to a zone.
    Append {
        /// The zone.
        zone: ZoneId,
        /// Whole blocks.
        from: AlignedBuf,
    },
    /// Makes every request durable whose completion was taken before this one was submitted, and every blocking call
    /// that returned before.
    Flush,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Completion {
    /// The token given at submission.
    pub token: u64,
    /// Where the data is: for an append the address it got, for a flush block 0.
    pub result: Result<Lba>,
    /// The request's buffer; `None` for a flush.
    pub buffer: Option<AlignedBuf>,
}

/// A request that was not accepted, with its buffer.
#[derive(Debug)]
pub struct Rejected {
    /// Why; `Busy` if the queue is full, `Forked` in a child of its process.
    pub error: DeviceError,
    /// The request, unchanged.
    pub io: Io,
}

/// Requests in flight, owned by one thread at a time.
///
/// Requests may complete in any order, except that writes to one zone succeed in their order of submission: if one
/// fails, the later ones in flight there fail with `SequenceLost`, or have completed and are void. So a write counts
/// once all earlier writes of its zone have succeeded. A queue with `ordered_queue` false must have at most one write
/// in flight per zone (I1). Dropping a queue waits for what is in flight.
pub trait IoQueue: Send + Debug {
    /// Takes a request. It may wait here until [`start`](Self::start) or [`complete`](Self::complete) is called, so that
    /// many requests are handed to the device at once. Errors of the request itself come with its completion.
    ///
    /// # Errors
    /// `Busy` if `depth` requests are in flight, `Forked` in a child of the queue's process; the request comes back.
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>>;

    /// Hands what waits to the device and returns at once: for callers that do something else before they ask for
    /// completions. What the device does not take now is handed over by `complete`, which tells of errors.
    fn start(&mut self) {}

    /// Waits until at least `min` requests (at most those in flight) have completed, adds all completed ones to `out`
    /// and returns how many.
    ///
    /// # Errors
    /// `Io` if the system's queue itself fails, `Forked` in a child of the queue's process; requests stay in flight.
    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize>;

    /// Requests submitted and not yet returned by [`complete`](Self::complete).
    fn in_flight(&self) -> usize;

    /// Most requests in flight.
    fn depth(&self) -> usize;

    /// Whether each request is carried out before [`submit`](Self::submit) returns, so that none is ever beside another.
    fn is_synchronous(&self) -> bool {
        false
    }
}

/// Checks the depth asked for.
pub(crate) fn check_depth(depth: u32) -> Result<usize> {
    within("queue depth", depth.into(), 1, QUEUE_DEPTH_MAX.into())?;
    Ok(depth as usize)
}

/// Refuses a request whose queue is full or another process's.
#[cfg(target_os = "linux")]
pub(crate) fn check_submit(
    owner: &crate::owner::Owner,
    queue: &impl IoQueue,
    io: Io,
) -> std::result::Result<Io, Box<Rejected>> {
    match owner.check() {
        Err(error) => Err(Box::new(Rejected { error, io })),
        Ok(()) if queue.in_flight() == queue.depth() => Err(refuse_full(queue.depth(), io)),
        Ok(()) => Ok(io),
    }
}

/// Refuses a request because the queue is full.
pub(crate) fn refuse_full(depth: usize, io: Io) -> Box<Rejected> {
    Box::new(Rejected { error: DeviceError::Busy { in_flight: depth as u64, max: depth as u64 }, io })
}

/// What [`SyncQueue`] needs of a device: one blocking call per request.
pub(crate) trait Blocking: Send + Sync + Debug {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()>;
    fn write(&self, at: Lba, from: &[u8]) -> Result<()>;
    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba>;
    fn flush(&self) -> Result<()>;
}

/// A zoned device as [`Blocking`].
#[derive(Debug)]
pub(crate) struct Zoned<D>(pub(crate) D);

impl<D: ZonedDevice> Blocking for Zoned<D> {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.0.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.0.write(at, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        self.0.append(zone, from)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}

/// A block device as [`Blocking`].
#[derive(Debug)]
pub(crate) struct Block<D>(pub(crate) D);

impl<D: BlockDevice> Blocking for Block<D> {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.0.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.0.write(at, from)
    }

    fn append(&self, _: ZoneId, _: &[u8]) -> Result<Lba> {
        Err(DeviceError::NotSupported { what: "append on a block device" })
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}

/// The plain queue: a request is done when it is submitted and waits here to be taken.
#[derive(Debug)]
pub(crate) struct SyncQueue<D> {
    device: D,
    done: VecDeque<Completion>,
    depth: usize,
}

impl<D: Blocking> SyncQueue<D> {
    pub(crate) fn new(device: D, depth: u32) -> Result<Self> {
        Ok(Self { device, done: VecDeque::new(), depth: check_depth(depth)? })
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    fn perform(&self, io: Io) -> (Result<Lba>, Option<AlignedBuf>) {
        match io {
            Io::Read { at, mut into } => (self.device.read(at, &mut into).map(|()| at), Some(into)),
            Io::Write { at, from } => (self.device.write(at, &from).map(|()| at), Some(from)),
            Io::Append { zone, from } => (self.device.append(zone, &from), Some(from)),
            Io::Flush => (self.device.flush().map(|()| Lba(0)), None),
        }
    }
}

impl<D: Blocking> IoQueue for SyncQueue<D> {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        if self.done.len() == self.depth {
            return Err(refuse_full(self.depth, io));
        }
        let (result, buffer) = self.perform(io);
        self.done.push_back(Completion { token, result, buffer });
        Ok(())
    }

    fn complete(&mut self, _min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let count = self.done.len();
        out.extend(self.done.drain(..));
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn is_synchronous(&self) -> bool {
        true
    }
}
