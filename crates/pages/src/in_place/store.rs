//! The store's public face.

use std::sync::Arc;

use zonda_device::{BlockDevice, ZonedDevice};
use zonda_rt::Mutex;
use zonda_rt::atomic::Ordering;

use super::areas::InPlaceArea;
use super::core::Core;
use super::reclaim::Work;
use super::{InPlaceOptions, open};
use crate::ahead::PagesAhead;
use crate::areas::ZonedArea;
use crate::log_device::{LogDevice, LogPlace};
use crate::map::ZoneMapEntry;
use crate::{
    Area, AreaKind, BLOCK_BYTES, CacheUsage, ChunkAddress, Heat, LiveValues, NewPage, PageAddress, PageError, PageId,
    PageStore, PagesWanted, ReadAhead, Reclaimed, RecordPressure, Relocate, SegmentId, StoreUsage, WrittenBy, headers,
    in_flight,
};

/// A page store on a block device.
///
/// Owned by one tree; shared by its threads. The device is divided into segments. One holds pages in slots of whole blocks, which are
/// reused one by one, or chunks of one area, and is reused as a whole. The superblock lies at both ends of the device.
///
/// Costs: `place` two short locks, a copy and a CRC per page; neighbouring pages leave in one write of up to 256 KiB, up to 32 writes in
/// flight; a read is at most one device read (I8); opening reads one block per segment.
///
/// ```
/// use std::sync::Arc;
/// use zonda_device::MemBlockDevice;
/// use zonda_pages::{Heat, InPlaceOptions, InPlaceStore, NewPage, PageId, PageStore, StoreOptions};
///
/// let device = Arc::new(MemBlockDevice::new(4096, 16 << 10)?);
/// let common = StoreOptions { superblock: b"mine".to_vec(), ..StoreOptions::default() };
/// let options = InPlaceOptions { common, segment_blocks: 256, ..InPlaceOptions::default() };
/// let store = InPlaceStore::create(device, &options)?;
/// let page = NewPage { id: PageId(1), sequence: 1, body: b"a leaf" };
/// let at = store.place(Heat::Hot, &[page])?[0];
/// store.settle(&mut |_, _, _| {})?;
/// store.read(PageId(1), at, &mut |body| assert_eq!(body, b"a leaf"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InPlaceStore {
    core: Arc<Core>,
    areas: [Box<dyn Area>; 3],
    /// Where the log is, if not beside the pages.
    log: Option<LogDevice>,
    reclaim: Mutex<Work>,
}

impl InPlaceStore {
    /// Makes a store on an empty device (on any with `overwrite`).
    ///
    /// # Errors
    /// `Space` for a device that is not empty or too small, and for bad options: nothing was written. `Device`.
    pub fn create(device: Arc<dyn BlockDevice>, options: &InPlaceOptions) -> Result<Arc<Self>, PageError> {
        Ok(Self::new(open::create(device, LogPlace::Here, options)?, None))
    }

    /// As [`create`](Self::create), with the log on a zoned device of its own: see
    /// [`ZonedStore::create_with_log`](crate::ZonedStore::create_with_log).
    ///
    /// # Errors
    /// As `create`, of either device.
    pub fn create_with_log(
        device: Arc<dyn BlockDevice>,
        log: Arc<dyn ZonedDevice>,
        options: &InPlaceOptions,
    ) -> Result<Arc<Self>, PageError> {
        open::check_create(Arc::clone(&device), LogPlace::Elsewhere, options)?;
        let log = LogDevice::create(log, &options.common)?;
        Ok(Self::new(open::create(device, LogPlace::Elsewhere, options)?, Some(log)))
    }

    /// Whether a device has segments enough: see [`ZonedStore::check_zones`](crate::ZonedStore::check_zones).
    ///
    /// # Errors
    /// As there.
    pub fn check_segments(
        capacity_bytes: u64,
        log_is_here: bool,
        options_of: &dyn Fn(u64) -> InPlaceOptions,
    ) -> Result<(), PageError> {
        open::check_segments(capacity_bytes / BLOCK_BYTES as u64, LogPlace::of_new(log_is_here), options_of)
    }

    /// Opens the store of a device and returns it with the superblock given at its creation. Call [`adopt`](PageStore::adopt) with the
    /// live pages before placing any.
    ///
    /// # Errors
    /// `Space` for a device without a store, of another client's, of a newer version, with unknown features or another capacity;
    /// `Device`.
    pub fn open(device: Arc<dyn BlockDevice>, options: &InPlaceOptions) -> Result<(Arc<Self>, Vec<u8>), PageError> {
        let (core, superblock) = open::open(device, LogPlace::Here, options)?;
        Ok((Self::new(core, None), superblock))
    }

    /// As [`open`](Self::open), for a store whose log is on a device of its own. Who belongs to whom is checked before anything is
    /// written.
    ///
    /// # Errors
    /// As `open`, of either device; `LogIsHere`, `LogOfOtherStore`.
    pub fn open_with_log(
        device: Arc<dyn BlockDevice>,
        log: Arc<dyn ZonedDevice>,
        options: &InPlaceOptions,
    ) -> Result<(Arc<Self>, Vec<u8>), PageError> {
        let store = open::identify(Arc::clone(&device), LogPlace::Elsewhere, options)?;
        let log = LogDevice::open(log, store, &options.common)?;
        let (core, superblock) = open::open(device, LogPlace::Elsewhere, options)?;
        Ok((Self::new(core, Some(log)), superblock))
    }

