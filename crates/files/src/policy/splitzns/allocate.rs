//! The allocator of the `SplitZNS` paper (section 4.3): of which split zone a table gets its subzone.
//!
//! A pure function of the zones of a device that splits zones. It never waits for a token: where no subzone can be had the table goes into
//! a wide zone, by its lifetime, as one of a low level does. The steps, in order:
//!
//! 1. an empty subzone of the fullest split zone that has its resources;
//! 2. the same of one that was finished, if a token is left: its first write takes it;
//! 3. another zone is split, if a token and an empty zone are left and not too many are split;
//! 4. tokens are short: the split zone that was used longest ago and in which nothing is written is finished, then 2 or 3;
//! 5. wide, for [want](Lacking) of one of these.

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

/// Where a table gets its subzone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitChoice {
    /// An empty subzone of this zone.
    Subzone(ZoneId),
    /// An empty zone is split, and the table gets a subzone of it.
    Split,
    /// This split zone is finished for its token; then what the other says.
    Finish(ZoneId, AfterFinish),
}

/// Why a table that is to have a subzone has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// No split zone has an empty one, and as many zones are split as may be.
    Share,
    /// The same, and no empty zone may be split.
    Zones,
    /// All tokens are held by who is writing.
    Tokens,
    /// The device refused what was chosen.
    Device,
}

/// Tables that found no subzone, by what was lacking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// See [`Lacking::Share`].
    pub share: u64,
    /// See [`Lacking::Zones`].
    pub zones: u64,
    /// See [`Lacking::Tokens`].
    pub tokens: u64,
    /// See [`Lacking::Device`].
    pub device: u64,
}

impl Refusals {
    /// Counts one.
    pub fn count(&mut self, lacking: Lacking) {
        *match lacking {
            Lacking::Share => &mut self.share,
            Lacking::Zones => &mut self.zones,
            Lacking::Tokens => &mut self.tokens,
            Lacking::Device => &mut self.device,
        } += 1;
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { share, zones, tokens, device } = self;
        share + zones + tokens + device
    }
}

impl std::fmt::Display for Refusals {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { share, zones, tokens, device } = self;
        write!(out, "{share} for the share, {zones} for zones, {tokens} for tokens, {device} for the device")
    }
}

/// What a token that was freed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFinish {
    /// An empty subzone of this finished zone.
    Subzone(ZoneId),
    /// Splitting an empty zone.
    Split,
}

/// Chooses for a table that is to have a subzone.
///
/// # Errors
/// What is lacking; the table goes into a wide zone.
pub fn choose_subzone(choices: &SplitChoices<'_>) -> Result<SplitChoice, Lacking> {
    // The fullest, so that chips are used alike; of those the one used longest, so that the choice is one.
    let fullest = |active: bool| {
        let open = choices.split.iter().filter(|view| view.active == active && view.empty > 0);
        open.max_by_key(|view| (view.full, std::cmp::Reverse(view.used))).map(|view| view.zone)
    };
    if let Some(zone) = fullest(true) {
        return Ok(SplitChoice::Subzone(zone));
    }
    let next = match fullest(false) {
        Some(zone) => AfterFinish::Subzone(zone),
        None if choices.is_share_used_up() => return Err(Lacking::Share),
        None if choices.empty_zones == 0 => return Err(Lacking::Zones),
        None => AfterFinish::Split,
    };
    if choices.has_token {
        return Ok(match next {
            AfterFinish::Subzone(zone) => SplitChoice::Subzone(zone),
            AfterFinish::Split => SplitChoice::Split,
        });
    }
    let idle = choices.split.iter().filter(|view| view.active && view.written == 0);
    let idle = idle.min_by_key(|view| view.used).ok_or(Lacking::Tokens)?;
    Ok(SplitChoice::Finish(idle.zone, next))
}

impl SplitChoices<'_> {
    fn is_share_used_up(&self) -> bool {
        let split = self.split.len() as u64 + 1;
        split * 100 > u64::from(self.zones) * u64::from(self.percent_max)
    }
}
