//! The index alone: leaves are numbers, latches the care of whoever calls.

use std::collections::BTreeMap;

use zonda_rt::Rng;

use super::*;

fn leaf_of(index: &Index, epoch: &Epoch, key: &[u8]) -> u32 {
    index.find(key, &epoch.pin()).leaf().0
}

#[test]
fn splits_keep_every_key_findable() {
    let epoch = Epoch::new();
    let index = Index::build(&[(Vec::new(), PageId(0))]);
    let mut lows: Vec<(Vec<u8>, u32)> = vec![(Vec::new(), 0)];
    let mut state = 1_u64;
    for id in 1..5_000_u32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let low = (state >> 20).to_be_bytes().to_vec();
        let at = lows.partition_point(|(other, _)| *other <= low);
        let (left_low, left) = lows[at - 1].clone();
        let inserted = [(left_low, PageId(left)), (low.clone(), PageId(id))];
        assert!(index.edit(&low, &[PageId(left)], &inserted, &epoch));
        lows.insert(at, (low, id));
    }
    let guard = epoch.pin();
    for (at, (low, id)) in lows.iter().enumerate() {
        let path = index.find(low, &guard);
        assert_eq!((path.leaf().0, &path.low()), (*id, low));
        assert_eq!(path.high(), lows.get(at + 1).map(|(high, _)| high.clone()));
        if at > 0 {
            assert_eq!(index.find_before(Some(low), &guard).leaf().0, lows[at - 1].1);
        }
    }
    assert!(index.levels(&guard) >= 2);
}

#[test]
fn a_split_goes_on_above_a_node_that_the_tree_has_grown_over() {
    let low = |id: u32| if id == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    let leaf = |index: &Index, id: u32, high: Option<u32>| {
        let high = high.map(low);
        index.make(&[&low(id)], high.as_deref(), Children::Leaves([id].into()))
    };
    let epoch = Epoch::new();
    let index = Index::build(&[(Vec::new(), PageId(0))]);
    // Two leaves to a lowest node, four of these to a node, two of these to the root.
    let lowest = (0..8).map(|at| {
        let (first, high) = (2 * at, (at < 7).then(|| low(2 * at + 2)));
        let lows = [low(first), low(first + 1)];
        let ids = Children::Leaves([first, first + 1].into());
        (low(first), index.make(&[&lows[0], &lows[1]], high.as_deref(), ids))
    });
    let middle = index.build_upper(&lowest.collect::<Vec<_>>(), 4);
    let root = index.build_upper(&middle, 2).remove(0).1;
    let first = index.root.swap(root, Ordering::AcqRel);
    // SAFETY: nobody else has seen it.
    index.discard(unsafe { &*first }, &epoch);

    // One splits the first lowest node; another has the root split meanwhile.
    let guard = epoch.pin();
    let path = index.find(&low(1), &guard);
    let cells = path.level(1).0.lock_cells();
    let halves = index.build_upper(&middle, 1);
    let grown = index.build_upper(&halves, 2).remove(0).1;
    index.publish((&index.root, grown), &[path.level(0).0], &epoch);
    let nodes = vec![(low(0), leaf(&index, 0, Some(1))), (low(1), leaf(&index, 1, Some(2)))];
    index.install_above(&path, 1, (nodes, vec![path.level(2).0]), &epoch);
    drop(cells);
    assert_eq!(index.levels(&epoch.pin()), 4);
    (0..16).for_each(|id| assert_eq!(leaf_of(&index, &epoch, &low(id)), id));
    // And what was put there is told to be current.
    assert!(index.find(&low(9), &epoch.pin()).is_current());
}

#[test]
fn neighbours_under_two_parents_are_left_alone() {
    let epoch = Epoch::new();
    let leaves: Vec<LeafEntry> =
        (0..1000_u32).map(|id| (if id == 0 { vec![] } else { id.to_be_bytes().to_vec() }, PageId(id))).collect();
    let index = Index::build(&leaves);
    let parents_last = |id: &u32| {
        let guard = epoch.pin();
        let path = index.find(&id.to_be_bytes(), &guard);
        let (parent, child) = path.parent();
        child + 1 == parent.len()
    };
    let last = (1..999_u32).find(parents_last).expect("several parents");
    let mut calls = 0;
    let low = last.to_be_bytes();
    let pair = [PageId(last), PageId(last + 1)];
    assert!(!index.edit_after(&low, (&pair, &[(low.to_vec(), PageId(last))]), &epoch, &mut || calls += 1));
    assert_eq!((calls, leaf_of(&index, &epoch, &(last + 1).to_be_bytes())), (0, last + 1));
    let low = (last - 1).to_be_bytes();
    let pair = [PageId(last - 1), PageId(last)];
    assert!(index.edit_after(&low, (&pair, &[(low.to_vec(), PageId(last - 1))]), &epoch, &mut || calls += 1));
    assert_eq!((calls, leaf_of(&index, &epoch, &last.to_be_bytes())), (1, last - 1));
}