    /// Whether a device holds nothing, not even the beginning of a store.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_blank(device: Arc<dyn BlockDevice>) -> Result<bool, PageError> {
        open::is_blank(device)
    }

    /// As [`ZonedStore::check_headers`](crate::ZonedStore::check_headers), of segments. Zeros are no damage where nothing is live: a power
    /// cut may leave them.
    ///
    /// # Errors
    /// `Device`, `Space`.
    pub fn check_headers(&self, finding: &mut dyn FnMut(String)) -> Result<(), PageError> {
        super::headers::check(&self.core, finding)?;
        headers::check_log(self.log.as_ref().map(|log| &*log.flusher), finding)
    }

    fn new(core: Core, log: Option<LogDevice>) -> Arc<Self> {
        let core = Arc::new(core);
        let beside_pages = |kind| Box::new(InPlaceArea::new(kind, Arc::clone(&core))) as Box<dyn Area>;
        let log_area = match &log {
            Some(log) => Box::new(ZonedArea::new(AreaKind::Log, Arc::clone(&log.flusher))),
            None => beside_pages(AreaKind::Log),
        };
        let areas = [log_area, beside_pages(AreaKind::Meta), beside_pages(AreaKind::Values)];
        Arc::new(Self { areas, log, reclaim: Mutex::default(), core })
    }

    /// The device below.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.core.disk.device()
    }

    /// The device below the log, if that is another one.
    #[must_use]
    pub fn log_device(&self) -> Option<&Arc<dyn ZonedDevice>> {
        Some(self.log.as_ref()?.device())
    }

    /// All segments, by number. Cost: one pass over them.
    #[must_use]
    pub fn map(&self) -> Vec<ZoneMapEntry> {
        self.core.map()
    }
}

impl PageStore for InPlaceStore {
    fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        self.core.read(id, at, visit)
    }

    fn read_many(&self, wanted: &mut dyn PagesWanted) -> Result<(), PageError> {
        in_flight::read_many(self.core.as_ref(), wanted)
    }

    fn read_ahead(&self) -> Option<Box<dyn ReadAhead>> {
        let reads_ahead = self.core.ahead.bytes_max() > 0;
        reads_ahead.then(|| Box::new(PagesAhead::new(Arc::clone(&self.core))) as Box<dyn ReadAhead>)
    }

    fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError> {
        self.core.place(heat, pages)
    }

    fn is_short(&self) -> bool {
        self.core.is_short()
    }

    fn press_for(&self, pages: u32) -> bool {
        self.core.press_for(pages)
    }

    fn admit(&self, pages: u32) -> Result<(), PageError> {
        self.core.admit(pages)
    }

    fn pump(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<(), PageError> {
        self.core.pump(moved)
    }

    fn settle(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<(), PageError> {
        self.core.settle(moved)
    }

    fn release(&self, at: PageAddress) {
        self.core.release(at);
    }

    fn release_value(&self, at: ChunkAddress, segment: SegmentId, bytes: u64) {
        self.core.release_value(at.0, segment.0, bytes);
    }

    fn adopt(&self, live: &mut dyn Iterator<Item = PageAddress>) {
        self.core.adopt(live);
    }

    fn live_values(&self) -> Vec<LiveValues> {
        self.core.live_values()
    }

    fn adopt_values(&self, live: &[LiveValues]) {
        self.core.adopt_values(live);
    }

    fn area(&self, kind: AreaKind) -> &dyn Area {
        match kind {
            AreaKind::Log => self.areas[0].as_ref(),
            AreaKind::Meta => self.areas[1].as_ref(),
            AreaKind::Values => self.areas[2].as_ref(),
        }
    }

    fn bear_garbage(&self, bears: bool) {
        let unwanted = &self.core.garbage_is_unwanted;
        if bears {
            unwanted.fetch_sub(1, Ordering::Relaxed)
        } else {
            unwanted.fetch_add(1, Ordering::Relaxed)
        };
    }

    fn reclaim_step(&self, relocate: &dyn Relocate) -> Result<Reclaimed, PageError> {
        let was_reset = self.log.as_ref().map_or(Ok(false), LogDevice::take_back)?;
        let stepped = self.core.reclaim_step(&self.reclaim, relocate)?;
        Ok(if was_reset { Reclaimed::Progress } else { stepped })
    }

    fn record_pressure(&self) -> RecordPressure {
        let of_log = self.log.as_ref().map_or(RecordPressure::None, |log| log.pressure());
        self.core.records.pressure().max(of_log)
    }

    fn page_body_bytes(&self, blocks: u64) -> usize {
        open::page_body_bytes(blocks)
    }

    fn usage(&self) -> StoreUsage {
        let mut usage = self.core.usage();
        self.log.iter().for_each(|log| log.add_usage(&mut usage));
        usage
    }

    fn written_by(&self) -> WrittenBy {
        let mut written = self.core.written_by();
        self.log.iter().for_each(|log| log.add_written(&mut written));
        written
    }

    fn reads(&self) -> (u64, u64) {
        self.core.counters.reads()
    }

    fn cache_usage(&self) -> CacheUsage {
        self.core.cache.usage()
    }

    fn set_read_cache_bytes(&self, bytes: u64) {
        self.core.cache.resize(bytes);
    }
}
