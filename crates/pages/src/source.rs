//! What reads in flight need to know of a store: where pages are, queues, buffers, and how to verify what comes.

use std::sync::Arc;

use zonda_device::{IoQueue, Lba};

use crate::ahead::AheadBudget;
use crate::pool::BufferPool;
use crate::{PageAddress, PageError, PageId};

/// What a place of a device holds: the same version, the same bytes.
///
/// On zones the generation alone tells: within one a block is written once (I1). In place slots are reused within a generation, so the
/// completed page writes of the segment count too. They are counted before the page leaves memory, so whoever asked for the place while a
/// newer page was on its way there, and got what lay there before, has an older version than who finds the newer one on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) generation: u64,
    pub(crate) writes: u64,
}

/// Where a page is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnDevice {
    /// Differs from the address that was asked for where the page was placed again after a failure.
    pub(crate) at: PageAddress,
    /// Of the zone or segment there.
    pub(crate) generation: u64,
}

/// A store as those see it who keep reads in flight.
pub(crate) trait Source: Send + Sync {
    /// Where a page is on the device, and which version; `None` if it is in memory or nowhere.
    fn on_device(&self, at: PageAddress) -> Option<(PageAddress, Version)>;

    /// Calls `visit` with the body of page `id` at `at` if it is in memory, else says where it is. The caller keeps the address alive.
    ///
    /// # Errors
    /// `Damaged` when another page is there, or nothing can be.
    fn visit_in_memory(
        &self,
        id: PageId,
        at: PageAddress,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<OnDevice>, PageError>;

    /// A queue with nothing in flight.
    ///
    /// # Errors
    /// `Device`.
    fn take_queue(&self) -> Result<Box<dyn IoQueue>, PageError>;

    /// Takes it back, with nothing in flight.
    fn put_queue(&self, queue: Box<dyn IoQueue>);

    /// What all readers may hold.
    fn budget(&self) -> &AheadBudget;

    /// Where buffers come from.
    fn buffers(&self) -> &Arc<BufferPool>;

    /// Where a block begins on the device.
    fn lba(&self, block: u64) -> Lba;

    /// Verifies a page that came from the device and returns its body. The caller keeps the address alive.
    ///
    /// # Errors
    /// `Damaged`.
    fn verify<'a>(&self, buffer: &'a [u8], page: (PageId, PageAddress), generation: u64)
    -> Result<&'a [u8], PageError>;
}
