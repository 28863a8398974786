//! The engine against `BTreeMap`, with crashes, on the page store double.
#![cfg(not(feature = "shuttle"))]

use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

use zonda_pages::{PageId, PageStore};
use zonda_rt::{
    Rng,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    BatchOp, Design, Durability, Engine, FilterEviction, MiniPages, Step, TreeOptions, Update,
    scan::owned_pair,
    testing::{MemOptions, MemStore, Survives},
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What differs between runs.
#[derive(Clone, Copy, Debug)]
struct Setup {
    design: Design,
    filter_bytes: u64,
    batch_runs: bool,
    filter_eviction: FilterEviction,
}

const ADB: Setup =
    Setup { design: Design::Adb, filter_bytes: 0, batch_runs: true, filter_eviction: FilterEviction::Pairs };
const BFTREE: Setup = Setup { design: Design::BfTree, ..ADB };
const BTREE: Setup = Setup { design: Design::BTree, ..ADB };
const FILTER: Setup = Setup { filter_bytes: 12 << 10, ..ADB };
const NODES: Setup = Setup { filter_eviction: FilterEviction::Nodes, ..FILTER };

fn options(setup: Setup) -> TreeOptions {
    TreeOptions {
        design: setup.design,
        filter_bytes: setup.filter_bytes,
        batch_runs: setup.batch_runs,
        filter_eviction: setup.filter_eviction,
        buffer_bytes: 24 << 10,
        mini_pages: MiniPages { promotion_percent: 60, bytes_max: 1024, ..MiniPages::default() },
        log_limit_bytes: 96 << 10,
        value_inline_bytes_max: 300,
        ..TreeOptions::default()
    }
}

fn create(store: &Arc<MemStore>, setup: Setup) -> Engine {
    Engine::create(Arc::clone(store) as Arc<dyn PageStore>, options(setup)).expect("an empty store")
}

fn open(store: &Arc<MemStore>, setup: Setup) -> Engine {
    Engine::open(Arc::clone(store) as Arc<dyn PageStore>, options(setup), &mut |_| ()).expect("a whole store")
}

fn all(engine: &Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let snapshot = engine.snapshot().expect("open");
    let mut cursor = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded).expect("open");
    std::iter::from_fn(|| cursor.next().expect("readable").map(owned_pair)).collect()
}

fn backwards(engine: &Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let snapshot = engine.snapshot().expect("open");
    let mut cursor = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded).expect("open");
    std::iter::from_fn(|| cursor.prev().expect("readable").map(owned_pair)).collect()
}

fn pairs(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.clone().into_iter().collect()
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(3000);
    match rng.below(20) {
        0 => Vec::new(),
        1 => [vec![7; 900], number.to_be_bytes().to_vec()].concat(),
        2..5 => format!("text-{number}").into_bytes(),
        _ => number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
    }
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => rng.index(5000),
        1..5 => rng.index(200),
        _ => 8,
    };
    let mut value = vec![0; len];
    rng.fill(&mut value);
    value
}

fn assert_clean(engine: &Engine) {
    let mut findings = Vec::new();
    engine.check(&mut |_, _| (), &mut |finding| findings.push(finding)).expect("open");
    assert!(findings.is_empty(), "{findings:?}");
}

fn step(engine: &Engine, model: &mut Model, rng: &mut Rng) {
    let key = random_key(rng);
    match rng.below(100) {
        0..60 => {
            let value = random_value(rng);
            engine.put(&key, &value, Durability::Buffered).expect("room");
            model.insert(key, value);
        }
        60..75 => {
            engine.delete(&key, Durability::Buffered).expect("room");
            model.remove(&key);
        }
        75..80 => {
            let keys: Vec<_> = (0..rng.index(20) + 1).map(|_| (random_key(rng), random_value(rng))).collect();
            let ops: Vec<_> = keys.iter().map(|(key, value)| BatchOp::Put { key, value }).collect();
            engine.write(&ops, Durability::Buffered).expect("room");
            model.extend(keys);
        }
        80..83 => {
            let before =
                engine.update(&key, Durability::Buffered, &mut |_| Update::Put(b"updated".to_vec())).expect("room");
            assert_eq!(before, model.insert(key, b"updated".to_vec()));
        }
        _ => {
            let mut value = Vec::new();
            let found = engine.get_into(&key, &mut value).expect("readable");
            assert_eq!(found.then_some(value), model.get(&key).cloned());
        }
    }
}

