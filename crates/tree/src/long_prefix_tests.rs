//! Keys that share hundreds of bytes, and others in their leaves that do not: what a buffer shares once it may have to give back to each of
//! its records.
#![cfg(not(feature = "shuttle"))]

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use zonda_pages::{PageId, PageStore};
use zonda_rt::Rng;

use crate::{
    BatchOp, Design, Durability, MiniPages, TreeOptions,
    buffer::{Buffer, Cached},
    filter::Filter,
    pool::{Pool, arena::Owner},
    record::{Kind, Record},
    recover,
    scan::{Range, Scan, owned_pair},
    testing::{MemOptions, MemStore, Survives},
    tree::{Tree, is_no_space},
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DESIGNS: [Design; 4] = [Design::Adb, Design::BTree, Design::Deltas, Design::BfTree];
/// What the keys share, beside which their leaf's range shares nothing.
const SHARED_BYTES: usize = 900;
/// They fit a page of 4 KiB, and with what they share 256 KiB no longer.
const KEYS: u32 = 350;

fn options(design: Design) -> TreeOptions {
    let mini_pages = MiniPages { promotion_percent: 100, scan_promotion_percent: 100, ..MiniPages::default() };
    TreeOptions { design, buffer_bytes: 1 << 20, delta_records_max: 4_000, mini_pages, ..TreeOptions::default() }
}

struct Life {
    store: Arc<MemStore>,
    tree: Tree,
    model: Model,
}

fn key(shared_bytes: usize, number: u32) -> Vec<u8> {
    [vec![b'k'; shared_bytes], number.to_be_bytes().to_vec()].concat()
}

impl Life {
    fn new(options: TreeOptions) -> Self {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
        Self { store, tree, model: Model::new() }
    }

    /// A tree of one leaf, whose page has all of the keys, and of whose page readers have had a look.
    fn with_mirror(options: TreeOptions) -> Self {
        let mut life = Self::new(options);
        (0..KEYS).for_each(|number| life.put(&key(SHARED_BYTES, number), &[1; 4]));
        (0..life.tree.table.len()).for_each(|leaf| _ = life.tree.flush_leaf(PageId(leaf)).expect("room"));
        assert_eq!(life.tree.stats().leaves, 1);
        life.check();
        life
    }

    /// The same with a filter, and with the buffer of the leaf dirty: only a merge makes room in it for a key outside of its prefix.
    fn behind_a_filter(design: Design) -> Self {
        let mut life = Self::new(TreeOptions { filter_bytes: 64 << 10, ..options(design) });
        (0..KEYS).for_each(|number| life.put(&key(SHARED_BYTES, number), &[1; 4]));
        life.tree.compact(&mut |_, _| {}).expect("room");
        life.check();
        (0..KEYS).for_each(|number| life.put(&key(SHARED_BYTES, number), &[3; 4]));
        life.tree.empty_filter().expect("room");
        assert_eq!(life.buffer_of(&key(SHARED_BYTES, 0)), Some((SHARED_BYTES + 2, KEYS as usize)), "{design:?}");
        life
    }

    fn filter(&self) -> &Filter {
        self.tree.filter.as_ref().expect("it was asked for")
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.tree.put(key, value, Durability::Buffered).expect("room");
        self.model.insert(key.to_vec(), value.to_vec());
    }

    fn delete(&mut self, key: &[u8]) {
        self.tree.delete(key, Durability::Buffered).expect("room");
        self.model.remove(key);
    }

    fn get(&self, key: &[u8]) {
        let mut value = Vec::new();
        let found = self.tree.get_into(key, &mut value).expect("readable");
        assert_eq!(found.then_some(&value), self.model.get(key), "{} bytes of key", key.len());
    }

    /// By a scan, and one by one.
    fn check(&self) {
        let snapshot = self.tree.open_snapshot();
        let mut scan = Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
        let all: Model = std::iter::from_fn(|| scan.next(&self.tree).expect("readable").map(owned_pair)).collect();
        self.tree.snapshots.close(snapshot);
        assert!(all == self.model, "{} pairs instead of {}", all.len(), self.model.len());
        self.model.keys().for_each(|key| self.get(key));
    }

    /// The next life of the store; what was not synced is.
    fn reopen(self, survives: Survives) -> Self {
        self.tree.sync_to(self.tree.log.next_sequence() - 1).expect("room");
        let options = self.tree.options.clone();
        let store = self.store.reopen(survives);
        let opened = recover::open(Arc::clone(&store) as Arc<dyn PageStore>, options, &mut |_| ());
        Self { store, tree: opened.expect("a whole store"), model: self.model }
    }

    /// The prefix and the records of the buffer of a key's leaf.
    fn buffer_of(&self, key: &[u8]) -> Option<(usize, usize)> {
        let leaf = self.tree.table.lock_shared(self.tree.leaf_of(key).0);
        leaf.location().buffer().map(|buffer| (buffer.prefix().len(), buffer.slots().len()))
    }
}

/// Keys of whose prefix a mirror must give up all, or all but a part.
fn outside() -> [Vec<u8>; 4] {
    [b"z".to_vec(), b"a".to_vec(), key(SHARED_BYTES / 2, 0), key(SHARED_BYTES, KEYS)]
}

#[test]
fn a_key_outside_of_a_clean_mirror_s_prefix_finds_room() {
    for design in DESIGNS {
        for key in outside() {
            let mut life = Life::with_mirror(options(design));
            life.put(&key, &[2; 4]);
            life.check();
            life.delete(&key);
            life.check();
            life.reopen(Survives::Written).check();
        }
    }
}

#[test]
fn a_key_outside_of_a_dirty_mirror_s_prefix_finds_room() {
    for design in DESIGNS {
        for outside in outside() {
            let mut life = Life::with_mirror(options(design));
            (0..3).for_each(|number| life.put(&key(SHARED_BYTES, 100 * number), &[3; 4]));
            life.put(&outside, &[2; 4]);
            life.check();
            life.reopen(Survives::Written).check();
        }
    }
}

/// The checkpoint has the mirror's records with the prefix that they have there, and the log the key outside.
#[test]
fn recovery_takes_a_key_outside_of_the_prefix_of_an_image() {
    for design in [Design::BTree, Design::BfTree] {
        let mut life = Life::with_mirror(options(design));
        (0..KEYS).for_each(|number| life.put(&key(SHARED_BYTES, number), &[3; 4]));
        let before = life.buffer_of(&key(SHARED_BYTES, 0));
        assert_eq!(before, Some((SHARED_BYTES + 2, KEYS as usize)), "{design:?}");
        life.tree.checkpoint().expect("room");
        life.tree.put(b"z", &[2; 4], Durability::Synced).expect("room");
        life.model.insert(b"z".to_vec(), vec![2; 4]);
        let life = life.reopen(Survives::Flushed);
        life.check();
        life.reopen(Survives::Flushed).check();
    }
}

/// A full store takes deletes. One that asks for a merge, which finds no room, is refused before it is logged (I9).
#[test]
fn a_full_store_refuses_what_would_need_a_merge_and_goes_on() {
    for design in [Design::BTree, Design::BfTree] {
        let mut life = Life::with_mirror(options(design));
        life.put(&key(SHARED_BYTES, 100), &[3; 4]);
        life.store.wire().set_full(true);
        let refused = life.tree.delete(b"z", Durability::Buffered);
        assert!(matches!(&refused, Err(error) if is_no_space(error)), "{design:?}: {refused:?}");
        life.delete(&key(SHARED_BYTES, 101));
        life.store.wire().set_full(false);
        life.delete(b"z");
        life.put(b"z", &[2; 4]);
        life.check();
        life.reopen(Survives::Written).check();
    }
}

/// Nor is a batch torn of which one delete makes a mirror dirty that another one has no room in.
#[test]
fn a_full_store_takes_a_batch_of_deletes_or_refuses_it_whole() {
    for design in [Design::BTree, Design::BfTree] {
        let mut life = Life::with_mirror(options(design));
        life.store.wire().set_full(true);
        let within = key(SHARED_BYTES, 100);
        let deletes = [BatchOp::Delete { key: &within }, BatchOp::Delete { key: b"z" }];
        match life.tree.write(&deletes, Durability::Buffered) {
            Ok(()) => _ = life.model.remove(&within),
            Err(error) => assert!(is_no_space(&error), "{design:?}: {error}"),
        }
        life.check();
        life.store.wire().set_full(false);
        life.put(b"z", &[2; 4]);
        life.check();
        life.reopen(Survives::Written).check();
    }
}

/// What was written before the store was full finds it so on its way down: that is no failure, and others go down past it.
#[test]
fn what_finds_no_room_in_a_full_store_stays_above_its_leaf_and_the_store_goes_on() {
    for design in [Design::BTree, Design::BfTree] {
        let mut life = Life::behind_a_filter(design);
        life.put(b"z", &[2; 4]);
        life.store.wire().set_full(true);
        let no_room = |life: &Life| {
            let emptied = life.tree.empty_filter();
            assert!(matches!(&emptied, Err(error) if is_no_space(error)), "{design:?}: {emptied:?}");
            life.tree.poison.check().expect("nothing has failed");
            assert!(life.filter().valid_nodes() == 0 && !life.filter().is_empty(), "{design:?}: it was tried");
        };
        no_room(&life);
        let refused = life.tree.put(b"y", &[2; 4], Durability::Buffered);
        assert!(matches!(&refused, Err(error) if is_no_space(error)), "{design:?}: {refused:?}");
        let before = life.tree.stats().filter_pairs;
        life.delete(&key(SHARED_BYTES, 101));
        no_room(&life);
        assert_eq!(life.tree.stats().filter_pairs, before + 1, "{design:?}");
        life.check();
        // Its leaf is looked at from now on. A newer record that was under way by then stands for the one that waits.
        let refused = life.tree.delete(b"z", Durability::Buffered);
        assert!(matches!(&refused, Err(error) if is_no_space(error)), "{design:?}: {refused:?}");
        let last = life.tree.log.next_sequence() - 1;
        let record = Record { key: b"z", kind: Kind::Inline, value: &[4; 4] };
        life.tree.filter_record(life.filter(), &record, &(last..=last));
        life.model.insert(b"z".to_vec(), vec![4; 4]);
        no_room(&life);
        life.check();
        life.store.wire().set_full(false);
        life.put(b"z", &[5; 4]);
        life.put(b"y", &[2; 4]);
        life.tree.empty_filter().expect("room");
        assert!(life.filter().is_empty());
        life.check();
        life.reopen(Survives::Written).check();
    }
}

/// Nor is it a reason not to open the store, with the filter that it had or without one.
#[test]
fn what_recovery_finds_no_room_for_stays_above_its_leaf() {
    for (design, with_filter) in [Design::BTree, Design::BfTree].into_iter().flat_map(|d| [(d, true), (d, false)]) {
        let mut life = Life::behind_a_filter(design);
        life.tree.checkpoint().expect("room");
        life.put(b"z", &[2; 4]);
        life.put(b"z", &[3; 4]);
        life.tree.sync_to(life.tree.log.next_sequence() - 1).expect("room");
        let store = life.store.reopen(Survives::Flushed);
        store.wire().set_full_of_pages(true);
        let mut options = life.tree.options.clone();
        options.filter_bytes = if with_filter { options.filter_bytes } else { 0 };
        let tree = recover::open(Arc::clone(&store) as Arc<dyn PageStore>, options, &mut |_| ()).expect("no failure");
        let life = Life { store, tree, model: life.model };
        assert_eq!(life.filter().valid_nodes(), 1, "{design:?}: nothing was in the way");
        life.check();
        life.tree.checkpoint().expect("no page is written for it");
        let mut life = life.reopen(Survives::Flushed);
        assert_eq!(life.tree.filter.is_some(), with_filter, "{design:?}: it has room now");
        life.check();
        life.tree.empty_filter().expect("room");
        life.put(b"z", &[4; 4]);
        life.check();
        life.reopen(Survives::Written).check();
    }
}

/// A leaf whose neighbour goes keeps its buffer, and with it what its range shared before.
#[test]
fn a_key_outside_of_the_prefix_that_a_wider_leaf_s_buffer_has_finds_room() {
    const SHARED_BYTES: usize = 400;
    let key = |number: u32| [vec![b'k'; SHARED_BYTES], number.to_be_bytes()[1..].to_vec()].concat();
    for design in [Design::Adb, Design::Deltas] {
        let mut life = Life::new(options(design));
        (0..1_200).for_each(|number| life.put(&key(16 * number), &[1; 8]));
        life.tree.compact(&mut |_, _| {}).expect("room");
        let last = life.tree.leaf_of(b"z").0;
        let of_last = (0..1_200).find(|number| life.tree.leaf_of(&key(16 * number)).0 == last).expect("some");
        let (left, new) = (life.tree.leaf_of(&key(16 * of_last - 16)).0, 16 * of_last - 1_000..16 * of_last);
        new.filter(|number| number % 16 > 0).for_each(|number| life.put(&key(number), &[]));
        let before = life.buffer_of(&key(16 * of_last - 16)).expect("nobody merged it");
        assert!(before.0 >= SHARED_BYTES && before.0 * before.1 > 256 << 10, "{design:?}: {before:?}");
        (of_last..1_200).for_each(|number| life.delete(&key(16 * number)));
        life.tree.flush_leaf(last).expect("room");
        assert_eq!(life.tree.leaf_of(b"z").0, left, "{design:?}: the leaf was not widened");
        assert_eq!(life.buffer_of(b"z"), Some(before), "{design:?}");
        life.put(b"z", &[2; 4]);
        life.check();
        life.reopen(Survives::Written).check();
    }
}

/// What a reader would keep has no place in a long buffer.
#[test]
fn a_mini_page_that_would_have_to_give_its_prefix_back_keeps_nothing_more() {
    let pool = Pool::new(&options(Design::BfTree));
    let keys: Vec<[u8; 2]> = (0..1_000_u16).map(u16::to_be_bytes).collect();
    let record = |key| Record { key, kind: Kind::Inline, value: &[] };
    let records = keys.iter().map(|key| record(key.as_slice()));
    let owner = Owner::of(PageId(0));
    let mut buffer = Buffer::of(pool.memory(), owner, None, &[b'k'; SHARED_BYTES], records);
    let cached = buffer.cache(pool.memory(), owner, &record(b"z"), 2_048);
    assert!(matches!(cached, Cached::TooLarge));
}

/// Keys that share much with some and nothing with others, over all designs, beside the filter, across lives.
#[test]
fn keys_of_long_and_short_prefixes_behave_like_a_map() {
    for (seed, design) in (1..).zip(DESIGNS.into_iter().cycle().take(8)) {
        let filter_bytes = if seed > DESIGNS.len() as u64 { 64 << 10 } else { 0 };
        let leaf_bytes = if seed % 3 == 0 { 32 << 10 } else { 4 << 10 };
        let mut life = Life::new(TreeOptions { filter_bytes, leaf_bytes, buffer_bytes: 512 << 10, ..options(design) });
        let mut rng = Rng::seeded(seed);
        for step in 0..12_000_u32 {
            let shared_bytes = [0, 300, 900, 1_000][rng.below(20).min(3) as usize];
            let number = u32::try_from(rng.below(if shared_bytes == 0 { 50 } else { 1_500 })).expect("small");
            let key = key(shared_bytes, number);
            match rng.below(20) {
                0..=10 => life.put(&key, &step.to_be_bytes()[..(number % 4) as usize]),
                11..=13 => life.delete(&key),
                _ => life.get(&key),
            }
            match step % 3_000 {
                1_000 => life.check(),
                2_000 => life.tree.checkpoint().expect("room"),
                2_900 => life = life.reopen(Survives::Written),
                _ => {}
            }
        }
        life.check();
    }
}
