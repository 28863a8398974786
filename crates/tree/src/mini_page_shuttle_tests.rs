//! Mini-pages and their ring under many schedules: writers, readers that promote, scans that mirror, evictions and merges beside each
//! other.

use std::{collections::BTreeMap, ops::Bound, ptr::NonNull, sync::Arc};

use shuttle::{Config, Runner, scheduler::RandomScheduler};
use zonda_pages::{PageId, PageStore};
use zonda_rt::{JoinHandle, spawn};

use crate::{
    Design, Durability, Engine, MiniPages, TreeOptions,
    pool::{
        class::class_for,
        ring::{self, Ring, SegmentSize},
    },
    recover,
    scan::{Range, Scan, owned_pair},
    testing::{MemOptions, MemStore, Survives},
    tree::Tree,
};

const RING_SCHEDULES: usize = 300;
const TREE_SCHEDULES: usize = 150;
const STACK_BYTES: usize = 256 << 10;

const KEYS: u8 = 6;
const ROUNDS: u8 = 3;

fn explore(scene: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(schedules), config).run(scene);
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Everything that is read is kept, and every mini-page that is used half a ring behind the tail moves.
fn options() -> TreeOptions {
    let mini_pages =
        MiniPages { copy_on_access_percent: 90, promotion_percent: 100, scan_promotion_percent: 100, bytes_max: 256 };
    TreeOptions { design: Design::BfTree, buffer_bytes: 16 << 10, mini_pages, ..TreeOptions::default() }
}

fn create() -> (Arc<MemStore>, Arc<Tree>) {
    let store = MemStore::new(MemOptions::default());
    let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options()).expect("an empty store");
    (store, Arc::new(tree))
}

/// Long enough that four fill a mini-page.
fn value(round: u8) -> [u8; 60] {
    [round; 60]
}

fn round_of(tree: &Tree, key: [u8; 2]) -> u8 {
    let mut read = Vec::new();
    let found = tree.get_into(&key, &mut read).expect("readable");
    assert!(!found || read.len() == 60 && read.iter().all(|byte| *byte == read[0]), "a torn value");
    if found { read[0] } else { 0 }
}

/// Puts, rewrites and deletes the keys of one writer; each change is read back, as nobody else writes these keys.
fn write(tree: &Tree, writer: u8) {
    for round in 1..=ROUNDS {
        for at in 0..KEYS {
            let key = [at, writer];
            if round == 2 && at % 2 == 0 {
                tree.delete(&key, Durability::Buffered).expect("room");
                assert_eq!(round_of(tree, key), 0, "a deleted key is there");
            } else {
                tree.put(&key, &value(round), Durability::Buffered).expect("room");
                assert_eq!(round_of(tree, key), round, "a put is not there");
            }
        }
    }
}

/// Reads keys that are there from the beginning and never change, keys that are never there, and the writers' keys.
fn read(tree: &Tree) {
    let mut newest: BTreeMap<[u8; 2], u8> = BTreeMap::new();
    for at in (0..KEYS).chain(0..KEYS) {
        assert_eq!(round_of(tree, [at, 9]), 77, "a record that nobody wrote changed");
        assert_eq!(round_of(tree, [at, 8]), 0, "a key that nobody wrote is there");
        let now = round_of(tree, [at, 0]);
        let before = newest.insert([at, 0], now).unwrap_or(0);
        assert!(now == 0 || now >= before, "key {at} went back from {before} to {now}");
    }
}

fn evict(tree: &Tree) {
    for _ in 0..8 {
        tree.evict().expect("no failure of the device");
    }
}

fn scan(tree: &Tree) {
    for _ in 0..2 {
        let snapshot = tree.open_snapshot();
        let mut scan = Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
        let pairs: Vec<_> = std::iter::from_fn(|| scan.next(tree).expect("readable").map(owned_pair)).collect();
        assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0), "out of order");
        assert_eq!(pairs.iter().filter(|(key, _)| key[1] == 9).count(), usize::from(KEYS), "a record is gone");
        tree.snapshots.close(snapshot);
    }
}

