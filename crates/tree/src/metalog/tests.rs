//! The MetaLog on a store in memory: order, groups, checkpoints, zones that fail, crashes.
#![cfg(not(feature = "shuttle"))]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use zonda_pages::{Heat, NewPage, PageAddress, PageId};
use zonda_rt::{Rng, sim, sleep, spawn};

use super::recovery::MetaEnd;
use super::*;
use crate::testing::{MemOptions, MemStore, Survives};

const SMALL: MemOptions = MemOptions { chunk_bytes_max: 256, segment_blocks: 2 };

fn session(number: u32) -> Session {
    Session { number, first_sequence: 1 }
}

fn start(store: &Arc<MemStore>, number: u32, next_chunk: u64) -> Result<MetaLog> {
    MetaLog::start(Arc::clone(store) as Arc<dyn PageStore>, session(number), next_chunk)
}

fn begin(checkpoint: u64) -> Begin<'static> {
    Begin { checkpoint, replay_from: checkpoint, session: session(1), next_page_id: 0, extra: b"" }
}

fn moved(id: u32, block: u64) -> MetaRecord<'static> {
    MetaRecord::Move { id: PageId(id), address: PageAddress::new(block, 1), merged_to: 0 }
}

/// Flushes with pages and log that are always durable.
fn flush(metalog: &MetaLog) -> Result<()> {
    metalog.flush(&mut WriteAhead { settle: &mut || Ok(()), sync_log: &mut |_| Ok(()) })
}

fn end(metalog: &MetaLog) -> Result<()> {
    metalog.end_checkpoint(&mut WriteAhead { settle: &mut || Ok(()), sync_log: &mut |_| Ok(()) }).map(drop)
}

/// What recovery makes of a stream: leaves and moves in their order, as text.
#[derive(Default)]
struct Story(Vec<String>);

impl MetaVisitor for Story {
    fn record(&mut self, record: MetaRecord<'_>) -> Result<()> {
        self.0.push(match record {
            MetaRecord::Begin(begin) => format!("begin {}", begin.checkpoint),
            MetaRecord::Leaf { id, image, .. } => format!("leaf {} {}", id.0, image.len()),
            MetaRecord::End { checkpoint } => format!("end {checkpoint}"),
            MetaRecord::Move { id, address, .. } => format!("move {} {}", id.0, address.block()),
            MetaRecord::Restructure { removed, upserts, .. } => {
                format!("restructure {} {}", removed.len(), upserts.len())
            }
            MetaRecord::Session(session) => format!("session {}", session.number),
            MetaRecord::Above { level, oldest, image } => format!("above {level:?} {oldest} of {} bytes", image.len()),
            MetaRecord::Sparse { id, bytes } => format!("sparse {} {bytes}", id.0),
        });
        Ok(())
    }
}

fn recover(store: &MemStore) -> Result<Option<(MetaEnd, Vec<String>)>> {
    let Some(start) = newest_checkpoint(store)? else { return Ok(None) };
    let mut story = Story::default();
    let end = replay_from(store, &start, &mut story)?;
    assert_eq!(end.records, story.0.len() as u64);
    Ok(Some((end, story.0)))
}

fn story(store: &MemStore) -> Vec<String> {
    recover(store).expect("a sound MetaLog").expect("a checkpoint").1
}

fn leaf(id: u32, image: &[u8]) -> MetaRecord<'_> {
    MetaRecord::Leaf { id: PageId(id), low_key: b"key", address: None, image }
}

