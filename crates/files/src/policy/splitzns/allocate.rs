//! The allocator of the `SplitZNS` paper (section 4.3): of which split zone a table gets its subzone.
//!
//! A pure function of the zones of a device that splits zones. It never waits for a token: where no subzone can be had the table goes into a
//! wide zone, by its lifetime. The steps, in order:
//!
//! 1. a table of a low level: wide;
//! 2. an empty subzone of the fullest split zone that has its resources;
//! 3. the same of one that was finished, if a token is left: its first write takes it;
//! 4. another zone is split, if a token and an empty zone are left and not too many are split;
//! 5. tokens are short: the split zone that was used longest ago and in which nothing is written is finished, then 3 or 4;
//! 6. wide.

use zonda_space::ZoneId;

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
