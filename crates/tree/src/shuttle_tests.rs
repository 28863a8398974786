//! Small scenes under many schedules: latches and the buffers behind them, index edits beside readers, a tiny engine.
//!
//! shuttle owns every lock, atomic and thread here (`cargo xtask shuttle`). A failing test prints its schedule;
//! `shuttle::replay` takes it.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};
use zonda_pages::{PageId, PageStore};
use zonda_rt::{Epoch, JoinHandle, Spin, atomic::Ordering, spawn, spin_wait};

use crate::{
    Design, Durability, Engine, FilterEviction, TreeError, TreeOptions,
    buffer::Buffer,
    index::{Index, LeafEntry, Side},
    leaf_table::{Exclusive, LeafTable, Location},
    pool::{arena::Owner, memory::Memory},
    record::{Kind, Record},
    recover,
    scan::owned_pair,
    testing::{MemOptions, MemStore, Survives},
};

/// Schedules of a scene of latches or index edits.
const SCHEDULES: usize = 400;
/// Schedules of a scene with a whole engine, which takes some milliseconds to make.
const ENGINE_SCHEDULES: usize = 60;

/// Bytes of the stack of a shuttle thread: recovery wants more than the 32 KiB that it gets otherwise.
const STACK_BYTES: usize = 256 << 10;

/// Runs a scene under random schedules.
fn explore(scene: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(schedules), config).run(scene);
}

/// Runs a scene under schedules in which one thread goes far before another goes on.
fn explore_rarely_switching(scene: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(PctScheduler::new(2, schedules), config).run(scene);
}

fn inline<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record { key, kind: Kind::Inline, value }
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Puts `number` under two keys of a latched leaf, growing its buffer as the tree does.
fn put_both(arena: &Memory, leaf: &mut Exclusive<'_>, number: u32) {
    let owner = Owner::of(leaf.id());
    for key in [b"left".as_slice(), b"right"] {
        let value = vec![7; 8 * number as usize + 1];
        let record = inline(key, &value);
        if leaf.location().buffer().is_none() {
            drop(leaf.replace(Location::Buffered(Buffer::new(arena, owner, None, b"", 0))));
        }
        let buffer = leaf.buffer_mut().expect("just placed");
        if !buffer.upsert(&record) {
            let grown = buffer.grown(arena, owner, &record);
            drop(leaf.replace(Location::Buffered(grown)));
        }
    }
}

fn value_bytes(location: &Location, key: &[u8]) -> usize {
    location.buffer().and_then(|buffer| buffer.find(key)).map_or(0, |record| record.value.len())
}

#[test]
fn a_latch_excludes_and_hands_its_buffer_over() {
    let scene = || {
        let table = Arc::new(LeafTable::new());
        let arena = Arc::new(Memory::slabs(1 << 20));
        let id = table.allocate().expect("room");
        let writer = |name: u32| {
            let (table, arena) = (Arc::clone(&table), Arc::clone(&arena));
            spawn(format!("writer {name}"), move || {
                for _ in 0..3 {
                    let mut leaf = table.lock(id);
                    let before = value_bytes(leaf.location(), b"left");
                    put_both(&arena, &mut leaf, u32::try_from(before / 8).expect("small") + 1);
                }
            })
        };
        let reader = {
            let table = Arc::clone(&table);
            spawn("reader", move || {
                for _ in 0..4 {
                    let leaf = table.lock_shared(id);
                    let both = [b"left".as_slice(), b"right"].map(|key| value_bytes(leaf.location(), key));
                    assert_eq!(both[0], both[1], "a reader saw half a change");
                }
            })
        };
        join_all([writer(1), writer(2), reader]);
        assert_eq!(value_bytes(table.lock_shared(id).location(), b"right"), 8 * 6 + 1, "a change was lost");
    };
    explore(scene, SCHEDULES);
}

