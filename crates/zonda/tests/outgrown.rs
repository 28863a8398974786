//! I6: a store whose index outgrows its memory budget says so to whoever adds pairs, and loses nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::options;
use zonda::{Batch, Db, Error, Options, Swap, Update};

/// As long as leaves keep values, so that four fill a leaf.
const VALUE: [u8; 1_000] = [7; 1_000];

/// Keys whose separators are long: two neighbours share some 900 bytes, and no two groups anything.
fn key(number: u64) -> Vec<u8> {
    let group = (number / 12).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [group.repeat(112).as_slice(), &[u8::try_from(number % 12).unwrap()]].concat()
}

fn small_budget() -> Options {
    options().memory(2 << 20).background(false)
}

/// Puts pairs until the index has outgrown the budget; how many there are.
fn outgrow(db: &Db) -> u64 {
    for number in 0..20_000 {
        match db.put(key(number), VALUE) {
            Ok(()) => {}
            Err(Error::TooLittleMemory { bytes, buffer_bytes, buffer_bytes_min, bytes_needed }) => {
                assert!(bytes == 2 << 20 && buffer_bytes < buffer_bytes_min && bytes_needed > bytes);
                return number;
            }
            Err(other) => panic!("pair {number}: {other}"),
        }
        while number % 64 == 0 && db.step().unwrap() {}
    }
    panic!("the index never outgrew the budget: {:?}", db.stats().unwrap().memory);
}

fn is_refused<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::TooLittleMemory { .. }))
}

#[test]
fn an_outgrown_store_is_read_emptied_and_reopened_with_its_budget() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outgrown.zonda");
    let path = path.to_str().unwrap();
    let db = small_budget().open(path).unwrap();
    let pairs = outgrow(&db);
    let memory = db.stats().unwrap().memory;
    assert!(memory.used_bytes <= memory.budget_bytes, "I6 {memory:?}");
    let mut batch = Batch::new();
    batch.put("a", "b");
    assert!(is_refused(&db.write(batch)) && is_refused(&db.ingest([("a", "b")])));
    assert!(is_refused(&db.fetch_update("a", |_| Update::Put(vec![1]))));
    assert!(is_refused(&db.compare_and_swap("a", None, Some(b"b"))));
    assert_eq!(db.compare_and_swap(key(3), Some(&VALUE), None).unwrap(), Swap::Done);
    db.close().unwrap();

    let db = small_budget().open_read_only(path).unwrap();
    let mut batch = Batch::new();
    batch.put("a", "b");
    let read_only = [db.put("a", "b"), db.delete("a"), db.write(batch), db.ingest([("a", "b")]).map(drop)];
    assert!(read_only.iter().all(|outcome| matches!(outcome, Err(Error::ReadOnly))), "{read_only:?}");
    drop(db);

    let db = small_budget().open(path).unwrap();
    assert!(is_refused(&db.put("a", "b")));
    assert_eq!(db.iter().unwrap().count() as u64, pairs - 1);
    for number in (0..pairs).filter(|number| *number != 3) {
        assert_eq!(db.get(key(number)).unwrap(), Some(VALUE.to_vec()), "{number}");
    }
    let mut batch = Batch::new();
    batch.delete(key(0));
    db.write(batch).unwrap();
    for number in 1..pairs {
        db.delete(key(number)).unwrap();
        while number % 64 == 0 && db.step().unwrap() {}
    }
    db.compact(&mut |_, _| {}).unwrap();
    while db.step().unwrap() {}
    for number in 0..100 {
        db.put(key(number), "again").unwrap();
    }
    assert_eq!(db.iter().unwrap().count(), 100);
}

#[test]
fn a_store_that_is_far_larger_than_a_budget_is_refused_with_one_that_suffices() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.zonda");
    let path = path.to_str().unwrap();
    let db = options().memory(16 << 20).open(path).unwrap();
    (0..10_000).for_each(|number| db.put(key(number), VALUE).unwrap());
    db.close().unwrap();
    let Err(Error::TooLittleMemory { bytes_needed, .. }) = small_budget().open(path) else { panic!("it fits 2 MiB") };
    let db = small_budget().memory(bytes_needed).open(path).unwrap();
    assert_eq!(db.iter().unwrap().count(), 10_000);
    db.put("more", "fits").unwrap();
}

#[test]
fn a_copy_is_refused_like_any_other_store_whose_index_outgrows_its_budget() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("copy.zonda");
    let path = path.to_str().unwrap();
    let db = options().memory(16 << 20).open("mem:").unwrap();
    (0..10_000).for_each(|number| db.put(key(number), VALUE).unwrap());
    let refused = db.backup_with(path, &small_budget(), &mut |_| {});
    assert!(is_refused(&refused), "{refused:?}");
    // With room for leaves of two pairs, as they fall where the neighbours of each have nothing in common.
    let roomy = options().memory(16 << 20).capacity(160 << 20);
    assert_eq!(db.backup_with(path, &roomy, &mut |_| {}).unwrap(), 10_000);
}
