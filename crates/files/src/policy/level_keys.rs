//! Tables of each level in zones of their own, two at a time, each for a part of the keys.

use super::{Candidate, Choice, Choices, Decision, Levels, OpenZoneView, Policy, Rule, TableKeys};
use crate::lsm::Table;

/// Open zones of one level: more leave more zones half full, which costs more than it gains.
const ZONES_MAX: usize = 2;
/// Tables of the level that may lie between a table and the nearest one in a zone that it joins.
const BETWEEN_MAX: usize = 2;

/// Of the open zones of its level, a table goes into the one with the table that is nearest to it in the order of keys. Where more
/// than two tables lie between and the level has fewer than two open zones, it goes into an empty one. What has
/// no keys goes as by [`Levels`].
///
/// Why: a compaction reads one table and all of the next level with its keys, which are neighbours; so neighbours die together. Two
/// compactions that write to one level at once, of keys far apart, are kept apart. Cost: a sort of the level's tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelKeys;

impl Policy for LevelKeys {
    fn name(&self) -> &'static str {
        "level-keys"
    }

    fn needs_keys(&self) -> bool {
        true
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let of_level = || choices.open.iter().filter(|view| view.level == candidate.tags.level);
        let nearest = candidate.table.and_then(|table| {
            let between = Between::of(table, choices)?;
            let ranked = of_level().map(|view| (between.count(view), view.opened, view.zone));
            ranked.min_by_key(|(between, opened, _)| (*between, *opened))
        });
        match nearest {
            Some((between, ..)) if between > BETWEEN_MAX && of_level().count() < ZONES_MAX && choices.may_open => {
                Choice::New.by(Rule::NewKeys)
            }
            Some((.., zone)) => Choice::Open(zone).by(Rule::NearKeys),
            None => Levels.choose(candidate, choices),
        }
    }
}

/// The tables of a level in the order of keys, and the place of a new one among them.
struct Between<'a> {
    tables: Vec<&'a Table>,
    place: usize,
}

impl<'a> Between<'a> {
    fn of(table: &TableKeys, choices: &Choices<'a>) -> Option<Self> {
        let order = choices.shape.order(table.tree)?;
        let mut tables: Vec<&Table> = choices.shape.level(table.tree, table.level).map(|(_, other)| other).collect();
        tables.sort_by(|one, other| order.compare(&one.range.smallest, &other.range.smallest));
        let is_before = |other: &&Table| order.compare(&other.range.smallest, &table.range.smallest).is_lt();
        let place = tables.partition_point(is_before);
        Some(Self { tables, place })
    }

    /// Tables between the new one and the nearest that lies in a zone.
    fn count(&self, view: &OpenZoneView) -> usize {
        let is_here = |table: &&Table| table.zones.contains(&view.zone);
        let (before, behind) = self.tables.split_at(self.place);
        let nearest = [before.iter().rev().position(is_here), behind.iter().position(is_here)];
        nearest.into_iter().flatten().min().unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::zones;
    use super::*;
    use crate::Lifetime::Medium;
    use crate::lsm::{KeyOrder, KeyRange, LsmShape};
    use crate::{FileId, FileKind, FileTags, ZoneId};

    /// A level 2 of tables a to h, one key each, in these zones; and where a table with the key goes.
    fn chosen(key: &str, zones_of: [u32; 8], levels: &[u8], may_open: bool) -> Choice {
        let mut shape = LsmShape::default();
        let tree = shape.add_tree(KeyOrder::bytewise());
        for (number, (name, zone)) in ('a'..='h').zip(zones_of).enumerate() {
            let range = KeyRange::new(name.to_string(), name.to_string());
            shape.put(tree, FileId(number as u64), Table { level: 2, range, zones: vec![ZoneId(zone)] });
        }
        let mut open = zones(&vec![Medium; levels.len()]);
        open.iter_mut().zip(levels).for_each(|(view, level)| view.level = Some(*level));
        let tags = FileTags::of(FileKind::Data).with_lifetime(Medium).with_level(2);
        let table = TableKeys { tree, level: 2, range: KeyRange::new(key, key) };
        let candidate = Candidate { file: FileId(99), tags: &tags, bytes: 1, table: Some(&table) };
        LevelKeys.choose(&candidate, &Choices { open: &open, may_open, shape: &shape }).choice
    }

    #[test]
    fn neighbours_lie_together() {
        // Zone 0 has a and b, zone 1 has g and h; 9 is full.
        let tables = [0, 0, 9, 9, 9, 9, 1, 1];
        assert_eq!(chosen("bb", tables, &[2, 2], true), Choice::Open(ZoneId(0)));
        assert_eq!(chosen("cc", tables, &[2, 2], true), Choice::Open(ZoneId(0)), "one table is between");
        assert_eq!(chosen("ee", tables, &[2, 2], true), Choice::Open(ZoneId(1)));
        assert_eq!(chosen("ee", tables, &[2, 3], true), Choice::New, "three tables are between, and one zone is open");
        assert_eq!(chosen("dd", tables, &[2, 3], true), Choice::Open(ZoneId(0)), "two are");
        assert_eq!(chosen("ee", tables, &[2, 3], false), Choice::Open(ZoneId(0)), "there is no other zone");
    }

    #[test]
    fn another_levels_zones_are_left_alone() {
        assert_eq!(chosen("bb", [0; 8], &[1, 3], true), Choice::New);
    }

    #[test]
    fn without_keys_it_is_levels() {
        let mut open = zones(&[Medium, Medium]);
        open[1].level = Some(2);
        let tags = FileTags::of(FileKind::Data).with_lifetime(Medium).with_level(2);
        let candidate = Candidate { file: FileId(1), tags: &tags, bytes: 1, table: None };
        let choices = Choices { open: &open, may_open: true, shape: &LsmShape::default() };
        assert_eq!(LevelKeys.choose(&candidate, &choices), Levels.choose(&candidate, &choices));
        assert_eq!(LevelKeys.choose(&candidate, &choices).choice, Choice::Open(ZoneId(1)));
    }
}
