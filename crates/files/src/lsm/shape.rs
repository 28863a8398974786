//! The shape of all LSM-trees: which table is at which level, over which keys, in which zones.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};

use super::lives::Lives;
use super::{JobId, KeyOrder, KeyRange, TreeId};
use crate::{FileId, FileTags, ZoneId};

/// A table of a tree: in its version, or placed and not yet in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its level.
    pub level: u8,
    /// Its keys.
    pub range: KeyRange,
    /// The zones that hold its bytes, in the order of the file; written ones only.
    pub zones: Vec<ZoneId>,
}

/// A tree.
#[derive(Clone, Debug)]
struct Tree {
    order: KeyOrder,
    tables: BTreeMap<FileId, Table>,
}

/// The trees and the jobs that run over them. Plain data: policies read it, and it changes only by these calls.
#[derive(Clone, Debug, Default)]
pub struct LsmShape {
    trees: BTreeMap<TreeId, Tree>,
    /// Inputs of each job.
    jobs: HashMap<JobId, Vec<FileId>>,
    /// How often jobs name each input.
    inputs: HashMap<FileId, u32>,
    lives: Lives,
    next_tree: u32,
    next_job: u64,
}

impl LsmShape {
    /// A new, empty tree.
    pub fn add_tree(&mut self, order: KeyOrder) -> TreeId {
        let tree = TreeId(self.next_tree);
        self.next_tree += 1;
        self.trees.insert(tree, Tree { order, tables: BTreeMap::new() });
        tree
    }

    /// Forgets a tree.
    pub fn remove_tree(&mut self, tree: TreeId) {
        self.trees.remove(&tree);
        self.lives.forget(tree);
    }

    /// Bytes of tables were written: the clock that ages and lives of tables are counted by.
    pub fn wrote(&mut self, bytes: u64) {
        self.lives.advance(bytes);
    }

    /// Notes a table: placed, installed, or moved to another level.
    pub fn put(&mut self, tree: TreeId, file: FileId, table: Table) {
        if let Some(known) = self.trees.get_mut(&tree) {
            self.lives.put(tree, file, table.level);
            known.tables.insert(file, table);
        }
    }

    /// A version edit removed a table from a tree.
    pub fn remove(&mut self, tree: TreeId, file: FileId) {
        if let Some(tree) = self.trees.get_mut(&tree)
            && tree.tables.remove(&file).is_some()
        {
            self.lives.leave_version(file);
        }
    }

    /// A file is gone.
    pub fn remove_file(&mut self, file: FileId) {
        self.lives.die(file);
        self.trees.values_mut().for_each(|tree| drop(tree.tables.remove(&file)));
    }

    /// The bytes of a file are in these zones now.
    pub fn set_zones(&mut self, file: FileId, zones: &[ZoneId]) {
        let tables = self.trees.values_mut().filter_map(|tree| tree.tables.get_mut(&file));
        tables.for_each(|table| zones.clone_into(&mut table.zones));
    }

    /// A job begins that reads these tables.
    pub fn begin_job(&mut self, inputs: Vec<FileId>) -> JobId {
        let job = JobId(self.next_job);
        self.next_job += 1;
        inputs.iter().for_each(|file| *self.inputs.entry(*file).or_default() += 1);
        self.jobs.insert(job, inputs);
        job
    }

    /// A job has ended.
    pub fn end_job(&mut self, job: JobId) {
        for file in self.jobs.remove(&job).into_iter().flatten() {
            if let Entry::Occupied(mut named) = self.inputs.entry(file) {
                *named.get_mut() -= 1;
                if *named.get() == 0 {
                    named.remove();
                }
            }
        }
    }

    /// A table of a tree.
    #[must_use]
    pub fn table(&self, tree: TreeId, file: FileId) -> Option<&Table> {
        self.trees.get(&tree)?.tables.get(&file)
    }

    /// A file as a table, in the first tree that has it.
    #[must_use]
    pub fn find(&self, file: FileId) -> Option<(TreeId, &Table)> {
        self.trees.iter().find_map(|(id, tree)| Some((*id, tree.tables.get(&file)?)))
    }

    /// What a file is now that was created as `tags` say: a trivial move gives a table another level.
    pub(crate) fn tags_now(&self, file: FileId, tags: FileTags) -> FileTags {
        let level = self.find(file).map(|(_, table)| table.level);
        FileTags { level: level.or(tags.level), ..tags }
    }

