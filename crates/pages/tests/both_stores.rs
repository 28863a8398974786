//! The page store contract on every store: a random life against a map, order of chunks, refusals, full devices.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, block_device, create, create_in_place, device, id, read_listed};
use zonda_pages::{AreaKind, Heat, NewPage, PageAddress, PageError, PageId, PageStore};
use zonda_rt::Rng;

/// An empty store of each kind, of 16 MiB.
fn stores() -> [(&'static str, Arc<dyn PageStore>); 2] {
    [("zoned", create(&device())), ("in place", create_in_place(&block_device()))]
}

#[test]
fn a_random_life_is_that_of_a_map() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        let mut rng = Rng::seeded(11);
        for version in 0..6000 {
            let page = id(rng.below(500));
            match rng.below(16) {
                0 => toy.delete(page),
                1 => drop(toy.put_value(&vec![u8::try_from(version % 250).unwrap(); 1 + rng.index(9000)]).unwrap()),
                2 | 3 => {
                    let at = toy.values.lock().keys().min().copied();
                    at.into_iter().for_each(|at| toy.delete_value(at));
                }
                4 => toy.reclaim(),
                5 => toy.settle().unwrap(),
                _ => toy.put(page, version, 1 + rng.below(3)).unwrap(),
            }
            let some = toy.leaves.lock().keys().nth(rng.index(500)).copied();
            some.into_iter().for_each(|leaf| toy.check(leaf));
        }
        toy.check_all();
        toy.check_values();
        let live: u64 = toy.leaves.lock().values().map(|leaf| leaf.at.len_bytes()).sum();
        assert_eq!(toy.store.usage().live_page_bytes, live, "{name}");
        let usage = toy.store.usage();
        assert!(usage.memory_bytes <= usage.memory_bytes_max, "I6 {name} {usage:?}");
    }
}

/// A split of long leaves beside a page that waits: neither fills the sequencer, both together would.
#[test]
fn a_plan_as_long_as_the_sequencer_is_placed_beside_a_page_that_waits() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        for round in 0..5 {
            toy.put(id(0), round, 1).unwrap();
            let bodies: Vec<Vec<u8>> = (1..=4).map(|n| toy.body(id(n), round, 4)).collect();
            let plan: Vec<_> =
                (1..).zip(&bodies).map(|(n, body)| NewPage { id: id(n), sequence: round, body }).collect();
            let is_placed = (0..200).any(|_| match toy.store.place(Heat::Hot, &plan) {
                Ok(_) => true,
                Err(PageError::Busy) => toy.store.pump(&mut |_, _, _| {}).map(|()| false).unwrap(),
                Err(other) => panic!("{name}, round {round}: {other}"),
            });
            assert!(is_placed, "{name}, round {round}");
        }
    }
}

#[test]
fn many_pages_are_read_from_wherever_they_are() {
    for (_, store) in stores() {
        let toy = Toy::new(store);
        for n in 0..100 {
            toy.put(id(n), n, 1 + n % 3).unwrap();
        }
        toy.settle().unwrap();
        for n in 100..104 {
            toy.put(id(n), n, 1).unwrap();
        }
        let mut order: Vec<u64> = (0..104).collect();
        Rng::seeded(5).shuffle(&mut order);
        let pages: Vec<_> = order.iter().map(|&n| (id(n), toy.leaves.lock()[&id(n)].at)).collect();
        let mut seen = 0;
        let visit = |index: usize, body: &[u8]| {
            let leaf = toy.leaves.lock()[&pages[index].0];
            assert_eq!(body, toy.body(pages[index].0, leaf.version, leaf.blocks));
            seen += 1;
        };
        read_listed(toy.store.as_ref(), &pages, visit).unwrap();
        assert_eq!(seen, 104);
    }
}

#[test]
fn reads_that_fail_together_leave_no_memory_behind() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        (0..40).for_each(|n| toy.put(id(n), n, 1 + n % 3).unwrap());
        toy.settle().unwrap();
        let mut pages: Vec<_> = (0..40).map(|n| (id(n), toy.leaves.lock()[&id(n)].at)).collect();
        read_listed(toy.store.as_ref(), &pages, |_, _| ()).unwrap();
        let before = toy.store.memory_bytes();
        for wrong in [3, 20, 39] {
            pages[wrong].0 = id(1_000);
            let failed = read_listed(toy.store.as_ref(), &pages, |_, _| ());
            assert!(matches!(failed, Err(PageError::Damaged { .. })), "{name}: {failed:?}");
        }
        assert!(toy.store.memory_bytes() <= before, "{name}: {} and before {before}", toy.store.memory_bytes());
    }
}

