//! A block device in memory whose power can be cut.
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
};

use zonda_rt::{DeviceCall, Mutex, Rng, device_call};

use super::{
    Survival,
    plan::{CutAt, CutPlan, CutReport},
};
use crate::{
    BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, MemBlockDevice, Result,
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
    state: Mutex<State>,
    counting: Counting,
}

#[derive(Default)]
struct State {
    plan: CutPlan,
    /// For each block changed since the last flush: its flushed content and all later ones but the newest, oldest
    /// first.
    older: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl PowerCutBlock {
    /// Puts a power switch before a memory device. What it holds now counts as flushed. Use the device only through the
    /// switch.
    #[must_use]
    pub fn over(live: MemBlockDevice) -> Self {
        let state = Mutex::new(State::default());
        Self { shared: Arc::new(Shared { live, state, counting: Counting::default() }) }
    }

    /// Says when the power goes; replaces what was said before.
    pub fn arm(&self, at: impl Into<Option<CutAt>>) {
        self.shared.state.lock().plan.arm(at.into());
    }

    /// Cuts the power now, between operations.
    pub fn cut(&self) {
        self.shared.state.lock().plan.cut(None);
    }

    /// What the cut hit; `None` while the power is on.
    #[must_use]
    pub fn cut_report(&self) -> Option<CutReport> {
        self.shared.state.lock().plan.report()
    }

    /// Operations so far, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.state.lock().plan.operations()
    }

    /// Operations so far by label; those outside all labels are under `other`.
    #[must_use]
    pub fn operations_by_label(&self) -> BTreeMap<&'static str, u64> {
        self.shared.state.lock().plan.by_label()
    }

    /// Cuts the power unless it is cut, and returns a device that holds one legal outcome, drawn from `rng`.
    #[must_use]
    pub fn reopen(&self, rng: &mut Rng) -> MemBlockDevice {
        let mut state = self.shared.state.lock();
        state.plan.cut(None);
        let mut bytes = self.shared.live.copy_bytes();
        let block_bytes = self.shared.live.block_bytes() as usize;
        let survival = Survival::draw(rng);
        for (&block, older) in &state.older {
            if let Some(version) = choose(older, survival, rng) {
                bytes[index(block) * block_bytes..][..block_bytes].copy_from_slice(version);
            }
        }
        MemBlockDevice::from_bytes(self.shared.live.shape(), bytes)
    }

    /// Does a change of blocks after keeping their content, and loses the power during it if that is the plan.
    fn change(&self, call: DeviceCall, at: Lba, blocks: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        device_call(call, || {
            let mut state = self.shared.state.lock();
            let power_goes = state.plan.count(call)?;
            if self.shared.live.shape().check_span(at, blocks).is_ok() {
                self.keep(&mut state.older, at, blocks);
            }
            let result = work();
            if power_goes { Err(DeviceError::PowerLost) } else { result }
        })
    }

    fn keep(&self, older: &mut BTreeMap<u64, Vec<Vec<u8>>>, at: Lba, blocks: u64) {
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
            let power_goes = self.shared.state.lock().plan.count(DeviceCall::Read)?;
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
            let mut state = self.shared.state.lock();
            if state.plan.count(DeviceCall::Flush)? {
                return Err(DeviceError::PowerLost);
            }
            state.older.clear();
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
