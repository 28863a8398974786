//! All of a store is read without the headers of its zones or segments; that one is gone is damage all the same.
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
