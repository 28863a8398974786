//! The allocator of the `SplitZNS` paper (section 4.3): which tables get a subzone, and of which split zone.
//!
//! A pure function of the zones of a device that splits zones. It never waits for a token: where no subzone can be had the
//! table goes into a wide zone, by its lifetime. The steps, in order:
//!
//! 1. a table of a low level: wide;
//! 2. an empty subzone of the fullest split zone that has its resources;
//! 3. the same of one that was finished, if a token is left: its first write takes it;
//! 4. another zone is split, if a token and an empty zone are left and not too many are split;
//! 5. tokens are short: the split zone that was used longest ago and in which nothing is written is finished, then 3 or 4;
//! 6. wide.

use zonda_space::ZoneId;

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
    #[must_use]
    pub fn contains(self, level: u32, bottom: u32) -> bool {
        match self {
            Self::From(first) => level >= first,
            Self::FromBottom(count) => level + count > bottom,
        }
    }
}

/// A split zone, as the allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitZoneView {
    /// The zone.
    pub zone: ZoneId,
    /// Subzones that are full.
    pub full: u16,
    /// Subzones that are empty.
    pub empty: u16,
    /// Subzones that are being written.
    pub written: u16,
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
    choices.empty_zones > 0 && split * 100 <= u64::from(choices.zones) * u64::from(SPLIT_PERCENT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(zone: u32, [full, empty, written]: [u16; 3], active: bool) -> SplitZoneView {
        SplitZoneView { zone: ZoneId(zone), full, empty, written, active, used: zone.into() }
    }

    fn choices(split: &[SplitZoneView]) -> SplitChoices<'_> {
        SplitChoices { split, zones: 10, empty_zones: 3, has_token: true }
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