    /// The order of a tree's keys.
    #[must_use]
    pub fn order(&self, tree: TreeId) -> Option<&KeyOrder> {
        self.trees.get(&tree).map(|tree| &tree.order)
    }

    /// Tables of one level that no running job reads. Cost: one pass over the tree.
    pub fn level(&self, tree: TreeId, level: u8) -> impl Iterator<Item = (FileId, &Table)> {
        let tables = self.trees.get(&tree).into_iter().flat_map(|tree| &tree.tables);
        let here = tables.filter(move |(_, table)| table.level == level);
        here.map(|(file, table)| (*file, table)).filter(|(file, _)| !self.is_input(*file))
    }

    /// The last level of a tree that holds a table; of all trees, if none is named.
    #[must_use]
    pub fn bottom(&self, tree: Option<TreeId>) -> Option<u8> {
        let trees = self.trees.iter().filter(|(id, _)| tree.is_none_or(|tree| tree == **id));
        trees.flat_map(|(_, tree)| tree.tables.values()).map(|table| table.level).max()
    }

    /// Whether a running job reads the table, so that it will soon be gone. Costs a look-up, whatever runs.
    #[must_use]
    pub fn is_input(&self, file: FileId) -> bool {
        self.inputs.contains_key(&file)
    }

    /// Tables that will soon be gone, whoever cleans what: those that running jobs read, and those that no version has any more. An engine
    /// keeps the latter until all is done that began before: `RocksDB` until the oldest job has ended, and while it is behind its
    /// compactions they are up to a quarter of a drive. One that outstays the mean life of its level is held by a reader, and is none of
    /// these. Cost: one pass over them.
    pub fn doomed(&self) -> impl Iterator<Item = FileId> {
        self.inputs.keys().copied().chain(self.lives.left().filter(|file| !self.is_input(*file)))
    }

    /// How long a table has been in its level, and how long tables live there on average, both in bytes of tables written meanwhile;
    /// `None` for a file that is no table. A level of which little is known counts for ten times the one above it.
    #[must_use]
    pub fn age_and_mean_life(&self, file: FileId) -> Option<(u64, u64)> {
        self.lives.age_and_mean(file)
    }

    /// The keys of all inputs of a job: no output has others.
    #[must_use]
    pub fn input_range(&self, tree: TreeId, job: JobId) -> Option<KeyRange> {
        let tree = self.trees.get(&tree)?;
        let ranges = self.jobs.get(&job)?.iter().filter_map(|file| Some(&tree.tables.get(file)?.range));
        ranges.cloned().reduce(|one, other| tree.order.union(&one, &other))
    }

    /// The keys that a table of a job may have which is not complete: from its first key to the last one of the job's inputs. A
    /// flush has no inputs: its first key stands for all.
    #[must_use]
    pub fn expected_range(&self, tree: TreeId, job: Option<JobId>, first_key: Option<&[u8]>) -> Option<KeyRange> {
        let inputs = job.and_then(|job| self.input_range(tree, job));
        match (first_key, inputs) {
            (Some(first), None) => Some(KeyRange::new(first, first)),
            (Some(first), Some(inputs)) => {
                let is_among = self.order(tree)?.compare(first, &inputs.largest).is_le();
                Some(if is_among { KeyRange::new(first, inputs.largest) } else { inputs })
            }
            (None, inputs) => inputs,
        }
    }

