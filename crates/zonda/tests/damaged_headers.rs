//! All of a store is read without the headers of its zones or segments, and without entries of the file's zone table; that a header is
//! gone is damage all the same.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, fill, options};
use std::os::unix::fs::FileExt;
use zonda::{Finding, StoreKind};

/// What magic a header in use begins with.
const MAGICS: [&[u8; 8]; 2] = [b"ZONDAZON", b"ZONDASEG"];

#[test]
fn check_names_every_zone_or_segment_without_its_header() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        let db = options().store(kind).open(&place.uri()).unwrap();
        fill(&db, 2_000);
        db.put("long", vec![7; 100_000]).unwrap();
        db.close().unwrap();
        let check = || -> Vec<Finding> {
            let db = options().store(kind).open_read_only(&place.uri()).unwrap();
            let mut findings = Vec::new();
            let report = db.check(&mut |_, _| {}, &mut |finding| findings.push(finding)).unwrap();
            assert_eq!(report.findings, findings.len() as u64);
            assert_eq!(db.iter().unwrap().count(), 2_001);
            findings
        };
        assert_eq!(check(), [], "{kind:?}");
        let in_use = options().store(kind).open_read_only(&place.uri()).unwrap().zones().unwrap();
        let in_use = in_use.iter().filter(|zone| zone.content.is_some() && zone.live_bytes > 0).count();
        let image = std::fs::read(place.uri()).unwrap();
        let file = std::fs::File::options().write(true).open(place.uri()).unwrap();
        let mut damaged = 0;
        for at in (0..image.len()).step_by(4096).filter(|&at| MAGICS.contains(&image[at..at + 8].try_into().unwrap())) {
            file.write_all_at(&[0; 4096], at as u64).unwrap();
            let findings = check();
            file.write_all_at(&image[at..at + 4096], at as u64).unwrap();
            assert!(findings.len() <= 1, "{kind:?} byte {at}: {findings:?}");
            damaged += findings.iter().filter(|found| found.what.contains("header") && found.keys.is_empty()).count();
        }
        assert!(damaged >= in_use && in_use > 2, "{kind:?}: {damaged} of {in_use}");
    }
}

/// A zone whose entry is damaged is one that can only be read, and what it holds moves on.
#[test]
fn a_damaged_entry_of_the_zone_table_costs_no_pair() {
    const ENTRIES: u64 = 8192;
    let place = Place::new();
    let db = options().open(&place.uri()).unwrap();
    fill(&db, 2_000);
    db.put("long", vec![7; 100_000]).unwrap();
    db.close().unwrap();
    let zones = options().open_read_only(&place.uri()).unwrap().zones().unwrap().len() as u64;
    let file = std::fs::File::options().read(true).write(true).open(place.uri()).unwrap();
    let damage = |zone: u64| {
        let mut entry = [0; 64];
        file.read_exact_at(&mut entry, ENTRIES + 64 * zone).unwrap();
        file.write_all_at(&[0xa5; 64], ENTRIES + 64 * zone).unwrap();
        entry
    };
    for zone in 0..zones {
        let entry = damage(zone);
        let db = options().open_read_only(&place.uri()).unwrap();
        assert_eq!(db.iter().unwrap().count(), 2_001, "zone {zone}");
        drop(db);
        file.write_all_at(&entry, ENTRIES + 64 * zone).unwrap();
    }
    // Now one after the other, each written behind.
    for zone in 0..zones.min(12) {
        damage(zone);
        let db = options().open(&place.uri()).unwrap();
        db.put(format!("behind {zone:02}"), vec![8; 40_000]).unwrap();
        db.put("long", vec![9; 100_000]).unwrap();
        assert_eq!(db.iter().unwrap().count() as u64, 2_002 + zone, "zone {zone}");
        db.close().unwrap();
    }
}

/// Headers of segments of pages are written with the first of their pages, a while after these have their places.
#[test]
fn a_store_that_is_written_to_has_no_damage() {
    for layout in ["zones", "blocks"] {
        let db = options().open(&format!("mem:?layout={layout}")).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..200_000_u64 {
                    db.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [7; 100]).unwrap();
                }
            });
            while !writer.is_finished() {
                db.check(&mut |_, _| {}, &mut |finding| panic!("{layout}: {finding:?}")).unwrap();
            }
        });
    }
}
