//! The zoned page store.

use std::sync::Arc;

use crate::ahead::PagesAhead;
use crate::areas::ZonedArea;
use crate::flusher::Flusher;
use crate::format::PAGE_HEADER_BYTES;
use crate::log_device::{LogDevice, LogPlace};
use crate::reclaim::Reclaimer;
use crate::{
    Area, AreaKind, BLOCK_BYTES, CacheUsage, ChunkAddress, Heat, LiveValues, NewPage, PageAddress, PageError, PageId,
    PageStore, PagesWanted, ReadAhead, Reclaimed, RecordPressure, Relocate, SegmentId, StoreOptions, StoreUsage,
    WrittenBy, headers, in_flight, number, open,
};
use zonda_device::ZonedDevice;
use zonda_rt::atomic::Ordering;
use zonda_space::Space;

/// A page store on a zoned device (ZKV 3.4, with reclaim).
///
/// Owned by one tree; shared by its threads. Pages lie in zones of their stream (hot, cold, relocated), areas in zones of
/// theirs; which of them share zones depends on how many zones the device keeps active. Every zone begins with a header block that
/// carries the client's superblock.
///
/// Costs: `place` one lock, one copy and one CRC per page; a group of pages is one device write; a read is at most one device read
/// (I8); `reclaim_step` reads at most 256 KiB and writes what it moves.
///
/// ```
/// use std::sync::Arc;
/// use zonda_device::{Geometry, MemDevice};
/// use zonda_pages::{Heat, NewPage, PageError, PageId, PageStore, StoreOptions, ZonedStore};
///
/// let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 64))?);
/// let options = StoreOptions { superblock: b"mine".to_vec(), ..StoreOptions::default() };
/// let store = ZonedStore::create(device, &options)?;
/// let page = NewPage { id: PageId(1), sequence: 1, body: b"a leaf" };
/// let at = loop {
///     match store.place(Heat::Hot, &[page]) {
///         Err(PageError::Busy) => store.pump(&mut |_, _, _| {})?,
///         placed => break placed?[0],
///     }
/// };
/// store.settle(&mut |_, _, _| {})?;
/// store.read(PageId(1), at, &mut |body| assert_eq!(body, b"a leaf"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ZonedStore {
    flusher: Arc<Flusher>,
    areas: [ZonedArea; 3],
    reclaimer: Reclaimer,
    /// Where the log is, if not beside the pages.
    log: Option<LogDevice>,
}

impl ZonedStore {
    /// Makes a store on an empty device (on any with `overwrite`).
    ///
    /// # Errors
    /// `Space` for a device that is not empty, too small or has too few active zones, and for bad options: nothing was written.
    /// `Device`.
    pub fn create(device: Arc<dyn ZonedDevice>, options: &StoreOptions) -> Result<Arc<Self>, PageError> {
        Ok(Self::new(open::create(device, LogPlace::Here, options)?, None, options))
    }

    /// As [`create`](Self::create), with the log on a device of its own, which must be empty too and have room for
    /// `log_limit_bytes`. The log is made first: after a crash between the two there is a log of no store, to be made again with
    /// `overwrite`.
    ///
    /// # Errors
    /// As `create`, of either device: what one of them refuses leaves the other as it was.
    pub fn create_with_log(
        device: Arc<dyn ZonedDevice>,
        log: Arc<dyn ZonedDevice>,
        options: &StoreOptions,
    ) -> Result<Arc<Self>, PageError> {
        open::check_create(device.as_ref(), LogPlace::Elsewhere, options)?;
        let log = LogDevice::create(log, options)?;
        Ok(Self::new(open::create(device, LogPlace::Elsewhere, options)?, Some(log), options))
    }

    /// Whether a device has zones enough for a store to be made whose options follow the capacity: `options_of` so many bytes. Nothing is
    /// written.
    ///
    /// # Errors
    /// `Space`, `TooFewZones` with the least number that is enough with the options that go with it.
    pub fn check_zones(
        device: &dyn ZonedDevice,
        log_is_here: bool,
        options_of: &dyn Fn(u64) -> StoreOptions,
    ) -> Result<(), PageError> {
        open::check_zones(device.geometry(), LogPlace::of_new(log_is_here), options_of)
    }

    /// Opens the store of a device and returns it with the superblock given at its creation. Partly written zones of areas are
    /// sealed. Call [`adopt`](PageStore::adopt) with the live pages before placing any.
    ///
    /// # Errors
    /// `Space` for a device without a store, of another store's or client's, of a newer version, with unknown features or
    /// another geometry; `Device`.
    pub fn open(device: Arc<dyn ZonedDevice>, options: &StoreOptions) -> Result<(Arc<Self>, Vec<u8>), PageError> {
        let (flusher, superblock) = open::open(device, LogPlace::Here, options)?;
        Ok((Self::new(flusher, None, options), superblock))
    }

    /// As [`open`](Self::open), for a store whose log is on a device of its own. Who belongs to whom is checked before anything is
    /// written.
    ///
    /// # Errors
    /// As `open`, of either device; `LogIsHere`, `LogOfOtherStore`.
    pub fn open_with_log(
        device: Arc<dyn ZonedDevice>,
        log: Arc<dyn ZonedDevice>,
        options: &StoreOptions,
    ) -> Result<(Arc<Self>, Vec<u8>), PageError> {
        let identity = Space::identify(device.as_ref())?;
        open::check_client(&identity)?;
        LogPlace::Elsewhere.check(identity.features)?;
        let log = LogDevice::open(log, identity.store, options)?;
        let (flusher, superblock) = open::open(device, LogPlace::Elsewhere, options)?;
        Ok((Self::new(flusher, Some(log), options), superblock))
    }

