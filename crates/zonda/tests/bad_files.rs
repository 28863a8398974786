//! What is not a store, or not a whole one, is refused in words and left alone.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Place, fill, options};
use zonda::{Db, Error};

fn refusal(uri: &str) -> Error {
    let error = options().open(uri).expect_err("not a store");
    assert!(!error.to_string().is_empty());
    error
}

#[test]
fn a_file_of_something_else() {
    let place = Place::new();
    for bytes in [Vec::new(), b"hello".to_vec(), vec![0; 8192], vec![0xff; 100_000]] {
        fs::write(place.uri(), &bytes).unwrap();
        let error = refusal(&place.uri());
        assert!(matches!(error, Error::NotAStore { .. } | Error::Truncated { .. }), "{error}");
        assert!(fs::read(place.uri()).unwrap() == bytes, "the file was touched");
    }
}

#[test]
fn a_directory_and_a_missing_one() {
    let place = Place::new();
    fs::create_dir(place.uri()).unwrap();
    let error = refusal(&place.uri());
    assert!(error.to_string().contains("director"), "{error}");
    assert!(matches!(refusal(&place.named("no/such/store")), Error::Io { .. }));
}

#[test]
fn no_permission() {
    let place = Place::new();
    drop(place.open());
    fs::set_permissions(place.uri(), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(place.uri()).is_ok() {
        return; // The superuser may do everything.
    }
    assert!(matches!(refusal(&place.uri()), Error::Io { .. }));
}

#[test]
fn names_that_cannot_be_understood() {
    for uri in ["", "mem:x", "http:foo", "mem:?zones=0", "mem:?zones=many", "mem:?colour=red"] {
        let error = refusal(uri);
        assert!(matches!(error, Error::BadUri { .. } | Error::UnsuitableDevice { .. }), "{uri}: {error:?}");
    }
    assert!(refusal("mem:?colour=red").to_string().contains("zone_size"));
    assert!(refusal("zbd:/dev/null").to_string().contains("/dev/null"));
}

#[test]
fn a_device_that_is_too_small() {
    for uri in ["mem:?zones=3", "mem:?max_active=2", "mem:?zone_size=4KiB&zones=64"] {
        let error = refusal(uri);
        assert!(matches!(error, Error::UnsuitableDevice { .. }), "{uri}: {error:?}");
    }
}

/// A closed store of a few hundred pairs.
fn store() -> (Place, Vec<u8>) {
    let place = Place::new();
    let db = place.open();
    fill(&db, 500);
    db.close().unwrap();
    let bytes = fs::read(place.uri()).unwrap();
    (place, bytes)
}

/// Opens and reads everything: right, or an error; never wrong, never a panic.
fn read_all(uri: &str) -> Result<usize, Error> {
    let db = Db::open_read_only(uri)?;
    let pairs = db.iter()?.collect::<Result<Vec<_>, _>>()?;
    for (key, value) in &pairs {
        let number: u32 = std::str::from_utf8(key).unwrap().parse().unwrap();
        assert_eq!(value, number.to_string().as_bytes());
    }
    Ok(pairs.len())
}

#[test]
fn truncated_at_any_place() {
    let (place, bytes) = store();
    for part in 0..24 {
        let kept = bytes.len() * part / 24;
        fs::write(place.uri(), &bytes[..kept]).unwrap();
        if let Ok(pairs) = read_all(&place.uri()) {
            assert_eq!(pairs, 500, "truncated to {kept} bytes, read without complaint");
        }
    }
}

#[test]
fn a_flipped_bit_in_any_region() {
    let (place, bytes) = store();
    let written = (0..bytes.len()).filter(|&at| bytes[at] != 0).step_by(bytes.len().div_ceil(200).max(97));
    for at in written.take(150) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        fs::write(place.uri(), &flipped).unwrap();
        if let Ok(pairs) = read_all(&place.uri()) {
            assert_eq!(pairs, 500, "byte {at} flipped, read without complaint");
        }
    }
}