#[test]
fn whoever_tries_never_waits_and_whoever_waits_gets_the_latch() {
    let scene = || {
        let table = Arc::new(LeafTable::new());
        let id = table.allocate().expect("room");
        let trier = {
            let table = Arc::clone(&table);
            spawn("trier", move || {
                let held = table.lock_shared(id);
                assert!(table.try_lock(id).is_none(), "exclusive beside shared");
                drop(held);
                drop(table.try_lock(id));
            })
        };
        let waiters = ["one", "two"].map(|name| {
            let table = Arc::clone(&table);
            spawn(name, move || {
                let held = table.lock(id);
                assert!(table.try_lock_shared(id).is_none(), "shared beside exclusive");
                drop(held);
                drop(table.lock_shared(id));
            })
        });
        join_all(waiters.into_iter().chain([trier]));
        assert!(table.try_lock(id).is_some(), "a latch was left behind");
    };
    explore(scene, SCHEDULES);
}

/// An index over leaves with their latches.
struct Leaves {
    index: Index,
    table: LeafTable,
    epoch: Epoch,
}

impl Leaves {
    /// `count` leaves; leaf `i` begins at key `[i]`, the first one at the empty key.
    fn new(count: u8) -> Arc<Self> {
        Self::under_nodes(count, usize::from(count))
    }

    /// The same under nodes of so many children.
    fn under_nodes(count: u8, children: usize) -> Arc<Self> {
        let table = LeafTable::new();
        let low = |at: u8| if at == 0 { Vec::new() } else { vec![at] };
        let entries: Vec<LeafEntry> = (0..count).map(|at| (low(at), table.allocate().expect("room"))).collect();
        Arc::new(Self { index: Index::of_nodes(&entries, children, 256), table, epoch: Epoch::new() })
    }

    /// Takes the leaf of `key` out, unless somebody is in the way.
    fn remove(&self, key: &[u8]) -> bool {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let (beside, side) = self.index.beside(&path, &guard).expect("another leaf");
        let (left, right) = if side == Side::Left { (&beside, &path) } else { (&path, &beside) };
        let Some(_left) = self.table.try_lock(left.leaf()) else { return false };
        let Some(_right) = self.table.try_lock(right.leaf()) else { return false };
        if !left.is_current() || !right.is_current() {
            return false;
        }
        if !std::ptr::eq(left.parent().0, right.parent().0) {
            return self.index.unite(&path, &beside, &self.epoch, &mut || ());
        }
        let widened = [(left.low(), beside.leaf())];
        self.index.edit(&left.low(), &[left.leaf(), right.leaf()], &widened, &self.epoch)
    }