/// Takes the leaf of `low` out of the index and of what is in it.
fn remove(index: &Index, epoch: &Epoch, lows: &mut BTreeMap<Vec<u8>, u32>, low: &[u8]) {
    let guard = epoch.pin();
    let path = index.find(low, &guard);
    let (beside, side) = index.beside(&path, &guard).expect("it is not the last leaf");
    let ((left, right), survivor) = match side {
        Side::Left => ((&beside, &path), beside.leaf()),
        Side::Right => ((&path, &beside), beside.leaf()),
    };
    let (pair_low, right_low) = (left.low(), right.low());
    let ids = [left.leaf(), right.leaf()];
    assert_eq!(lows.get(&pair_low).zip(lows.get(&right_low)), Some((&ids[0].0, &ids[1].0)));
    assert_eq!(lows.range(pair_low.clone()..).nth(1).map(|(low, _)| low), Some(&right_low), "neighbours");
    let mut calls = 0;
    let widened = [(pair_low.clone(), survivor)];
    let is_done = if std::ptr::eq(left.parent().0, right.parent().0) {
        index.edit_after(&pair_low, (&ids, &widened), epoch, &mut || calls += 1)
    } else {
        index.unite(&path, &beside, epoch, &mut || calls += 1)
    };
    assert!(is_done && calls == 1 && !path.is_current() && !beside.is_current());
    lows.remove(&right_low);
    lows.insert(pair_low, survivor.0);
}

#[test]
fn nodes_go_with_their_last_leaf() {
    const LEAVES: u32 = 100;
    for seed in 0..20 {
        let (epoch, mut rng) = (Epoch::new(), Rng::seeded(seed));
        let low = |id: u32| if id == 0 { Vec::new() } else { (id * 1_000).to_be_bytes().to_vec() };
        let entries: Vec<LeafEntry> = (0..LEAVES).map(|id| (low(id), PageId(id))).collect();
        let index = Index::of_nodes(&entries, 3, CHILDREN_MAX);
        let mut lows: BTreeMap<Vec<u8>, u32> = entries.into_iter().map(|(low, id)| (low, id.0)).collect();
        while lows.len() > 1 {
            // From the front, from the end, or anywhere.
            let at = match seed % 3 {
                0 => 0,
                1 => lows.len() - 1,
                _ => rng.index(lows.len()),
            };
            let low = lows.keys().nth(at).expect("it is below the length").clone();
            remove(&index, &epoch, &mut lows, &low);
            let guard = epoch.pin();
            let highs = lows.keys().skip(1).map(Some).chain([None]);
            for ((low, id), high) in lows.iter().zip(highs) {
                let path = index.find(low, &guard);
                assert_eq!((path.leaf().0, &path.low(), path.high().as_ref()), (*id, low, high), "seed {seed}");
                assert!(path.is_current());
                let last = index.find_before(high.map(Vec::as_slice), &guard);
                assert_eq!(last.leaf().0, *id, "seed {seed}");
            }
        }
        let guard = epoch.pin();
        let path = index.find(b"any", &guard);
        assert!(index.beside(&path, &guard).is_none() && !path.has_beside());
        let levels = index.levels(&guard) as u64;
        assert!(levels == 5 && index.memory_bytes() < levels * 256, "{} bytes", index.memory_bytes());
    }
}

/// Whether any two neighbours under one node have half of what a node may have, or less.
fn has_too_few(index: &Index, path: &Path<'_>, guard: &Guard<'_>) -> bool {
    (0..path.levels - 1).any(|level| {
        let Children::Inners(cells) = path.level(level).0.children() else { unreachable!("it is above the lowest") };
        let few = |pair: &[AtomicPtr<Inner>]| {
            pair.iter().map(|cell| Index::node(cell, guard).len()).sum::<usize>() <= index.children_max / 2
        };
        cells.windows(2).any(few)
    })
}