#[test]
fn a_flush_keeps_the_write_ahead_order_and_costs_one_block() {
    let store = MemStore::new(MemOptions::default());
    let metalog = start(&store, 1, 0).expect("sound");
    let position = metalog.append(&moved(1, 7), 42);
    metalog.append(&moved(2, 8), 41);
    assert!(metalog.flushed_position() < position);
    let writes = store.wire().writes();
    let steps = RefCell::new(Vec::new());
    let mut settle = || {
        steps.borrow_mut().push("settle".to_string());
        Ok(())
    };
    let mut sync_log = |sequence| {
        steps.borrow_mut().push(format!("log to {sequence}, {} written", store.wire().writes() - writes));
        Ok(())
    };
    metalog.flush(&mut WriteAhead { settle: &mut settle, sync_log: &mut sync_log }).expect("sound");
    assert_eq!(steps.into_inner(), ["settle", "log to 42, 0 written"]);
    assert_eq!(store.wire().writes() - writes, 1);
    assert_eq!((metalog.flushed_position(), metalog.pending_bytes()), (metalog.position(), 0));
    let flushes = store.wire().flushes();
    flush(&metalog).expect("nothing to do");
    assert_eq!(store.wire().flushes(), flushes);
}

#[test]
fn a_session_knows_when_it_has_filled_the_first_segment_that_it_began() {
    let store = MemStore::new(SMALL);
    let metalog = start(&store, 1, 0).expect("sound");
    let segments = || store.area(AreaKind::Meta).segments().len();
    let mut seen = [false; 2];
    for block in 1..9 {
        metalog.append(&moved(1, block), 0);
        flush(&metalog).expect("sound");
        assert_eq!(metalog.has_outgrown_a_segment(), segments() > 1, "{block}");
        seen[usize::from(segments() > 1)] = true;
    }
    assert_eq!(seen, [true; 2]);
    let again = start(&store, 2, 9).expect("sound");
    assert!(!again.has_outgrown_a_segment(), "the next session begins one of its own");
}

#[test]
fn recovery_applies_what_follows_the_newest_complete_checkpoint() {
    let store = MemStore::new(MemOptions::default());
    assert_eq!(recover(&store).expect("empty"), None);
    let metalog = start(&store, 1, 0).expect("sound");
    metalog.append(&moved(1, 1), 0);
    metalog.begin_checkpoint(begin(1));
    metalog.append(&leaf(1, b"image"), 0);
    metalog.append(&moved(9, 9), 0);
    end(&metalog).expect("sound");
    metalog.append(&moved(1, 2), 0);
    metalog.begin_checkpoint(begin(2));
    metalog.append(&leaf(1, b""), 0);
    flush(&metalog).expect("sound");
    metalog.append(&moved(1, 3), 0);
    let want = ["begin 1", "leaf 1 5", "move 9 9", "end 1", "move 1 2", "begin 2", "leaf 1 0"];
    assert_eq!(story(&store), want);
    end(&metalog).expect("sound");
    assert_eq!(story(&store), ["begin 2", "leaf 1 0", "move 1 3", "end 2"]);
    assert_eq!(metalog.pending.lock().by_part.images, 5);
    let store = store.reopen(Survives::Flushed);
    let next_chunk = recover(&store).expect("sound").expect("a checkpoint").0.next_chunk;
    start(&store, 2, next_chunk).expect("sound");
    assert_eq!(story(&store).last().map(String::as_str), Some("session 2"));
}

#[test]
fn a_complete_checkpoint_releases_older_segments() {
    let store = MemStore::new(SMALL);
    let metalog = start(&store, 1, 0).expect("sound");
    for round in 1..20 {
        metalog.begin_checkpoint(begin(round));
        for id in 0..30 {
            metalog.append(&leaf(id, &[1; 20]), 0);
            if metalog.pending_bytes() > 400 {
                flush(&metalog).expect("sound");
            }
        }
        end(&metalog).expect("sound");
        assert_eq!(story(&store).len(), 32);
    }
    assert!(store.area(AreaKind::Meta).segments().len() <= 5, "{:?}", store.area(AreaKind::Meta).segments());
}

fn append_moves(metalog: &MetaLog, count: u32) {
    for id in 0..count {
        metalog.append(&moved(id, 1 << 30), 0);
    }
}

