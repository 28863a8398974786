//! Which table of a level that is due is compacted next: the policies, pure functions of the tree and of what was chosen before.
//!
//! - *Min-overlap*, `RocksDB`'s own: the table with the least below it for its size.
//! - *LLC* (lifetime-leveling compaction): one table after the other in the order of keys, so that tables that were written one after the
//!   other die one after the other.
//! - *Gear* (`GearDB`): in the order of keys too, but in windows: a window is a share of a level's tables, fixed when it opens, and no
//!   other table of the level is chosen before all of it is gone. Where all that a compaction overwrites lies in the window of a level that
//!   is itself due, the compaction goes on into the level below (`pick.rs`): one gear turns the next.
//!
//! The `SplitZNS` paper reproduces both on `RocksDB` and says little more than that (section 5.1.3); the windows' size is ours.

use std::collections::BTreeSet;

use super::levels::{Levels, Span, Table};

/// A level's tables over its window's.
const WINDOWS_OF_A_LEVEL: usize = 4;

/// How tables are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    MinOverlap,
    Gear,
    Llc,
}

/// What of a level was chosen before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    /// The last key that had its turn.
    last: Option<Vec<u8>>,
    /// Tables of the open window.
    window: BTreeSet<u64>,
}

/// What was chosen before, by level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns(Vec<Turn>);

impl Policy {
    /// By the name on the command line.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "min-overlap" => Some(Self::MinOverlap),
            "gear" => Some(Self::Gear),
            "llc" => Some(Self::Llc),
            _ => None,
        }
    }

    /// Tables of a level from 1 on, by their places, in the order in which they are to be tried.
    pub(crate) fn order(self, levels: &Levels, level: usize, turns: &Turns) -> Vec<usize> {
        let tables = levels.at(level);
        match self {
            Self::MinOverlap => {
                let mut places: Vec<usize> = (0..tables.len()).collect();
                places.sort_by_cached_key(|&place| (overlap(levels, level, &tables[place]), tables[place].number));
                places
            }
            Self::Llc => in_turn(tables, turns.last(level)).collect(),
            Self::Gear => {
                let window = turns.0.get(level).map(|turn| &turn.window);
                let is_in = |place: &usize| window.is_some_and(|window| window.contains(&tables[*place].number));
                (0..tables.len()).filter(is_in).collect()
            }
        }
    }
}

/// Bytes one level down over the table's own, in 1,024ths.
fn overlap(levels: &Levels, level: usize, table: &Table) -> u64 {
    let below = Span::of(&[table])
        .map_or(0, |span| levels.overlapping(level + 1, &span).iter().map(|table| table.bytes).sum::<u64>());
    below.saturating_mul(1024) / table.bytes.max(1)
}

/// Places in the order of keys, from behind a key on, around.
fn in_turn(tables: &[Table], last: Option<&Vec<u8>>) -> impl Iterator<Item = usize> {
    let first = last.map_or(0, |last| tables.partition_point(|table| table.smallest <= *last));
    (first..tables.len()).chain(0..first)
}

impl Turns {
    fn last(&self, level: usize) -> Option<&Vec<u8>> {
        self.0.get(level)?.last.as_ref()
    }

    fn turn(&mut self, level: usize) -> &mut Turn {
        if self.0.len() <= level {
            self.0.resize_with(level + 1, Turn::default);
        }
        &mut self.0[level]
    }

    /// A table of a level was chosen.
    pub(crate) fn chosen(&mut self, level: usize, table: &Table) {
        self.turn(level).last = Some(table.largest.clone());
    }

    /// Forgets tables that are gone, and opens the next window of a level from 1 on whose window is empty.
    pub(crate) fn open_windows(&mut self, levels: &Levels) {
        for level in 1..levels.0.len() {
            let tables = levels.at(level);
            let turn = self.turn(level);
            turn.window.retain(|number| tables.iter().any(|table| table.number == *number));
            if turn.window.is_empty() {
                let size = tables.len().div_ceil(WINDOWS_OF_A_LEVEL);
                turn.window =
                    in_turn(tables, turn.last.as_ref()).take(size).map(|place| tables[place].number).collect();
            }
        }
    }

    /// Whether all of some tables of a level are in its window.
    pub(crate) fn are_in_window(&self, level: usize, tables: &[&Table]) -> bool {
        let window = self.0.get(level).map(|turn| &turn.window);
        window.is_some_and(|window| tables.iter().all(|table| window.contains(&table.number)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::levels::tests::table;
    use super::*;

    /// Three tables above five.
    fn levels() -> Levels {
        let above = vec![table(1, "ae"), table(2, "fg"), table(3, "hm")];
        let below = vec![table(11, "ab"), table(12, "cd"), table(13, "ef"), table(14, "gg"), table(15, "xz")];
        Levels(vec![vec![], above, below])
    }

    #[test]
    fn min_overlap_takes_what_has_least_below_it() {
        // Three below the first, two below the second, none below the third.
        assert_eq!(Policy::MinOverlap.order(&levels(), 1, &Turns::default()), [2, 1, 0]);
    }

    #[test]
    fn llc_goes_through_the_keys_and_begins_again() {
        let (levels, mut turns) = (levels(), Turns::default());
        assert_eq!(Policy::Llc.order(&levels, 1, &turns), [0, 1, 2]);
        turns.chosen(1, &table(1, "ae"));
        assert_eq!(Policy::Llc.order(&levels, 1, &turns), [1, 2, 0]);
        turns.chosen(1, &table(3, "hm"));
        assert_eq!(Policy::Llc.order(&levels, 1, &turns), [0, 1, 2]);
    }

    #[test]
    fn gear_takes_nothing_but_its_window_until_that_is_gone() {
        let (mut levels, mut turns) = (levels(), Turns::default());
        turns.open_windows(&levels);
        // A quarter of five, rounded up.
        assert_eq!(Policy::Gear.order(&levels, 2, &turns), [0, 1]);
        assert!(turns.are_in_window(2, &[&table(11, "ab")]) && !turns.are_in_window(2, &[&table(13, "ef")]));
        turns.chosen(2, &table(11, "ab"));
        levels.0[2].remove(0);
        levels.0[2].insert(0, table(16, "aa"));
        turns.open_windows(&levels);
        assert_eq!(Policy::Gear.order(&levels, 2, &turns), [1]);
        turns.chosen(2, &table(12, "cd"));
        levels.0[2].remove(1);
        turns.open_windows(&levels);
        assert_eq!(Policy::Gear.order(&levels, 2, &turns), [1], "the window behind d, of one table of four");
    }
}