fn scene(others: &'static [fn(&Tree)]) {
    let (store, tree) = create();
    for at in 0..KEYS {
        tree.put(&[at, 9], &value(77), Durability::Buffered).expect("room");
    }
    tree.flush_leaf(PageId(0)).expect("room");
    let works = [(|tree: &Tree| write(tree, 0)) as fn(&Tree), read].into_iter().chain(others.iter().copied());
    join_all(works.enumerate().map(|(number, work)| {
        let tree = Arc::clone(&tree);
        spawn(format!("thread {number}"), move || work(&tree))
    }));
    for at in 0..KEYS {
        assert_eq!(round_of(&tree, [at, 0]), ROUNDS);
        assert_eq!(round_of(&tree, [at, 9]), 77);
    }
    tree.sync_to(tree.log.next_sequence() - 1).expect("no failure of the device");
    drop(tree);
    let engine = Engine::open(store.reopen(Survives::Flushed), options(), &mut |_| ()).expect("a whole store");
    let mut found = Vec::new();
    for at in 0..KEYS {
        assert!(engine.get_into(&[at, 0], &mut found).expect("readable") && found == value(ROUNDS));
    }
}

#[test]
fn mini_pages_are_evicted_beside_writers_and_promoting_readers() {
    explore(|| scene(&[evict]), TREE_SCHEDULES);
}

#[test]
fn mini_pages_become_mirrors_beside_writers() {
    explore(|| scene(&[scan, evict]), TREE_SCHEDULES);
}

#[test]
fn two_writers_share_mini_pages_with_a_checkpoint() {
    let others: &[fn(&Tree)] = &[|tree| write(tree, 1), |tree| tree.checkpoint().expect("no failure of the device")];
    explore(move || scene(others), TREE_SCHEDULES);
}

/// Memory of a ring that a thread of a scene has.
struct Taken(NonNull<u8>);

// SAFETY: the memory is its owner's alone.
unsafe impl Send for Taken {}

#[test]
fn takers_and_evictors_share_a_ring() {
    explore(|| take_and_evict(&Arc::new(Ring::new(32 << 10, 10, 4 << 10)), class_for(2048)), RING_SCHEDULES);
}

/// Eight segments of 128 KiB, which what is taken fills.
#[test]
fn takers_and_evictors_share_a_ring_of_mirrors_of_32_kib() {
    explore(|| take_and_evict(&Arc::new(Ring::new(1 << 20, 10, 32 << 10)), class_for(36 << 10)), RING_SCHEDULES);
}

fn take_and_evict(ring: &Arc<Ring>, class: usize) {
    let segment: SegmentSize = ring.segment_size();
    let taker = |name: u32| {
        let ring = Arc::clone(ring);
        spawn(format!("taker {name}"), move || {
            let mut taken = Vec::new();
            for turn in 0..8 {
                let at = if turn % 3 == 0 {
                    Some(ring.take(class, PageId(name)))
                } else {
                    ring.try_take(class, PageId(name))
                };
                taken.extend(at.map(Taken));
                if turn % 2 == 1 && !taken.is_empty() {
                    let Taken(at) = taken.remove(0);
                    // SAFETY: taken from the ring, and used by nobody else.
                    unsafe { ring::give(at, segment) }
                }
            }
            // SAFETY: as above.
            taken.into_iter().for_each(|Taken(at)| unsafe { ring::give(at, segment) });
        })
    };
    let evictor = |name: u32| {
        let ring = Arc::clone(ring);
        // Gives up every time: what it claimed must not be lost.
        spawn(format!("evictor {name}"), move || (0..6).for_each(|_| drop(ring.claim())))
    };
    join_all([taker(1), taker(2), evictor(1), evictor(2)]);
    assert!(ring.claim().is_none(), "everything was given back");
    assert!(!ring.is_over());
}