#[test]
fn another_page_or_no_page_is_damage_not_data() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        toy.put(id(1), 1, 1).unwrap();
        toy.put(id(2), 1, 2).unwrap();
        let [first, second] = [1, 2].map(|n| toy.leaves.lock()[&id(n)].at);
        let unused = PageAddress::new(60 * 64 + 5, 1);
        for _ in 0..2 {
            for (page, at) in [
                (id(1), second),
                (id(2), first),
                (id(2), PageAddress::new(second.block(), 1)),
                (id(2), PageAddress::new(second.block() + 1, 1)),
                (id(1), unused),
                (id(1), PageAddress::new(1, 1)),
                (id(1), PageAddress::new(1 << 39, 1)),
            ] {
                let answer = toy.store.read(page, at, &mut |_| panic!("a wrong page"));
                assert!(matches!(answer, Err(PageError::Damaged { .. })), "{name} {at:?} {answer:?}");
            }
            toy.settle().unwrap();
        }
    }
}

#[test]
fn a_plan_is_placed_whole_or_not_at_all() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        assert_eq!(toy.store.place(Heat::Hot, &[]).unwrap(), []);
        let short = toy.body(id(0), 1, 1);
        let (page, too_long) = (toy.body(id(0), 1, 32), vec![0; short.len() + 64 * 4096]);
        let new = |body| NewPage { id: id(0), sequence: 1, body };
        let refused = toy.store.place(Heat::Hot, &[new(&short), new(&too_long)]).unwrap_err();
        assert!(matches!(refused, PageError::PageTooLong { blocks: 65, .. }), "{name} {refused}");
        assert_eq!(toy.store.usage().live_page_bytes, 0);
        let mut placed = toy.store.place(Heat::Hot, &[new(&page)]);
        if placed.is_err() {
            toy.pump().unwrap();
            placed = toy.store.place(Heat::Hot, &[new(&page)]);
        }
        assert_eq!((placed.unwrap()[0].blocks(), toy.store.usage().live_page_bytes), (32, 32 * 4096), "{name}");
    }
}

#[test]
fn chunks_are_read_in_the_order_in_which_they_were_appended() {
    for (name, store) in stores() {
        for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
            let area = store.area(kind);
            let mut rng = Rng::seeded(3);
            let mut addresses = Vec::new();
            for number in 0..120u32 {
                let mut payload = vec![9; 4 + rng.index(15_000)];
                payload[..4].copy_from_slice(&number.to_le_bytes());
                let (at, _) = area.append(&payload).unwrap();
                addresses.push((at, payload));
            }
            let mut seen = Vec::new();
            for segment in area.segments() {
                let visit = &mut |chunk: zonda_pages::Chunk<'_>| {
                    seen.push((chunk.address, chunk.payload.to_vec()));
                    Ok(true)
                };
                area.read_segment(segment.id, visit).unwrap();
            }
            assert!(seen == addresses, "{name} {kind:?}");
            let asked: Vec<_> = addresses.iter().map(|(at, _)| (*at, rng.index(20_000))).collect();
            let mut found = vec![Vec::new(); asked.len()];
            area.read_chunks(&asked, &mut |nth, payload| found[nth] = payload.to_vec()).unwrap();
            assert!(found.iter().eq(addresses.iter().map(|(_, payload)| payload)), "{name} {kind:?}");
            for (at, payload) in addresses {
                assert!(area.read_chunk(at, rng.index(20_000)).unwrap() == payload, "{name} {kind:?}");
            }
            let too_long = vec![0; area.chunk_bytes_max() + 1];
            assert!(matches!(area.append(&too_long), Err(PageError::ChunkTooLong { .. })));
            area.append(&too_long[1..]).unwrap();
            assert!(matches!(
                area.read_chunk(zonda_pages::ChunkAddress(63 * 64 + 9), 10),
                Err(PageError::Damaged { .. })
            ));
        }
    }
}

