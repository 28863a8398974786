//! Where nobody writes, changes that nobody reads give way to what is read (decision 0056).
//!
//! Readers write no pages (decision 0040): where a change stands at the head of the ring they do without, and the background merges until
//! there is some room. That alone converts a ring full of changes slowly. What readers keep is small, so the ring turns once in millions of
//! gets; and of the dirty mini-pages at the head all but the heaviest take another round, to gather more, which they do not where nobody
//! writes.
//!
//! So once a reader found no room, and nothing was written since the background last looked, the ring is turned once, as far as room is
//! asked for: each dirty mini-page is merged, its used records stay as clean ones, and what is clean has another round, used or not, so
//! that it does not go before changes that nobody reads. Each change is written once, as it would be by the next write. What it costs is
//! earned: a merge for every few leaves that were read. Where next to nothing is dirty the turn is over: readers make room themselves.

use zonda_rt::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    flush::{Flushed, Merge},
    mini_page::claimed,
    pool::ring::{Claim, Ring},
    relocate::is_damage,
    stats::count,
    tree::{Result, Tree},
};

/// So many leaves read earn a merge, which reads and writes one: a quarter more while it lasts. What is freed by it spares a read in some
/// hundred thousand for good.
const READS_FOR_A_MERGE: u64 = 8;
/// What is earned between two looks, at the most: where the background was away, it does not come back with a burst.
const MERGES_MAX: u64 = 256;
/// Clean mini-pages that one call moves instead of a merge.
const MOVES_MAX: usize = 16;
/// So many clean ones in a row end a turn: what is dirty among as many is not worth carrying them round. Where the turn began with them it
/// goes on when readers have dropped what they do not use, and a change is at the head.
const CLEAN_MAX: u32 = 256;

/// The turn of a tree's ring.
#[derive(Default)]
pub(crate) struct Sweep {
    turn: Mutex<Turn>,
    /// Between turns 0, else one more than the records that were written before this one.
    under_way: AtomicU64,
}

impl Sweep {
    /// Whether the ring is being turned: changes at its head are merged then, whether they were used or not. Not once anything is
    /// `written`, which is asked for while there is a turn only: the background may have too much to do for writers to look after it.
    pub(crate) fn is_under_way(&self, written: impl FnOnce() -> u64) -> bool {
        let under_way = self.under_way.load(Ordering::Relaxed);
        under_way > 0 && under_way == written() + 1
    }
}

/// How far it is.
#[derive(Default)]
struct Turn {
    /// Records written when the background last looked.
    written: u64,
    /// Leaves read that have earned something.
    reads: u64,
    /// Merges that are earned.
    merges: u64,
    /// The tail when the turn began; nothing between turns.
    end: Option<u64>,
    /// Clean mini-pages since the last dirty one.
    clean: u32,
    /// Whether it met a dirty one.
    has_merged: bool,
    /// A turn ended before it met a dirty one, as may be behind what was clean: another begins when one is at the head.
    is_put_off: bool,
    /// Whether it was turned since the last write: next to nothing is dirty any more.
    is_turned: bool,
    /// Whether room is made, or what there is will do for a while: the background comes every few milliseconds only.
    makes_room: bool,
}

/// What became of a mini-page in the way of a turn.
enum Swept {
    /// It has another round, or was gone.
    Moved,
    Merged,
    /// Somebody has it, or there is no room for it at the tail, or it is clean and a turn waits for dirty ones.
    Stays,
}

impl Tree {
    /// Takes the turn a step further: a merge at most, or as much as one costs in copies. `false` if there is nothing to do, or nothing is
    /// earned, or somebody is in the way, or the ring is not to be turned.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn sweep(&self) -> Result<bool> {
        let Some(ring) = self.pool.ring().filter(|_| self.options.mini_pages.turns) else { return Ok(false) };
        let Some(mut turn) = self.sweep.turn.try_lock() else { return Ok(false) };
        let is_due = self.is_due(ring, &mut turn) && self.has_room_to_spare();
        let went = if is_due { self.turn_further(ring, &mut turn) } else { Ok(false) };
        self.sweep.under_way.store(turn.end.map_or(0, |_| turn.written + 1), Ordering::Relaxed);
        went
    }

    fn turn_further(&self, ring: &Ring, turn: &mut Turn) -> Result<bool> {
        for _ in 0..MOVES_MAX {
            let (Some(claim), Some(end)) = (ring.claim(), turn.end) else { return Ok(false) };
            let is_whole = !ring.is_before(&claim, end);
            if turn.clean == CLEAN_MAX || is_whole {
                turn.end = None;
                turn.is_turned = turn.has_merged || is_whole;
                turn.is_put_off = !turn.is_turned;
                return Ok(false);
            }
            match self.sweep_claimed(ring, claim, !turn.is_put_off)? {
                Swept::Moved => turn.clean += 1,
                Swept::Merged => {
                    (turn.clean, turn.has_merged, turn.is_put_off) = (0, true, false);
                    break;
                }
                Swept::Stays => {
                    if turn.is_put_off {
                        turn.end = None;
                    }
                    return Ok(false);
                }
            }
        }
        turn.merges -= 1;
        Ok(true)
    }

    /// Whether a turn is under way, or begins, and may merge.
    fn is_due(&self, ring: &Ring, turn: &mut Turn) -> bool {
        let (written, reads) = (self.written(), self.leaf_reads());
        if written != turn.written {
            *turn = Turn { written, reads, ..Turn::default() };
        }
        let earned = reads.saturating_sub(turn.reads) / READS_FOR_A_MERGE;
        turn.reads += earned * READS_FOR_A_MERGE;
        turn.merges = (turn.merges + earned).min(MERGES_MAX);
        if turn.end.is_none() && !turn.is_turned && ring.is_room_wanted() {
            (turn.end, turn.clean, turn.has_merged) = (Some(ring.tail()), 0, false);
        }
        // Changes are read too: no more are merged than readers will soon ask for.
        turn.makes_room = if turn.makes_room { !ring.has_room_ahead_of_readers() } else { ring.is_over_for_readers() };
        turn.end.is_some() && turn.makes_room && turn.merges > 0
    }

    fn sweep_claimed(&self, ring: &Ring, claim: Claim<'_>, moves_clean: bool) -> Result<Swept> {
        {
            let Some(mut leaf) = self.table.try_lock(claim.leaf()) else { return Ok(Swept::Stays) };
            let Some(buffer) = claimed(leaf.location(), &claim) else { return Ok(Swept::Moved) };
            if !buffer.is_dirty() {
                return Ok(if moves_clean && self.move_to_tail(&mut leaf) { Swept::Moved } else { Swept::Stays });
            }
        }
        match self.merge_claimed(ring, claim, Merge::HOT) {
            // It is for who reads that page to hear of it.
            Err(error) if is_damage(&error) => Ok(Swept::Merged),
            merged => Ok(match merged? {
                Flushed::Raced => Swept::Stays,
                Flushed::Nothing | Flushed::Dropped => Swept::Merged,
                Flushed::Done => {
                    count(&self.counters.mine().mini_pages.merged_in_turns);
                    Swept::Merged
                }
            }),
        }
    }
}
