//! Where nobody writes, changes that nobody reads give way to what is read (decision 0056).
//!
//! Readers write no pages (decision 0040): where a change stands at the head of the ring they do without, and the background merges until
//! there is some room. That alone converts a ring full of changes slowly. What readers keep is small, so the ring turns once in millions of
//! gets; and of the dirty mini-pages at the head all but the heaviest take another round, to gather more, which they do not where nobody
//! writes.
//!
//! So once a reader found no room, and nothing was written since the background last looked, the ring is turned once, as far as room is
//! asked for: each dirty mini-page is merged, its used records stay as clean ones, and what is clean has another round if it was used, else
//! it goes. Each change is written once, as it would be by the next write. What it costs is earned: a merge for every few leaves that were
//! read. Where all is clean nothing is turned any more: readers make room themselves.

use crate::{
    flush::Merge,
    mini_page::claimed,
    pool::ring::{Claim, Ring},
    relocate::is_damage,
    tree::{Result, Tree},
};

/// So many leaves read earn a merge, which reads and writes one: a quarter more while it lasts. What is freed by it spares a read in some
/// hundred thousand for good.
const READS_FOR_A_MERGE: u64 = 8;
/// What is earned between two looks, at the most: where the background was away, it does not come back with a burst.
const MERGES_MAX: u64 = 256;
/// Clean mini-pages that one call looks at instead of a merge.
const MOVES_MAX: usize = 64;

/// How far the turn is.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Records written when the background last looked.
    written: u64,
    /// Leaves read that have earned something.
    reads: u64,
    /// Merges that are earned.
    merges: u64,
    /// The tail when the turn began; nothing between turns.
    end: Option<u64>,
    /// Whether it was turned since the last write: nothing is dirty any more.
    is_turned: bool,
    /// Whether room is made, or what there is will do for a while: the background comes every few milliseconds only.
    makes_room: bool,
}

/// What became of a mini-page in the way of a turn.
enum Swept {
    /// It had another round, or went.
    Moved,
    Merged,
    /// Somebody has it, or there is no room for it at the tail.
    Stays,
}

impl Tree {
    /// Takes the turn a step further: a merge at most, or as much as one costs in copies. `false` if there is nothing to do, or nothing is
    /// earned, or somebody is in the way.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn sweep(&self) -> Result<bool> {
        let Some(ring) = self.pool.ring() else { return Ok(false) };
        let Some(mut sweep) = self.sweep.try_lock() else { return Ok(false) };
        if !self.is_due(ring, &mut sweep) || !self.has_room_to_spare() {
            return Ok(false);
        }
        for _ in 0..MOVES_MAX {
            let (Some(claim), Some(end)) = (ring.claim(), sweep.end) else { return Ok(false) };
            if !ring.is_before(&claim, end) {
                (sweep.end, sweep.is_turned) = (None, true);
                return Ok(false);
            }
            match self.sweep_claimed(ring, claim)? {
                Swept::Moved => {}
                Swept::Merged => break,
                Swept::Stays => return Ok(false),
            }
        }
        sweep.merges -= 1;
        Ok(true)
    }

    /// Whether a turn is under way, or begins, and may merge.
    fn is_due(&self, ring: &Ring, sweep: &mut Sweep) -> bool {
        let (written, reads) = (self.written(), self.leaf_reads());
        if written != sweep.written {
            *sweep = Sweep { written, reads, ..Sweep::default() };
        }
        let earned = reads.saturating_sub(sweep.reads) / READS_FOR_A_MERGE;
        sweep.reads += earned * READS_FOR_A_MERGE;
        sweep.merges = (sweep.merges + earned).min(MERGES_MAX);
        if sweep.end.is_none() && !sweep.is_turned && ring.is_room_wanted() {
            sweep.end = Some(ring.tail());
        }
        // Changes are read too: no more are merged than readers will soon ask for.
        sweep.makes_room =
            if sweep.makes_room { !ring.has_room_ahead_of_readers() } else { ring.is_over_for_readers() };
        sweep.end.is_some() && sweep.makes_room && sweep.merges > 0
    }

    fn sweep_claimed(&self, ring: &Ring, claim: Claim<'_>) -> Result<Swept> {
        {
            let Some(mut leaf) = self.table.try_lock(claim.leaf()) else { return Ok(Swept::Stays) };
            let Some(buffer) = claimed(leaf.location(), &claim) else { return Ok(Swept::Moved) };
            if !buffer.is_dirty() {
                return Ok(if self.copy_to_tail(&mut leaf) { Swept::Moved } else { Swept::Stays });
            }
        }
        match self.merge_claimed(ring, claim, Merge::HOT) {
            // It is for who reads that page to hear of it.
            Err(error) if is_damage(&error) => Ok(Swept::Merged),
            merged => Ok(if merged? { Swept::Merged } else { Swept::Stays }),
        }
    }
}
