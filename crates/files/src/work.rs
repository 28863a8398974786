//! What a store did since it was made, so that it can be asked of the device alone.

use std::collections::BTreeMap;
use std::time::Duration;

use zonda_rt::atomic::Ordering;

use crate::FileStore;
use crate::bytes::{Decoder, Encoder};
use crate::policy::Rule;
use crate::store::Core;

/// Pairs of rule and level in a record at most; those beyond, of more levels than there are, are not recorded.
const ALLOCATIONS_MAX: usize = 256;
const LEVEL_UNKNOWN: u8 = 255;

/// What a store did since it was made.
///
/// Every commit of the journal records it if it changed; that makes no commit of its own. So a mount knows it as of the last commit
/// before: what came between that and a crash, or the end of a mount, is in it no more. Cost: some 100 bytes in a block that is
/// written anyway, for each zone that is opened, finished or reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes copied by cleaning.
    pub copied_bytes: u64,
    /// Bytes left in zones that were finished before they were full.
    pub finished_unwritten_bytes: u64,
    /// Time that finishing zones took.
    pub finishing_time: Duration,
    /// Zones of files that were reset after their live bytes had been copied.
    pub resets_with_copy: u64,
    /// Those reset with nothing to copy.
    pub resets_without_copy: u64,
    /// How often a zone was chosen, by the rule of the policy and the level of the file, where it has one.
    pub allocations: BTreeMap<(Rule, Option<u8>), u64>,
}

impl Work {
    pub(crate) fn encode<'a>(&self, out: &'a mut Encoder) -> &'a mut Encoder {
        let nanos = u64::try_from(self.finishing_time.as_nanos()).unwrap_or(u64::MAX);
        let out = out.u64(self.copied_bytes).u64(self.finished_unwritten_bytes).u64(nanos);
        let out = out.u64(self.resets_with_copy).u64(self.resets_without_copy);
        let count = self.allocations.len().min(ALLOCATIONS_MAX);
        let out = out.u32(u32::try_from(count).expect("at most ALLOCATIONS_MAX"));
        self.allocations
            .iter()
            .take(count)
            .fold(out, |out, ((rule, level), count)| out.u8(*rule as u8).u8(level.unwrap_or(LEVEL_UNKNOWN)).u64(*count))
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let (copied_bytes, finished_unwritten_bytes) = (from.u64()?, from.u64()?);
        let finishing_time = Duration::from_nanos(from.u64()?);
        let (resets_with_copy, resets_without_copy) = (from.u64()?, from.u64()?);
        let count = from.u32()? as usize;
        if count > ALLOCATIONS_MAX {
            return None;
        }
        let allocations = (0..count).map(|_| allocation(from)).collect::<Option<_>>()?;
        Some(Self {
            copied_bytes,
            finished_unwritten_bytes,
            finishing_time,
            resets_with_copy,
            resets_without_copy,
            allocations,
        })
    }
}

fn allocation(from: &mut Decoder<'_>) -> Option<((Rule, Option<u8>), u64)> {
    let (rule, level) = (from.u8()?, from.u8()?);
    let rule = Rule::ALL.into_iter().find(|known| *known as u8 == rule)?;
    Some(((rule, (level != LEVEL_UNKNOWN).then_some(level)), from.u64()?))
}

impl FileStore {
    /// What the store did since it was made; of a mount for reading, as of the last commit before it.
    #[must_use]
    pub fn work(&self) -> Work {
        self.core.work()
    }
}

impl Core {
    /// What the journal had at the mount, and what came since. Locks nothing but [`allocations`](Self::allocations).
    pub(crate) fn work(&self) -> Work {
        let mut work = self.work_before.clone();
        let count = |counter: &zonda_rt::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        work.copied_bytes += count(&self.counters.copied);
        work.finished_unwritten_bytes += self.lanes.finished_unwritten_bytes();
        work.finishing_time += self.lanes.finishing_time();
        work.resets_with_copy += count(&self.counters.resets_with_copy);
        work.resets_without_copy += count(&self.counters.resets_without_copy);
        for (of, count) in self.allocations.lock().iter() {
            *work.allocations.entry(*of).or_default() += count;
        }
        work
    }
}