#[test]
fn a_group_of_many_chunks_is_whole_or_absent() {
    for cut in 1..20 {
        for seed in 0..8 {
            let store = MemStore::new(SMALL);
            let metalog = start(&store, 1, 0).expect("sound");
            metalog.begin_checkpoint(begin(1));
            end(&metalog).expect("sound");
            append_moves(&metalog, 100);
            store.wire().cut_after(cut);
            let flushed = flush(&metalog).is_ok();
            let store = store.reopen(Survives::Seeded(seed));
            let (end, records) = recover(&store).expect("sound").expect("a checkpoint");
            let moves = records.iter().filter(|record| record.starts_with("move")).count();
            assert!(moves == 100 || moves == 0 && !flushed, "{moves} of 100 moves, flushed: {flushed}");
            // The next life writes over what is left of the group's numbers.
            let metalog = start(&store, 2, end.next_chunk).expect("sound");
            append_moves(&metalog, 50);
            flush(&metalog).expect("sound");
            let again = story(&store.reopen(Survives::Flushed));
            assert_eq!(again.len(), records.len() + 51);
        }
    }
}

#[test]
fn missing_old_segments_are_no_damage_and_missing_new_ones_are() {
    let store = MemStore::new(SMALL);
    let metalog = start(&store, 1, 0).expect("sound");
    let record_in_own_segment = |id| {
        metalog.append(&moved(id, 1), 0);
        flush(&metalog).expect("sound");
        metalog.append(&moved(id, 2), 0);
        flush(&metalog).expect("sound");
    };
    (0..3).for_each(record_in_own_segment);
    metalog.begin_checkpoint(begin(1));
    let older: Vec<_> = store.area(AreaKind::Meta).segments();
    metalog.append(&MetaRecord::End { checkpoint: 1 }, 0);
    flush(&metalog).expect("sound");
    store.area(AreaKind::Meta).release(older[1].id).expect("released");
    assert_eq!(story(&store), ["begin 1", "end 1"]);
    (3..6).for_each(record_in_own_segment);
    let newer = store.area(AreaKind::Meta).segments();
    store.area(AreaKind::Meta).release(newer[newer.len() - 2].id).expect("released");
    assert!(matches!(recover(&store), Err(TreeError::Damaged { what: "MetaLog", .. })));
}

#[test]
fn an_interrupted_creation_is_repeated() {
    let store = MemStore::new(SMALL);
    for _ in 0..3 {
        let metalog = start(&store, 1, 0).expect("sound");
        metalog.begin_checkpoint(begin(1));
        flush(&metalog).expect("sound");
        assert_eq!(recover(&store).expect("no damage"), None);
    }
    let metalog = start(&store, 1, 0).expect("sound");
    metalog.begin_checkpoint(begin(1));
    end(&metalog).expect("sound");
    assert_eq!(story(&store), ["begin 1", "end 1"]);
}

#[test]
fn a_full_store_keeps_the_records_and_a_failed_one_poisons() {
    let store = MemStore::new(MemOptions::default());
    let metalog = start(&store, 1, 0).expect("sound");
    metalog.begin_checkpoint(begin(1));
    metalog.append(&moved(1, 1), 0);
    store.wire().set_full(true);
    assert!(end(&metalog).is_err());
    store.wire().set_full(false);
    metalog.append(&moved(2, 2), 0);
    end(&metalog).expect("space came back");
    assert_eq!(story(&store), ["session 1", "begin 1", "move 1 1", "end 1", "move 2 2", "end 1"][1..]);
    metalog.append(&moved(3, 3), 0);
    store.wire().cut_after(1);
    assert!(flush(&metalog).is_err());
    assert!(matches!(flush(&metalog), Err(TreeError::Poisoned(_))));
}

