//! A store on a modelled SSD: in real time with dilation, untimed, in virtual time; on a file of its own it survives.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::time::Duration;

use zonda::{Db, Options};

fn options() -> Options {
    Options::new().memory(4 << 20).seed(1).create_if_missing(true)
}

fn fill_and_check(db: &Db, pairs: u32) {
    for key in 0..pairs {
        db.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    db.sync().unwrap();
    for key in (0..pairs).step_by(97) {
        assert_eq!(db.get(key.to_be_bytes()).unwrap().as_deref(), Some(&[7; 100][..]), "I5 key {key}");
    }
}

#[test]
fn untimed_and_dilated() {
    let block = "flash:test-conv?time=untimed&capacity=536870912";
    for uri in ["flash:test?time=untimed", "flash:zn540?scale=1/16&zones=64&k=2", block] {
        let db = options().open(uri).unwrap();
        fill_and_check(&db, 20_000);
        db.close().unwrap();
    }
}

#[test]
fn virtual_time_replays() {
    let run = |seed| {
        zonda_rt::sim::run(seed, || {
            let start = zonda_rt::now();
            let db = options().open("flash:zn540?scale=1/16&zones=64").unwrap();
            fill_and_check(&db, 3_000);
            db.close().unwrap();
            zonda_rt::now().since(start)
        })
    };
    let took = run(1);
    assert_eq!(took, run(1), "a seed decides everything");
    assert!(took > Duration::from_millis(1), "{took:?}");
}

#[test]
fn data_in_a_file_survives() {
    let directory = tempfile::tempdir().unwrap();
    let uri = format!("flash:test?zones=200&time=untimed&data={}", directory.path().join("image").display());
    let db = options().open(&uri).unwrap();
    db.put("bern", "capital").unwrap();
    db.close().unwrap();
    let db = options().open(&uri).unwrap();
    assert_eq!(db.get("bern").unwrap().as_deref(), Some(&b"capital"[..]));
}

#[test]
fn mistakes_are_named() {
    let refusal = |uri| options().open(uri).unwrap_err().to_string();
    assert!(refusal("flash:unheard-of").contains("zn540"));
    assert!(refusal("flash:zn540?speed=9").contains("scale"));
    assert!(refusal("flash:atc21-7op").contains("data=PATH"));
}