    fn new(flusher: Flusher, log: Option<LogDevice>, options: &StoreOptions) -> Arc<Self> {
        let flusher = Arc::new(flusher);
        let area = |kind, flusher| ZonedArea::new(kind, Arc::clone(flusher));
        let below_log = log.as_ref().map_or(&flusher, |log| &log.flusher);
        let areas = [area(AreaKind::Log, below_log), area(AreaKind::Meta, &flusher), area(AreaKind::Values, &flusher)];
        Arc::new(Self { areas, reclaimer: Reclaimer::new(options.victim_policy), log, flusher })
    }

    /// Reads the header of every zone with something in it, those of the log's own device too, and hands to `finding` what is damaged.
    /// Writers may go on. One device read each.
    ///
    /// # Errors
    /// `Space`.
    pub fn check_headers(&self, finding: &mut dyn FnMut(String)) -> Result<(), PageError> {
        headers::check(&self.flusher, "zone header", finding)?;
        headers::check_log(self.log.as_ref().map(|log| &*log.flusher), finding)
    }

    /// The device below.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn ZonedDevice> {
        self.flusher.space.device()
    }

    /// The device below the log, if that is another one.
    #[must_use]
    pub fn log_device(&self) -> Option<&Arc<dyn ZonedDevice>> {
        Some(self.log.as_ref()?.device())
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.flusher
    }
}

impl PageStore for ZonedStore {
    fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        self.flusher.read(id, at, visit)
    }

    fn read_many(&self, wanted: &mut dyn PagesWanted) -> Result<(), PageError> {
        in_flight::read_many(self.flusher.as_ref(), wanted)
    }

    fn read_ahead(&self) -> Option<Box<dyn ReadAhead>> {
        let reads_ahead = self.flusher.ahead.bytes_max() > 0;
        reads_ahead.then(|| Box::new(PagesAhead::new(Arc::clone(&self.flusher))) as Box<dyn ReadAhead>)
    }

    fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError> {
        self.flusher.place(heat, pages)
    }

    fn is_short(&self) -> bool {
        self.flusher.is_short()
    }

    fn press_for(&self, pages: u32) -> bool {
        self.flusher.press_for(pages)
    }

    fn admit(&self, pages: u32) -> Result<(), PageError> {
        if pages > 0 && self.flusher.would_be_full(u64::from(pages) * BLOCK_BYTES as u64) {
            return Err(self.flusher.refuse_for_now());
        }
        self.flusher.wait_a_moment_for_zones()
    }

    fn pump(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<(), PageError> {
        self.flusher.pump(moved)
    }

    fn settle(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<(), PageError> {
        self.flusher.settle(moved)
    }

    fn release(&self, at: PageAddress) {
        self.flusher.release(at);
    }

    fn release_value(&self, at: ChunkAddress, segment: SegmentId, bytes: u64) {
        self.flusher.release_value(at.0, segment.0, bytes);
    }

    fn adopt(&self, live: &mut dyn Iterator<Item = PageAddress>) {
        self.flusher.adopt(live);
    }

    fn live_values(&self) -> Vec<LiveValues> {
        self.flusher.live_values()
    }

    fn adopt_values(&self, live: &[LiveValues]) {
        self.flusher.adopt_values(live);
    }

    fn area(&self, kind: AreaKind) -> &dyn Area {
        match kind {
            AreaKind::Log => &self.areas[0],
            AreaKind::Meta => &self.areas[1],
            AreaKind::Values => &self.areas[2],
        }
    }

    fn bear_garbage(&self, bears: bool) {
        let unwanted = &self.flusher.garbage_is_unwanted;
        if bears {
            unwanted.fetch_sub(1, Ordering::Relaxed)
        } else {
            unwanted.fetch_add(1, Ordering::Relaxed)
        };
    }

    fn reclaim_step(&self, relocate: &dyn Relocate) -> Result<Reclaimed, PageError> {
        let was_reset = self.log.as_ref().map_or(Ok(false), LogDevice::take_back)?;
        let stepped = self.reclaimer.step(&self.flusher, relocate)?;
        Ok(if was_reset { Reclaimed::Progress } else { stepped })
    }

    fn record_pressure(&self) -> RecordPressure {
        let of_log = self.log.as_ref().map_or(RecordPressure::None, |log| log.pressure());
        self.flusher.records.pressure().max(of_log)
    }

    fn page_body_bytes(&self, blocks: u64) -> usize {
        number::index(blocks) * BLOCK_BYTES - PAGE_HEADER_BYTES
    }

    fn usage(&self) -> StoreUsage {
        let mut usage = self.flusher.usage();
        self.log.iter().for_each(|log| log.add_usage(&mut usage));
        usage
    }

    fn memory_bytes(&self) -> u64 {
        self.flusher.memory_bytes() + self.log.as_ref().map_or(0, |log| log.flusher.memory_bytes())
    }

    fn written_by(&self) -> WrittenBy {
        let mut written = self.flusher.written_by();
        self.log.iter().for_each(|log| log.add_written(&mut written));
        written
    }

    fn reads(&self) -> (u64, u64) {
        self.flusher.counters.reads()
    }

    fn cache_usage(&self) -> CacheUsage {
        self.flusher.cache.usage()
    }

    fn set_read_cache_bytes(&self, bytes: u64) {
        self.flusher.cache.resize(bytes);
    }
}
