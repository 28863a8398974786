//! The log on a store in memory: costs, order, crashes, group commit, poison.
#![cfg(not(feature = "shuttle"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};
use zonda_pages::{AreaKind, PageStore};
use zonda_rt::{Rng, sim, spawn};

use super::replay::ReplayEnd;
use super::*;
use crate::format::{LogChunkHeader, LogPartHeader};
use crate::record::Kind;
use crate::testing::{MemOptions, MemStore, Survives};

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record { key, kind: Kind::Inline, value }
}

fn start(store: &Arc<MemStore>, session: u32, first_sequence: u64) -> Log {
    let options = LogOptions { ring_bytes: 4096, ..LogOptions::default() };
    Log::start(Arc::clone(store) as Arc<dyn PageStore>, options, session, first_sequence).expect("a sound store")
}

fn append(log: &Log, ops: &[Record<'_>]) -> Result<RangeInclusive<u64>> {
    log.append(&log.begin(), ops.iter().copied())
}

/// Appends a record whose key is its number.
fn append_own_number(log: &Log) -> u64 {
    let key = log.next_sequence().to_be_bytes();
    *append(log, &[put(&key, b"value")]).expect("room").start()
}

#[derive(Default)]
struct Replayed(Vec<(u64, Vec<u8>)>);

impl ReplayVisitor for Replayed {
    fn record(&mut self, sequence: u64, record: Record<'_>) -> Result<()> {
        self.0.push((sequence, record.key.to_vec()));
        Ok(())
    }
}

fn all_from(from: u64) -> Stretch {
    Stretch { from, durable_before: 0, up_to_damage: false }
}

fn replayed(store: &MemStore, from: u64, sessions: &[(u32, u64)]) -> (ReplayEnd, Vec<(u64, Vec<u8>)>) {
    let mut table = SessionTable::default();
    sessions.iter().for_each(|&(number, first_sequence)| table.insert(Session { number, first_sequence }));
    let mut visitor = Replayed::default();
    let end = replay(store, &table, all_from(from), &mut visitor).expect("a sound log");
    let numbers: Vec<_> = visitor.0.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(numbers, (from..end.next_sequence).collect::<Vec<_>>(), "no gap, no repetition");
    (end, visitor.0)
}

#[test]
fn a_sync_of_one_small_record_is_one_block_and_one_flush() {
    let store = MemStore::new(MemOptions::default());
    let log = start(&store, 1, 1);
    let before = (store.wire().writes(), store.wire().blocks_written(), store.wire().flushes());
    let sequence = append_own_number(&log);
    log.sync_to(sequence).expect("synced");
    let after = (store.wire().writes(), store.wire().blocks_written(), store.wire().flushes());
    assert_eq!((after.0 - before.0, after.1 - before.1, after.2 - before.2), (1, 1, 1));
    log.sync().expect("nothing to do");
    assert_eq!(store.wire().flushes(), after.2, "durable already");
}

#[test]
fn batches_have_consecutive_numbers_and_come_back_in_order() {
    let store = MemStore::new(MemOptions::default());
    let log = start(&store, 1, 5);
    assert_eq!(append(&log, &[put(b"a", b"1"), put(b"b", b"2")]).expect("room"), 5..=6);
    assert_eq!(append(&log, &[Record { key: b"a", kind: Kind::Tombstone, value: b"" }]).expect("room"), 7..=7);
    log.sync().expect("synced");
    assert_eq!(log.durable(), 8);
    let (end, records) = replayed(&store.reopen(Survives::Flushed), 5, &[(1, 5)]);
    assert_eq!((end.next_sequence, end.records), (8, 3));
    assert_eq!(records, [(5, b"a".to_vec()), (6, b"b".to_vec()), (7, b"a".to_vec())]);
    let (end, _) = replayed(&store, 7, &[(1, 5)]);
    assert_eq!(end.records, 1);
    let (end, _) = replayed(&store, 9, &[(1, 5)]);
    assert_eq!((end.next_sequence, end.records), (9, 0), "number 9 is not there");
}

#[test]
fn a_full_ring_is_written_by_whoever_finds_it_full_and_long_batches_fit() {
    let store = MemStore::new(MemOptions { chunk_bytes_max: 64 << 10, segment_blocks: 64 });
    let log = start(&store, 1, 1);
    let value = vec![7; 1000];
    for _ in 0..20 {
        append(&log, &[put(b"key", &value)]).expect("room");
    }
    assert!(store.wire().writes() >= 4);
    let long: Vec<_> = (0..40).map(|_| put(b"key", &value)).collect();
    append(&log, &long).expect("a batch longer than the ring");
    let too_long: Vec<_> = (0..70).map(|_| put(b"key", &value)).collect();
    let error = append(&log, &too_long).expect_err("longer than a chunk");
    assert!(matches!(error, TreeError::BatchTooLong { bytes_max, .. } if bytes_max < 64 << 10), "{error}");
    log.sync().expect("synced");
    assert_eq!(replayed(&store, 1, &[(1, 1)]).0.next_sequence, 61);
}

#[test]
fn what_an_earlier_life_lost_does_not_come_back() {
    let store = MemStore::new(MemOptions { chunk_bytes_max: 64 << 10, segment_blocks: 1 });
    let log = start(&store, 1, 1);
    (0..6).for_each(|_| {
        append_own_number(&log);
        log.write_out().expect("written");
    });
    // Chunk by chunk in segments of their own: 1, 2 and 3 survive, 4 does not, 5 and 6 do.
    let fourth = store.area(AreaKind::Log).segments()[3].id;
    store.area(AreaKind::Log).release(fourth).expect("released");
    let (end, _) = replayed(&store, 1, &[(1, 1)]);
    assert_eq!(end.next_sequence, 4);
    let store = store.reopen(Survives::Written);
    let log = start(&store, 2, end.next_sequence);
    append(&log, &[put(b"new 4", b"")]).expect("room");
    log.sync().expect("synced");
    let (end, records) = replayed(&store, 1, &[(1, 1), (2, 4)]);
    assert_eq!(end.next_sequence, 5);
    assert_eq!(records.last(), Some(&(4, b"new 4".to_vec())));
}

fn refused(store: &MemStore, sessions: &[(u32, u64)], durable_before: u64) -> String {
    let mut table = SessionTable::default();
    sessions.iter().for_each(|&(number, first_sequence)| table.insert(Session { number, first_sequence }));
    let outcome = replay(store, &table, Stretch { durable_before, ..all_from(1) }, &mut Replayed::default());
    outcome.expect_err("something that was durable is missing").to_string()
}

/// A log of one session and six numbers, each in a segment of its own.
fn six_segments(synced: bool) -> Arc<MemStore> {
    let store = MemStore::new(MemOptions { chunk_bytes_max: 64 << 10, segment_blocks: 1 });
    let log = start(&store, 1, 1);
    for _ in 0..6 {
        append_own_number(&log);
        if synced { log.sync().expect("synced") } else { log.write_out().map(drop).expect("written") }
    }
    store
}

fn lose(store: &MemStore, segment: usize) {
    let lost = store.area(AreaKind::Log).segments()[segment].id;
    store.area(AreaKind::Log).release(lost).expect("released");
}

#[test]
fn a_number_that_was_durable_and_is_missing_is_damage() {
    for segment in 0..5 {
        let store = six_segments(true);
        lose(&store, segment);
        let why = refused(&store, &[(1, 1)], 0);
        assert!(why.contains(&format!("operation {} ", segment + 1)) && why.contains("below 6"), "{why}");
    }
}

#[test]
fn what_comes_before_damage_is_delivered_if_that_will_do() {
    for segment in 0..5 {
        let store = six_segments(true);
        lose(&store, segment);
        let mut table = SessionTable::default();
        table.insert(Session { number: 1, first_sequence: 1 });
        let end = replay(&*store, &table, Stretch { up_to_damage: true, ..all_from(1) }, &mut Replayed::default())
            .expect("borne");
        assert_eq!((end.next_sequence, end.records), (segment as u64 + 1, segment as u64));
        assert_eq!(end.left_out, Some(5 - segment as u64), "the sixth may be a torn tail");
    }
}

#[test]
fn the_newest_chunk_may_be_a_torn_tail_unless_a_session_or_a_checkpoint_followed() {
    let store = six_segments(true);
    lose(&store, 5);
    assert_eq!(replayed(&store, 1, &[(1, 1)]).0.next_sequence, 6);
    assert!(refused(&store, &[(1, 1), (2, 7)], 0).contains("operation 6 "));
    assert!(refused(&store, &[(1, 1)], 7).contains("operation 6 "));
}

/// A log of a round that took several chunks, the later numbers first, with `chunks` by their number.
fn one_round(chunks: &[usize]) -> Arc<MemStore> {
    let payloads = six_segments(false).mem_area(AreaKind::Log).payloads();
    let store = MemStore::new(MemOptions::default());
    for &number in chunks {
        let mut payload = payloads[number - 1].clone();
        let (header, _) = LogChunkHeader::mut_from_prefix(&mut payload).expect("a whole header");
        header.complete_before = 1.into();
        store.area(AreaKind::Log).append(&payload).expect("room");
    }
    store
}

#[test]
fn a_chunk_that_is_there_twice_counts_once_even_while_it_waits_for_others() {
    for chunks in [&[3, 3, 2, 1][..], &[3, 2, 3, 1], &[3, 2, 1, 3], &[3, 2, 1, 1]] {
        let (end, _) = replayed(&one_round(chunks), 1, &[(1, 1)]);
        assert_eq!((end.next_sequence, end.records), (4, 3), "{chunks:?}");
    }
}

#[test]
fn two_units_of_one_number_are_damage() {
    let store = one_round(&[3]);
    let payload = store.mem_area(AreaKind::Log).payloads()[0].clone();
    let mut other = payload;
    *other.last_mut().expect("a record") ^= 1;
    store.area(AreaKind::Log).append(&other).expect("room");
    assert!(refused(&store, &[(1, 1)], 0).contains("number 3 is there twice"));
}

#[test]
fn a_number_that_was_only_written_may_be_missing() {
    for segment in 0..6 {
        let store = six_segments(false);
        lose(&store, segment);
        assert_eq!(replayed(&store, 1, &[(1, 1)]).0.next_sequence, segment as u64 + 1);
    }
}

#[test]
fn a_log_whose_session_nobody_recorded_is_damage() {
    let store = MemStore::new(MemOptions::default());
    let log = start(&store, 2, 1);
    append_own_number(&log);
    log.sync().expect("synced");
    assert!(refused(&store, &[(1, 1)], 0).contains("session 2"));
    assert_eq!(replayed(&store, 2, &[(3, 2)]).0.records, 0, "older than the checkpoint");
}

#[test]
fn starting_flushes_what_recovery_read() {
    let store = MemStore::new(MemOptions::default());
    let log = start(&store, 1, 1);
    append_own_number(&log);
    log.write_out().expect("written");
    let store = store.reopen(Survives::Written);
    let log = start(&store, 2, 2);
    append_own_number(&log);
    log.sync().expect("synced");
    let (end, _) = replayed(&store.reopen(Survives::Flushed), 1, &[(1, 1), (2, 2)]);
    assert_eq!(end.next_sequence, 3, "a synced record behind one that was only written");
}

#[test]
fn truncation_releases_segments_and_the_rest_replays() {
    let store = MemStore::new(MemOptions { chunk_bytes_max: 64 << 10, segment_blocks: 2 });
    let log = start(&store, 1, 1);
    for _ in 0..10 {
        append_own_number(&log);
        log.sync().expect("synced");
    }
    assert_eq!(store.area(AreaKind::Log).segments().len(), 5);
    assert_eq!(log.bytes_since_truncation(), 40 << 10);
    log.truncate(6).expect("truncated");
    assert_eq!(store.area(AreaKind::Log).segments().len(), 3, "number 6 shares a segment with 5");
    assert_eq!(replayed(&store, 6, &[(1, 1)]).0.records, 5);
    log.truncate(11).expect("truncated");
    assert_eq!((store.area(AreaKind::Log).segments().len(), log.bytes_since_truncation()), (0, 0));
    append_own_number(&log);
    log.sync().expect("synced");
    assert_eq!(replayed(&store, 11, &[(1, 1)]).0.records, 1);
}

#[test]
fn a_failed_write_poisons_and_a_full_store_does_not() {
    let store = MemStore::new(MemOptions::default());
    let log = start(&store, 1, 1);
    append_own_number(&log);
    store.wire().set_full(true);
    let error = log.sync().expect_err("no space");
    assert!(can_go_on(&error), "{error}");
    store.wire().set_full(false);
    append_own_number(&log);
    log.sync().expect("space came back");
    assert_eq!(replayed(&store.reopen(Survives::Flushed), 1, &[(1, 1)]).0.records, 2);
    append_own_number(&log);
    store.wire().set_full(true);
    let step = || {
        zonda_rt::sleep(LogOptions::default().interval);
        log.step().expect("a full store is no failure")
    };
    assert!(!step() && !step(), "no space");
    store.wire().set_full(false);
    assert!(step(), "a step writes what was refused");
    assert!(!step(), "once");
    assert_eq!(replayed(&store.reopen(Survives::Written), 1, &[(1, 1)]).0.records, 3);
    append_own_number(&log);
    store.wire().cut_after(1);
    assert!(matches!(log.sync(), Err(TreeError::Store(_))));
    let causes = [log.sync().expect_err("poisoned"), append(&log, &[put(b"", b"")]).expect_err("poisoned")];
    assert_eq!(causes[0].to_string(), causes[1].to_string());
    assert!(matches!(causes[1], TreeError::Poisoned(_)));
}

#[test]
fn values_are_flushed_before_a_chunk_that_points_to_them() {
    let store = MemStore::new(MemOptions::default());
    let log = start(&store, 1, 1);
    store.area(AreaKind::Values).append(b"a large value").expect("written");
    append(&log, &[Record { key: b"k", kind: Kind::Pointer, value: b"pointer" }]).expect("room");
    log.write_out().expect("written");
    let store = store.reopen(Survives::Flushed);
    assert_eq!(store.mem_area(AreaKind::Values).payloads().len(), 1);
}

#[test]
fn the_step_writes_only_what_is_due() {
    sim::run(1, || {
        let store = MemStore::new(MemOptions::default());
        let log = start(&store, 1, 1);
        append_own_number(&log);
        assert!(!log.step().expect("sound"), "not due");
        zonda_rt::sleep(Duration::from_millis(2));
        assert!(log.step().expect("sound"));
        zonda_rt::sleep(Duration::from_millis(2));
        assert!(!log.step().expect("sound"), "nothing to write");
    });
}

#[test]
fn a_disabled_log_only_counts() {
    let store = MemStore::new(MemOptions::default());
    let options = LogOptions { enabled: false, ..LogOptions::default() };
    let log = Log::start(Arc::clone(&store) as Arc<dyn PageStore>, options, 1, 1).expect("sound");
    assert_eq!(append_own_number(&log), 1);
    log.sync().expect("nothing to do");
    assert_eq!((log.durable(), store.wire().writes()), (2, 0));
}

/// Threads append and sync; the power goes at some operation. Every number whose sync returned is replayed, batches
/// come back whole, and fewer flushes than syncs were needed.
fn group_commit_survives_a_cut(seed: u64) {
    let store = MemStore::new(MemOptions { chunk_bytes_max: 64 << 10, segment_blocks: 4 });
    let log = Arc::new(start(&store, 1, 1));
    let mut rng = Rng::seeded(seed);
    let cut = rng.chance(0.7);
    if cut {
        store.wire().cut_after(1 + rng.below(60));
    }
    let writer = |thread: u64| {
        let log = Arc::clone(&log);
        let mut rng = rng.fork();
        spawn(format!("writer {thread}"), move || {
            let mut synced = 0;
            for _ in 0..12 {
                let ops = vec![put(b"key", b"value"); 1 + rng.index(3)];
                let Ok(numbers) = append(&log, &ops) else { break };
                assert_eq!(numbers.end() - numbers.start() + 1, ops.len() as u64);
                if rng.chance(0.3) {
                    continue;
                }
                if log.sync_to(*numbers.end()).is_err() {
                    break;
                }
                assert!(log.durable() > *numbers.end());
                synced = *numbers.end();
            }
            synced
        })
    };
    let threads: Vec<_> = (0..4).map(writer).collect();
    let synced = threads.into_iter().map(|thread| thread.join().expect("no panic")).max().expect("four");
    let survives = if cut { Survives::Seeded(seed) } else { Survives::Flushed };
    let (end, _) = replayed(&store.reopen(survives), 1, &[(1, 1)]);
    assert!(end.next_sequence > synced, "I4 {synced} was synced, replay ends at {}", end.next_sequence);
    assert!(cut || store.wire().flushes() < 40, "{} flushes for about 34 syncs", store.wire().flushes());
    assert_eq!(log.low_water(), log.next_sequence());
}

#[test]
fn group_commit_under_many_schedules() {
    for seed in 0..60 {
        sim::run(seed, move || group_commit_survives_a_cut(seed));
    }
}

#[test]
fn followers_share_the_leaders_flush() {
    let flushes = sim::run(3, || {
        let store = MemStore::new(MemOptions::default());
        let log = Arc::new(start(&store, 1, 1));
        let writer = |thread: u32| {
            let log = Arc::clone(&log);
            spawn(format!("writer {thread}"), move || {
                (0..10).for_each(|_| log.sync_to(append_own_number(&log)).expect("synced"));
            })
        };
        let threads: Vec<_> = (0..16).map(writer).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        store.wire().flushes()
    });
    assert!(flushes <= 40, "{flushes} flushes for 160 syncs of 16 threads");
}

/// Two threads sync to one number, and the one that leads panics: the other may have waited for it, or comes later.
fn leader_panics() {
    let store = MemStore::new(MemOptions::default());
    let log = Arc::new(start(&store, 1, 1));
    let sequence = append_own_number(&log);
    store.wire().panic_in_next_flush();
    let syncer = |thread: u32| {
        let log = Arc::clone(&log);
        spawn(format!("syncer {thread}"), move || catch_unwind(AssertUnwindSafe(|| log.sync_to(sequence))).ok())
    };
    let threads: Vec<_> = (0..2).map(syncer).collect();
    let outcomes = threads.into_iter().filter_map(|thread| thread.join().expect("caught"));
    let refused: Vec<_> = outcomes.map(|outcome| outcome.expect_err("what was half done").to_string()).collect();
    assert!(matches!(&refused[..], [why] if why.contains("panicked")), "{refused:?}");
    assert!(matches!(append(&log, &[put(b"", b"")]), Err(TreeError::Poisoned(_))));
}

#[test]
fn nobody_waits_for_a_leader_that_panicked() {
    (0..20).for_each(|seed| sim::run(seed, leader_panics));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_chunk_is_replayed_or_refused(
        chunks in prop::collection::vec((0_u16..3, 0_u32..90, prop::collection::vec(any::<u8>(), 0..120)), 1..4),
        first in 0_u64..4,
    ) {
        let store = MemStore::new(MemOptions::default());
        for (parts, len_bytes, body) in &chunks {
            let header = LogChunkHeader {
                magic: crate::format::LOG_MAGIC,
                version: crate::format::CHUNK_VERSION.into(),
                parts: (*parts).into(),
                session: 1.into(),
                reserved: 0.into(),
                complete_before: (body.len() as u64).into(),
                durable_before: u64::from(*parts).into(),
            };
            let part = LogPartHeader { first_sequence: first.into(), len_bytes: (*len_bytes).into() };
            let payload = [header.as_bytes(), part.as_bytes(), body].concat();
            store.area(AreaKind::Log).append(&payload).expect("room");
        }
        let mut sessions = SessionTable::default();
        sessions.insert(Session { number: 1, first_sequence: 0 });
        let _ = replay(&*store, &sessions, all_from(first), &mut Replayed::default());
    }
}