fn model_run(setup: Setup, seed: u64, steps: usize) {
    let store = MemStore::new(MemOptions::default());
    let engine = create(&store, setup);
    let (mut model, mut rng) = (Model::new(), Rng::seeded(seed));
    let mut held: Option<(crate::Snapshot, Model)> = None;
    for number in 0..steps {
        step(&engine, &mut model, &mut rng);
        if number % 97 == 0 {
            engine.checkpoint_step().expect("room");
        }
        match rng.below(400) {
            0 => held = Some((engine.snapshot().expect("open"), model.clone())),
            1 => {
                if let Some((snapshot, then)) = held.take() {
                    let mut cursor = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded).expect("open");
                    let seen: Vec<_> =
                        std::iter::from_fn(|| cursor.next().expect("readable").map(owned_pair)).collect();
                    assert!(seen == pairs(&then), "seed {seed}: the snapshot changed");
                }
            }
            2 if rng.chance(0.2) => engine.compact(&mut |_, _| ()).expect("room"),
            _ => {}
        }
    }
    let moved = engine.stats();
    assert!(
        !(1..64 << 10).contains(&setup.filter_bytes) || moved.filter_evictions > 3 && moved.filter_pairs > 300,
        "seed {seed}: {moved:?}"
    );
    assert!(all(&engine) == pairs(&model), "seed {seed}");
    let mut reversed = backwards(&engine);
    reversed.reverse();
    assert!(reversed == pairs(&model), "seed {seed}");
    assert_clean(&engine);
    engine.close().expect("room");
    let again = open(&store.reopen(Survives::Flushed), setup);
    assert!(all(&again) == pairs(&model), "seed {seed} after reopening");
    assert_clean(&again);
}

#[test]
fn behaves_like_a_map() {
    for seed in 0..3 {
        model_run(ADB, seed, 5000);
        model_run(BTREE, seed, 2000);
        model_run(BFTREE, seed, 5000);
    }
}

#[test]
fn behaves_like_a_map_behind_a_filter() {
    for seed in 0..3 {
        model_run(FILTER, seed, 5000);
        model_run(Setup { filter_bytes: 200 << 10, ..FILTER }, seed, 3000);
        model_run(NODES, seed, 3000);
        model_run(Setup { batch_runs: false, ..FILTER }, seed, 2000);
        model_run(Setup { design: Design::BTree, ..FILTER }, seed, 2000);
        model_run(Setup { design: Design::BfTree, ..FILTER }, seed, 2000);
    }
}

#[test]
fn synced_writes_survive_and_others_are_a_prefix() {
    for seed in 0..40 {
        crash_run(seed);
    }
}

/// Runs, crashes, reopens, several times: what survives is a prefix of the operations that holds all synced ones.
fn crash_run(seed: u64) {
    let mut rng = Rng::seeded(seed);
    let setup = *[ADB, BTREE, FILTER, NODES, BFTREE].get(rng.index(5)).expect("in range");
    // What is opened next may have another filter, or none.
    let again = *[setup, setup, ADB, FILTER, BFTREE].get(rng.index(5)).expect("in range");
    let mut store = MemStore::new(MemOptions::default());
    let mut engine = create(&store, setup);
    let mut model = Model::new();
    for round in 0..4 {
        let mut history = vec![model.clone()];
        let mut synced = 0;
        for number in 0..rng.index(600) {
            step(&engine, &mut model, &mut rng);
            history.push(model.clone());
            if rng.chance(0.01) {
                engine.sync().expect("writable");
                synced = history.len() - 1;
            }
            if number % 50 == 0 {
                engine.checkpoint_step().expect("room");
                engine.log_step().expect("room");
            }
        }
        store = store.reopen(Survives::Seeded(rng.next_u64()));
        engine = open(&store, if round % 2 == 0 { again } else { setup });
        let seen = all(&engine);
        let at = history[synced..].iter().position(|state| pairs(state) == seen);
        let at = at.unwrap_or_else(|| panic!("seed {seed} round {round}: no state since the last sync survived"));
        model = history[synced + at].clone();
        assert_clean(&engine);
    }
}