#[test]
fn leaves_that_are_left_share_few_nodes() {
    const LEAVES: u32 = 500;
    for seed in 0..6 {
        let (epoch, mut rng) = (Epoch::new(), Rng::seeded(seed));
        let low = |id: u32| if id == 0 { Vec::new() } else { (id * 1_000).to_be_bytes().to_vec() };
        let entries: Vec<LeafEntry> = (0..LEAVES).map(|id| (low(id), PageId(id))).collect();
        let index = Index::of_nodes(&entries, 5, 8);
        let levels = index.levels(&epoch.pin()) as u64;
        let mut lows: BTreeMap<Vec<u8>, u32> = entries.into_iter().map(|(low, id)| (low, id.0)).collect();
        let mut gathered = 0;
        while lows.len() > 1 {
            // All but every eighth first, then these.
            let of_eight = lows.values().position(|id| seed % 2 == 0 && id % 8 != 7);
            let at = of_eight.unwrap_or_else(|| rng.index(lows.len()));
            let low = lows.keys().nth(at).expect("it is below the length").clone();
            remove(&index, &epoch, &mut lows, &low);
            gathered += u32::from(index.gather(&low, &epoch));
            let guard = epoch.pin();
            let highs = lows.keys().skip(1).map(Some).chain([None]);
            for ((low, id), high) in lows.iter().zip(highs) {
                let path = index.find(low, &guard);
                assert_eq!((path.leaf().0, &path.low(), path.high().as_ref()), (*id, low, high), "seed {seed}");
                assert!(path.is_current() && !has_too_few(&index, &path, &guard), "seed {seed}");
                let last = index.find_before(high.map(Vec::as_slice), &guard);
                assert_eq!(last.leaf().0, *id, "seed {seed}");
            }
        }
        assert!(gathered > 50 && !index.gather(b"any", &epoch), "seed {seed}: {gathered} times");
        assert!(index.memory_bytes() < levels * 256, "seed {seed}: {} bytes", index.memory_bytes());
    }
}

#[test]
fn nodes_that_somebody_changes_are_not_gathered() {
    let epoch = Epoch::new();
    let low = |id: u8| if id == 0 { Vec::new() } else { vec![id] };
    let leaves: Vec<LeafEntry> = (0..6).map(|id| (low(id), PageId(u32::from(id)))).collect();
    let index = Index::of_nodes(&leaves, 2, 8);
    let guard = epoch.pin();
    let (path, before) = (index.find(&[2], &guard), index.memory_bytes());
    for held in [path.parent().0, path.level(path.levels - 2).0] {
        let cells = held.lock_cells();
        assert!(index.join_beside(&path, path.levels - 1, &epoch, &guard).is_none() && path.is_current());
        drop(cells);
    }
    assert_eq!(index.join_beside(&path, path.levels - 1, &epoch, &guard), Some(low(2)));
    assert!(!path.is_current());
    assert!(index.join_beside(&path, path.levels - 1, &epoch, &guard).is_none(), "the path is old");
    assert!(index.memory_bytes() < before);
    assert!((0..6).all(|id| leaf_of(&index, &epoch, &low(id)) == u32::from(id)));
}

#[test]
fn leaves_under_two_parents_are_left_alone_while_somebody_changes_a_node() {
    let epoch = Epoch::new();
    let low = |id: u8| if id == 0 { Vec::new() } else { vec![id] };
    let leaves: Vec<LeafEntry> = (0..4).map(|id| (low(id), PageId(u32::from(id)))).collect();
    let index = Index::of_nodes(&leaves, 2, CHILDREN_MAX);
    assert!(index.edit(&[2], &[PageId(2), PageId(3)], &[(vec![2], PageId(2))], &epoch));
    let guard = epoch.pin();
    let path = index.find(&[2], &guard);
    let (beside, side) = index.beside(&path, &guard).expect("two others");
    assert_eq!((beside.leaf(), side), (PageId(1), Side::Left));
    let cells = path.root().lock_cells();
    for _ in 0..2 {
        assert!(!index.unite(&path, &beside, &epoch, &mut || panic!("it is not done")));
        assert!(path.root().try_lock_cells().is_none(), "it is locked all the same");
    }
    drop(cells);
    assert!(index.edit(&[1], &[PageId(1)], &[(vec![1], PageId(1)), (vec![1, 1], PageId(9))], &epoch));
    assert!(!index.unite(&path, &beside, &epoch, &mut || panic!("what is beside it is another leaf")));
    assert_eq!([1, 2, 3].map(|id| leaf_of(&index, &epoch, &low(id))), [1, 2, 2]);
}

#[test]
fn merging_neighbours_widens_one() {
    let epoch = Epoch::new();
    let leaves: Vec<LeafEntry> =
        (0..1000_u32).map(|id| (if id == 0 { vec![] } else { id.to_be_bytes().to_vec() }, PageId(id))).collect();
    let index = Index::build(&leaves);
    let low = 4_u32.to_be_bytes();
    assert!(index.edit(&low, &[PageId(4), PageId(5)], &[(low.to_vec(), PageId(4))], &epoch));
    assert_eq!(leaf_of(&index, &epoch, &5_u32.to_be_bytes()), 4);
    assert!(!index.edit(&low, &[PageId(4), PageId(5)], &[(low.to_vec(), PageId(4))], &epoch));
}
