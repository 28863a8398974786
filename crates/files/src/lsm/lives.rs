//! How long tables live, level by level: what victim choice expects of those that are there.

use std::collections::{BTreeMap, HashMap};

use super::TreeId;
use crate::FileId;

/// How many times as long as in the level above tables are taken to live, until enough of them died.
const PER_LEVEL: u64 = 10;
/// Deaths from which on a level speaks for itself.
const DEATHS_MIN: u64 = 16;

/// When a table came to its level.
#[derive(Clone, Copy, Debug)]
struct Born {
    tree: TreeId,
    level: u8,
    at: u64,
}

/// What is known of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    deaths: u64,
    /// Bytes that were written while each table was there that is there no more, summed up.
    lived: u128,
    alive: u64,
    /// Births of those that are there, summed up.
    born: u128,
}

/// Lives of tables, counted in bytes of tables that are written meanwhile. Plain data.
///
/// A table is born when it comes to a level and dies with its file; a move to another level is no death. A level's mean life is what
/// all its tables lived so far over how many died: those that are there count with their age, so that a level in which nothing dies
/// is seen to be one.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives {
    clock: u64,
    levels: BTreeMap<(TreeId, u8), Level>,
    born: HashMap<FileId, Born>,
    /// Tables that no version has any more and whose files are there, with when they left.
    left: HashMap<FileId, u64>,
}

impl Lives {
    /// Bytes of tables were written.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.clock = self.clock.saturating_add(bytes);
    }

    /// A table is in a level of a tree, as it was, or since now.
    pub(super) fn put(&mut self, tree: TreeId, file: FileId, level: u8) {
        self.left.remove(&file);
        let is_known = self.born.get(&file).is_some_and(|born| (born.tree, born.level) == (tree, level));
        if is_known {
            return;
        }
        self.leave(file);
        let it = self.levels.entry((tree, level)).or_default();
        it.alive += 1;
        it.born += u128::from(self.clock);
        self.born.insert(file, Born { tree, level, at: self.clock });
    }

    /// Its tree's version has a table no more; the file stays for those who still read it.
    pub(super) fn leave_version(&mut self, file: FileId) {
        if self.born.contains_key(&file) {
            self.left.insert(file, self.clock);
        }
    }

    /// Tables that left their version, but for those that stay as long as others of their level live: somebody holds these for good.
    pub(super) fn left(&self) -> impl Iterator<Item = FileId> {
        let is_soon_gone = |(file, at): &(&FileId, &u64)| {
            let mean = self.age_and_mean(**file).map_or(0, |(_, mean)| mean);
            self.clock - **at < mean
        };
        self.left.iter().filter(is_soon_gone).map(|(file, _)| *file)
    }

    /// A file is gone.
    pub(super) fn die(&mut self, file: FileId) {
        if let Some(born) = self.leave(file) {
            self.levels.entry((born.tree, born.level)).or_default().deaths += 1;
        }
    }

    /// A tree is gone, and what was learned of it.
    pub(super) fn forget(&mut self, tree: TreeId) {
        self.levels.retain(|(of, _), _| *of != tree);
        self.born.retain(|_, born| born.tree != tree);
        self.left.retain(|file, _| self.born.contains_key(file));
    }

    fn leave(&mut self, file: FileId) -> Option<Born> {
        self.left.remove(&file);
        let born = self.born.remove(&file)?;
        let it = self.levels.entry((born.tree, born.level)).or_default();
        it.alive -= 1;
        it.born -= u128::from(born.at);
        it.lived += u128::from(self.clock - born.at);
        Some(born)
    }

    /// The age of a table in its level, and the mean life there.
    pub(super) fn age_and_mean(&self, file: FileId) -> Option<(u64, u64)> {
        let born = self.born.get(&file)?;
        Some((self.clock - born.at, self.mean(born.tree, born.level)))
    }

    /// The mean life in a level; 0 if nothing is known. Cost: one look for each level down to it.
    fn mean(&self, tree: TreeId, level: u8) -> u64 {
        (0..=level).fold(0, |above: u64, level| {
            let Some(it) = self.levels.get(&(tree, level)) else { return above.saturating_mul(PER_LEVEL) };
            let ages = u128::from(it.alive) * u128::from(self.clock) - it.born;
            let mean = u64::try_from((it.lived + ages) / u128::from(it.deaths + 1)).unwrap_or(u64::MAX);
            if it.deaths < DEATHS_MIN { mean.max(above.saturating_mul(PER_LEVEL)) } else { mean }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: TreeId = TreeId(3);

    /// Tables that are written one after the other, of which each dies when `alive` newer ones are there.
    fn turning(lives: &mut Lives, level: u8, alive: u64, count: u64) {
        for file in 0..count {
            lives.advance(100);
            lives.put(TREE, FileId(file), level);
            if file >= alive {
                lives.die(FileId(file - alive));
            }
        }
    }

    #[test]
    fn the_mean_life_is_that_of_the_dead_and_of_the_living() {
        let mut lives = Lives::default();
        turning(&mut lives, 2, 10, 1000);
        let (age, mean) = lives.age_and_mean(FileId(995)).expect("alive");
        assert_eq!(age, 400);
        assert!((990..1010).contains(&mean), "{mean}");
        assert_eq!(lives.age_and_mean(FileId(5)), None, "dead");
    }

    #[test]
    fn a_level_in_which_nothing_dies_lives_long() {
        let mut lives = Lives::default();
        turning(&mut lives, 1, 4, 100);
        lives.put(TREE, FileId(5000), 2);
        let (_, young) = lives.age_and_mean(FileId(5000)).expect("alive");
        let (_, above) = lives.age_and_mean(FileId(99)).expect("alive");
        assert_eq!(young, above * PER_LEVEL, "as long as its place says");
        lives.advance(1_000_000);
        assert!(lives.age_and_mean(FileId(5000)).expect("alive").1 >= 1_000_000);
    }

    #[test]
    fn a_move_is_no_death_and_a_forgotten_tree_leaves_nothing() {
        let mut lives = Lives::default();
        lives.put(TREE, FileId(1), 0);
        lives.advance(7);
        lives.put(TREE, FileId(1), 0);
        assert_eq!(lives.age_and_mean(FileId(1)), Some((7, 7)));
        lives.put(TREE, FileId(1), 1);
        assert_eq!(lives.age_and_mean(FileId(1)).map(|(age, _)| age), Some(0));
        assert_eq!(lives.levels[&(TREE, 0)].deaths, 0);
        lives.die(FileId(1));
        assert_eq!(lives.levels[&(TREE, 1)].deaths, 1);
        lives.forget(TREE);
        assert!(lives.levels.is_empty() && lives.born.is_empty());
    }
}
