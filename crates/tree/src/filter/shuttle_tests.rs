//! The filter alone under many schedules: writers, readers, evictions and insertion into a map that stands for the leaves.

use std::{collections::BTreeMap, sync::Arc};

use shuttle::{Config, Runner, scheduler::RandomScheduler};
use zonda_rt::{
    Epoch, Mutex,
    atomic::{AtomicUsize, Ordering},
    spawn,
};

use super::{Around, AsOf, Filter};
use crate::{
    FilterEviction, TreeError,
    record::{Kind, Record},
    snapshot::Snapshots,
};

const SCHEDULES: usize = 300;
const KEYS: u8 = 6;
const ROUNDS: u8 = 3;

struct Scene {
    filter: Filter,
    epoch: Epoch,
    snapshots: Snapshots,
    below: Mutex<BTreeMap<Vec<u8>, u8>>,
    sequence: Mutex<u64>,
    /// Batches that were claimed.
    claimed: AtomicUsize,
}

impl Scene {
    fn new(eviction: FilterEviction) -> Arc<Self> {
        Arc::new(Self {
            filter: Filter::new(2 << 10, eviction),
            epoch: Epoch::new(),
            snapshots: Snapshots::new(1 << 30),
            below: Mutex::default(),
            sequence: Mutex::default(),
            claimed: AtomicUsize::new(0),
        })
    }

    fn around(&self) -> Around<'_> {
        Around { epoch: &self.epoch, snapshots: &self.snapshots }
    }

    /// Values are so long that three records split a node.
    fn put(&self, key: &[u8], round: u8) -> u64 {
        let number = {
            let mut sequence = self.sequence.lock();
            *sequence += 1;
            *sequence
        };
        let record = Record { key, kind: Kind::Inline, value: &[round; 700] };
        self.filter.upsert(&record, &(number..=number), self.around(), &mut |_| ());
        number
    }

    fn get(&self, key: &[u8]) -> u8 {
        let guard = self.epoch.pin();
        let above = self.filter.find(key, &guard, &mut |record| record.value[0]);
        above.unwrap_or_else(|| self.below.lock().get(key).copied().unwrap_or(0))
    }

    fn evict_and_insert(&self) {
        self.filter.evict(self.around(), |_| true, &mut |_, _| ());
        self.insert();
    }

    /// Every third batch finds no room for its first record.
    fn insert(&self) {
        let Some(array) = self.filter.array(&self.epoch.pin()) else { return };
        while let Some((index, batch)) = array.claim() {
            let left = usize::from(self.claimed.fetch_add(1, Ordering::Relaxed) % 3 == 2);
            for record in batch.records.slots().iter().skip(left) {
                let before = self.below.lock().insert(record.key.to_vec(), record.value[0]).unwrap_or(0);
                assert!(before <= record.value[0], "*down*: an older record came over a newer one");
            }
            if left > 0 {
                self.filter.give_back(&array, index, std::iter::once(0..left).collect(), TreeError::Closed);
            } else if array.finish() {
                let present = self.filter.array(&self.epoch.pin()).expect("nobody else takes it out");
                assert!(Arc::ptr_eq(&present, &array), "an array came over one that was not inserted yet");
                self.filter.take_array_out(self.around());
            }
        }
    }
}

fn key(writer: u8, at: u8) -> [u8; 2] {
    [at, writer]
}

fn explore(scene: impl Fn(FilterEviction) + Send + Sync + Copy + 'static) {
    for eviction in [FilterEviction::Nodes, FilterEviction::Pairs] {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        Runner::new(RandomScheduler::new(SCHEDULES), config).run(move || scene(eviction));
    }
}

fn write(scene: &Arc<Scene>, writer: u8) -> zonda_rt::JoinHandle<()> {
    let scene = Arc::clone(scene);
    spawn(format!("writer {writer}"), move || {
        for (round, at) in (1..=ROUNDS).flat_map(|round| (0..KEYS).map(move |at| (round, at))) {
            scene.put(&key(writer, at), round);
            assert_eq!(scene.get(&key(writer, at)), round, "a put is not there");
        }
    })
}

