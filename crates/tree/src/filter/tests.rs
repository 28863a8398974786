//! The filter against `BTreeMap`, with a map for the leaves below it.
#![cfg(not(feature = "shuttle"))]

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use zonda_rt::{Epoch, Rng, epoch::Guard};

use super::{Around, AsOf, Filter, NONE};
use crate::{
    FilterEviction,
    index::Path,
    record::{Kind, OwnedRecord, Record, owned},
    snapshot::Snapshots,
};

type Model = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

/// A filter over a map.
struct Bench {
    filter: Filter,
    epoch: Arc<Epoch>,
    snapshots: Snapshots,
    below: BTreeMap<Vec<u8>, Vec<u8>>,
    sequence: u64,
}

impl Bench {
    fn new(limit_bytes: u64, eviction: FilterEviction) -> Self {
        let (filter, snapshots) = (Filter::new(limit_bytes, eviction), Snapshots::new(1 << 30));
        Self { filter, epoch: Arc::default(), snapshots, below: BTreeMap::new(), sequence: 0 }
    }

    fn around(&self) -> Around<'_> {
        Around { epoch: &self.epoch, snapshots: &self.snapshots }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> u64 {
        self.sequence += 1;
        let record = Record { key, kind: Kind::Inline, value };
        self.filter.upsert(&record, &(self.sequence..=self.sequence), self.around(), &mut |_| ());
        self.sequence
    }

    fn evict(&mut self) -> bool {
        self.filter.evict(self.around(), |_| true, &mut |_, _| ())
    }

