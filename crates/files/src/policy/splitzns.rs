//! The policy of the `SplitZNS` paper (section 4.3): which tables get a subzone. Of which split zone, the [allocator](choose_subzone) says.

mod allocate;
mod options;

pub use allocate::{AfterFinish, Lacking, Refusals, SplitChoice, SplitChoices, SplitZoneView, choose_subzone};

use super::{Candidate, Choices, Decision, Ldp, OpenZoneView, Policy, SubzoneWish};
use crate::lsm::LsmShape;

/// Percent of all zones that may be split in the paper: the others are kept for low levels.
pub const SPLIT_PERCENT_MAX: u32 = 60;

/// Which levels get subzones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubzoneLevels {
    /// This level and those below it; the paper's is 4.
    From(u32),
    /// So many levels, counted from the last that holds anything: for LSM-trees whose levels move.
    FromBottom(u32),
}

impl SubzoneLevels {
    /// True for tables of `level` where `bottom` is the last level that holds anything.
    ///
    /// Level 0 gets none when levels are counted from the last: what a flush writes soon moves.
    #[must_use]
    pub fn contains(self, level: u32, bottom: u32) -> bool {
        match self {
            Self::From(first) => level >= first,
            Self::FromBottom(count) => level > 0 && level + count > bottom,
        }
    }
}

/// Subzones for tables of deep levels, wide zones by lifetime for all others. Where no zone is left for a subzone of a table of a deep
/// level, its writer cleans first; a table that gets none goes into a wide zone with others of these, and cleaning moves it into a
/// subzone. The paper has neither: as [its rule](Self::is_strict) says, such a table goes by its lifetime at once, and stays.
///
/// By name `splitzns`, or `splitzns+`, which also gives a subzone to a table of the level above if it overlaps nothing of the first
/// of these levels: it will be moved there without being written again. Options behind commas: `from=4` (level 4 and deeper, the
/// paper's), or `from-bottom=N` (the last N levels that hold anything), `share=60` (percent of zones that may be split), `rule=paper`, and
/// `wait=doomed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitZns {
    /// Which levels.
    pub levels: SubzoneLevels,
    /// Percent of all zones that may be split, 1 to 90.
    pub split_percent_max: u32,
    /// Whether tables that will move to such a level get one, too. Their bytes then wait for their keys.
    pub plus: bool,
    /// Whether a table that finds no subzone is placed as one of a low level, as the paper has it: nothing is cleaned for it first, and it
    /// is not moved into one later (decision 50).
    pub is_strict: bool,
    /// Whether cleaning in the background waits for what is [doomed](LsmShape::doomed). Not the paper's.
    pub waits_for_doomed: bool,
}

impl Default for SplitZns {
    /// The paper's levels and share.
    fn default() -> Self {
        Self {
            levels: SubzoneLevels::From(4),
            split_percent_max: SPLIT_PERCENT_MAX,
            plus: false,
            is_strict: false,
            waits_for_doomed: false,
        }
    }
}

impl SplitZns {
    /// Whether a table of this level overlaps nothing of the next, and that is one of subzones.
    fn will_move(&self, wish: &SubzoneWish<'_>, level: u8, bottom: u32, shape: &LsmShape) -> bool {
        let (Some(tree), Some(range)) = (wish.tree, wish.range) else { return false };
        let (Some(next), Some(order)) = (level.checked_add(1), shape.order(tree)) else { return false };
        let is_deep = level > 0 && self.levels.contains(next.into(), bottom.max(next.into()));
        is_deep && !shape.level(tree, next).any(|(_, table)| order.overlap(&table.range, range))
    }
}

impl Policy for SplitZns {
    fn name(&self) -> &'static str {
        if self.plus { "splitzns+" } else { "splitzns" }
    }

    fn needs_keys(&self) -> bool {
        self.plus
    }

    fn split_percent_max(&self) -> Option<u32> {
        Some(self.split_percent_max)
    }

    fn wants_subzone(&self, wish: &SubzoneWish<'_>, shape: &LsmShape) -> bool {
        let Some(level) = wish.level else { return false };
        let bottom = u32::from(shape.bottom(wish.tree).unwrap_or(level).max(level));
        self.levels.contains(level.into(), bottom) || self.plus && self.will_move(wish, level, bottom, shape)
    }

    fn insists_on_subzones(&self) -> bool {
        !self.is_strict
    }

    fn waits_for_doomed(&self) -> bool {
        self.waits_for_doomed
    }

    fn suits_moving_levels(&self) -> bool {
        matches!(self.levels, SubzoneLevels::FromBottom(_))
    }

    /// By lifetime, and tables that were to have a subzone apart from others: those of two levels often have one lifetime, and the deeper
    /// ones live on when the others are gone.
    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        if self.is_strict {
            return Ldp.choose(candidate, choices);
        }
        let bottom = choices.shape.bottom(candidate.table.map(|table| table.tree)).unwrap_or(0);
        let is_deep =
            |level: Option<u8>| level.is_some_and(|level| self.levels.contains(level.into(), bottom.max(level).into()));
        let is_of_deep = is_deep(candidate.tags.level);
        let alike: Vec<OpenZoneView> =
            choices.open.iter().filter(|view| is_deep(view.level) == is_of_deep).copied().collect();
        Ldp.choose(candidate, &Choices { open: &alike, ..*choices })
    }
}

#[cfg(test)]
mod tests;
