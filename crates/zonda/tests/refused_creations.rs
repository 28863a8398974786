//! A creation that is refused leaves nothing that was not there before, and the name free.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::fs;

use common::{Place, fill, memory, options};
use zonda::{Error, Options};

/// Names of what is in the directory.
fn left(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.named("")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn no_file_is_left_of_a_store_that_cannot_be() {
    let place = Place::new();
    let small = "?zones=20&zone_size=1MiB";
    let drive = format!("flash:test?time=untimed&zones=5&data={}", place.named("drive"));
    let uris = [
        place.uri() + small,
        format!("{}{small}&layout=blocks", place.uri()),
        format!("hftl:{}?zones=64&zone_size=1MiB&op=900", place.uri()),
        drive,
    ];
    for uri in uris {
        let refused = Options::new().open(&uri);
        assert!(matches!(refused, Err(Error::UnsuitableDevice { .. } | Error::Device { .. })), "{uri}: {refused:?}");
        assert_eq!(left(&place), [""; 0], "{uri}");
    }
    options().open(&place.uri()).unwrap();
}

/// `Device` says that a device has failed, and to open the store again.
#[test]
fn a_shape_that_cannot_be_is_no_failure_of_a_device() {
    let place = Place::new();
    for shape in ["zone_size=3", "zone_size=0", "zones=0", "block=3000", "append_max=1", "zone_capacity=5000"] {
        for uri in [format!("{}?{shape}", place.uri()), format!("mem:?{shape}")] {
            let refused = Options::new().open(&uri);
            assert!(matches!(refused, Err(Error::UnsuitableDevice { .. })), "{uri}: {refused:?}");
            assert_eq!(left(&place), [""; 0], "{uri}");
        }
    }
}

#[test]
fn no_log_and_no_pages_are_left_without_each_other() {
    let place = Place::new();
    let (log, small) = (place.named("log"), place.named("log") + "?zones=2&zone_size=64KiB");
    assert!(options().log_device(&small).open(&place.uri()).is_err());
    assert_eq!(left(&place), [""; 0], "a log device that is too small");
    fs::write(&log, "text").unwrap();
    assert!(options().log_device(&log).open(&place.uri()).is_err());
    assert_eq!((left(&place), fs::read(&log).unwrap()), (vec!["log".to_owned()], b"text".to_vec()));
    fs::remove_file(&log).unwrap();
    let small = place.uri() + "?zones=8&zone_size=1MiB";
    assert!(options().log_device(&log).open(&small).is_err());
    assert_eq!(left(&place), [""; 0], "pages that are too small");
}

#[test]
fn what_was_there_stays_as_it_was() {
    let place = Place::new();
    options().open(&place.uri()).unwrap().put("k", "v").unwrap();
    assert!(matches!(options().create_new(true).open(&place.uri()), Err(Error::AlreadyExists { .. })));
    assert!(options().leaf_bytes(8192).open(&place.uri()).is_err());
    assert_eq!(place.open().get("k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn no_file_is_left_of_a_backup_that_cannot_be() {
    let (place, db) = (Place::new(), memory());
    fill(&db, 100);
    let small = place.named("copy") + "?zones=20&zone_size=1MiB";
    assert!(db.backup(&small).is_err());
    assert_eq!(left(&place), [""; 0]);
    let db = Options::new().memory(4 << 20).open("mem:").unwrap();
    db.ingest((0..2000_u32).map(|key| (key.to_be_bytes(), [7; 40_000]))).unwrap();
    let full = db.backup_with(&place.named("copy"), &options(), &mut |_| {});
    assert!(matches!(full, Err(Error::NoSpace { .. })), "{full:?}");
    assert_eq!(left(&place), [""; 0], "and none that was too small for what there is");
    assert!(db.backup(&place.named("copy")).is_ok());
}

/// Log, buffers and what is kept back grow with a device, so what it lacks is more than what a smaller one would.
#[test]
fn as_many_zones_as_are_said_to_be_needed_are_enough_and_the_fewest() {
    let open = |zones: u32, size: &str, (layout, memory): (&str, u64)| {
        Options::new().memory(memory).open(&format!("mem:?zones={zones}&zone_size={size}&layout={layout}")).map(|_| ())
    };
    let needed = |refused: zonda::Result<()>| {
        let Err(Error::UnsuitableDevice { why }) = refused else { panic!("{refused:?}") };
        let mut words = why.split(' ').filter_map(|word| word.parse().ok());
        words.next_back().unwrap_or_else(|| panic!("{why}"))
    };
    for layout in ["zones", "blocks"] {
        for (size, memory) in [("64KiB", 4), ("64KiB", 64), ("1MiB", 4), ("1MiB", 256), ("4MiB", 64), ("64MiB", 64)] {
            let of = (layout, memory << 20);
            let least: u32 = needed(open(3, size, of));
            assert_eq!(needed(open(least - 1, size, of)), least, "{of:?} {size}");
            assert!(open(least, size, of).is_ok(), "{of:?} {size}: {least}");
        }
    }
}
