//! Both ends of a tree, taken out by many threads, and how many pairs there are.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, fill, keys, memory, options};
use zonda::{Error, file_uri};

#[test]
fn what_is_taken_from_an_end_is_gone() {
    let db = memory();
    let (queue, other) = (db.tree("queue").unwrap(), db.tree("other").unwrap());
    other.put("stays", "").unwrap();
    queue.ingest([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    let pair = |key: &str, value: &str| Some((key.into(), value.into()));
    assert_eq!(queue.pop_first().unwrap(), pair("a", "1"));
    assert_eq!(queue.pop_last().unwrap(), pair("c", "3"));
    assert_eq!((queue.pop_last().unwrap(), queue.pop_first().unwrap()), (pair("b", "2"), None));
    assert!(queue.is_empty().unwrap() && db.is_empty().unwrap() && !other.is_empty().unwrap());
    db.drop_tree("queue").unwrap();
    assert!(matches!(queue.pop_first(), Err(Error::TreeDropped { .. })));
    assert!(matches!(queue.is_empty(), Err(Error::TreeDropped { .. })));
}

#[test]
fn each_pair_goes_to_one_thread() {
    const THREADS: usize = 4;
    const PAIRS: u32 = 2_000;
    let db = memory();
    fill(&db, PAIRS);
    let take = |from_front: bool| {
        let db = db.clone();
        move || {
            let next = || if from_front { db.pop_first() } else { db.pop_last() };
            std::iter::from_fn(|| next().unwrap()).map(|pair| pair.0).collect::<Vec<_>>()
        }
    };
    let mut taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(take(thread % 2 == 0))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    taken.sort();
    let all: Vec<_> = (0..PAIRS).map(|number| format!("{number:04}").into_bytes()).collect();
    assert!(taken == all, "{} were taken of {PAIRS}", taken.len());
    assert!(db.is_empty().unwrap());
}

#[test]
fn a_store_that_is_only_read_gives_nothing_away() {
    let place = Place::new();
    fill(&place.open(), 3);
    let db = options().open_read_only(&place.uri()).unwrap();
    assert!(matches!(db.pop_first(), Err(Error::ReadOnly)));
    assert!(matches!(db.tree_names().as_deref(), Ok([])));
    assert_eq!(db.snapshot().unwrap().is_empty().unwrap(), db.is_empty().unwrap());
    assert_eq!(keys(db.iter()), ["0000", "0001", "0002"]);
}

#[test]
fn pairs_are_counted_and_errors_are_not() {
    let db = memory();
    fill(&db, 1_000);
    db.put("0000", vec![7; 100_000]).unwrap();
    assert_eq!(db.iter().unwrap().count_pairs().unwrap(), 1_000);
    let mut some = db.range("0100".."0200").unwrap();
    some.next().unwrap().unwrap();
    some.next_back().unwrap().unwrap();
    assert_eq!(some.count_pairs().unwrap(), 98, "what is left of it");
    let (range, other) = (db.iter().unwrap(), db.iter().unwrap());
    db.close().unwrap();
    assert!(matches!(range.count_pairs(), Err(Error::Closed)));
    assert_eq!(other.count(), 1, "the error");
}

#[test]
fn a_path_becomes_a_name() {
    let place = Place::new();
    let path = std::path::PathBuf::from(place.named("a:b.zonda"));
    let uri = file_uri(&path).unwrap();
    fill(&options().open(&uri).unwrap(), 3);
    assert!(path.exists());
    assert_eq!(file_uri("c:relative").unwrap(), "file:c:relative");
    for path in ["", "a?zones=3"] {
        assert!(matches!(file_uri(path), Err(Error::BadUri { .. })), "{path}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let refused = file_uri(std::ffi::OsStr::from_bytes(b"caf\xe9")).unwrap_err().to_string();
        assert!(refused.contains("caf") && refused.contains("link"), "{refused}");
    }
}

#[test]
fn handles_are_shared_between_threads() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    is_shared::<zonda::Db>();
    is_shared::<zonda::Tree>();
    is_shared::<zonda::Snapshot>();
    is_shared::<zonda::View>();
    is_shared::<zonda::Batch>();
    is_shared::<zonda::Options>();
    is_shared::<zonda::Stats>();
    is_shared::<Error>();
}