    /// Inserts all batches of the array.
    fn insert_all(&mut self) {
        let Some(array) = self.filter.array(&self.epoch.pin()) else { return };
        while let Some((_, batch)) = array.claim() {
            let pairs = batch.records.slots().iter().map(|record| (record.key.to_vec(), record.value.to_vec()));
            self.below.extend(pairs);
            if array.finish() {
                self.filter.take_array_out(self.around());
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let above = self.filter.find(key, &self.epoch.pin(), &mut |record| record.value.to_vec());
        above.or_else(|| self.below.get(key).cloned())
    }

    fn above(&self, low: &[u8], high: Option<&[u8]>) -> Vec<OwnedRecord> {
        self.filter.between(low, high, AsOf::Now, &self.epoch.pin()).expect("now is never too old")
    }
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(4_000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match rng.below(8) {
        0 => format!("text-{}", number % 90).into_bytes(),
        _ => number.to_be_bytes().to_vec(),
    }
}

/// Writes, evicts and inserts at random; `look` hears of the state now and then.
fn run(seed: u64, eviction: FilterEviction, mut look: impl FnMut(&Bench, &Model, &mut Rng)) -> Bench {
    let (mut bench, mut model, mut rng) = (Bench::new(16 << 10, eviction), Model::new(), Rng::seeded(seed));
    for step in 0..20_000_u64 {
        let (key, value) = (random_key(&mut rng), step.to_le_bytes());
        let sequence = bench.put(&key, &value);
        model.insert(key, (sequence, value.to_vec()));
        if bench.filter.is_due() || rng.chance(0.001) {
            bench.evict();
        }
        if rng.chance(0.01) {
            look(&bench, &model, &mut rng);
        }
        if rng.chance(0.05) {
            bench.insert_all();
        }
    }
    assert!(bench.filter.evictions() > 20, "seed {seed}: {} evictions", bench.filter.evictions());
    look(&bench, &model, &mut rng);
    bench
}

const EVICTIONS: [FilterEviction; 2] = [FilterEviction::Nodes, FilterEviction::Pairs];

#[test]
fn every_key_is_found_where_it_is_while_pairs_move_down() {
    for (seed, eviction) in (0..3).flat_map(|seed| EVICTIONS.map(|eviction| (seed, eviction))) {
        run(seed, eviction, |bench, model, rng| {
            for _ in 0..50 {
                let key = random_key(rng);
                let expected = model.get(&key).map(|(_, value)| value.clone());
                assert_eq!(bench.get(&key), expected, "seed {seed} {eviction:?} key {key:?}");
            }
            let mut all = bench.below.clone();
            all.extend(bench.above(b"", None).into_iter().map(|(key, _, value)| (key, value)));
            assert!(all.iter().eq(model.iter().map(|(key, (_, value))| (key, value))), "seed {seed} {eviction:?}");
        });
    }
}

#[test]
fn no_record_above_is_older_than_what_is_said_of_its_range() {
    for (seed, eviction) in (10..13).flat_map(|seed| EVICTIONS.map(|eviction| (seed, eviction))) {
        run(seed, eviction, |bench, model, rng| {
            let (a, b) = (random_key(rng), random_key(rng));
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            let said = bench.filter.oldest(&low, Some(&high), &bench.epoch.pin());
            let above = bench.above(&low, Some(&high));
            let truly = above.iter().map(|(key, _, _)| model[key].0).min().unwrap_or(NONE);
            assert!(said <= truly, "seed {seed} {eviction:?}: {said} is said, {truly} is there");
        });
    }
}

/// A checkpoint that is under way may have copied a node under its bound (*merged below*).
#[test]
fn the_bound_of_a_range_does_not_grow_while_records_stay() {
    let mut bench = Bench::new(8 << 10, FilterEviction::Pairs);
    for round in 0..2_000_u64 {
        bench.put(b"hot", &round.to_le_bytes());
        bench.put(&round.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[0; 8]);
        let range = (&b"hot"[..], Some(&b"hou"[..]));
        let before = bench.filter.oldest(range.0, range.1, &bench.epoch.pin());
        if bench.filter.is_due() {
            bench.evict();
            bench.insert_all();
        }
        let stays = !bench.above(range.0, range.1).is_empty();
        let after = bench.filter.oldest(range.0, range.1, &bench.epoch.pin());
        assert!(!stays || after <= before, "round {round}: {before} before, {after} after");
    }
}

/// Low keys and heats of all nodes, in key order.
fn heats(bench: &Bench) -> Vec<(Vec<u8>, u32)> {
    let guard = bench.epoch.pin();
    let (mut heats, mut next) = (Vec::new(), Some(Vec::new()));
    while let Some(low) = next {
        let path = bench.filter.index.find(&low, &guard);
        next = path.high();
        heats.push((low, bench.filter.nodes.get(path.leaf()).heat()));
    }
    heats
}

/// ZKV 3.2: one for each access. A node without records is none.
#[test]
fn every_access_of_a_node_counts_whether_its_key_is_there_or_not() {
    let mut bench = Bench::new(1 << 20, FilterEviction::Nodes);
    let heat = |bench: &Bench| heats(bench)[0].1;
    bench.put(b"b", b"1");
    assert_eq!(heat(&bench), 1);
    assert!(bench.get(b"b").is_some() && heat(&bench) == 2);
    assert!(bench.get(b"a").is_none() && heat(&bench) == 3);
    bench.put(b"a", b"1");
    assert_eq!(heat(&bench), 4);
    assert!(bench.evict() && heat(&bench) == 2);
    assert!(bench.get(b"a").is_some() && heat(&bench) == 2, "from the array");
}

/// ZKV 3.2: the quarter of the nodes that was used least leaves, and every counter is halved.
#[test]
fn the_coldest_nodes_leave_and_all_forget_half_of_their_heat() {
    for seed in 0..8 {
        let mut bench = Bench::new(1 << 20, FilterEviction::Nodes);
        for number in 0..4_000_u64 {
            bench.put(&number.to_be_bytes(), &[0; 8]);
        }
        // Another heat for each node, in no order: none is used as often as another.
        let mut nodes = heats(&bench);
        let hottest = nodes.iter().map(|(_, heat)| *heat).max().expect("nodes");
        let mut extra: Vec<u32> = (1..).take(nodes.len()).collect();
        let mut rng = Rng::seeded(seed);
        (1..extra.len()).rev().for_each(|last| extra.swap(last, rng.index(last + 1)));
        for ((low, heat), extra) in nodes.iter().zip(extra) {
            let key = bench.above(low, None)[0].0.clone();
            (0..hottest - heat + 3 * extra).for_each(|_| assert!(bench.get(&key).is_some()));
        }
        nodes = heats(&bench);
        let leaving = nodes.len() / 4;
        assert!(nodes.len() > 20 && bench.evict(), "{} nodes", nodes.len());
        let mut coldest = nodes.clone();
        coldest.sort_unstable_by_key(|(_, heat)| *heat);
        assert!(coldest.windows(2).all(|pair| pair[0].1 < pair[1].1), "all heats differ");
        let mut expected: Vec<&[u8]> = coldest[..leaving].iter().map(|(low, _)| low.as_slice()).collect();
        expected.sort_unstable();
        let guard = bench.epoch.pin();
        let array = bench.filter.array(&guard).expect("just evicted");
        let of_node =
            |key: &[u8]| nodes.iter().rev().find(|(low, _)| low.as_slice() <= key).map(|(low, _)| low.as_slice());
        let left: Vec<_> = array.batches().iter().filter_map(|batch| of_node(batch.records.first_key())).collect();
        assert_eq!(left, expected, "seed {seed}");
        let halved: Vec<_> = nodes.iter().map(|(low, heat)| (low.clone(), heat / 2)).collect();
        assert_eq!(heats(&bench), halved, "seed {seed}");
    }
}

/// The ways to all nodes, in key order.
fn ways<'g>(bench: &Bench, guard: &'g Guard<'_>) -> Vec<Path<'g>> {
    let (mut ways, mut next) = (Vec::new(), Some(Vec::new()));
    while let Some(low) = next {
        let way = bench.filter.index.find(&low, guard);
        next = way.high();
        ways.push(way);
    }
    ways
}

fn is_shadow_deleted(bench: &Bench, way: &Path<'_>) -> bool {
    bench.filter.nodes.get(way.leaf()).content.read().records.is_none()
}

/// A filter of some `nodes` nodes: three of these records split one.
fn of_nodes(nodes: u64) -> Bench {
    let mut bench = Bench::new(1 << 30, FilterEviction::Nodes);
    for number in 0..2 * nodes {
        bench.put(&number.to_be_bytes(), &[1; 700]);
    }
    bench
}

/// ZKV 3.2, shadow deletion: the records go and the node is marked; no parent is changed, and no reader changes one.
#[test]
fn an_evicted_node_loses_its_records_and_keeps_its_place() {
    let mut bench = of_nodes(40);
    let (epoch, before) = (Arc::clone(&bench.epoch), bench.filter.valid_nodes());
    let guard = epoch.pin();
    let nodes = ways(&bench, &guard);
    assert!(nodes.len() > 30 && nodes.iter().all(|way| !is_shadow_deleted(&bench, way)), "{} nodes", nodes.len());
    assert!(bench.evict());
    let deleted: Vec<_> = nodes.iter().filter(|way| is_shadow_deleted(&bench, way)).collect();
    assert_eq!(deleted.len(), nodes.len() / 4);
    assert_eq!(bench.filter.valid_nodes(), before - deleted.len() as u64);
    bench.insert_all();
    for way in &nodes {
        let mark = bench.filter.nodes.get(way.leaf()).oldest() == NONE;
        assert_eq!(mark, is_shadow_deleted(&bench, way));
        assert!(bench.get(&way.low()).is_some() || way.low().is_empty());
        assert!(way.is_current(), "an eviction or a read changed a parent");
    }
}

/// The next write that visits a shadow-deleted node has its parent drop it, and no other.
#[test]
fn a_shadow_deleted_node_is_unlinked_when_a_write_visits_it() {
    let mut bench = of_nodes(40);
    // Every fourth node is the coldest: one that goes has neighbours that stay.
    let warm: Vec<_> = ways(&bench, &bench.epoch.pin()).iter().map(Path::low).collect();
    for low in warm.iter().enumerate().filter(|(at, _)| at % 4 != 2).map(|(_, low)| low) {
        let key = bench.above(low, None)[0].0.clone();
        (0..20).for_each(|_| assert!(bench.get(&key).is_some()));
    }
    assert!(bench.evict());
    bench.insert_all();
    let deleted = |bench: &Bench| {
        let guard = bench.epoch.pin();
        let nodes = ways(bench, &guard);
        let lows: Vec<_> = nodes.iter().filter(|way| is_shadow_deleted(bench, way)).map(Path::low).collect();
        (nodes.len(), lows)
    };
    let (mut nodes, mut left) = deleted(&bench);
    assert!(left.len() >= 10, "{} of {nodes} nodes", left.len());
    while let Some(visited) = left.pop() {
        let valid = bench.filter.valid_nodes();
        bench.put(&visited, &[2; 8]);
        nodes -= 1;
        assert_eq!(deleted(&bench), (nodes, left.clone()), "only {visited:?} goes");
        assert_eq!(bench.filter.valid_nodes(), valid, "its neighbour takes the record");
        assert_eq!(bench.get(&visited), Some(vec![2; 8]));
    }
}

/// Nothing goes up when a write unlinks: a parent whose children are all gone but one stays as it is, and the root is never made anew.
#[test]
fn unlinking_does_not_cascade_and_makes_no_new_root() {
    let mut bench = of_nodes(2_000);
    let epoch = Arc::clone(&bench.epoch);
    let guard = epoch.pin();
    // A quarter goes: the first.
    let all = ways(&bench, &guard);
    for way in &all[all.len() / 4..] {
        let key = bench.above(&way.low(), None)[0].0.clone();
        (0..20).for_each(|_| assert!(bench.get(&key).is_some()));
    }
    assert!(bench.evict());
    bench.insert_all();
    let parents = |ways: &[Path<'_>]| {
        let mut parents: Vec<*const _> = ways.iter().map(|way| std::ptr::from_ref(way.parent().0)).collect();
        parents.dedup();
        parents.len()
    };
    let before = ways(&bench, &guard);
    let gone: Vec<_> = before.iter().filter(|way| is_shadow_deleted(&bench, way)).collect();
    let emptied = before.iter().take_while(|way| is_shadow_deleted(&bench, way)).count();
    let levels = bench.filter.index.levels(&guard);
    assert!(levels == 2 && parents(&before[..emptied]) > 1, "{levels} levels, {emptied} emptied");
    for way in &gone {
        bench.put(&way.low(), b"");
    }
    let after = ways(&bench, &guard);
    assert!(after.len() < before.len() - emptied / 2, "{} of {} nodes", after.len(), before.len());
    assert_eq!(parents(&after), parents(&before), "a parent went with its children");
    assert_eq!(bench.filter.index.levels(&guard), levels);
    assert!(std::ptr::eq(before[0].root(), after[0].root()), "a new root");
}

/// Nobody writes again to what ascending keys leave behind.
#[test]
fn ranges_that_nobody_writes_to_again_leave_nothing() {
    for eviction in [FilterEviction::Nodes, FilterEviction::Pairs] {
        let mut bench = Bench::new(64 << 10, eviction);
        let mut bytes_after = |round: u64| {
            for number in round * 20_000..(round + 1) * 20_000 {
                bench.put(&number.to_be_bytes(), &[1; 60]);
                if bench.filter.is_due() {
                    bench.evict();
                    bench.insert_all();
                }
            }
            bench.filter.memory_bytes()
        };
        let first = bytes_after(0);
        let last = (1..6).map(bytes_after).last();
        assert!(last.is_some_and(|last| last < first + first / 4), "{eviction:?}: {first} bytes, then {last:?}");
    }
}

#[test]
fn hot_pairs_stay_when_pairs_leave() {
    let mut bench = Bench::new(16 << 10, FilterEviction::Pairs);
    let mut rng = Rng::seeded(5);
    let hot = |number: u64| (number * 64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for _ in 0..30_000 {
        bench.put(&hot(rng.below(100)), &[1; 8]);
        bench.put(&rng.next_u64().to_be_bytes(), &[2; 8]);
        if bench.filter.is_due() {
            bench.evict();
            bench.insert_all();
        }
    }
    let above = bench.above(b"", None);
    let stayed = above.iter().filter(|(_, _, value)| value == &[1; 8]).count();
    assert!(stayed >= 95, "{stayed} of 100 hot pairs are above");
    let below = bench.below.values().filter(|value| **value == [1; 8]).count();
    assert!(below <= 100, "{below}");
}

#[test]
fn a_filter_of_hot_pairs_only_still_makes_room() {
    let mut bench = Bench::new(16 << 10, FilterEviction::Pairs);
    let mut rng = Rng::seeded(6);
    for _ in 0..40_000 {
        // More hot pairs than fit, each written some ten times per round of the hand.
        bench.put(&rng.below(1_500).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[1; 8]);
        if bench.filter.is_due() {
            bench.evict();
            bench.insert_all();
        }
        assert!(!bench.filter.is_full(), "{} bytes", bench.filter.held_bytes());
    }
    let evictions = bench.filter.evictions();
    assert!(evictions < 40_000 / 50, "{evictions} evictions: they free next to nothing");
}

/// A writer that found an eviction due counted the array; the last batch may reach its leaf before the writer evicts.
#[test]
fn what_was_due_for_an_array_that_has_left_since_is_not_evicted() {
    for eviction in EVICTIONS {
        let mut bench = Bench::new(16 << 10, eviction);
        let fill = |bench: &mut Bench| {
            while !bench.filter.is_due() {
                bench.put(&bench.sequence.to_be_bytes(), &[1; 8]);
            }
        };
        fill(&mut bench);
        assert!(bench.evict());
        fill(&mut bench);
        bench.insert_all();
        assert!(
            !bench.filter.evict(bench.around(), Filter::is_due, &mut |_, _| ()),
            "{eviction:?}: hot pairs leave for nothing"
        );
        assert!(bench.evict(), "{eviction:?}: there would have been something");
    }
}

#[test]
fn an_emptied_filter_costs_nothing_but_its_tables() {
    for eviction in EVICTIONS {
        let mut bench = run(20, eviction, |_, _, _| ());
        let mut tries = 0;
        while !bench.filter.is_empty() {
            bench.evict();
            bench.insert_all();
            tries += 1;
            assert!(tries < 200, "{eviction:?}: {} nodes are left", bench.filter.valid_nodes());
        }
        assert_eq!(bench.filter.held_bytes(), 0, "{eviction:?}");
        assert_eq!(bench.filter.oldest(b"", None, &bench.epoch.pin()), NONE);
        // The next writes unlink what was shadow-deleted: the index does not keep a node for each range there ever was.
        let before = bench.filter.index.memory_bytes();
        for number in 0..2_000_u64 {
            bench.put(&(number << 51).to_be_bytes(), b"");
        }
        assert!(bench.filter.index.memory_bytes() <= before + 1024, "{eviction:?}");
    }
}

#[test]
fn ascending_writes_leave_full_nodes() {
    let mut bench = Bench::new(1 << 30, FilterEviction::Nodes);
    for number in 0..10_000_u64 {
        bench.put(&number.to_be_bytes(), &number.to_le_bytes());
    }
    let bytes = bench.filter.held_bytes();
    assert!(bytes < 10_000 * 16 * 125 / 100, "{bytes} bytes for 160,000 of pairs");
}

#[test]
fn what_a_record_overwrites_is_told() {
    let bench = Bench::new(1 << 20, FilterEviction::Nodes);
    let mut told: Vec<OwnedRecord> = Vec::new();
    for value in [b"1", b"2", b"3"] {
        let record = Record { key: b"key", kind: Kind::Pointer, value };
        bench.filter.upsert(&record, &(1..=1), bench.around(), &mut |old| told.push(owned(old)));
    }
    assert_eq!(told.iter().map(|(_, _, value)| value[0]).collect::<Vec<_>>(), b"12");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_snapshot_sees_its_moment_whatever_moves_afterwards(seed: u64, by_node: bool) {
        let eviction = if by_node { FilterEviction::Nodes } else { FilterEviction::Pairs };
        let (mut bench, mut rng) = (Bench::new(6 << 10, eviction), Rng::seeded(seed));
        let mut open: Option<(u64, Vec<OwnedRecord>)> = None;
        for _ in 0..3_000_u64 {
            bench.put(&random_key(&mut rng), &rng.next_u64().to_le_bytes());
            if bench.filter.is_due() || rng.chance(0.01) {
                bench.evict();
            }
            if rng.chance(0.03) {
                bench.insert_all();
            }
            if rng.chance(0.01) {
                if let Some((number, then)) = open.take() {
                    let as_of = AsOf::Snapshot(&bench.snapshots, number);
                    let seen = bench.filter.between(b"", None, as_of, &bench.epoch.pin()).expect("in use");
                    prop_assert_eq!(seen, then);
                    bench.snapshots.close(number);
                }
                let number = bench.filter.between_evictions(bench.around(), |array| bench.snapshots.open(array));
                open = Some((number, bench.above(b"", None)));
            }
        }
    }
}
