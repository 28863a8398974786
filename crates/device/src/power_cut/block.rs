//! A block device in memory whose power can be cut.
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
};

use zonda_rt::{DeviceCall, Mutex, Rng, device_call};

use super::{
    PowerCut, Survival,
    plan::{CutAt, CutReport},
    supply::{OlderVersions, Supply},
};
use crate::{
    BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, MemBlockDevice, MemDevice, Result,
    counters::Counting,
    mem::index,
    queue::{Block, SyncQueue},
};

/// As [`PowerCut`](super::PowerCut), for blocks: after a cut each block holds what was flushed or any later version of
/// it, independently of all others.
#[derive(Clone)]
pub struct PowerCutBlock {
    shared: Arc<Shared>,
}

struct Shared {
    live: MemBlockDevice,
    /// No other block device is on it.
    supply: Arc<Mutex<Supply>>,
    counting: Counting,
}

impl PowerCutBlock {
    /// Puts a power switch before a memory device. What it holds now counts as flushed. Use the device only through the
    /// switch.
    #[must_use]
    pub fn over(live: MemBlockDevice) -> Self {
        Self { shared: Arc::new(Shared { live, supply: Arc::default(), counting: Counting::default() }) }
    }

    /// Puts a zoned memory device on the power supply of this one: as [`PowerCut::beside`].
    #[must_use]
    pub fn beside(&self, live: MemDevice) -> PowerCut {
        PowerCut::plug_in(live, Arc::clone(&self.shared.supply))
    }

    /// Says when the power goes; replaces what was said before.
    pub fn arm(&self, at: impl Into<Option<CutAt>>) {
        self.shared.supply.lock().plan.arm(at.into());
    }

    /// Cuts the power now, between operations.
    pub fn cut(&self) {
        self.shared.supply.lock().plan.cut(None);
    }

    /// What the cut hit; `None` while the power is on.
    #[must_use]
    pub fn cut_report(&self) -> Option<CutReport> {
        self.shared.supply.lock().plan.report()
    }

    /// Operations so far, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.supply.lock().plan.operations()
    }

    /// Operations so far by label; those outside all labels are under `other`.
    #[must_use]
    pub fn operations_by_label(&self) -> BTreeMap<&'static str, u64> {
        self.shared.supply.lock().plan.by_label()
    }

    /// Cuts the power unless it is cut, and returns a device that holds one legal outcome, drawn from `rng`.
    #[must_use]
    pub fn reopen(&self, rng: &mut Rng) -> MemBlockDevice {
        let mut supply = self.shared.supply.lock();
        supply.plan.cut(None);
        let mut bytes = self.shared.live.copy_bytes();
        let block_bytes = self.shared.live.block_bytes() as usize;
        let survival = Survival::draw(rng);
        for (&block, older) in &supply.older {
            if let Some(version) = choose(older, survival, rng) {
                bytes[index(block) * block_bytes..][..block_bytes].copy_from_slice(version);
            }
        }
        MemBlockDevice::from_bytes(self.shared.live.shape(), bytes)
    }

    /// Does a change of blocks after keeping their content, and loses the power during it if that is the plan.
    fn change(&self, call: DeviceCall, at: Lba, blocks: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        device_call(call, || {
            let mut supply = self.shared.supply.lock();
            let power_goes = supply.plan.count(call)?;
            if self.shared.live.shape().check_span(at, blocks).is_ok() {
                self.keep(&mut supply.older, at, blocks);
            }
            let result = work();
            if power_goes { Err(DeviceError::PowerLost) } else { result }
        })
    }

    fn keep(&self, older: &mut OlderVersions, at: Lba, blocks: u64) {
        for block in at.0..at.0 + blocks {
            let content = self.shared.live.copy_block(Lba(block));
            match older.entry(block) {
                Entry::Vacant(entry) => drop(entry.insert(vec![content])),
                Entry::Occupied(mut entry) => entry.get_mut().push(content),
            }
        }
    }
}

/// One of a block's older versions, or `None` for the newest.
fn choose<'a>(older: &'a [Vec<u8>], survival: Survival, rng: &mut Rng) -> Option<&'a Vec<u8>> {
    match survival {
        Survival::Nothing => older.first(),
        Survival::Everything => None,
        Survival::Mixed => older.get(rng.index(older.len() + 1)),
    }
}

impl fmt::Debug for PowerCutBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PowerCutBlock").field("shape", &self.shared.live.shape()).finish_non_exhaustive()
    }
}

impl BlockDevice for PowerCutBlock {
    fn block_bytes(&self) -> u32 {
        self.shared.live.block_bytes()
    }

    fn capacity_blocks(&self) -> u64 {
        self.shared.live.capacity_blocks()
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        device_call(DeviceCall::Read, || {
            let power_goes = self.shared.supply.lock().plan.count(DeviceCall::Read)?;
            let result = self.shared.live.copy_out(at, into);
            if power_goes { Err(DeviceError::PowerLost) } else { result }
        })?;
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = crate::buffer::check(from, self.block_bytes())?;
        self.change(DeviceCall::Write, at, blocks, || self.shared.live.copy_in(at, from))?;
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        device_call(DeviceCall::Flush, || {
            let mut supply = self.shared.supply.lock();
            if supply.plan.count(DeviceCall::Flush)? {
                return Err(DeviceError::PowerLost);
            }
            supply.older.clear();
            Ok(())
        })?;
        self.shared.counting.flushed();
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.change(DeviceCall::Trim, at, blocks, || self.shared.live.clear(at, blocks))?;
        self.shared.counting.trimmed();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Block(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        "memory with a power switch".to_owned()
    }
}
