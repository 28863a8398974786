//! Keys that share most of the longest key there may be, and beside them one that shares nothing: whatever a leaf keeps in memory once for
//! all of its keys, a put of the other one is taken, and everything is there in this life and the next.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::Place;
use zonda::{Db, Options};

fn key(number: u32) -> Vec<u8> {
    [vec![b'k'; 900], number.to_be_bytes().to_vec()].concat()
}

fn check(db: &Db, keys: u32, others: &[&str]) {
    assert_eq!(db.iter().unwrap().count(), keys as usize + others.len());
    for number in 0..keys {
        assert_eq!(db.get(key(number)).unwrap(), Some(b"pair".to_vec()), "{number}");
    }
    others.iter().for_each(|other| assert_eq!(db.get(other).unwrap(), Some(b"other".to_vec()), "{other}"));
}

fn takes_keys_of_every_prefix(preset: &str, (leaf_bytes, keys): (u32, u32)) {
    let place = Place::new();
    let options = Options::preset(preset).unwrap().memory(16 << 20).zone_bytes(1 << 20).capacity(80 << 20);
    let options = options.leaf_bytes(leaf_bytes).background(false).promotion(100).scan_promotion(100);
    let open = || options.open(&place.uri()).unwrap();
    let db = open();
    (0..keys).for_each(|number| db.put(key(number), "pair").unwrap());
    db.close().unwrap();
    // As the first thing, beside pages that readers have seen, and beside those that were changed since.
    let mut others = Vec::new();
    for other in ["z", "a", "kkkkk", "l"] {
        let db = open();
        if other != "z" {
            check(&db, keys, &others);
        }
        if others.len() > 1 {
            (0..keys).step_by(7).for_each(|number| db.put(key(number), "pair").unwrap());
        }
        db.put(other, "other").unwrap();
        others.push(other);
        check(&db, keys, &others);
        db.close().unwrap();
    }
    let db = open();
    check(&db, keys, &others);
    assert_eq!(db.check(&mut |_, _| {}, &mut |finding| panic!("{finding}")).unwrap().findings, 0);
}

#[test]
fn in_leaves_of_every_preset() {
    for preset in Options::PRESETS {
        takes_keys_of_every_prefix(preset, (4 << 10, 350));
        takes_keys_of_every_prefix(preset, (32 << 10, 400));
    }
}
