//! Mini-pages and their ring under many schedules: writers, readers that promote, scans that mirror, evictions, merges and turns of the
//! ring beside each other.

use std::{
    collections::BTreeMap,
    ops::{Bound, Deref, RangeInclusive},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use shuttle::{Config, Runner, scheduler::RandomScheduler};
use zonda_pages::{PageId, PageStore};
use zonda_rt::{JoinHandle, spawn};

use crate::{
    Design, Durability, Engine, Eviction, MiniPages, TreeOptions,
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

const WRITER_AND_CHECKPOINT: &[fn(&Stage)] =
    &[|stage| write(stage, 1), |stage| stage.checkpoint().expect("no failure of the device")];

fn explore(scene: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(schedules), config).run(scene);
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// What the trees of a scene are like.
#[derive(Clone, Copy)]
struct Shape {
    eviction: Eviction,
    value_bytes: usize,
    mini_page_bytes_max: u32,
    leaves_split: bool,
}

/// Four records fill a mini-page, and all of them one leaf.
const ONE_LEAF: Shape =
    Shape { eviction: Eviction::Fullest, value_bytes: 60, mini_page_bytes_max: 256, leaves_split: false };

/// Three records fill a mini-page, and six a leaf: leaves split while mini-pages are read, evicted and merged.
const MANY_LEAVES: Shape = Shape { value_bytes: 600, mini_page_bytes_max: 2048, leaves_split: true, ..ONE_LEAF };

/// The same, but each mini-page goes as it comes to the head, and who writes to one that is due merges it.
const QUEUE: Shape = Shape { eviction: Eviction::Oldest, ..MANY_LEAVES };

impl Shape {
    /// Everything that is read is kept, and every mini-page that is used half a ring behind the tail moves.
    fn options(self) -> TreeOptions {
        let mini_pages = MiniPages {
            copy_on_access_percent: 90,
            promotion_percent: 100,
            scan_promotion_percent: 100,
            bytes_max: self.mini_page_bytes_max,
            turns: true,
        };
        let eviction = self.eviction;
        TreeOptions { design: Design::BfTree, eviction, buffer_bytes: 16 << 10, mini_pages, ..TreeOptions::default() }
    }

    fn value(self, round: u8) -> Vec<u8> {
        vec![round; self.value_bytes]
    }
}

/// A tree on which a scene is played.
struct Stage {
    tree: Tree,
    shape: Shape,
}

impl Deref for Stage {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Stage {
    fn new(shape: Shape) -> (Arc<MemStore>, Arc<Self>) {
        let store = MemStore::new(MemOptions::default());
        let pages = Arc::clone(&store) as Arc<dyn PageStore>;
        let tree = recover::create(pages, shape.options()).expect("an empty store");
        (store, Arc::new(Self { tree, shape }))
    }

    fn round_of(&self, key: [u8; 2]) -> u8 {
        let mut read = Vec::new();
        let found = self.get_into(&key, &mut read).expect("readable");
        assert!(!found || read == self.shape.value(read[0]), "a torn value");
        if found { read[0] } else { 0 }
    }
}

/// Puts, rewrites and deletes the keys of one writer; each change is read back, as nobody else writes these keys.
fn write(stage: &Stage, writer: u8) {
    for round in 1..=ROUNDS {
        for at in 0..KEYS {
            let key = [at, writer];
            if round == 2 && at % 2 == 0 {
                stage.delete(&key, Durability::Buffered).expect("room");
                assert_eq!(stage.round_of(key), 0, "a deleted key is there");
            } else {
                stage.put(&key, &stage.shape.value(round), Durability::Buffered).expect("room");
                assert_eq!(stage.round_of(key), round, "a put is not there");
            }
        }
    }
}

/// Reads keys that are there from the beginning and never change, keys that are never there, and the writers' keys.
fn read(stage: &Stage) {
    let mut newest: BTreeMap<[u8; 2], u8> = BTreeMap::new();
    for at in (0..KEYS).chain(0..KEYS) {
        assert_eq!(stage.round_of([at, 9]), 77, "a record that nobody wrote changed");
        assert_eq!(stage.round_of([at, 8]), 0, "a key that nobody wrote is there");
        let now = stage.round_of([at, 0]);
        let before = newest.insert([at, 0], now).unwrap_or(0);
        assert!(now == 0 || now >= before, "key {at} went back from {before} to {now}");
    }
}

fn evict(tree: &Stage) {
    for _ in 0..8 {
        tree.evict().expect("no failure of the device");
    }
}

fn scan(tree: &Stage) {
    for _ in 0..2 {
        let snapshot = tree.open_snapshot();
        let mut scan = Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
        let pairs: Vec<_> = std::iter::from_fn(|| scan.next(tree).expect("readable").map(owned_pair)).collect();
        assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0), "out of order");
        assert_eq!(pairs.iter().filter(|(key, _)| key[1] == 9).count(), usize::from(KEYS), "a record is gone");
        tree.snapshots.close(snapshot);
    }
}

fn play(shape: Shape, others: &'static [fn(&Stage)]) {
    explore(move || scene(shape, others), TREE_SCHEDULES);
}

fn scene(shape: Shape, others: &[fn(&Stage)]) {
    let (store, stage) = Stage::new(shape);
    for at in 0..KEYS {
        stage.put(&[at, 9], &shape.value(77), Durability::Buffered).expect("room");
    }
    stage.flush_leaf(PageId(0)).expect("room");
    let works = [(|stage: &Stage| write(stage, 0)) as fn(&Stage), read].into_iter().chain(others.iter().copied());
    join_all(works.enumerate().map(|(number, work)| {
        let stage = Arc::clone(&stage);
        spawn(format!("thread {number}"), move || work(&stage))
    }));
    for at in 0..KEYS {
        assert_eq!(stage.round_of([at, 0]), ROUNDS);
        assert_eq!(stage.round_of([at, 9]), 77);
    }
    stage.sync_to(stage.log.next_sequence() - 1).expect("no failure of the device");
    assert_eq!(stage.stats().splits > 0, shape.leaves_split);
    drop(stage);
    let engine = Engine::open(store.reopen(Survives::Flushed), shape.options(), &mut |_| ()).expect("a whole store");
    let mut found = Vec::new();
    for at in 0..KEYS {
        assert!(engine.get_into(&[at, 0], &mut found).expect("readable") && found == shape.value(ROUNDS));
    }
}

#[test]
fn mini_pages_are_evicted_beside_writers_and_promoting_readers() {
    play(ONE_LEAF, &[evict]);
}

#[test]
fn mini_pages_become_mirrors_beside_writers() {
    play(ONE_LEAF, &[scan, evict]);
}

#[test]
fn two_writers_share_mini_pages_with_a_checkpoint() {
    play(ONE_LEAF, WRITER_AND_CHECKPOINT);
}

#[test]
fn the_oldest_mini_pages_go_first_beside_writers_and_promoting_readers() {
    play(QUEUE, &[evict]);
}

#[test]
fn the_oldest_mini_pages_go_first_beside_scans_and_evictors() {
    play(QUEUE, &[scan, evict]);
}

#[test]
fn leaves_split_beside_evictions_and_promoting_readers() {
    play(MANY_LEAVES, &[evict]);
}

#[test]
fn leaves_split_beside_scans_and_evictions() {
    play(MANY_LEAVES, &[scan, evict]);
}

#[test]
fn leaves_split_under_two_writers_beside_a_checkpoint() {
    play(MANY_LEAVES, WRITER_AND_CHECKPOINT);
}

#[test]
fn leaves_split_under_two_writers_while_the_oldest_go_first() {
    play(QUEUE, WRITER_AND_CHECKPOINT);
}

/// Keys that are in pages when a turn begins: those of some thirty leaves.
const PAGED: u8 = 180;
/// Keys that are changed beside it; in the end the first is deleted.
const CHANGED: [u8; 4] = [1, 20, 39, 58];
const CHANGES: RangeInclusive<u8> = 3..=4;

/// What turns did in all schedules of a scene. Of the standard library, as these outlive a schedule.
#[derive(Default)]
struct Turns {
    merged: AtomicU64,
    /// Steps behind which what nobody used was in another place.
    moved: AtomicU64,
    /// Writes while a turn was under way.
    interrupted: AtomicU64,
}

/// A tree whose ring is to be turned.
struct Turning {
    stage: Stage,
    /// What keys hold at the beginning, those of [`PAGED`] in order.
    rounds: Vec<u8>,
    /// A leaf whose clean mini-page nobody uses, and where that is.
    still: (PageId, Option<usize>),
    turns: Arc<Turns>,
}

impl Deref for Turning {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Turning {
    /// The ring is full, of changes and of what was read by turns; a reader found no room, and reads have earned merges.
    fn new(shape: Shape, turns: &Arc<Turns>) -> (Arc<MemStore>, Self) {
        let (store, stage) = Stage::new(shape);
        let stage = Arc::into_inner(stage).expect("nobody else has it");
        let put = |at, round| stage.put(&[at, 9], &shape.value(round), Durability::Buffered).expect("room");
        (0..PAGED).for_each(|at| put(at, 1));
        stage.compact(&mut |_, _| ()).expect("room");
        let ring = stage.pool.ring().expect("a tree of mini-pages");
        while stage.evict_mini_page(ring).expect("room") {}
        let mut rounds = vec![1; PAGED.into()];
        // The head is so small that the ring is over behind it, too, and what is clean is met.
        stage.delete(&[0, 8], Durability::Buffered).expect("room");
        let mut leaves = vec![stage.leaf_of(&[0, 8]).0];
        // One record of each leaf, so that what is moved finds room at the tail.
        for at in 0..PAGED {
            let (leaf, _) = stage.leaf_of(&[at, 9]);
            if leaves.last() == Some(&leaf) || ring.is_over_for_readers() {
                continue;
            }
            leaves.push(leaf);
            if leaves.len() % 2 == 0 {
                assert_eq!(stage.round_of([at, 9]), 1);
            } else {
                rounds[usize::from(at)] = 2;
                put(at, 2);
            }
        }
        let turning = Self { still: (leaves[1], None), rounds, turns: Arc::clone(turns), stage };
        turning.begin();
        let still = (turning.still.0, turning.still_at());
        assert!(still.1.is_some(), "what was read is kept");
        (store, Self { still, ..turning })
    }

    fn begin(&self) {
        let ring = self.pool.ring().expect("a tree of mini-pages");
        assert!(ring.is_over_for_readers());
        ring.want_room();
        assert!(!self.sweep().expect("room"), "nothing is earned yet");
        assert!(self.is_under_way());
        // No room is made for these: a change is at the head.
        for _ in 0..80 {
            assert_eq!(self.round_of([PAGED, 8]), 0);
        }
    }

    fn is_under_way(&self) -> bool {
        self.tree.sweep.is_under_way(|| self.written())
    }

    fn still_at(&self) -> Option<usize> {
        let leaf = self.table.lock_shared(self.still.0);
        leaf.location().buffer().map(|buffer| buffer.memory_at().addr().get())
    }

    /// What a key of [`PAGED`] may hold while others change it.
    fn may_hold(&self, at: u8, round: u8) -> bool {
        let changes = CHANGED.contains(&at) && (CHANGES.contains(&round) || at == CHANGED[0] && round == 0);
        changes || round == self.rounds[usize::from(at)]
    }

    /// What it holds in the end, if somebody has changed it.
    fn holds_at_last(&self, at: u8, is_changed: bool) -> u8 {
        match is_changed && CHANGED.contains(&at) {
            true if at == CHANGED[0] => 0,
            true => *CHANGES.end(),
            false => self.rounds[usize::from(at)],
        }
    }
}

fn turn(stage: &Turning) {
    for _ in 0..12 {
        // As a reader who found none.
        stage.pool.ring().expect("a tree of mini-pages").want_room();
        while stage.sweep().expect("room") {
            let at = stage.still_at();
            stage.turns.moved.fetch_add((at.is_some() && at != stage.still.1).into(), Relaxed);
        }
    }
}

fn change(stage: &Turning) {
    for round in CHANGES {
        for at in CHANGED {
            stage.turns.interrupted.fetch_add(stage.is_under_way().into(), Relaxed);
            stage.put(&[at, 9], &stage.shape.value(round), Durability::Buffered).expect("room");
            assert_eq!(stage.round_of([at, 9]), round, "a put is not there");
        }
    }
    stage.delete(&[CHANGED[0], 9], Durability::Buffered).expect("room");
    assert_eq!(stage.round_of([CHANGED[0], 9]), 0, "a deleted key is there");
}

/// Reads what keys hold, and that others are not there, all but in the leaf that is left alone.
fn read_beside_turns(stage: &Turning) {
    let mut newest: BTreeMap<u8, u8> = BTreeMap::new();
    for at in (0..PAGED).filter(|at| stage.leaf_of(&[*at, 9]).0 != stage.still.0) {
        assert_eq!(stage.round_of([at, 8]), 0, "a key that nobody wrote is there");
        for at in [at, CHANGED[usize::from(at) % CHANGED.len()]] {
            let now = stage.round_of([at, 9]);
            let before = newest.insert(at, now).unwrap_or(1);
            assert!(stage.may_hold(at, now), "{at} holds {now}");
            assert!(now == 0 || now >= before && before > 0, "{at} went back from {before} to {now}");
        }
    }
}

fn scan_both_ways(stage: &Turning) {
    let snapshot = stage.open_snapshot();
    let all = || Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
    let (mut forwards, mut backwards) = (all(), all());
    let shown: Vec<_> = std::iter::from_fn(|| forwards.next(stage).expect("readable").map(owned_pair)).collect();
    let mut from_the_back: Vec<_> =
        std::iter::from_fn(|| backwards.prev(stage).expect("readable").map(owned_pair)).collect();
    from_the_back.reverse();
    assert!(shown == from_the_back, "a snapshot shows something else from the back");
    stage.tree.snapshots.close(snapshot);
    let of = |at: u8| shown.iter().find(|(key, _)| *key == [at, 9]).map_or(0, |(_, value)| value[0]);
    assert!((0..PAGED).all(|at| stage.may_hold(at, of(at))), "a record is gone or nobody wrote it");
    assert!(shown.iter().all(|(_, value)| *value == stage.shape.value(value[0])), "a torn value");
    assert!(shown.windows(2).all(|pair| pair[0].0 < pair[1].0), "out of order");
}

fn evict_beside_turns(stage: &Turning) {
    for _ in 0..4 {
        stage.evict().expect("no failure of the device");
    }
}

fn checkpoint_beside_turns(stage: &Turning) {
    stage.checkpoint().expect("no failure of the device");
}

/// Plays a turn beside two readers and `others`, a writer too if they are to meet `changes`; returns what turns did.
fn play_turns(shape: Shape, changes: bool, others: &'static [fn(&Turning)]) -> Arc<Turns> {
    let turns = Arc::<Turns>::default();
    let of_schedule = Arc::clone(&turns);
    explore(move || turn_beside((shape, changes), others, &of_schedule), TREE_SCHEDULES);
    assert!(turns.merged.load(Relaxed) > 0, "no turn merged anything");
    turns
}

fn turn_beside((shape, changes): (Shape, bool), others: &'static [fn(&Turning)], turns: &Arc<Turns>) {
    let (store, turning) = Turning::new(shape, turns);
    let turning = Arc::new(turning);
    let works = [turn as fn(&Turning), read_beside_turns, read_beside_turns].into_iter();
    let works = works.chain(changes.then_some(change as fn(&Turning))).chain(others.iter().copied());
    join_all(works.enumerate().map(|(number, work)| {
        let stage = Arc::clone(&turning);
        spawn(format!("thread {number}"), move || work(&stage))
    }));
    let at_last: Vec<u8> = (0..PAGED).map(|at| turning.holds_at_last(at, changes)).collect();
    assert!((0..PAGED).all(|at| turning.round_of([at, 9]) == at_last[usize::from(at)]), "a change is lost");
    turning.check(&mut |_, _| (), &mut |finding| panic!("{finding}")).expect("a whole store");
    turns.merged.fetch_add(turning.stats().mini_pages.merged_in_turns, Relaxed);
    turning.sync_to(turning.log.next_sequence() - 1).expect("no failure of the device");
    drop(turning);
    let engine = Engine::open(store.reopen(Survives::Flushed), shape.options(), &mut |_| ()).expect("a whole store");
    let mut found = Vec::new();
    for (at, round) in (0..PAGED).zip(at_last) {
        let is_there = engine.get_into(&[at, 9], &mut found).expect("readable");
        assert!(if is_there { found == shape.value(round) } else { round == 0 }, "{at} is lost with the power");
    }
}

#[test]
fn a_ring_is_turned_beside_promoting_readers() {
    let turns = play_turns(MANY_LEAVES, false, &[]);
    assert!(turns.moved.load(Relaxed) > 0, "no turn moved anything");
}

#[test]
fn a_ring_is_turned_beside_writers_and_evictions() {
    for shape in [MANY_LEAVES, QUEUE] {
        let turns = play_turns(shape, true, &[evict_beside_turns]);
        assert!(turns.interrupted.load(Relaxed) > 0, "nobody wrote while a turn was under way");
    }
}

#[test]
fn a_ring_is_turned_beside_scans_in_both_directions() {
    play_turns(MANY_LEAVES, true, &[scan_both_ways]);
}

#[test]
fn a_ring_is_turned_beside_writers_and_a_checkpoint() {
    play_turns(QUEUE, true, &[checkpoint_beside_turns]);
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
