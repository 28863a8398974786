//! The contract of zones with a random write area (ZRWA of NVMe ZNS): a window behind the write pointer that takes writes in
//! any order.
use std::fmt::Debug;

use crate::{Lba, Result, ZoneId};

/// Zones with a window: [`ZonedDevice::random_write_area`](crate::ZonedDevice::random_write_area) gives it where a drive can.
///
/// Life cycle of a window: 1 [`open_with_window`](Self::open_with_window) of an empty zone -> 2 writes anywhere in
/// `window_blocks` from the write pointer, again and again; the write pointer stands still -> 3 blocks are *committed*, in
/// whole granules: by [`commit`](Self::commit), or because a write ends in the next `window_blocks` behind the window,
/// which moves on until the write fits; the write pointer moves, and what it passes can not be written any more (holes
/// read as zeros) -> 4 close, finish or reset take the window away, and a commit of the whole zone; the first two commit what was
/// written. After an error of a commit the window is still there, with what was not committed.
///
/// Committed blocks have the durability of a write. Blocks in the window are in memory of the drive that survives a power
/// cut. A write before the write pointer, or behind both windows, answers `InvalidWrite`; an append `InvalidTransition`.
pub trait RandomWriteArea: Send + Sync + Debug {
    /// Blocks of a window.
    fn window_blocks(&self) -> u64;

    /// Blocks that are committed together.
    fn granule_blocks(&self) -> u64;

    /// Most windows at a time.
    fn windows_max(&self) -> u32;

    /// Opens an empty zone with a window.
    ///
    /// # Errors
    /// `InvalidTransition` unless it is empty; `NoWindow` if all are in use; `TooManyActive`, `TooManyOpen`.
    fn open_with_window(&self, zone: ZoneId) -> Result<()>;

    /// Commits everything before `end`, which is a whole number of granules from the zone's start, or its capacity.
    ///
    /// # Errors
    /// `InvalidTransition` without a window; `Unaligned`; `InvalidWrite` before the write pointer or behind the window.
    fn commit(&self, zone: ZoneId, end: Lba) -> Result<()>;
}