/// Sees no key go back.
fn read(scene: &Arc<Scene>) -> zonda_rt::JoinHandle<()> {
    let scene = Arc::clone(scene);
    spawn("reader", move || {
        let mut newest = BTreeMap::new();
        for at in (0..3).flat_map(|_| 0..KEYS) {
            let round = scene.get(&key(0, at));
            let before = newest.insert(at, round).unwrap_or(0);
            assert!(round >= before, "key {at} went back from {before} to {round}");
        }
    })
}

fn evict(scene: &Arc<Scene>, times: usize) -> zonda_rt::JoinHandle<()> {
    let scene = Arc::clone(scene);
    spawn("evictor", move || (0..times).for_each(|_| scene.evict_and_insert()))
}

#[test]
fn no_put_is_lost_and_no_reader_goes_back() {
    explore(|eviction| {
        let scene = Scene::new(eviction);
        let helper = {
            let scene = Arc::clone(&scene);
            spawn("helper", move || (0..3).for_each(|_| scene.insert()))
        };
        for thread in [write(&scene, 0), write(&scene, 1), evict(&scene, 6), helper, read(&scene)] {
            thread.join().expect("no panic");
        }
        for (writer, at) in (0..2).flat_map(|writer| (0..KEYS).map(move |at| (writer, at))) {
            assert_eq!(scene.get(&key(writer, at)), ROUNDS, "key {at} of {writer}");
        }
    });
}

/// Whoever comes to evict while another does, or before its array has been inserted, has nothing to do.
#[test]
fn two_evictors_make_one_array_at_a_time() {
    explore(|eviction| {
        let scene = Scene::new(eviction);
        for thread in [write(&scene, 0), evict(&scene, 6), evict(&scene, 6), read(&scene)] {
            thread.join().expect("no panic");
        }
        (0..2).for_each(|_| scene.evict_and_insert());
        for at in 0..KEYS {
            assert_eq!(scene.get(&key(0, at)), ROUNDS, "key {at}");
        }
    });
}

#[test]
fn a_snapshot_stands_still_and_bounds_hold_beside_evictions() {
    explore(|eviction| {
        let scene = Scene::new(eviction);
        let looker = {
            let scene = Arc::clone(&scene);
            spawn("looker", move || {
                let number = scene.filter.between_evictions(scene.around(), |array| scene.snapshots.open(array));
                let see = || {
                    let as_of = AsOf::Snapshot(&scene.snapshots, number);
                    scene.filter.between(b"", None, as_of, &scene.epoch.pin()).expect("in use")
                };
                let first = see();
                assert!(see() == first && see() == first, "*one moment*: the snapshot changed");
                scene.snapshots.close(number);
            })
        };
        for thread in [write(&scene, 0), evict(&scene, 5), looker] {
            thread.join().expect("no panic");
        }
    });
}

/// *merged below*: whatever was applied before is in the map, or the bound tells of it.
#[test]
fn the_bound_covers_what_has_not_reached_the_leaves() {
    explore(|eviction| {
        let scene = Scene::new(eviction);
        let merger = {
            let scene = Arc::clone(&scene);
            spawn("merger", move || {
                for at in 0..3 {
                    let number = scene.put(&[at, 9], 1);
                    // The map's lock stands for the leaf's latch: nothing reaches the leaf meanwhile.
                    let below = scene.below.lock();
                    let bound = scene.filter.oldest(&[at, 9], Some(&[at, 10]), &scene.epoch.pin());
                    assert!(below.contains_key(&[at, 9][..]) || bound <= number, "the bound {bound} hides {number}");
                }
            })
        };
        for thread in [write(&scene, 0), evict(&scene, 5), merger] {
            thread.join().expect("no panic");
        }
    });
}
