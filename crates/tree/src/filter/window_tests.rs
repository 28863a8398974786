//! Parts of ranges, as scans ask for them: what they hold, and what they cost.
#![cfg(not(feature = "shuttle"))]

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use proptest::prelude::*;
use zonda_pages::PageStore;
use zonda_rt::{Epoch, Rng, atomic::Ordering};

use super::{Around, AsOf, Filter, Window};
use crate::{
    Design, Durability, FilterEviction, TreeOptions,
    record::{Kind, OwnedRecord, Record},
    recover,
    run::End,
    scan::{Range, Scan, owned_pair},
    snapshot::Snapshots,
    testing::{MemOptions, MemStore},
    tree::Tree,
};

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Filter and array hold some of the keys each; windows follow one another from an end of a range until there is none left.
    #[test]
    fn windows_one_after_the_other_are_the_range(
        seed: u64, records in 1_usize..60, from_back: bool, is_snapshot: bool, unbounded: bool,
    ) {
        let (filter, epoch, snapshots) = (Filter::new(1 << 20, FilterEviction::Pairs), Epoch::new(), Snapshots::new(1 << 30));
        let (around, mut rng) = (Around { epoch: &epoch, snapshots: &snapshots }, Rng::seeded(seed));
        let put = |number: u64, sequence: u64| {
            let (key, value) = (key(number), sequence.to_le_bytes());
            filter.upsert(&Record { key: &key, kind: Kind::Inline, value: &value }, &(sequence..=sequence), around, &mut |_| ());
        };
        let evictions = rng.below(3);
        for sequence in 1..2_000 {
            put(rng.below(900), sequence);
            if sequence == 700 && evictions > 0 {
                filter.evict(around, |_| true, &mut |_, _| ());
            }
        }
        let (low, high) = (key(rng.below(900)), key(rng.below(900)));
        let (low, high): (&[u8], _) = if unbounded { (&[], None) } else { (&low.min(high), Some(low.max(high))) };
        let high = high.as_ref().map(<[u8; 8]>::as_slice);
        let guard = epoch.pin();
        let number = filter.between_evictions(around, |array| snapshots.open(array));
        let as_of = if is_snapshot { AsOf::Snapshot(&snapshots, number) } else { AsOf::Now };
        let whole = filter.between(low, high, as_of, &guard).expect("in use");
        if is_snapshot {
            // Nodes change and split: what was kept of them is of other ranges than they are.
            (0..400).for_each(|nth| put(900 + nth, 5_000 + nth));
        }
        let end = if from_back { End::Back } else { End::Front };
        let (mut part, mut found): (_, Vec<OwnedRecord>) = ((low.to_vec(), high.map(<[u8]>::to_vec)), Vec::new());
        loop {
            let window = Window { low: &part.0, high: part.1.as_deref(), end, records };
            let (mut seen, cut) = filter.window(window, as_of, &guard).expect("in use");
            prop_assert!(cut.is_none() || seen.len() >= records.min(2), "a window of {} has {}", records, seen.len());
            match end {
                End::Front => found.append(&mut seen),
                End::Back => found = [seen, found].concat(),
            }
            match (cut, end) {
                (None, _) => break,
                (Some(cut), End::Front) => part.0 = cut,
                (Some(cut), End::Back) => part.1 = Some(cut),
            }
        }
        prop_assert_eq!(found, whole);
        snapshots.close(number);
    }
}

/// A store so small that one leaf covers everything, nearly all of it in the filter.
fn small_store() -> (Tree, BTreeMap<Vec<u8>, Vec<u8>>) {
    let store: Arc<dyn PageStore> = MemStore::new(MemOptions::default());
    let options =
        TreeOptions { design: Design::Adb, filter_bytes: 4 << 20, buffer_bytes: 1 << 20, ..TreeOptions::default() };
    let tree = recover::create(store, options).expect("an empty store");
    let mut model = BTreeMap::new();
    for number in 0..20_000_u64 {
        let (key, value) = (key(number), number.to_le_bytes());
        tree.put(&key, &value, Durability::Buffered).expect("room");
        model.insert(key.to_vec(), value.to_vec());
    }
    (tree, model)
}

fn copied(tree: &Tree) -> u64 {
    tree.filter.as_ref().expect("it has one").copied.load(Ordering::Relaxed)
}

#[test]
fn a_short_scan_copies_what_it_takes_not_what_lies_above_its_leaf() {
    let (tree, model) = small_store();
    assert_eq!(tree.leaves.load(Ordering::Relaxed), 1, "all of it is in one leaf's range");
    let snapshot = tree.open_snapshot();
    let before = copied(&tree);
    for nth in 0..20_u64 {
        let low = key(nth * 331).to_vec();
        let scan = |low, high| Scan::new(snapshot, Range { low, high });
        let mut forwards = scan(Bound::Included(low.clone()), Bound::Unbounded);
        for (found, _) in model.range(low.clone()..).take(20) {
            assert_eq!(forwards.next(&tree).expect("in memory").expect("one more").0, found);
        }
        let mut backwards = scan(Bound::Unbounded, Bound::Included(low.clone()));
        for (found, _) in model.range(..=low).rev().take(20) {
            assert_eq!(&backwards.prev(&tree).expect("in memory").expect("one more").0, found);
        }
    }
    let copied = copied(&tree) - before;
    assert!(copied < 40 * 1_000, "{copied} records copied by 40 scans; {} are there", model.len());
    tree.snapshots.close(snapshot);
}

#[test]
fn a_whole_scan_copies_each_record_about_once_from_whichever_end() {
    let (tree, model) = small_store();
    let snapshot = tree.open_snapshot();
    let whole = || Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
    let before = copied(&tree);
    let mut scan = whole();
    let forwards: Vec<_> = std::iter::from_fn(|| scan.next(&tree).expect("in memory").map(owned_pair)).collect();
    assert!(forwards.iter().map(|(key, value)| (key, value)).eq(&model));
    let mut scan = whole();
    let backwards: Vec<_> = std::iter::from_fn(|| scan.prev(&tree).expect("in memory").map(owned_pair)).collect();
    assert!(backwards.iter().rev().eq(&forwards));
    let copied = copied(&tree) - before;
    assert!(copied < 3 * model.len() as u64, "{copied} records copied by two scans of {}", model.len());
    tree.snapshots.close(snapshot);
}
