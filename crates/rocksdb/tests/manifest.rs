//! A MANIFEST that RocksDB 7.8.3 wrote is understood: three column families, a few flushes.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use zonda_rocksdb::lsm::Shape;

#[test]
fn a_manifest_of_rocksdb_is_understood() {
    let manifest = include_bytes!("data/MANIFEST-7.8.3");
    let mut shape = Shape::default();
    manifest.chunks(100).for_each(|piece| drop(shape.feed(piece)));
    assert_eq!(shape.is_damaged(), None);
    let tables = |family: u32| {
        let family = &shape.families()[&family];
        assert_eq!(family.comparator, "leveldb.BytewiseComparator");
        (family.name.as_str(), family.levels[&0].keys().copied().collect::<Vec<_>>())
    };
    // As `ldb list_live_files_metadata` says.
    assert_eq!(tables(0), ("default", vec![15, 20]));
    assert_eq!(tables(1), ("column_family_name_000001", vec![17]));
    assert_eq!(tables(2), ("column_family_name_000002", vec![16, 22]));
    let (level, table) = shape.table(20).unwrap();
    assert_eq!((level, table.size_bytes, table.smallest.len()), (0, 45_483, 16));
    assert!(table.smallest < table.largest);
}
