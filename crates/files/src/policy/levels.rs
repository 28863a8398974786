//! Tables of each level in zones of their own: lifetimes put levels 0 and 1 together, and all from level 3 on.

use std::cmp::Reverse;

use super::{Candidate, Choice, Choices, Decision, OpenZoneView, Policy, Rule};

/// A table goes into an open zone whose first file was of exactly its level, or into an empty one. What has no level goes by its
/// lifetime.
///
/// Why: a level is rewritten about once in a turn of its compactions, so what was written to it at about the same time dies at
/// about the same time; where two levels share a zone, the slower one is what is left to be copied. In replays it copies less than
/// lifetimes and than CAZA (`docs/placement.md` says how much).
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels;

impl Policy for Levels {
    fn name(&self) -> &'static str {
        "levels"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let tags = candidate.tags;
        let equal = choices.open.iter().filter(|view| match tags.level {
            None => view.level.is_none() && view.lifetime == tags.lifetime,
            level => view.level == level,
        });
        let best = equal.min_by_key(|view| (view.writers, view.opened));
        let best = best.or_else(|| if choices.may_open { None } else { nearest(tags.level?, choices.open) });
        best.map_or(Choice::New, |view| Choice::Open(view.zone)).by(Rule::Lifetime)
    }
}

/// The open zone of the nearest level, the lower one of two that are as near: where no zone can be opened. Lifetimes do not tell: from
/// level 3 on all have the longest.
fn nearest(level: u8, open: &[OpenZoneView]) -> Option<&OpenZoneView> {
    let of_levels = open.iter().filter_map(|view| Some((view.level?, view)));
    let best =
        of_levels.min_by_key(|(other, view)| (other.abs_diff(level), Reverse(*other), view.writers, view.opened));
    best.map(|(_, view)| view)
}

#[cfg(test)]
mod tests {
    use super::super::testing::zones;
    use super::*;
    use crate::Lifetime::{Extreme, Medium};
    use crate::lsm::LsmShape;
    use crate::{FileId, FileKind, FileTags, ZoneId};

    fn chosen(tags: FileTags, levels: [Option<u8>; 3]) -> Choice {
        chosen_of(tags, levels, true)
    }

    fn chosen_of(tags: FileTags, levels: [Option<u8>; 3], may_open: bool) -> Choice {
        let mut open = zones(&[Medium, Medium, Extreme]);
        open.iter_mut().zip(levels).for_each(|(view, level)| view.level = level);
        let candidate = Candidate { file: FileId(1), tags: &tags, bytes: 1, table: None };
        Levels.choose(&candidate, &Choices { open: &open, may_open, shape: &LsmShape::default() }).choice
    }

    #[test]
    fn levels_of_one_lifetime_are_kept_apart() {
        let level = |level| FileTags::of(FileKind::Data).with_lifetime(Medium).with_level(level);
        assert_eq!(chosen(level(1), [Some(0), Some(1), Some(3)]), Choice::Open(ZoneId(1)));
        assert_eq!(chosen(level(1), [Some(0), None, Some(3)]), Choice::New);
        assert_eq!(chosen(level(4), [Some(0), Some(1), Some(3)]), Choice::New);
    }

    #[test]
    fn where_no_zone_can_be_opened_the_nearest_level_is_joined() {
        let level = |level| FileTags::of(FileKind::Data).with_lifetime(Extreme).with_level(level);
        assert_eq!(chosen_of(level(4), [Some(0), Some(3), None], false), Choice::Open(ZoneId(1)));
        assert_eq!(chosen_of(level(2), [Some(1), Some(3), Some(0)], false), Choice::Open(ZoneId(1)));
        assert_eq!(chosen_of(level(2), [None, None, None], false), Choice::New);
    }

    #[test]
    fn what_has_no_level_goes_by_its_lifetime() {
        let tags = FileTags::of(FileKind::Data).with_lifetime(Medium);
        assert_eq!(chosen(tags, [Some(0), None, None]), Choice::Open(ZoneId(1)));
        assert_eq!(chosen(tags, [Some(0), Some(1), None]), Choice::New);
    }
}
