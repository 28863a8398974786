//! Who is refused first where little room is left, and what is kept for whom.

use crate::lanes::Lease;
use crate::store::Core;
use crate::{BLOCK_BYTES, FileError, FileKind, Result};

/// Zones above the reserve that only those with the last claim may take: one for MANIFESTs, and one for what logs cannot go on without.
/// Logs fill a device to the last zone that they get, and what makes room then, a deletion of tables by `RocksDB`, begins with a record in
/// the MANIFEST. One zone holds dozens of such records.
pub(crate) const LAST_ZONES: u32 = 2;
/// The same of the blocks of a conventional drive: one of so many, and so many at the most.
const LAST_BLOCKS: (u64, u64) = (256, 4096);
/// The share of the blocks that flushed tables may take and compactions may not: one of so many.
const FLUSH_BLOCKS: u64 = 64;

/// What a writer may have of the last room, beside what its [kind](FileKind) says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// It is refused while a compaction would be: notes that nobody needs to go on.
    GiveWay,
    /// What its kind has: compactions are refused first, then flushed tables and logs, then meta files.
    #[default]
    Usual,
    /// As much as a meta file: what somebody cannot go on without, mostly a few bytes. What is left of the zone where they went is for the
    /// next of these, as long as no other zone is free.
    Last,
}

impl Claim {
    /// Whether a writer of this kind may have the last room.
    pub(crate) fn is_last(self, kind: FileKind) -> bool {
        match self {
            Self::GiveWay => false,
            Self::Usual => kind == FileKind::Meta,
            Self::Last => true,
        }
    }
}

/// Of whom what is kept, and from whom.
pub(crate) type Claimant = (FileKind, Claim);

/// The first to be refused.
pub(crate) const COMPACTION: Claimant = (FileKind::Data, Claim::Usual);

/// Free zones above the reserve that this one must leave, where so many are for flushes.
pub(crate) fn zones_kept_from((kind, claim): Claimant, flush_reserve_zones: u32) -> u32 {
    match kind {
        _ if claim.is_last(kind) => 0,
        FileKind::Flushed | FileKind::Log => LAST_ZONES,
        FileKind::Data | FileKind::Meta => flush_reserve_zones + LAST_ZONES,
    }
}

/// Who may have what is kept from this one.
fn kept_for((kind, claim): Claimant) -> &'static str {
    match kind {
        _ if claim.is_last(kind) => "cleaning and the journal",
        FileKind::Flushed | FileKind::Log => "MANIFESTs",
        FileKind::Data | FileKind::Meta => "flushes, logs and MANIFESTs",
    }
}

impl Core {
    /// Free zones above the reserve that this one must leave.
    pub(crate) fn zones_kept_from(&self, by: Claimant) -> u32 {
        zones_kept_from(by, self.options.flush_reserve_zones)
    }

    /// Blocks that this one must leave, on a conventional drive.
    pub(crate) fn blocks_kept_from(&self, (kind, claim): Claimant) -> u64 {
        let count = self.ground.blocks().map_or(0, |blocks| blocks.count());
        let last = (count / LAST_BLOCKS.0).min(LAST_BLOCKS.1);
        match kind {
            _ if claim.is_last(kind) => 0,
            FileKind::Flushed | FileKind::Log => last,
            FileKind::Data | FileKind::Meta => count / FLUSH_BLOCKS + last,
        }
    }

    /// Refuses who gives way, while a compaction would be refused.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn check_claim(&self, claim: Claim) -> Result<()> {
        if claim != Claim::GiveWay || self.free_bytes() > 0 {
            return Ok(());
        }
        Err(if self.ground.blocks().is_some() { self.no_blocks(COMPACTION) } else { self.no_zone(COMPACTION) })
    }

    /// Whether this one may go on in a zone that it has: one that would be refused to it is left to those for whom it was opened.
    pub(crate) fn may_go_on(&self, lease: &Lease, by: Claimant) -> bool {
        self.lanes.may_use(lease.zone(), self.zones_kept_from(by))
    }

    /// This one finds no zone.
    pub(crate) fn no_zone(&self, by: Claimant) -> FileError {
        let usage = self.space().usage();
        let zone_bytes = usage.capacity_bytes / u64::from(usage.zones - usage.lost_zones).max(1);
        FileError::NoSpace {
            live_bytes: usage.live_bytes,
            usable_bytes: self.usable_bytes(&usage),
            unfilled_bytes: self.unfilled_bytes(),
            kept_bytes: u64::from(self.zones_kept_from(by)) * zone_bytes,
            kept_for: kept_for(by),
            free_zones: usage.free_zones,
        }
    }

    /// This one finds no blocks.
    pub(crate) fn no_blocks(&self, by: Claimant) -> FileError {
        let (count, (free, dead)) = self.ground.blocks().map_or((0, (0, 0)), |blocks| (blocks.count(), blocks.free()));
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        FileError::NoSpace {
            live_bytes: bytes(count - free - dead),
            usable_bytes: bytes(count),
            unfilled_bytes: 0,
            kept_bytes: bytes(self.blocks_kept_from(by)),
            kept_for: kept_for(by),
            free_zones: self.space().usage().free_zones,
        }
    }
}
