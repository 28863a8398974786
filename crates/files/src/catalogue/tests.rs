//! The catalogue against a plain model, and through its own snapshot.

use proptest::prelude::*;

use super::*;
use crate::{FileKind, Lifetime, ZoneId};

fn path(text: &str) -> FilePath {
    FilePath::parse(text).expect("a good path")
}

fn create(catalogue: &mut Catalogue, text: &str) -> FileId {
    let file = catalogue.next_file();
    let change = Change::Create { file, tags: FileTags::of(FileKind::Data), modified_seconds: 1, path: path(text) };
    catalogue.apply(&change).expect("it can be made");
    file
}

fn extent(block: u64) -> Extent {
    Extent { zone: ZoneId(1), generation: 3, block, skip: 0, bytes: 4096, crc: None }
}

fn again(catalogue: &Catalogue) -> Catalogue {
    let mut copy = Catalogue::default();
    let put = &mut |change: &Change| {
        let change = Change::decode(&change.encode()).expect("it was just encoded");
        copy.apply(&change).map(|_| ())
    };
    catalogue.snapshot(put).expect("a snapshot applies");
    copy
}

#[test]
fn a_file_lives_as_long_as_it_has_a_name() {
    let mut catalogue = Catalogue::default();
    let file = create(&mut catalogue, "/a");
    catalogue.apply(&Change::Link { file, path: path("/b") }).expect("links");
    let dropped = catalogue.apply(&Change::Unlink { path: path("/a") }).expect("is there");
    assert_eq!(dropped, Dropped::default());
    let extend = Change::Extend { file, size_before: 0, modified_seconds: 2, extents: vec![extent(9)] };
    catalogue.apply(&extend).expect("extends");
    let dropped = catalogue.apply(&Change::Unlink { path: path("/b") }).expect("is there");
    assert_eq!(dropped, Dropped { file: Some(file), extents: vec![extent(9)] });
    assert!(catalogue.inode(file).is_none());
}

#[test]
fn a_rename_replaces_a_file_and_moves_a_directory() {
    let mut catalogue = Catalogue::default();
    let old = create(&mut catalogue, "/CURRENT");
    let new = create(&mut catalogue, "/CURRENT.tmp");
    let rename = |from: &str, to: &str| Change::Rename { from: path(from), to: path(to) };
    let dropped = catalogue.apply(&rename("/CURRENT.tmp", "/CURRENT")).expect("renames");
    assert_eq!(dropped.file, Some(old));
    assert_eq!(catalogue.file(&path("/CURRENT")).expect("there"), new);
    catalogue.apply(&Change::MakeDirectory { path: path("/d") }).expect("makes");
    catalogue.apply(&Change::MakeDirectory { path: path("/d-1") }).expect("makes");
    let inside = create(&mut catalogue, "/d/x");
    catalogue.apply(&rename("/d", "/e")).expect("moves");
    assert_eq!(catalogue.file(&path("/e/x")).expect("moved"), inside);
    assert!(matches!(catalogue.apply(&rename("/e", "/e/y")), Err(FileError::IntoItself { .. })));
    assert!(matches!(catalogue.apply(&rename("/d-1", "/e")), Err(FileError::NotEmpty { entries: 1, .. })));
    assert!(matches!(catalogue.apply(&rename("/CURRENT", "/e")), Err(FileError::WrongKind { .. })));
}

#[test]
fn only_what_follows_the_size_is_added() {
    let mut catalogue = Catalogue::default();
    let file = create(&mut catalogue, "/a");
    let extend = |size_before| Change::Extend { file, size_before, modified_seconds: 0, extents: vec![extent(7)] };
    catalogue.apply(&extend(0)).expect("extends");
    assert!(matches!(catalogue.apply(&extend(0)), Err(FileError::NotAtEnd { offset: 0, size: 4096 })));
    assert!(matches!(catalogue.apply(&Change::Truncate { file, size: 4097 }), Err(FileError::Longer { .. })));
}

#[test]
fn numbers_of_files_are_not_used_again() {
    let mut catalogue = Catalogue::default();
    let file = create(&mut catalogue, "/a");
    catalogue.apply(&Change::Unlink { path: path("/a") }).expect("is there");
    assert_eq!(again(&catalogue).next_file(), FileId(file.0 + 1));
}

fn any_path() -> impl Strategy<Value = FilePath> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "a-", "a0"]), 0..4)
        .prop_map(|names| path(&names.join("/")))
}

fn any_change() -> impl Strategy<Value = Change> {
    let file = (0_u64..12).prop_map(FileId);
    let tags = FileTags::of(FileKind::Log);
    prop_oneof![
        any_path().prop_map(|path| Change::MakeDirectory { path }),
        any_path().prop_map(|path| Change::RemoveDirectory { path }),
        (any_path(), file.clone()).prop_map(move |(path, file)| Change::Create {
            file,
            tags,
            modified_seconds: 3,
            path
        }),
        (any_path(), file.clone()).prop_map(|(path, file)| Change::Link { file, path }),
        any_path().prop_map(|path| Change::Unlink { path }),
        (any_path(), any_path()).prop_map(|(from, to)| Change::Rename { from, to }),
        (file.clone(), 0_u64..3, 1_u64..50).prop_map(|(file, blocks, block)| Change::Extend {
            file,
            size_before: blocks * 4096,
            modified_seconds: 4,
            extents: vec![extent(block)],
        }),
        (file.clone(), 0_u64..9000).prop_map(|(file, size)| Change::Truncate { file, size }),
        (file.clone(), 0_u64..3).prop_map(|(file, blocks)| Change::Seal { file, size: blocks * 4096 }),
        (file.clone(), 1_u64..50, 1_u64..50).prop_map(|(file, from, to)| Change::Move {
            file,
            from: extent(from).place(),
            to: vec![extent(to)],
        }),
        file.prop_map(|file| Change::Retag { file, lifetime: Lifetime::Long, level: Some(2) }),
    ]
}

proptest! {
    #[test]
    fn a_change_applies_as_a_whole_or_not_at_all_and_a_snapshot_is_the_state(changes in prop::collection::vec(any_change(), 0..120)) {
        let mut catalogue = Catalogue::default();
        for change in &changes {
            let before = catalogue.clone();
            if catalogue.apply(change).is_err() {
                prop_assert_eq!(&catalogue, &before);
            }
            for (path, entry) in catalogue.names() {
                prop_assert_eq!(catalogue.entry(&path.parent().expect("no root")), Some(Entry::Directory));
                if let Entry::File(file) = entry {
                    prop_assert!(catalogue.inode(file).is_some());
                }
            }
            let links: u32 = catalogue.files().map(|(_, inode)| inode.links).sum();
            let named = catalogue.names().filter(|(_, entry)| matches!(entry, Entry::File(_))).count();
            prop_assert_eq!(links as usize, named);
        }
        prop_assert_eq!(again(&catalogue), catalogue);
    }
}