#[test]
fn released_segments_come_back() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        let log = toy.store.area(AreaKind::Log);
        let free = toy.store.usage().free_zones;
        for _ in 0..40 {
            while log.segments().len() < 3 {
                log.append(&[7; 50_000]).unwrap();
            }
            log.segments().iter().for_each(|segment| log.release(segment.id).unwrap());
            assert!(log.segments().is_empty());
            toy.reclaim();
        }
        assert_eq!(toy.store.usage().free_zones, free, "{name}");
        assert!(toy.store.usage().zones_reset >= 120);
    }
}

#[test]
fn a_full_store_says_so_stays_readable_and_goes_on_after_deletes() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        let mut full = 0;
        for n in 0.. {
            match toy.put(id(n), n, 1) {
                Ok(()) => toy.reclaim(),
                Err(PageError::NoSpace { live_bytes, usable_bytes, .. }) => {
                    assert!(live_bytes + 4096 > usable_bytes, "I9 {name} {live_bytes} of {usable_bytes}");
                    full = n;
                    break;
                }
                Err(error) => panic!("{name} {error}"),
            }
        }
        assert!(full >= toy.store.usage().usable_bytes / 4096, "I9 {name}: {full} pages fit");
        toy.check_all();
        (0..full / 2).for_each(|n| toy.delete(id(n * 2)));
        toy.reclaim();
        for n in 0..full / 4 {
            toy.put(id(n * 2), 7, 1).unwrap();
            toy.reclaim();
        }
        toy.check_all();
    }
}

/// The log holds more than it is entitled to, so zones are short before all usable space is live; nothing is dead, and nothing is coming.
#[test]
fn who_waits_where_nothing_is_to_be_had_is_refused_in_the_end() {
    zonda_rt::sim::run(1, waits_for_nothing);
}

fn waits_for_nothing() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        while toy.store.area(AreaKind::Log).segments().len() < 20 {
            toy.store.area(AreaKind::Log).append(&[7; 100_000]).unwrap();
        }
        let mut pages = 0;
        let refused = (0..100_000).find_map(|_| match toy.store.admit(1) {
            Ok(()) => {
                pages += 1;
                toy.put_at(Heat::Hot, id(pages), 1, 1).unwrap();
                None
            }
            Err(PageError::Busy) => toy.store.reclaim_step(&toy).err(),
            Err(error) => Some(error),
        });
        assert!(matches!(refused, Some(PageError::NoSpace { .. })), "{name}: {refused:?} after {pages} pages");
        let usage = toy.store.usage();
        assert!(usage.live_page_bytes < usage.usable_bytes && pages > 100, "{name}: {usage:?}");
        // What the log gives back is had.
        let log = toy.store.area(AreaKind::Log);
        log.segments().iter().rev().skip(1).for_each(|segment| log.release(segment.id).unwrap());
        toy.put(id(pages + 1), 1, 1).unwrap();
        toy.check_all();
    }
}

#[test]
fn overwriting_goes_on_for_ever_close_to_full() {
    for (percent, (name, store)) in [60, 90].into_iter().flat_map(|percent| stores().map(|store| (percent, store))) {
        let toy = Toy::new(store);
        let pages = toy.store.usage().usable_bytes * percent / 100 / 4096;
        let mut rng = Rng::seeded(percent);
        for n in 0..pages {
            toy.put(id(n), n, 1).unwrap();
        }
        for n in 0..pages * 6 {
            toy.put(id(rng.below(pages)), n, 1).unwrap_or_else(|error| panic!("{name} {percent} % {n}: {error}"));
            if n % 16 == 0 {
                toy.reclaim();
            }
        }
        toy.check_all();
        assert_eq!(toy.store.usage().live_page_bytes, pages * 4096, "{name}");
    }
}

#[test]
fn nothing_is_reused_while_a_reader_from_before_is_there() {
    for (name, store) in stores() {
        let toy = Toy::new(store);
        let pages = 300;
        for n in 0..pages {
            toy.put(id(n), n, 1).unwrap();
        }
        let before: Vec<(PageId, common::Leaf)> = toy.leaves.lock().iter().map(|(id, leaf)| (*id, *leaf)).collect();
        let guard = toy.epoch.pin();
        for n in 0..600 {
            toy.put(id(n % pages), pages + n, 1).unwrap();
            toy.reclaim();
        }
        for (page, leaf) in before {
            let expected = toy.body(page, leaf.version, leaf.blocks);
            toy.store.read(page, leaf.at, &mut |body| assert!(body == expected, "I3 {name}")).unwrap();
        }
        drop(guard);
        toy.reclaim();
        toy.check_all();
    }
}
