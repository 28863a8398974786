//! The policy of the `SplitZNS` paper and its allocator (section 4.3): which tables get a subzone, and of which split zone.
//!
//! The allocator is a pure function of the zones of a device that splits zones. It never waits for a token: where no subzone can be had the
//! table goes into a wide zone, by its lifetime. The steps, in order:
//!
//! 1. a table of a low level: wide;
//! 2. an empty subzone of the fullest split zone that has its resources;
//! 3. the same of one that was finished, if a token is left: its first write takes it;
//! 4. another zone is split, if a token and an empty zone are left and not too many are split;
//! 5. tokens are short: the split zone that was used longest ago and in which nothing is written is finished, then 3 or 4;
//! 6. wide.

use std::str::FromStr;

use zonda_space::ZoneId;

use super::{Candidate, Choices, Decision, Ldp, NAMES, Policy, SubzoneWish};
use crate::lsm::LsmShape;
use crate::{FileError, Result};

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

/// Subzones for tables of deep levels, wide zones by lifetime for all others.
///
/// By name `splitzns`, or `splitzns+`, which also gives a subzone to a table of the level above if it overlaps nothing of the first
/// of these levels: it will be moved there without being written again. Options behind commas: `from=4` (level 4 and deeper, the
/// paper's), or `from-bottom=N` (the last N levels that hold anything), and `share=60` (percent of zones that may be split).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitZns {
    /// Which levels.
    pub levels: SubzoneLevels,
    /// Percent of all zones that may be split, 1 to 90.
    pub split_percent_max: u32,
    /// Whether tables that will move to such a level get one, too. Their bytes then wait for their keys.
    pub plus: bool,
}

impl Default for SplitZns {
    /// As the paper has it.
    fn default() -> Self {
        Self { levels: SubzoneLevels::From(4), split_percent_max: SPLIT_PERCENT_MAX, plus: false }
    }
}

impl FromStr for SplitZns {
    type Err = FileError;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split(',');
        let mut policy = match words.next() {
            Some("splitzns") => Self::default(),
            Some("splitzns+") => Self { plus: true, ..Self::default() },
            _ => return Err(FileError::UnknownPolicy { name: text.to_owned(), known: NAMES.join(", ") }),
        };
        for word in words {
            let unknown = || FileError::UnknownPolicy {
                name: text.to_owned(),
                known: "splitzns and splitzns+ with from=LEVEL or from-bottom=LEVELS, and share=PERCENT".to_owned(),
            };
            let (key, value) = word.split_once('=').ok_or_else(unknown)?;
            let number: u32 = value.parse().map_err(|_| unknown())?;
            match (key, number) {
                ("from", 0..=63) => policy.levels = SubzoneLevels::From(number),
                ("from-bottom", 1..=63) => policy.levels = SubzoneLevels::FromBottom(number),
                ("share", 1..=90) => policy.split_percent_max = number,
                ("from", _) => return Err(bad("from", number, "it is a level, 0 to 63")),
                ("from-bottom", _) => return Err(bad("from-bottom", number, "it is a number of levels, 1 to 63")),
                ("share", _) => return Err(bad("share", number, "it is 1 to 90 percent")),
                _ => return Err(unknown()),
            }
        }
        Ok(policy)
    }
}

fn bad(option: &'static str, value: u32, rule: &'static str) -> FileError {
    FileError::BadOption { option, value: value.into(), rule }
}

impl SplitZns {
    /// Whether a table of this level overlaps nothing of the next, and that is one of subzones.
    fn will_move(&self, wish: &SubzoneWish<'_>, level: u8, bottom: u32, shape: &LsmShape) -> bool {
        let (Some(tree), Some(range)) = (wish.tree, wish.range) else { return false };
        let (next, Some(order)) = (level + 1, shape.order(tree)) else { return false };
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

    fn suits_moving_levels(&self) -> bool {
        matches!(self.levels, SubzoneLevels::FromBottom(_))
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        Ldp.choose(candidate, choices)
    }
}

/// A split zone, as the allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitZoneView {
    /// The zone.
    pub zone: ZoneId,
    /// Subzones that are full.
    pub full: u32,
    /// Subzones that are empty.
    pub empty: u32,
    /// Subzones that are being written.
    pub written: u32,
    /// Whether it holds its open and active resources.
    pub active: bool,
    /// When a subzone of it was last given out; a counter.
    pub used: u64,
}

/// What the allocator may choose from.
#[derive(Clone, Copy, Debug)]
pub struct SplitChoices<'a> {
    /// All split zones.
    pub split: &'a [SplitZoneView],
    /// Zones of the device.
    pub zones: u32,
    /// Empty wide zones that may be split.
    pub empty_zones: u32,
    /// Percent of all zones that may be split.
    pub percent_max: u32,
    /// Whether a zone more may be open and active.
    pub has_token: bool,
}

