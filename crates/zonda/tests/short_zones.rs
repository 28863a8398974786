//! The shortest zones that a store may have take short batches only: what writes in batches of its own keeps to that.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, keys};
use zonda::{Db, Error, Options};

const SHAPE: &str = "zone_size=32KiB&zones=6000";
const PAIRS: u32 = 3_000;

fn open(uri: &str) -> Db {
    Options::new().memory(2 << 20).seed(7).open(uri).unwrap()
}

/// So long that many of them are longer than a zone.
fn key(number: u32) -> Vec<u8> {
    [vec![b'k'; 100], format!("{number:05}").into_bytes()].concat()
}

fn pairs() -> impl Iterator<Item = (Vec<u8>, [u8; 200])> {
    (0..PAIRS).map(|number| (key(number), [7; 200]))
}

#[test]
fn long_writes_fit_the_log() {
    let place = Place::new();
    let db = open(&format!("{}?{SHAPE}", place.uri()));
    let mut batch = zonda::Batch::new();
    pairs().take(200).for_each(|(key, value)| _ = batch.put(key, value));
    assert!(matches!(db.write(batch), Err(Error::BatchTooLong { .. })), "zones are short");

    let tree = db.tree("t").unwrap();
    assert_eq!((db.ingest(pairs()).unwrap(), tree.ingest(pairs()).unwrap()), (u64::from(PAIRS), u64::from(PAIRS)));
    let copy = format!("{}?{SHAPE}", place.named("copy"));
    db.backup_with(&copy, &Options::new().memory(2 << 20), &mut |_| {}).unwrap();
    assert_eq!(db.delete_range(key(10)..key(2_990)).unwrap(), 2_980);
    assert!(db.drop_tree("t").unwrap());
    assert_eq!(db.iter().unwrap().count(), 20);
    drop((db, tree));
    assert_eq!(keys(open(&format!("{}?{SHAPE}", place.uri())).iter()).len(), 20);
    let copied = open(&copy);
    assert_eq!(copied.tree("t").unwrap().iter().unwrap().count(), PAIRS as usize);
    assert_eq!(copied.delete_range("k"..).unwrap(), u64::from(PAIRS));
}
