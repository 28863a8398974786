//! The page store contract.

use crate::{Area, AreaKind, LiveValues, PageAddress, PageError, PageId, RecordPressure, Relocate};

/// What a writer expects of a page's future; decides which stream of zones it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heat {
    /// Written by a foreground merge: likely to be rewritten soon.
    Hot,
    /// Written by an ordered load or `compact`: expected to stay.
    Cold,
    /// Moved by reclaim: survived once, expected to stay longest.
    Relocated,
}

/// A page to be placed.
#[derive(Clone, Copy, Debug)]
pub struct NewPage<'a> {
    /// Its leaf.
    pub id: PageId,
    /// Highest log sequence number whose effect it holds.
    pub sequence: u64,
    /// Its content; at most `page_body_bytes(PAGE_BLOCKS_MAX)`. The store adds header, checksum and padding.
    pub body: &'a [u8],
}

/// Bytes written to the device since open, by cause, block padding included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenBy {
    /// Leaves written because buffers were merged.
    pub flush: u64,
    /// Leaves moved by reclaim.
    pub relocation: u64,
    /// Write-ahead log.
    pub log: u64,
    /// MetaLog: address records and buffer images together; the tree splits it further.
    pub meta: u64,
    /// Large values, first writing and relocation.
    pub values: u64,
    /// Zone headers.
    pub headers: u64,
}

/// Space of a store in bytes (I9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// All zones' capacity.
    pub capacity_bytes: u64,
    /// Kept back: open streams, journal, checkpoints, log limit, relocation.
    pub reserve_bytes: u64,
    /// `capacity - reserve`: what live data may fill.
    pub usable_bytes: u64,
    /// Live leaves.
    pub live_page_bytes: u64,
    /// Live values.
    pub live_value_bytes: u64,
    /// Some of these are of an earlier life, and what is live of those is what that one knew.
    pub live_values_are_estimated: bool,
    /// Zones with nothing in them.
    pub free_zones: u32,
    /// Zones in all.
    pub zones: u32,
    /// Zones that hold an active token, and the most there may be.
    pub active_zones: u32,
    /// Zones reset since open.
    pub zones_reset: u64,
    /// Memory of sequencer, read cache and tables in bytes.
    pub memory_bytes: u64,
    /// Most memory that they may take.
    pub memory_bytes_max: u64,
}

/// The cache of whole pages in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Bytes that it takes.
    pub bytes: u64,
    /// Bytes that it may take.
    pub bytes_max: u64,
    /// Pages found in it since open.
    pub hits: u64,
}

/// What a reclaim step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// Nothing to do.
    Idle,
    /// Some work was done; call again.
    Progress,
    /// Work is left, but it waits for readers, snapshots or latches; call again later.
    Waiting,
    /// Another thread is doing a step; call again later.
    Busy,
    /// This very thread is in the middle of a step: nobody else does one before it goes on.
    Inside,
}

/// Pages that one reader will soon ask for, on their way from the device meanwhile: hints, which cost nothing but bandwidth
/// when they are wrong.
///
/// Contract: memory is bounded by the store; what goes beyond is not read ahead. Dropping it waits for what is in flight.
pub trait ReadAhead: Send {
    /// Asks for pages, in the order in which they will be taken, and returns at once. What is in memory is skipped.
    fn want(&mut self, pages: &[(PageId, PageAddress)]);

    /// Calls `visit` with the body of page `id` at `at` if it was wanted, waiting for it if it is on its way; forgets it, and
    /// what was wanted before it. `false`: it is not here, or could not be read; ask the store. The caller keeps the address
    /// alive by an epoch guard, as for [`PageStore::read`].
    fn take(&mut self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> bool;
}

/// Several pages that a caller of [`PageStore::read_many`] wants, and what it does with them.
///
/// The store asks for the next page while those before are on their way, so that to find out which it is costs the device no wait.
pub trait PagesWanted {
    /// The next page and its address, which the caller keeps alive by an epoch guard until the read has ended; `None`: these were all.
    fn next_page(&mut self) -> Option<(PageId, PageAddress)>;

    /// Takes the body of the `nth` page that [`next_page`](Self::next_page) gave, counted from 0. Each comes once, in any order.
    fn take(&mut self, nth: usize, body: &[u8]);
}

/// Where the leaves of a tree live.
///
/// Contract.
/// - *Pages* are placed whole; [`place`](PageStore::place) of n pages reserves room for all n or for none and only copies
///   to memory, so that it may be called under a leaf latch; the device write happens in [`pump`](PageStore::pump),
///   which must be called with no latch held. Reads find a page from the moment `place` returned.
/// - *Durability*: a placed page is durable after [`settle`](PageStore::settle). The caller's address record must become
///   durable after that (write-ahead rule), the old page may be reused only after the record (I3).
/// - *Release*: [`release`](PageStore::release) tells that nothing newer than the next [`Relocate::stamp`] will ask for the page.
/// - *Reads* verify checksum and identity on every device read (I5) and cost at most one device read (I8). The caller
///   keeps the address alive by an epoch guard (see [`Relocate::drained`]).
/// - *Failed zones*: a page that cannot be written where it was placed is placed again by the store; it then tells the
///   tree through `moved` of `pump`/`settle`.
/// - *Threads*: every method may be called by any thread.
pub trait PageStore: Send + Sync {
    /// Calls `visit` with the body of page `id` at `at`: from the sequencer, the read cache or the device.
    ///
    /// # Errors
    /// `Damaged` when what is there is not that page; `Device`.
    fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError>;

