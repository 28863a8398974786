//! The contract of a zoned device.
use std::fmt::Debug;

use crate::{
    DeviceCounters, Geometry, IoQueue, Lba, RandomWriteArea, ReadOrigin, Result, SplitZones, ZoneId, ZoneReport,
};

/// A device of zones that are written in order and reset as a whole, with the semantics of NVMe ZNS.
///
/// **Buffers** are whole blocks at an address that is a multiple of a block or of 4096 (see
/// [`AlignedBuf`](crate::AlignedBuf)); anything else is `Unaligned`, on every backend.
///
/// **Order.** Calls of one thread happen in their order. A zone has one writer (I1): two threads that write one zone
/// race for its write pointer and one of them gets `InvalidWrite`; appends may come from any thread, each lands whole,
/// in no promised order.
///
/// **Durability.** A write or append is durable once a [`flush`](Self::flush) that was called after it returned has
/// returned. After a crash the write pointer of a zone may be anywhere between the last flushed and the last submitted
/// write: only flushed bytes are trusted. A zone reset or finished before the crash may be so afterwards even if
/// earlier unflushed writes elsewhere are lost; open zones come back closed, or empty if unwritten.
///
/// **Threads.** Every call may be made from any thread at any time and may block. Reading a zone while it is reset
/// gives old bytes or zeros mixed: the caller waits for its readers first (I3).
///
/// **After an error** of a write or append: the write pointer is where [`report`](Self::report) says; nothing above it
/// is readable. The caller reports, adopts the write pointer and places the unwritten tail elsewhere. As long as other writes are in
/// flight in the zone, new ones are refused with `SequenceLost`. Other errors change nothing, unless they say so.
pub trait ZonedDevice: Send + Sync + Debug {
    /// Shape and limits; constant while the device is open.
    fn geometry(&self) -> &Geometry;

    /// State of up to `count` zones from `first`; fewer at the device's end.
    ///
    /// # Errors
    /// `NoSuchZone`.
    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>>;

    /// Reads whole blocks of one zone. Blocks at and above the write pointer, and between capacity and size, read as
    /// zeros.
    ///
    /// # Errors
    /// `Unaligned`, `OutOfRange`, `Boundary` across zones, `Offline`, `Media`, `Io`.
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()>;

    /// The same, by somebody who says for what. It changes nothing: a modelled drive that guesses it counts how often it is right.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_told(&self, at: Lba, into: &mut [u8], _origin: ReadOrigin) -> Result<()> {
        self.read(at, into)
    }

    /// Writes whole blocks at the write pointer of a zone, opening it implicitly. At the capacity the zone becomes
    /// full.
    ///
    /// # Errors
    /// `InvalidWrite` away from the write pointer, `Boundary` past the capacity, `Full`, `ReadOnly`, `Offline`,
    /// `TooManyActive`, `TooManyOpen`, `SequenceLost`, `Unaligned`, `NoSpaceOnHost`, `Media`, `Io`.
    fn write(&self, at: Lba, from: &[u8]) -> Result<()>;

    /// Writes whole blocks at the write pointer, wherever it is, and returns the address they got.
    ///
    /// # Errors
    /// As [`write`](Self::write) without `InvalidWrite`; `AppendTooLong`.
    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba>;

    /// Makes every operation that has returned before this call durable.
    ///
    /// # Errors
    /// `Io`, `PowerLost`. After an error earlier writes may be lost for good (`FlushLost` from then on).
    fn flush(&self) -> Result<()>;

    /// Opens a zone explicitly: the device will not close it by itself.
    ///
    /// # Errors
    /// `InvalidTransition` from full, read-only or offline; `TooManyActive`, `TooManyOpen`.
    fn open(&self, zone: ZoneId) -> Result<()>;

    /// Gives the open resource back; the active one stays held, even if nothing was written.
    ///
    /// # Errors
    /// `InvalidTransition` from empty, full, read-only or offline.
    fn close(&self, zone: ZoneId) -> Result<()>;

    /// Makes a zone full where it stands and gives its resources back. Needs none itself, from empty included.
    ///
    /// # Errors
    /// `InvalidTransition` from read-only or offline; `Busy` with writes in flight.
    fn finish(&self, zone: ZoneId) -> Result<()>;

    /// Empties a zone: its data is gone and reads as zeros.
    ///
    /// # Errors
    /// `InvalidTransition` from read-only or offline; `Busy` with writes in flight. After `Io` it is empty or as
    /// before: [`report`](Self::report) says.
    fn reset(&self, zone: ZoneId) -> Result<()>;

    /// A queue for up to `depth` requests in flight, used by one thread at a time. Queues and blocking calls mix
    /// freely, but for one case: an append may wait for the writes in flight in its zone, and those of a queue end when their completions
    /// are taken. So a thread that appends to a zone by a blocking call, or by another queue, waits for ever for writes of its own there
    /// that it has not taken.
    ///
    /// # Errors
    /// `Geometry` for a depth of 0 or above [`QUEUE_DEPTH_MAX`](crate::QUEUE_DEPTH_MAX).
    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>>;

    /// The commands for splitting zones, where the drive knows them.
    fn split_zones(&self) -> Option<&dyn SplitZones> {
        None
    }

    /// The commands for zones with a random write area, where the drive knows them.
    fn random_write_area(&self) -> Option<&dyn RandomWriteArea> {
        None
    }

    /// Bytes and operations since the device was opened.
    fn counters(&self) -> DeviceCounters;

    /// One phrase for reports: `file (O_DIRECT)`, `file (page cache)`, `memory`.
    fn describe(&self) -> String;
}