    /// Calls `change` with the latched leaf of `key` and its range.
    fn with_leaf<T>(&self, key: &[u8], change: impl FnOnce(Exclusive<'_>, Vec<u8>) -> T) -> T {
        let mut spin = Spin::new();
        loop {
            let guard = self.epoch.pin();
            let path = self.index.find(key, &guard);
            let leaf = self.table.lock(path.leaf());
            if path.is_current() {
                return change(leaf, path.low());
            }
            drop(leaf);
            spin_wait(&mut spin);
        }
    }

    /// Splits the leaf of `key` there.
    fn split(&self, key: &[u8]) {
        self.with_leaf(key, |leaf, low| {
            let fresh = self.table.allocate().expect("room");
            let entries = [(low.clone(), leaf.id()), (key.to_vec(), fresh)];
            assert!(self.index.edit(&low, &[leaf.id()], &entries, &self.epoch), "a latched leaf keeps its place");
        });
    }

    /// Checks what the index says of `key`, as a reader that latches the leaf would.
    fn look(&self, key: &[u8]) -> PageId {
        let mut spin = Spin::new();
        loop {
            let guard = self.epoch.pin();
            let path = self.index.find(key, &guard);
            let leaf = self.table.lock_shared(path.leaf());
            assert!(path.low().as_slice() <= key, "{key:?} is below its leaf");
            assert!(path.high().is_none_or(|high| key < high.as_slice()), "{key:?} is above its leaf");
            if path.is_current() {
                let now = self.index.find(key, &guard).leaf();
                assert_eq!(now, leaf.id(), "a latched leaf whose parent is current has {key:?}");
                return leaf.id();
            }
            drop(leaf);
            spin_wait(&mut spin);
        }
    }
}

#[test]
fn readers_find_their_leaf_while_neighbours_split() {
    let scene = || {
        let leaves = Leaves::new(3);
        let splitter = |key: u8| {
            let leaves = Arc::clone(&leaves);
            spawn(format!("splitter {key}"), move || (8..10).for_each(|low| leaves.split(&[key, low])))
        };
        let reader = {
            let leaves = Arc::clone(&leaves);
            spawn("reader", move || {
                for key in [&[1_u8, 9][..], &[2, 8, 1], &[1, 8], &[0]] {
                    leaves.look(key);
                }
            })
        };
        join_all([splitter(1), splitter(2), reader]);
        let found: Vec<PageId> =
            [&[0_u8][..], &[1], &[1, 8], &[1, 9], &[2], &[2, 8], &[2, 9]].map(|key| leaves.look(key)).into();
        let different: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!(different.len(), found.len(), "a split was lost: {found:?}");
    };
    explore(scene, SCHEDULES);
}

/// Of eight leaves under three levels of nodes the upper half is one leaf with its nodes; it goes while its neighbour splits.
#[test]
fn readers_find_their_leaf_while_nodes_go_and_neighbours_split() {
    let scene = || {
        let leaves = Leaves::under_nodes(8, 2);
        assert!([5, 6, 7].iter().all(|key| leaves.remove(&[*key])), "nobody is in the way");
        let others = [&[3_u8, 9][..], &[3, 8], &[1, 9]].map(|key| {
            let leaves = Arc::clone(&leaves);
            spawn(format!("splitter {key:?}"), move || leaves.split(key))
        });
        let reader = {
            let leaves = Arc::clone(&leaves);
            spawn("reader", move || {
                for key in [&[3_u8, 9][..], &[4], &[3], &[9]] {
                    leaves.look(key);
                }
            })
        };
        let remover = {
            let leaves = Arc::clone(&leaves);
            spawn("remover", move || {
                let before = leaves.look(&[9]);
                let is_gone = leaves.remove(&[9]);
                assert_eq!(leaves.look(&[9]) != before, is_gone);
                is_gone
            })
        };
        join_all(others.into_iter().chain([reader]));
        let is_gone = remover.join().expect("no panic");
        // Whichever came first, it is the leaf to the left that has the range.
        let mut found: Vec<PageId> =
            [&[0_u8][..], &[1], &[1, 9], &[2], &[3], &[3, 8], &[3, 9], &[4]].map(|key| leaves.look(key)).into();
        assert_eq!(leaves.look(&[4]), leaves.look(&[9]));
        found.dedup();
        assert_eq!(found.len(), if is_gone { 7 } else { 8 }, "a split was lost: {found:?}");
        if !is_gone {
            assert!(leaves.remove(&[9]), "nobody is in the way");
            assert_eq!(leaves.look(&[9]), leaves.look(&[3, 9]));
        }
    };
    explore(scene, SCHEDULES);
}

/// Eight leaves under three levels of nodes with two children each come under one node, while two of them split and two go.
#[test]
fn readers_find_their_leaf_while_nodes_are_gathered_and_leaves_split() {
    let scene = || {
        let leaves = Leaves::under_nodes(8, 2);
        let splitters = [&[3_u8, 9][..], &[6, 9]].map(|key| {
            let leaves = Arc::clone(&leaves);
            spawn(format!("splitter {key:?}"), move || leaves.split(key))
        });
        let gatherers = [0_u8, 7].map(|key| {
            let leaves = Arc::clone(&leaves);
            spawn(format!("gatherer {key}"), move || {
                leaves.remove(&[key]);
                leaves.index.gather(&[key], &leaves.epoch);
            })
        });
        let reader = {
            let leaves = Arc::clone(&leaves);
            spawn("reader", move || {
                for key in [&[3_u8, 9][..], &[4], &[7], &[0]] {
                    leaves.look(key);
                }
            })
        };
        join_all(splitters.into_iter().chain(gatherers).chain([reader]));
        let keys = [&[1_u8][..], &[2], &[3], &[3, 9], &[4], &[5], &[6], &[6, 9]];
        let found: std::collections::HashSet<_> = keys.iter().map(|key| leaves.look(key)).collect();
        assert_eq!(found.len(), keys.len(), "a split was lost: {found:?}");
    };
    explore(scene, SCHEDULES);
}

/// Who came by a node that goes, and waits for a leaf that splits meanwhile under the one that comes, finds that it is not its leaf any
/// more.
#[test]
fn a_leaf_that_splits_under_a_new_node_is_not_taken_by_the_old_one() {
    let scene = || {
        let leaves = Leaves::under_nodes(4, 2);
        let threads: [Box<dyn FnOnce(&Leaves) + Send>; 3] = [
            Box::new(|leaves| _ = leaves.index.gather(&[0], &leaves.epoch)),
            Box::new(|leaves| leaves.split(&[1, 9])),
            Box::new(|leaves| _ = leaves.look(&[1, 9])),
        ];
        join_all(threads.map(|run| {
            let leaves = Arc::clone(&leaves);
            spawn("somebody", move || run(&leaves))
        }));
    };
    explore(scene, 20 * SCHEDULES);
}

#[test]
fn an_edit_above_waits_for_its_turn() {
    let scene = || {
        // Two levels: both full lowest nodes split, so both edits reach the root.
        let table = LeafTable::new();
        let low = |at: u16| if at == 0 { Vec::new() } else { at.to_be_bytes().to_vec() };
        let entries: Vec<LeafEntry> = (0..460).map(|at| (low(at), table.allocate().expect("room"))).collect();
        let leaves = Arc::new(Leaves { index: Index::build(&entries), table, epoch: Epoch::new() });
        let splitter = |at: u16| {
            let leaves = Arc::clone(&leaves);
            spawn(format!("splitter {at}"), move || {
                (0..30_u8).for_each(|tail| leaves.split(&[&at.to_be_bytes()[..], &[tail]].concat()));
            })
        };
        join_all([splitter(100), splitter(300)]);
        for at in [100_u16, 300] {
            let ids: std::collections::HashSet<_> =
                (0..30_u8).map(|tail| leaves.look(&[&at.to_be_bytes()[..], &[tail]].concat())).collect();
            assert_eq!(ids.len(), 30, "a split below {at} was lost");
        }
    };
    explore(scene, 40);
}

fn options(design: Design) -> TreeOptions {
    TreeOptions { design, buffer_bytes: 16 << 10, log_instances: 2, ..TreeOptions::default() }
}

/// A filter of a few nodes, so that a round of writes evicts several times.
fn filtered(filter_eviction: FilterEviction) -> TreeOptions {
    TreeOptions { filter_bytes: 4 << 10, filter_eviction, ..options(Design::Adb) }
}

fn create(options: TreeOptions) -> (Arc<MemStore>, Engine) {
    let store = MemStore::new(MemOptions::default());
    let engine = Engine::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
    (store, engine)
}

/// Values are long, so that a handful fills a buffer and two handfuls split a leaf.
fn value(number: u8) -> Vec<u8> {
    let mut value = vec![number; 700];
    value[0] = number;
    value
}

fn key(writer: u8, at: u8) -> [u8; 2] {
    [at, writer]
}

/// The number in a value that must be whole.
fn number_of(value: &[u8]) -> u8 {
    assert!(value.len() == 700 && value.iter().all(|byte| *byte == value[0]), "a torn value");
    value[0]
}

const KEYS: u8 = 5;
const ROUNDS: u8 = 2;

/// Writes every key of `writer` in rounds; each put is read back, as nobody else writes these keys.
fn write_rounds(engine: &Engine, writer: u8) {
    for round in 1..=ROUNDS {
        for at in 0..KEYS {
            engine.put(&key(writer, at), &value(round), Durability::Buffered).expect("room");
            let mut read = Vec::new();
            assert!(engine.get_into(&key(writer, at), &mut read).expect("readable"), "a put is not there");
            assert_eq!(number_of(&read), round, "a put was lost");
        }
    }
}

/// Reads keys of all writers: what a key maps to never goes back.
fn read_rounds(engine: &Engine) {
    let mut newest: BTreeMap<[u8; 2], u8> = BTreeMap::new();
    let mut read = Vec::new();
    for at in (0..KEYS).chain(0..KEYS) {
        for writer in 0..2 {
            let found = engine.get_into(&key(writer, at), &mut read).expect("readable");
            let number = if found { number_of(&read) } else { 0 };
            let before = newest.insert(key(writer, at), number).unwrap_or(0);
            assert!(number >= before, "key {:?} went back from {before} to {number}", key(writer, at));
        }
    }
}

fn assert_final(engine: &Engine) {
    let mut read = Vec::new();
    for (writer, at) in (0..2).flat_map(|writer| (0..KEYS).map(move |at| (writer, at))) {
        assert!(engine.get_into(&key(writer, at), &mut read).expect("readable"), "key {at} of {writer} is gone");
        assert_eq!(number_of(&read), ROUNDS);
    }
    let mut findings = Vec::new();
    engine.check(&mut |_, _| (), &mut |finding| findings.push(finding)).expect("open");
    assert!(findings.is_empty(), "{findings:?}");
}

/// Pages that nobody refers to would never be given back, released pages of leaves would be reset under them (I3).
fn assert_every_page_has_a_leaf(store: &MemStore, engine: &Engine) {
    engine.compact(&mut |_, _| ()).expect("no failure of the device");
    assert_eq!(store.live_pages().len() as u64, engine.stats().leaves, "I3 pages and leaves differ");
}

/// Two writers and a reader beside `disturb`; then everything is there, and after reopening too.
fn engine_scene(options: &TreeOptions, disturb: fn(&MemStore, &Engine) -> Result<(), TreeError>) {
    let (store, engine) = create(options.clone());
    let on_engine = |name: &str, work: fn(&Engine)| {
        let engine = engine.clone();
        spawn(name.to_string(), move || work(&engine))
    };
    let disturber = {
        let (store, engine) = (Arc::clone(&store), engine.clone());
        spawn("disturber", move || disturb(&store, &engine).expect("no failure of the device"))
    };
    join_all([
        on_engine("writer 0", |engine| write_rounds(engine, 0)),
        on_engine("writer 1", |engine| write_rounds(engine, 1)),
        on_engine("reader", read_rounds),
        disturber,
    ]);
    assert_final(&engine);
    assert_every_page_has_a_leaf(&store, &engine);
    engine.sync().expect("no failure of the device");
    let store = store.reopen(Survives::Flushed);
    let again = Engine::open(store, options.clone(), &mut |_| ()).expect("a whole store");
    assert_final(&again);
}

#[test]
fn what_a_writer_was_told_is_written_is_there_after_a_close_beside_it() {
    let scene = || {
        let (store, engine) = create(options(Design::Adb));
        let writer = {
            let engine = engine.clone();
            spawn("writer", move || match engine.put(b"key", &value(1), Durability::Buffered) {
                Ok(()) => true,
                Err(TreeError::Closed) => false,
                Err(error) => panic!("{error}"),
            })
        };
        engine.close().expect("no failure of the device");
        let is_written = writer.join().expect("no panic");
        let store = store.reopen(Survives::Flushed);
        let again = Engine::open(store, options(Design::Adb), &mut |_| ()).expect("a whole store");
        assert_eq!(again.get_into(b"key", &mut Vec::new()).expect("readable"), is_written);
    };
    explore_rarely_switching(scene, SCHEDULES);
}

#[test]
fn writers_and_readers_beside_a_checkpoint() {
    for design in [Design::Adb, Design::BTree] {
        let scene = move || engine_scene(&options(design), |_, engine| engine.checkpoint());
        explore(scene, ENGINE_SCHEDULES);
    }
}

#[test]
fn writers_and_readers_beside_a_compaction() {
    let scene = || engine_scene(&options(Design::Adb), |_, engine| engine.compact(&mut |_, _| ()));
    explore(scene, ENGINE_SCHEDULES);
}

#[test]
fn writers_and_readers_before_a_filter_beside_a_checkpoint_and_a_compaction() {
    for eviction in [FilterEviction::Nodes, FilterEviction::Pairs] {
        let scene = move || {
            engine_scene(&filtered(eviction), |_, engine| {
                engine.checkpoint()?;
                engine.compact(&mut |_, _| ())?;
                engine.checkpoint()
            });
        };
        explore(scene, ENGINE_SCHEDULES);
    }
}

/// What a snapshot sees does not change while pairs move down, from either end.
#[test]
fn snapshots_stand_still_before_a_filter() {
    let scene = || {
        engine_scene(&filtered(FilterEviction::Pairs), |_, engine| {
            for _ in 0..2 {
                let snapshot = engine.snapshot()?;
                let mut cursor = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded)?;
                let seen: Vec<_> = std::iter::from_fn(|| cursor.next().expect("readable").map(owned_pair)).collect();
                let mut cursor = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded)?;
                let mut again: Vec<_> =
                    std::iter::from_fn(|| cursor.prev().expect("readable").map(owned_pair)).collect();
                again.reverse();
                assert!(seen == again, "the snapshot changed");
            }
            Ok(())
        });
    };
    explore(scene, ENGINE_SCHEDULES);
}

