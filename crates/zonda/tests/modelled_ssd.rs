//! A store on a modelled SSD: in real time with dilation, untimed, in virtual time; on a file of its own it survives.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::time::Duration;

use zonda::{Db, Error, Options};

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

/// As files are: readers beside each other, never beside a writer, and nothing is written by them; also where blocks lie on zones.
#[test]
fn data_in_a_file_is_read_beside_other_readers() {
    let names = ["flash:test?zones=64&", "hftl:flash:test?zones=64&", "flash:test-conv?capacity=33554432&"];
    let options = || options().zone_bytes(1 << 20);
    for name in names {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let uri = format!("{name}time=untimed&data={}", image.display());
        for missing in [options().open_read_only(&uri), options().create_if_missing(false).open(&uri)] {
            assert!(matches!(missing, Err(Error::NotFound { .. })) && !image.exists(), "{name}");
        }
        let db = options().open(&uri).unwrap();
        db.put("bern", "capital").unwrap();
        db.sync().unwrap();
        assert!(matches!(options().open_read_only(&uri), Err(Error::Locked { .. })), "{name}: beside a writer");
        let crashed = directory.path().join("crashed");
        std::fs::copy(&image, &crashed).unwrap();
        db.close().unwrap();
        let uri = format!("{name}time=untimed&data={}", crashed.display());
        let before = std::fs::read(&crashed).unwrap();
        let readers = [(); 2].map(|()| options().open_read_only(&uri).unwrap());
        for reader in &readers {
            assert_eq!(reader.get("bern").unwrap().as_deref(), Some(&b"capital"[..]), "{name}");
        }
        assert!(matches!(options().open(&uri), Err(Error::Locked { .. })), "{name}: beside readers");
        drop(readers);
        assert!(before == std::fs::read(&crashed).unwrap(), "{name}: the file changed");
        options().open(&uri).unwrap().put("basel", "rhine").unwrap();
    }
}

/// Nothing is there to be read, and nothing is after it was looked for.
#[test]
fn a_blank_drive_is_blank_after_it_was_opened_to_be_read() {
    use zonda_flash::drive::Spec;
    let directory = tempfile::tempdir().unwrap();
    let zones = |file: &str| format!("test?zones=200&time=untimed&data={}", directory.path().join(file).display());
    drop(zones("a").parse::<Spec>().unwrap().open_zoned().unwrap());
    let before = std::fs::read(directory.path().join("a")).unwrap();
    for uri in [format!("flash:{}", zones("a")), format!("hftl:flash:{}", zones("a"))] {
        assert!(matches!(options().open_read_only(&uri), Err(Error::NotFound { .. })), "{uri}");
        assert!(before == std::fs::read(directory.path().join("a")).unwrap(), "{uri}");
    }
}

#[test]
fn mistakes_are_named() {
    let refusal = |uri| options().open(uri).unwrap_err().to_string();
    assert!(refusal("flash:unheard-of").contains("zn540"));
    assert!(refusal("flash:zn540?speed=9").contains("scale"));
    assert!(refusal("flash:atc21-7op").contains("data=PATH"));
}
