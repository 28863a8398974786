//! Replays a trace on modelled zones, with any policy: metadata only, so that it takes seconds at sizes that no machine here
//! could hold.
//!
//! What it can know: which bytes go to which zone, what dies when, what cleaning copies. What it cannot: a trace goes on
//! whatever the device does (an open loop), so there is no throughput, no latency and no stall in it, and the report has none.
//!
//! The zones behave as those of a [`FileStore`](crate::FileStore): lanes of the same budget, the same policies asked with the same
//! views, logs and moved bytes in zones of their own, the finish threshold. The journal is left out. Cleaning goes
//! on until the threshold is free above the reserve, as in the CAZA paper (section 5.1), and begins as soon as less is free: in the
//! paper it runs more often at higher thresholds. What counts as free is an option ([`FreeSpace`]). Zones in which nothing is live are
//! reset first. Where free space is counted as a store does ([`FreeSpace::AsStore`]) nothing is cleaned for a choice either: who would
//! have an empty zone and finds none joins an open one, and moved bytes leave of the reserve what they leave there. A table that is
//! placed before its keys are known has its first one, as in a store; a trace has that from what is said of the table later.
//!
//! Policies of subzones find a device that splits zones into [`ReplayOptions::subzones`]. What a store does only with its next commit,
//! to reset subzones and to join zones, is done here at once, as in the `SplitZNS` paper. What cleaning keeps free, it keeps of zones that
//! are not split. All cleaning here is that of the background: what a policy waits for counts as free for it.

mod clean;
mod model;
mod oracle;
mod report;
mod run;
mod split;
mod subzones;
mod write;

use std::sync::Arc;

use zonda_space::VictimPolicy;

use crate::policy::Policy;
use crate::trace::TraceRecord;
use crate::{FileError, Result};

pub use oracle::{ORACLE, replay_oracle};
pub use report::{InvalidShares, LevelBytes, ReplayReport, SHARES};
pub use split::SplitReport;

/// When cleaning begins; it goes on until the threshold is free above the reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleaningTrigger {
    /// As soon as less than the threshold is free: what a cleaner in the background does.
    #[default]
    BelowThreshold,
    /// Only when a policy wants an empty zone and none is left but the reserve; with [`FreeSpace::AsStore`] only when no open one can be
    /// joined either.
    WhenEmpty,
    /// Never: only zones in which nothing is live are reset.
    Never,
}

/// What counts as free for the threshold, and with it which zones may be cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreeSpace {
    /// Empty zones; full zones are cleaned first, then those that wait for more bytes. What opens many zones looks full.
    EmptyZones,
    /// Empty zones, the reserve's among them, as a [`FileStore`](crate::FileStore) counts that is told to clean below the threshold
    /// ([`clean_below_free_percent`](crate::FileStoreOptions::clean_below_free_percent)); and only full zones are cleaned. Above the
    /// reserve everybody leaves as many as a store with the usual options has them leave.
    AsStore,
    /// Room in the open zones of tables as well: a policy that opens many zones has not used what it did not write. The zone with
    /// most invalid bytes is cleaned, full or not, and the zones that cleaning has open count as its reserve.
    #[default]
    Room,
}

/// On what, and how, a trace is replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// Bytes that a zone holds.
    pub zone_bytes: u64,
    /// Zones.
    pub zones: u32,
    /// Zones that may be active; `None`: as many as there are.
    pub active_max: Option<u32>,
    /// Empty zones that only cleaning takes.
    pub reserve_zones: u32,
    /// Cleaning goes on until this share of the device is free, in percent: above the reserve, if [`FreeSpace::Room`] counts.
    pub threshold_percent: u8,
    /// When it begins.
    pub trigger: CleaningTrigger,
    /// How victims are chosen.
    pub victims: VictimPolicy,
    /// What counts as free.
    pub free: FreeSpace,
    /// A zone with less than this share left is finished when its file is closed, in percent.
    pub finish_percent: u8,
    /// Every length in the trace is multiplied by it: a trace of a small run stands for a large one.
    pub scale: u64,
    /// Bytes of tables that may wait for their keys.
    pub held_bytes_max: u64,
    /// Subzones of a split zone, for policies that split zones: 2 to 1024. Each holds so many equal parts of what a zone does.
    pub subzones: u32,
    /// Nothing is counted before the trace has this mark.
    pub measure_from: Option<String>,
}

impl ReplayOptions {
    /// The CAZA paper's device: 100 zones of 1 GB, ten of them reserved, no limit of active zones.
    #[must_use]
    pub fn of_the_paper(policy: Arc<dyn Policy>) -> Self {
        Self {
            policy,
            zone_bytes: 1_000_000_000,
            zones: 100,
            active_max: None,
            reserve_zones: 10,
            threshold_percent: 15,
            trigger: CleaningTrigger::BelowThreshold,
            victims: VictimPolicy::Greedy,
            free: FreeSpace::Room,
            finish_percent: 5,
            scale: 1,
            held_bytes_max: 256 << 20,
            subzones: 16,
            measure_from: None,
        }
    }

    fn check(&self) -> Result<()> {
        let bad = |option, value: u64, rule| Err(FileError::BadOption { option, value, rule });
        if self.zones < 4 || self.zones > 1 << 20 {
            return bad("zones", self.zones.into(), "it is 4 to 1048576");
        }
        if self.zone_bytes < 1 << 16 || self.zone_bytes > 1 << 40 {
            return bad("zone_size", self.zone_bytes, "it is 64 KiB to 1 TiB");
        }
        if self.reserve_zones == 0 || self.reserve_zones >= self.zones - write::LOG_ZONES {
            return bad("reserve_zones", self.reserve_zones.into(), "it is at least 1, and leaves at least 3 zones");
        }
        if self.threshold_percent > 90 {
            return bad("threshold", self.threshold_percent.into(), "it is 0 to 90");
        }
        if self.finish_percent > 90 {
            return bad("finish_percent", self.finish_percent.into(), "it is 0 to 90");
        }
        let splits = self.policy.split_percent_max().is_some();
        if splits && !(2..=1024).contains(&self.subzones) {
            return bad("subzones", self.subzones.into(), "it is 2 to 1024");
        }
        if self.scale == 0 || self.scale > 1 << 20 {
            return bad("scale", self.scale, "it is 1 to 1048576");
        }
        Ok(())
    }
}

/// Replays a trace.
///
/// # Errors
/// `BadOption`; `NoSpace` if the trace does not fit on the zones; `Space` if there are fewer active zones than lanes need.
pub fn replay(trace: &[TraceRecord], options: &ReplayOptions) -> Result<ReplayReport> {
    options.check()?;
    run::Run::new(trace, options)?.all(trace)
}

#[cfg(test)]
mod tests;