    /// Reads all pages that `wanted` names, with the device reads in flight together.
    ///
    /// # Errors
    /// As [`read`](PageStore::read); nothing more is asked for after one, and other pages may have been taken before.
    fn read_many(&self, wanted: &mut dyn PagesWanted) -> Result<(), PageError> {
        let mut nth = 0;
        while let Some((id, at)) = wanted.next_page() {
            self.read(id, at, &mut |body| wanted.take(nth, body))?;
            nth += 1;
        }
        Ok(())
    }

    /// A place for the pages that one reader will want next; `None` if this store does not read ahead.
    fn read_ahead(&self) -> Option<Box<dyn ReadAhead>> {
        None
    }

    /// Places pages: all or none. Memory only, but for pages that are together longer than a zone, which few stores are small enough to
    /// meet: what fills a zone is written then, under the caller's latches.
    ///
    /// # Errors
    /// `Busy` when the sequencer has no room: release latches, `pump`, try again. `NoSpace` when no zone can be had. `PageTooLong`. Those
    /// of the device where a zone was written.
    fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError>;

    /// Whether [`admit`](PageStore::admit) would wait for reclaim now: a writer then does a reclaim step itself, so that
    /// a store without background threads goes on too. Cheap.
    fn is_short(&self) -> bool {
        false
    }

    /// Says that a writer needs zones for `pages` pages at once, and with 0 that it needs them no more: between the two reclaim goes on
    /// while there are fewer. Returns whether there are enough. For values that take more than one zone; one is kept free anyway. Of
    /// several writers the one that needs most counts.
    fn press_for(&self, _pages: u32) -> bool {
        true
    }

    /// Waits a moment (some 20 ms) until a foreground writer may place `pages` pages: below the reserve it waits for reclaim. Call with no
    /// latch held. A full store still admits 0 pages while there are zones: for merges of deletes, which give space back.
    ///
    /// # Errors
    /// `Busy` when zones are still short: look whether the store is to go on at all, help with reclaim, ask again.
    /// `NoSpace` with numbers when live bytes and these pages exceed the usable space so that reclaim cannot help.
    fn admit(&self, pages: u32) -> Result<(), PageError>;

    /// Writes complete groups to the device. `moved` hears of pages that had to be placed again because a zone failed:
    /// (page, old address, new address).
    ///
    /// # Errors
    /// `Device` when pages could not be placed anywhere.
    fn pump(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<(), PageError>;

    /// Writes everything placed before this call, incomplete groups too, and flushes the device. `moved` as in `pump`.
    ///
    /// # Errors
    /// As `pump`.
    fn settle(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<(), PageError>;

    /// The page at `at` is superseded.
    fn release(&self, at: PageAddress);

    /// The value chunk at `at` of `bytes` bytes, which `segment` holds, is superseded. Nothing happens if the segment is gone.
    fn release_value(&self, at: crate::ChunkAddress, segment: crate::SegmentId, bytes: u64);

    /// After recovery: the pages that are live. Everything else in data zones is garbage. Called once, before any
    /// `place`.
    fn adopt(&self, live: &mut dyn Iterator<Item = PageAddress>);

    /// What is live of the values in segments of which an eighth or more is dead. A checkpoint keeps it, so that the next life begins with
    /// what this one knew.
    fn live_values(&self) -> Vec<LiveValues> {
        Vec::new()
    }

    /// After [`adopt`](Self::adopt), which counts all values of earlier lives as live: in these segments fewer are. The numbers may be
    /// wrong both ways for what happened after they were taken; reclaim looks before it gives a segment up. One pass over the zones.
    fn adopt_values(&self, _live: &[LiveValues]) {}

    /// An append area.
    fn area(&self, kind: AreaKind) -> &dyn Area;

    /// With `false` no garbage is to be borne: reclaim goes on as long as half of a zone is dead, however many are free, until `true` was
    /// called as often as `false`.
    fn bear_garbage(&self, _bears: bool) {}

    /// One step of reclaim: picks victims when free zones are short or too much is dead, moves their live pages and values, resets what is
    /// empty and drained.
    ///
    /// # Errors
    /// Those of `Relocate` and `Device`.
    fn reclaim_step(&self, relocate: &dyn Relocate) -> Result<Reclaimed, PageError>;

    /// Whether log and MetaLog fill the zones that are kept for them, so that a checkpoint must give some back, however short
    /// the log is in bytes. Cheap.
    fn record_pressure(&self) -> RecordPressure {
        RecordPressure::None
    }

    /// Body bytes that fit a page of `blocks` blocks.
    fn page_body_bytes(&self, blocks: u64) -> usize;

    /// Space and memory. Looks at every zone; not for a hot path.
    fn usage(&self) -> StoreUsage;

    /// [`StoreUsage::memory_bytes`] alone, for whoever asks every few milliseconds.
    fn memory_bytes(&self) -> u64 {
        self.usage().memory_bytes
    }

    /// Bytes written by cause.
    fn written_by(&self) -> WrittenBy;

    /// Bytes and operations read from the device since open: (leaf read operations, bytes of all reads).
    fn reads(&self) -> (u64, u64);

    /// The read cache. A store without one has nothing to say.
    fn cache_usage(&self) -> CacheUsage {
        CacheUsage::default()
    }

    /// Gives the read cache another capacity in bytes; what no longer fits goes at once. A store without one ignores it.
    fn set_read_cache_bytes(&self, _bytes: u64) {}
}