#[test]
fn ascending_inserts_leave_full_leaves() {
    let store = MemStore::new(MemOptions::default());
    let engine = create(&store, ADB);
    for number in 0..40_000_u64 {
        engine.put(&number.to_be_bytes(), &number.to_le_bytes(), Durability::Buffered).expect("room");
    }
    engine.compact(&mut |_, _| ()).expect("room");
    let stats = engine.stats();
    let bytes = stats.leaves * 4096;
    assert!(bytes < 40_000 * 16 * 115 / 100, "{bytes} bytes in {} leaves", stats.leaves);
}

#[test]
fn deleting_everything_gives_leaves_back() {
    let store = MemStore::new(MemOptions::default());
    let engine = create(&store, ADB);
    for number in 0..20_000_u64 {
        engine.put(&number.to_be_bytes(), &[1; 20], Durability::Buffered).expect("room");
    }
    for number in 0..20_000_u64 {
        engine.delete(&number.to_be_bytes(), Durability::Buffered).expect("room");
    }
    engine.compact(&mut |_, _| ()).expect("room");
    assert!(all(&engine).is_empty());
    assert!(engine.stats().leaves < 10, "{} leaves", engine.stats().leaves);
    assert_clean(&engine);
}

/// The fullest buffer is the same for all, so who finds its leaf latched has to wait for it.
#[test]
fn who_shrinks_buffers_waits_for_a_latch_that_somebody_else_holds() {
    for setup in [ADB, BTREE] {
        let store = MemStore::new(MemOptions::default());
        let engine = create(&store, setup);
        let mut rng = Rng::seeded(1);
        for _ in 0..2_000 {
            engine.put(&random_key(&mut rng), &random_value(&mut rng), Durability::Buffered).expect("room");
        }
        let pool = &engine.tree.pool;
        engine.set_buffer_bytes(8 << 10);
        assert!(pool.is_over_limit() && !pool.is_over(), "{setup:?}: writers do not have to give up the difference");
        let engine = Arc::new(engine);
        // In simulated time, where the other cannot give up before it has looked as often as it does.
        zonda_rt::sim::run(1, {
            let engine = Arc::clone(&engine);
            move || {
                let table = &engine.tree.table;
                let held: Vec<_> = (0..table.len()).map(|id| table.lock(PageId(id))).collect();
                let is_done = Arc::new(AtomicBool::new(false));
                let (shrinking, done) = (Arc::clone(&engine), Arc::clone(&is_done));
                let shrinks = zonda_rt::spawn("shrinks", move || {
                    let shrunk = shrinking.shrink_buffers();
                    done.store(true, Ordering::SeqCst);
                    shrunk
                });
                zonda_rt::sleep(Duration::from_millis(20));
                assert!(!is_done.load(Ordering::SeqCst), "{setup:?}: it gave up");
                drop(held);
                shrinks.join().expect("no panic").expect("a whole store");
            }
        });
        assert!(!engine.tree.pool.is_over_limit(), "{setup:?}: {:?}", engine.stats());
        assert_clean(&engine);
    }
}

#[test]
fn writers_do_not_give_up_what_a_lower_limit_takes_but_the_background_does() {
    const BYTES: u64 = 1 << 20;
    for setup in [ADB, BTREE, FILTER] {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { buffer_bytes: BYTES, log_limit_bytes: 64 << 20, ..options(setup) };
        let engine = Engine::create(store as Arc<dyn PageStore>, options).expect("an empty store");
        let mut rng = Rng::seeded(1);
        let mut put = || {
            engine.put(&rng.below(u64::MAX).to_be_bytes(), b"12345678", Durability::Buffered).expect("room");
            engine.stats().merges
        };
        let before = (0..100_000).map(|_| put()).max().expect("some");
        engine.set_buffer_bytes(BYTES / 4);
        assert!(put() <= before + 4, "{setup:?}: one put merged all that is above the limit");
        let pool = &engine.tree.pool;
        assert!(pool.is_over_limit(), "{setup:?}: {:?}", engine.stats());
        while engine.buffer_step().expect("a whole store") == Step::Progress {}
        assert!(!pool.is_over_limit(), "{setup:?}: {:?}", engine.stats());
        // Looked at again, writers have the lower limit.
        engine.set_buffer_bytes(BYTES / 4);
        let merges = (0..20_000).map(|_| put()).max().expect("some");
        assert!(merges > before && engine.stats().buffer_bytes < BYTES * 3 / 8, "{setup:?}: {:?}", engine.stats());
    }
}