/// Threads place pages and append their moves, zones fail, a flusher flushes, the power goes: afterwards every move
/// that is found names a durable page of its leaf, and none that was flushed is missing.
fn durable_records_name_durable_pages(seed: u64) {
    let mut rng = Rng::seeded(seed);
    let store = MemStore::new(if rng.chance(0.5) { SMALL } else { MemOptions::default() });
    let metalog = Arc::new(start(&store, 1, 0).expect("sound"));
    metalog.begin_checkpoint(begin(1));
    end(&metalog).expect("sound");
    let table: Arc<Mutex<BTreeMap<PageId, PageAddress>>> = Arc::default();
    let placer = |thread: u32| {
        let (store, metalog, table) = (Arc::clone(&store), Arc::clone(&metalog), Arc::clone(&table));
        let mut rng = rng.fork();
        spawn(format!("placer {thread}"), move || {
            for _ in 0..30 {
                let id = PageId(thread * 10 + u32::try_from(rng.below(4)).expect("small"));
                if rng.chance(0.1) {
                    store.fail_zone();
                }
                let mut table = table.lock(); // stands for the leaf latch
                let page = NewPage { id, sequence: 0, body: &id.0.to_le_bytes() };
                let at = store.place(Heat::Hot, &[page]).expect("room")[0];
                metalog.append(&MetaRecord::Move { id, address: at, merged_to: 0 }, 0);
                table.insert(id, at);
                drop(table);
                sleep(std::time::Duration::from_micros(rng.below(300)));
            }
        })
    };
    let threads: Vec<_> = (0..2).map(placer).collect();
    store.wire().cut_after(20 + rng.below(150));
    let mut flushed = BTreeMap::new();
    loop {
        let before = table.lock().clone();
        let mut settle = || settle_and_patch(&store, &metalog, &table);
        if metalog.flush(&mut WriteAhead { settle: &mut settle, sync_log: &mut |_| Ok(()) }).is_err() {
            break;
        }
        flushed = before;
        sleep(std::time::Duration::from_micros(100));
        metalog.append(&MetaRecord::End { checkpoint: 0 }, 0); // there is something to flush until the power goes
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    check_moves(&store.reopen(Survives::Seeded(seed)), &flushed);
}

fn settle_and_patch(store: &MemStore, metalog: &MetaLog, table: &Mutex<BTreeMap<PageId, PageAddress>>) -> Result<()> {
    store.settle(&mut |id, from, to| {
        let mut table = table.lock();
        if table.get(&id) == Some(&from) {
            metalog.append(&MetaRecord::Move { id, address: to, merged_to: 0 }, 0);
            table.insert(id, to);
        }
        metalog.placed_again();
    })?;
    Ok(())
}

#[derive(Default)]
struct Moves(BTreeMap<PageId, PageAddress>);

impl MetaVisitor for Moves {
    fn record(&mut self, record: MetaRecord<'_>) -> Result<()> {
        if let MetaRecord::Move { id, address, .. } = record {
            self.0.insert(id, address);
        }
        Ok(())
    }
}

fn check_moves(store: &MemStore, flushed: &BTreeMap<PageId, PageAddress>) {
    let start = newest_checkpoint(store).expect("sound").expect("a checkpoint");
    let mut moves = Moves::default();
    replay_from(store, &start, &mut moves).expect("sound");
    for (&id, &at) in &moves.0 {
        store.read(id, at, &mut |body| assert_eq!(body, id.0.to_le_bytes())).expect("I3 a record names a durable page");
    }
    assert!(flushed.keys().all(|id| moves.0.contains_key(id)), "a flushed record is missing");
}

#[test]
fn zones_may_fail_and_the_power_may_go() {
    for seed in 0..60 {
        sim::run(seed, move || durable_records_name_durable_pages(seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_chunk_is_applied_or_refused(
        chunks in prop::collection::vec((0_u64..3, 0_u32..2, 0_u32..3, prop::collection::vec(0_u8..8, 0..60)), 1..5),
    ) {
        use zerocopy::IntoBytes;
        let store = MemStore::new(MemOptions::default());
        for (number, flags, group_position, body) in chunks {
            let header = crate::format::MetaChunkHeader {
                magic: crate::format::META_MAGIC,
                version: 1.into(),
                reserved: 0.into(),
                session: 1.into(),
                flags: flags.into(),
                number: number.into(),
                group_position: group_position.into(),
                reserved_too: 0.into(),
            };
            store.area(AreaKind::Meta).append(&[header.as_bytes(), &body].concat()).expect("room");
        }
        let _ = recover(&store);
    }
}
