//! The LSM-tree as compactions see it: tables by level, and which levels hold too much.

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its file's number.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Its first key.
    pub(crate) smallest: Vec<u8>,
    /// Its last key.
    pub(crate) largest: Vec<u8>,
    /// Whether a compaction that runs reads it.
    pub(crate) is_busy: bool,
}

/// First and last key of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl Span {
    /// What holds all of some tables; `None` if there are none.
    pub(crate) fn of(tables: &[&Table]) -> Option<Self> {
        let smallest = tables.iter().map(|table| &table.smallest).min()?.clone();
        let largest = tables.iter().map(|table| &table.largest).max()?.clone();
        Some(Self { smallest, largest })
    }

    /// Whether they have a key in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.smallest <= other.largest && other.smallest <= self.largest
    }
}

/// What the tree should look like: `RocksDB`'s options of the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Tables of level 0 that make a compaction due.
    pub(crate) level0_trigger: usize,
    /// Bytes of level 1.
    pub(crate) base_bytes: u64,
    /// Each level over the one above.
    pub(crate) multiplier: u64,
    /// Bytes of a table.
    pub(crate) table_bytes: u64,
    /// How many levels there are: nothing goes below the last.
    pub(crate) levels: usize,
}

/// Tables of each level: level 0 newest first, the others by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(pub(crate) Vec<Vec<Table>>);

impl Levels {
    /// Adds a table to its level, as the last.
    pub(crate) fn push(&mut self, level: usize, table: Table) {
        if self.0.len() <= level {
            self.0.resize_with(level + 1, Vec::new);
        }
        self.0[level].push(table);
    }

    /// Tables of a level.
    pub(crate) fn at(&self, level: usize) -> &[Table] {
        self.0.get(level).map_or(&[], Vec::as_slice)
    }

    /// Tables of a level that have keys of a span.
    pub(crate) fn overlapping(&self, level: usize, span: &Span) -> Vec<&Table> {
        let tables = self.at(level);
        if level == 0 {
            let overlaps = |table: &&Table| table.smallest <= span.largest && span.smallest <= table.largest;
            return tables.iter().filter(overlaps).collect();
        }
        // Sorted and disjoint.
        let from = tables.partition_point(|table| table.largest < span.smallest);
        let to = tables.partition_point(|table| table.smallest <= span.largest);
        tables[from..to.max(from)].iter().collect()
    }

    /// How far a level is above its limit, as `RocksDB` counts: 1 and above is due. Tables that are being compacted do not count, but in
    /// level 0.
    pub(crate) fn score(&self, level: usize, limits: &Limits) -> f64 {
        let idle = self.at(level).iter().filter(|table| !table.is_busy);
        if level == 0 {
            let (count, bytes) = idle.fold((0, 0), |(count, bytes), table| (count + 1, bytes + table.bytes));
            return (f64::from(count) / limits.level0_trigger as f64).max(bytes as f64 / limits.base_bytes as f64);
        }
        let bytes: u64 = idle.map(|table| table.bytes).sum();
        bytes as f64 / limits.base_bytes.saturating_mul(limits.multiplier.saturating_pow(depth(level))) as f64
    }

    /// Levels that are due, the one farthest above its limit first. The deepest there may be never is.
    pub(crate) fn due(&self, limits: &Limits) -> Vec<usize> {
        let levels = self.0.len().min(limits.levels.saturating_sub(1));
        let mut due: Vec<(usize, f64)> = (0..levels).map(|level| (level, self.score(level, limits))).collect();
        due.retain(|(_, score)| *score >= 1.0);
        due.sort_by(|one, other| other.1.total_cmp(&one.1));
        due.into_iter().map(|(level, _)| level).collect()
    }
}

fn depth(level: usize) -> u32 {
    u32::try_from(level.saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const LIMITS: Limits =
        Limits { level0_trigger: 4, base_bytes: 100, multiplier: 10, table_bytes: 10, levels: 7 };

    /// A table of ten bytes over some letters.
    pub(crate) fn table(number: u64, keys: &str) -> Table {
        let (smallest, largest) = keys.split_at(1);
        let (smallest, largest) = (smallest.as_bytes().to_vec(), largest.as_bytes().to_vec());
        Table { number, bytes: 10, smallest, largest, is_busy: false }
    }

    #[test]
    fn tables_of_a_span_are_found() {
        let levels = Levels(vec![vec![], vec![table(1, "ac"), table(2, "df"), table(3, "gi")]]);
        let found = |keys: &str| -> Vec<u64> {
            let span = Span::of(&[&table(9, keys)]).unwrap();
            levels.overlapping(1, &span).iter().map(|table| table.number).collect()
        };
        assert_eq!((found("cd"), found("ef"), found("iz")), (vec![1, 2], vec![2], vec![3]));
        assert_eq!((found("az"), found("yz")), (vec![1, 2, 3], vec![]));
    }

    #[test]
    fn levels_above_their_limit_are_due_the_fullest_first() {
        let level = |count: u64, from: u64| (from..from + count).map(|number| table(number, "az")).collect::<Vec<_>>();
        let mut levels = Levels(vec![level(4, 0), level(15, 10), level(99, 100)]);
        assert_eq!(levels.due(&LIMITS), [1, 0]);
        levels.0[1].iter_mut().take(6).for_each(|table| table.is_busy = true);
        assert_eq!(levels.due(&LIMITS), [0]);
        levels.0[0][0].is_busy = true;
        assert!(levels.due(&LIMITS).is_empty());
        levels.0.iter_mut().flatten().for_each(|table| table.is_busy = false);
        assert_eq!(levels.due(&Limits { levels: 2, ..LIMITS }), [0], "there is no level below 1");
        assert!(levels.due(&Limits { levels: 1, ..LIMITS }).is_empty());
    }
}