#[test]
fn writers_and_readers_beside_a_failing_zone() {
    let scene = || {
        engine_scene(&options(Design::Adb), |store, engine| {
            for _ in 0..3 {
                store.fail_zone();
                engine.checkpoint()?;
            }
            Ok(())
        });
    };
    explore(scene, ENGINE_SCHEDULES);
}

/// A new leaf's page may have to be placed again before the leaf is linked: neither the page nor the address is lost.
#[test]
fn a_leaf_splits_while_zones_fail() {
    let scene = || {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options(Design::Adb));
        let tree = Arc::new(tree.expect("an empty store"));
        // Four fit a buffer, eight split the leaf.
        let keys = 0..8_u8;
        keys.clone().for_each(|at| {
            tree.put(&[at], &value(1), Durability::Buffered).expect("room");
            if at == 3 {
                tree.flush_leaf(PageId(0)).expect("room");
            }
        });
        store.linger(30);
        let splitter = {
            let tree = Arc::clone(&tree);
            spawn("splitter", move || {
                tree.flush_leaf(PageId(0)).expect("room");
            })
        };
        // Two, so that a zone can fail between the writes of the split's pages.
        let disturber = |name: &str| {
            let (store, tree) = (Arc::clone(&store), Arc::clone(&tree));
            spawn(name, move || {
                for _ in 0..3 {
                    store.fail_zone();
                    tree.pump().expect("no failure of the device");
                }
            })
        };
        join_all([splitter, disturber("one"), disturber("two")]);
        tree.flush_meta().expect("no failure of the device");
        let leaves = u64::from(tree.leaves.load(Ordering::SeqCst));
        assert_eq!(leaves, 2, "the scene is a split");
        assert_eq!(store.live_pages().len() as u64, leaves, "I3 pages and leaves differ");
        let store = store.reopen(Survives::Flushed);
        let engine = Engine::open(store, options(Design::Adb), &mut |_| ()).expect("a whole store");
        let mut read = Vec::new();
        keys.for_each(|at| assert!(engine.get_into(&[at], &mut read).expect("readable"), "key {at} is gone"));
    };
    explore(scene, SCHEDULES);
}