/// Where a table goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitChoice {
    /// Into a wide zone, by its lifetime.
    Wide,
    /// Into an empty subzone of this zone.
    Subzone(ZoneId),
    /// An empty zone is split, and the table gets a subzone of it.
    Split,
    /// This split zone is finished for its token; then what the other says.
    Finish(ZoneId, AfterFinish),
}

/// What a token that was freed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFinish {
    /// An empty subzone of this finished zone.
    Subzone(ZoneId),
    /// Splitting an empty zone.
    Split,
}

/// Chooses for a table that wants a subzone or not.
#[must_use]
pub fn choose_subzone(wants_subzone: bool, choices: &SplitChoices<'_>) -> SplitChoice {
    if !wants_subzone {
        return SplitChoice::Wide;
    }
    // The fullest, so that chips are used alike; of those the one used longest, so that the choice is one.
    let fullest = |active: bool| {
        let open = choices.split.iter().filter(|view| view.active == active && view.empty > 0);
        open.max_by_key(|view| (view.full, std::cmp::Reverse(view.used))).map(|view| view.zone)
    };
    if let Some(zone) = fullest(true) {
        return SplitChoice::Subzone(zone);
    }
    let next = match fullest(false) {
        Some(zone) => AfterFinish::Subzone(zone),
        None if may_split(choices) => AfterFinish::Split,
        None => return SplitChoice::Wide,
    };
    if choices.has_token {
        return match next {
            AfterFinish::Subzone(zone) => SplitChoice::Subzone(zone),
            AfterFinish::Split => SplitChoice::Split,
        };
    }
    let idle = choices.split.iter().filter(|view| view.active && view.written == 0);
    idle.min_by_key(|view| view.used).map_or(SplitChoice::Wide, |view| SplitChoice::Finish(view.zone, next))
}

fn may_split(choices: &SplitChoices<'_>) -> bool {
    let split = choices.split.len() as u64 + 1;
    choices.empty_zones > 0 && split * 100 <= u64::from(choices.zones) * u64::from(choices.percent_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(zone: u32, [full, empty, written]: [u32; 3], active: bool) -> SplitZoneView {
        SplitZoneView { zone: ZoneId(zone), full, empty, written, active, used: zone.into() }
    }

    fn choices(split: &[SplitZoneView]) -> SplitChoices<'_> {
        SplitChoices { split, zones: 10, empty_zones: 3, percent_max: SPLIT_PERCENT_MAX, has_token: true }
    }

    #[test]
    fn low_levels_are_wide_and_high_ones_are_not() {
        let paper = SubzoneLevels::From(4);
        assert_eq!([3, 4, 6].map(|level| paper.contains(level, 6)), [false, true, true]);
        let moving = SubzoneLevels::FromBottom(1);
        assert_eq!([4, 5, 6].map(|level| moving.contains(level, 6)), [false, false, true]);
        assert_eq!(choose_subzone(false, &choices(&[view(1, [0, 16, 0], true)])), SplitChoice::Wide);
    }

    #[test]
    fn the_fullest_zone_with_a_token_comes_first() {
        let split = [
            view(1, [2, 10, 4], true),
            view(2, [9, 1, 6], true),
            view(3, [15, 1, 0], false),
            view(4, [16, 0, 0], true),
        ];
        assert_eq!(choose_subzone(true, &choices(&split)), SplitChoice::Subzone(ZoneId(2)));
        assert_eq!(
            choose_subzone(true, &choices(&split[2..])),
            SplitChoice::Subzone(ZoneId(3)),
            "a finished one is reopened"
        );
        assert_eq!(choose_subzone(true, &choices(&[])), SplitChoice::Split);
    }

    #[test]
    fn not_too_many_zones_are_split() {
        let full: Vec<_> = (0..6).map(|zone| view(zone, [16, 0, 0], false)).collect();
        assert_eq!(choose_subzone(true, &choices(&full[..5])), SplitChoice::Split);
        assert_eq!(choose_subzone(true, &choices(&full)), SplitChoice::Wide, "six of ten are");
        let none = SplitChoices { empty_zones: 0, ..choices(&[]) };
        assert_eq!(choose_subzone(true, &none), SplitChoice::Wide);
    }

    #[test]
    fn a_token_is_taken_from_who_was_used_longest_ago_and_never_waited_for() {
        let split = [view(1, [14, 0, 2], true), view(2, [16, 0, 0], true), view(3, [16, 0, 0], true)];
        let short = SplitChoices { has_token: false, ..choices(&split) };
        assert_eq!(choose_subzone(true, &short), SplitChoice::Finish(ZoneId(2), AfterFinish::Split));
        let with_finished = [split[0], split[2], view(7, [5, 11, 0], false)];
        let short = SplitChoices { split: &with_finished, ..short };
        assert_eq!(choose_subzone(true, &short), SplitChoice::Finish(ZoneId(3), AfterFinish::Subzone(ZoneId(7))));
        let busy = SplitChoices { split: &split[..1], ..short };
        assert_eq!(choose_subzone(true, &busy), SplitChoice::Wide, "all tokens are held by writers");
    }
}
