//! The shape of an LSM-tree: which tables are on which level of which column family.

use std::collections::BTreeMap;

use crate::lsm::{Damaged, RecordReader, TableFile, VersionEdit};

/// A column family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnFamily {
    /// Its name, what is not UTF-8 of it replaced; `default` if the MANIFEST does not say.
    pub name: String,
    /// Name of the order of its keys.
    pub comparator: String,
    /// Tables by level and number.
    pub levels: BTreeMap<u8, BTreeMap<u64, TableFile>>,
}

/// The shape that one MANIFEST describes, as far as it was fed.
///
/// Fed the file in order, in pieces of any size. An atomic group takes effect as a whole. After damage the shape stays as it
/// was and [`is_damaged`](Self::is_damaged) says so.
#[derive(Debug, Default)]
pub struct Shape {
    families: BTreeMap<u32, ColumnFamily>,
    records: RecordReader,
    /// Edits of an atomic group that is not complete.
    group: Vec<VersionEdit>,
    damage: Option<Damaged>,
}

/// What an edit did to one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Column family.
    pub column_family: u32,
    /// Number of the table.
    pub number: u64,
    /// Its level; of a deleted one the level that it was on.
    pub level: u8,
    /// Its bytes, unless it was deleted.
    pub size_bytes: u64,
    /// Whether it was deleted from there.
    pub is_deleted: bool,
}

impl Shape {
    /// Takes the next bytes of the MANIFEST; tells what changed.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Applied> {
        let Self { families, records, group, damage } = self;
        let mut applied = Vec::new();
        let fed = records.feed(bytes, &mut |record| {
            let edit = VersionEdit::decode(record)?;
            take(families, group, edit, &mut applied)
        });
        if let Err(error) = fed {
            damage.get_or_insert(error);
        }
        applied
    }

    /// The rest of the MANIFEST cannot be had.
    pub(crate) fn give_up(&mut self, why: Damaged) {
        self.damage.get_or_insert(why);
    }

    /// Column families by number.
    #[must_use]
    pub fn families(&self) -> &BTreeMap<u32, ColumnFamily> {
        &self.families
    }

    /// Level of a table and what it is.
    #[must_use]
    pub fn table(&self, number: u64) -> Option<(u8, &TableFile)> {
        self.families.values().find_map(|family| family.table(number))
    }

    /// Whether the MANIFEST could not be followed to its end.
    #[must_use]
    pub fn is_damaged(&self) -> Option<Damaged> {
        self.damage
    }
}

/// Applies an edit, or keeps it until its group is complete.
fn take(
    families: &mut BTreeMap<u32, ColumnFamily>,
    group: &mut Vec<VersionEdit>,
    edit: VersionEdit,
    applied: &mut Vec<Applied>,
) -> Result<(), Damaged> {
    match edit.group_remaining {
        None if !group.is_empty() => Err(Damaged("an atomic group is not complete")),
        Some(remaining) if remaining > 0 => {
            group.push(edit);
            Ok(())
        }
        _ => {
            group.push(edit);
            group.drain(..).for_each(|edit| apply(families, edit, applied));
            Ok(())
        }
    }
}

fn apply(families: &mut BTreeMap<u32, ColumnFamily>, edit: VersionEdit, applied: &mut Vec<Applied>) {
    let column_family = edit.column_family;
    if edit.drops_family {
        families.remove(&column_family);
        return;
    }
    let family = families.entry(column_family).or_insert_with(ColumnFamily::unnamed);
    if let Some(name) = edit.creates_family {
        family.name = String::from_utf8_lossy(&name).into_owned();
    }
    if let Some(comparator) = edit.comparator {
        family.comparator = String::from_utf8_lossy(&comparator).into_owned();
    }
    for (level, number) in edit.deleted {
        if let Some(tables) = family.levels.get_mut(&level) {
            tables.remove(&number);
        }
        applied.push(Applied { column_family, number, level, size_bytes: 0, is_deleted: true });
    }
    for (level, table) in edit.added {
        let TableFile { number, size_bytes, .. } = table;
        applied.push(Applied { column_family, number, level, size_bytes, is_deleted: false });
        family.levels.entry(level).or_default().insert(table.number, table);
    }
    family.levels.retain(|_, tables| !tables.is_empty());
}

impl ColumnFamily {
    /// Level of a table and what it is.
    #[must_use]
    pub fn table(&self, number: u64) -> Option<(u8, &TableFile)> {
        self.levels.iter().find_map(|(level, tables)| tables.get(&number).map(|table| (*level, table)))
    }

    fn unnamed() -> Self {
        Self { name: "default".to_owned(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::edit::testing::{encode, table};
    use crate::lsm::record::testing::write;

    fn manifest(edits: &[VersionEdit]) -> Vec<u8> {
        let mut file = Vec::new();
        edits.iter().for_each(|edit| write(&mut file, &encode(edit)));
        file
    }

    #[test]
    fn a_trivial_move_changes_the_level_of_a_table() {
        let flushed = VersionEdit { added: vec![(0, table(8, b"a", b"k"))], ..VersionEdit::default() };
        let moved = VersionEdit { deleted: vec![(0, 8)], added: vec![(1, table(8, b"a", b"k"))], ..flushed.clone() };
        let mut shape = Shape::default();
        shape.feed(&manifest(&[flushed]));
        assert_eq!(shape.table(8).map(|(level, _)| level), Some(0));
        let applied = shape.feed(&manifest(&[moved]));
        assert_eq!(shape.table(8).map(|(level, _)| level), Some(1));
        assert_eq!(applied.iter().map(|one| (one.level, one.is_deleted)).collect::<Vec<_>>(), [(0, true), (1, false)]);
        assert_eq!(shape.families()[&0].levels.len(), 1);
    }

    #[test]
    fn an_atomic_group_takes_effect_as_a_whole() {
        let in_group = |column_family, remaining, number| VersionEdit {
            column_family,
            group_remaining: Some(remaining),
            added: vec![(0, table(number, b"a", b"b"))],
            ..VersionEdit::default()
        };
        let mut shape = Shape::default();
        let created = VersionEdit { column_family: 3, creates_family: Some(b"cf".to_vec()), ..VersionEdit::default() };
        shape.feed(&manifest(&[created]));
        assert_eq!(shape.feed(&manifest(&[in_group(0, 1, 5)])), []);
        assert_eq!(shape.table(5), None);
        assert_eq!(shape.feed(&manifest(&[in_group(3, 0, 6)])).len(), 2);
        assert!(shape.table(5).is_some() && shape.table(6).is_some());
        assert_eq!(shape.families()[&3].name, "cf");
    }

    #[test]
    fn a_dropped_family_is_gone_and_damage_is_said() {
        let created = VersionEdit { column_family: 2, creates_family: Some(b"x".to_vec()), ..VersionEdit::default() };
        let dropped = VersionEdit { column_family: 2, drops_family: true, ..VersionEdit::default() };
        let mut shape = Shape::default();
        shape.feed(&manifest(&[created, dropped]));
        assert!(shape.families().is_empty() && shape.is_damaged().is_none());
        let mut file = Vec::new();
        write(&mut file, &[99, 1]);
        shape.feed(&file);
        assert!(shape.is_damaged().is_some());
    }
}