    /// Tables of all trees, for reports.
    #[must_use]
    pub fn tables(&self) -> usize {
        self.trees.values().map(|tree| tree.tables.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(level: u8, smallest: &str, largest: &str) -> Table {
        Table { level, range: KeyRange::new(smallest, largest), zones: Vec::new() }
    }

    #[test]
    fn inputs_of_running_jobs_are_left_out_until_the_job_ends() {
        let mut shape = LsmShape::default();
        let tree = shape.add_tree(KeyOrder::bytewise());
        shape.put(tree, FileId(1), table(1, "a", "c"));
        shape.put(tree, FileId(2), table(1, "d", "f"));
        let job = shape.begin_job(vec![FileId(2)]);
        let seen = |shape: &LsmShape| shape.level(tree, 1).map(|(file, _)| file.0).collect::<Vec<_>>();
        assert_eq!(seen(&shape), [1]);
        assert_eq!(shape.input_range(tree, job), Some(KeyRange::new("d", "f")));
        shape.end_job(job);
        assert_eq!(seen(&shape), [1, 2]);
    }

    #[test]
    fn an_input_of_several_jobs_is_one_until_the_last_ends() {
        let mut shape = LsmShape::default();
        let jobs =
            [shape.begin_job(vec![FileId(1), FileId(2), FileId(2)]), shape.begin_job(vec![FileId(2), FileId(3)])];
        let inputs = |shape: &LsmShape| [1, 2, 3].map(|file| shape.is_input(FileId(file)));
        assert_eq!(inputs(&shape), [true; 3]);
        shape.end_job(jobs[0]);
        shape.end_job(jobs[0]);
        assert_eq!(inputs(&shape), [false, true, true]);
        shape.end_job(jobs[1]);
        assert_eq!(inputs(&shape), [false; 3]);
    }

    /// A pass over a level asks for each table whether a job has it: with a look at all inputs for each that would be ten thousand
    /// million steps.
    #[test]
    fn a_job_over_all_tables_makes_a_pass_no_longer_than_that() {
        const TABLES: u64 = 200_000;
        let mut shape = LsmShape::default();
        let tree = shape.add_tree(KeyOrder::bytewise());
        (0..TABLES).for_each(|file| shape.put(tree, FileId(file), table(1, "a", "c")));
        let job = shape.begin_job((1..TABLES).map(FileId).collect());
        assert_eq!(shape.level(tree, 1).map(|(file, _)| file.0).collect::<Vec<_>>(), [0]);
        shape.end_job(job);
        assert_eq!(shape.level(tree, 1).count() as u64, TABLES);
    }

    #[test]
    fn what_a_job_reads_and_what_no_version_has_is_doomed_until_it_is_gone() {
        let mut shape = LsmShape::default();
        let tree = shape.add_tree(KeyOrder::bytewise());
        let doomed = |shape: &LsmShape| {
            let mut files: Vec<u64> = shape.doomed().map(|file| file.0).collect();
            files.sort_unstable();
            files
        };
        // Tables of this level live for a few bytes.
        (10..30).for_each(|file| shape.put(tree, FileId(file), table(1, "a", "c")));
        (10..30).for_each(|file| shape.remove_file(FileId(file)));
        (1..=4).for_each(|file| shape.put(tree, FileId(file), table(1, "a", "c")));
        shape.wrote(100);
        let job = shape.begin_job(vec![FileId(1), FileId(2)]);
        assert_eq!(doomed(&shape), [1, 2]);
        // The edit comes before the end of the job.
        [1, 2, 3].iter().for_each(|file| shape.remove(tree, FileId(*file)));
        shape.put(tree, FileId(3), table(2, "a", "c"));
        assert_eq!(doomed(&shape), [1, 2], "what was moved lives on, and an input is one of them, not two");
        shape.end_job(job);
        assert_eq!(doomed(&shape), [1, 2]);
        shape.remove_file(FileId(2));
        assert_eq!(doomed(&shape), [1]);
        shape.wrote(1_000_000);
        shape.remove(tree, FileId(4));
        assert_eq!(doomed(&shape), [4], "the other one is held for as long as tables of its level live");
        shape.remove(tree, FileId(99));
        shape.remove_tree(tree);
        assert_eq!(doomed(&shape), [] as [u64; 0], "nothing is known of a tree that is closed");
    }

    #[test]
    fn a_trivial_move_changes_the_level_and_keeps_the_zones() {
        let mut shape = LsmShape::default();
        let tree = shape.add_tree(KeyOrder::reverse());
        shape.put(tree, FileId(1), table(1, "c", "a"));
        shape.set_zones(FileId(1), &[ZoneId(4)]);
        let moved = Table { level: 2, ..shape.table(tree, FileId(1)).cloned().expect("there") };
        shape.remove(tree, FileId(1));
        shape.put(tree, FileId(1), moved);
        assert_eq!(shape.level(tree, 1).count(), 0);
        assert_eq!(shape.table(tree, FileId(1)).expect("there").zones, [ZoneId(4)]);
        let order = shape.order(tree).expect("there");
        assert!(order.overlap(&KeyRange::new("c", "b"), &KeyRange::new("b", "a")));
        assert!(!order.overlap(&KeyRange::new("d", "c"), &KeyRange::new("b", "a")));
        shape.remove_file(FileId(1));
        assert_eq!(shape.tables(), 0);
    }
}
