//! A replay that counts as a store does copies what the store copied.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use common::{options_with, path};
use zonda_device::{Geometry, MemDevice};
use zonda_files::lsm::{KeyOrder, KeyRange, TableHint, TreeId, VersionEdit};
use zonda_files::policy::{Rule, by_name};
use zonda_files::replay::{FreeSpace, ReplayOptions, ReplayReport, replay};
use zonda_files::trace::{self, TraceEvent, TraceRecord, TraceWriter};
use zonda_files::{FileError, FileId, FileKind, FileStore, FileStoreOptions, FileTags, FileUsage, Lifetime, StoreId};
use zonda_rt::{Mutex, Rng};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const ZONES: u32 = 66;
const TABLE_BYTES: usize = 5 * 4096;
const PERCENT: u8 = 25;

/// A level whose tables are rewritten in turn, and one whose tables are rewritten at random and rarely.
struct Tree<'a> {
    store: &'a FileStore,
    tree: TreeId,
    next: u32,
    freed: u64,
    /// Tables are placed before their keys are known, but for the first one.
    is_early: bool,
}

impl Tree<'_> {
    fn table(&mut self, level: u8, lifetime: Lifetime) -> (String, KeyRange) {
        self.clean();
        let name = format!("/{}.sst", self.next);
        let key = format!("{:08}", self.next.wrapping_mul(2_654_435_761) % 100_000_000);
        self.next += 1;
        let tags = FileTags::of(FileKind::Data).with_lifetime(lifetime).with_level(level);
        let range = KeyRange::new(key.clone(), key);
        let mut writer = self.store.create(&path(&name), tags).unwrap();
        let hint = |range| TableHint { tree: self.tree, job: None, level, range };
        if self.is_early {
            writer.describe(hint(None)).unwrap();
            writer.begins_with(&range.smallest);
        } else {
            writer.describe(hint(Some(range.clone()))).unwrap();
        }
        writer.append(&vec![1; TABLE_BYTES]).unwrap();
        if self.is_early {
            writer.describe(hint(Some(range.clone()))).unwrap();
        }
        writer.sync().unwrap();
        writer.close().unwrap();
        let added = vec![(path(&name), level, range.clone())];
        self.store.apply_edit(self.tree, &VersionEdit { removed: Vec::new(), added });
        (name, range)
    }

    fn clean(&mut self) {
        while let Some(cleaned) = self.store.clean_step().unwrap() {
            self.freed += u64::from(cleaned.zones_freed);
        }
    }

    fn drop(&self, name: &str) {
        self.store.apply_edit(self.tree, &VersionEdit { removed: vec![path(name)], added: Vec::new() });
        self.store.remove(&path(name)).unwrap();
    }
}

/// What a store says, and what a replay of its trace says.
struct Both {
    live: FileUsage,
    resets: u64,
    allocations: Vec<(Rule, Option<u8>, u64)>,
    replayed: ReplayReport,
}

/// Runs a store whose tables may wait in so many bytes of memory, and replays its trace.
fn both(policy: &str, held_bytes_max: u64) -> Both {
    let sink = Sink::default();
    let trace = Arc::new(TraceWriter::new(Box::new(sink.clone())));
    let options = FileStoreOptions {
        trace: Some(Arc::clone(&trace)),
        clean_below_free_percent: PERCENT,
        held_bytes_max,
        ..options_with(policy)
    };
    let geometry = Geometry::new(128 << 10, ZONES).with_limits(14, 14);
    let device = Arc::new(MemDevice::new(geometry).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options).unwrap();
    let tree = store.tree(&path("/"), 0, KeyOrder::bytewise());
    let mut lsm = Tree { store: &store, tree, next: 0, freed: 0, is_early: held_bytes_max == 0 };
    let mut rng = Rng::seeded(1);
    let mut deep: Vec<String> = (0..190).map(|_| lsm.table(3, Lifetime::Extreme).0).collect();
    let mut turning: VecDeque<String> = (0..30).map(|_| lsm.table(1, Lifetime::Medium).0).collect();
    for round in 0..4000 {
        turning.push_back(lsm.table(1, Lifetime::Medium).0);
        lsm.drop(&turning.pop_front().unwrap());
        if round % 4 == 0 {
            let at = usize::try_from(rng.below(deep.len() as u64)).unwrap();
            let new = lsm.table(3, Lifetime::Extreme).0;
            lsm.drop(&std::mem::replace(&mut deep[at], new));
        }
    }
    let resets = lsm.freed;
    assert_eq!(store.check().unwrap().findings, []);
    trace.finish().unwrap();
    let records = trace::read(sink.0.lock().as_slice()).unwrap();
    let options = ReplayOptions {
        zone_bytes: (store.space().zone_blocks() - 1) * 4096,
        // One is the journal's.
        zones: ZONES - 1,
        active_max: Some(14),
        reserve_zones: 3,
        threshold_percent: PERCENT,
        free: FreeSpace::AsStore,
        held_bytes_max,
        ..ReplayOptions::of_the_paper(by_name(policy).unwrap())
    };
    let replayed = replay(&records, &options).unwrap();
    Both { live: store.usage(), resets, allocations: store.allocations(), replayed }
}

/// What is left of a difference is the journal, which the replay leaves out: it has a second zone while it is renewed, and so the store
/// cleans a little earlier.
#[test]
fn a_replay_copies_what_the_store_copied() {
    for policy in ["liza-caza", "liza-zns", "liza-zenfs", "ldp", "levels", "level-keys", "lasting", "caza"] {
        check(policy, &both(policy, 1 << 20));
    }
}

/// Past the memory budget both place tables by their first keys.
#[test]
fn a_replay_places_early_what_the_store_placed_early() {
    let both = both("caza", 0);
    check("caza", &both);
    let of_store = |rule: Rule| both.allocations.iter().filter(|one| one.0 == rule).map(|one| one.2).sum::<u64>();
    let of_replay = |rule: Rule| -> u64 {
        both.replayed.allocations.iter().filter(|((by, _), _)| *by == rule).map(|(_, count)| count).sum()
    };
    for rule in [Rule::Overlap, Rule::NewKeys, Rule::NoRoom, Rule::NearKeys] {
        let (live, replayed) = (of_store(rule), of_replay(rule));
        assert!(live.abs_diff(replayed) <= 10 + live / 10, "{rule:?}: {live} in the store, {replayed} replayed");
    }
    assert!(of_store(Rule::NearKeys) > 100, "{:?}", both.allocations);
}

/// Tables of the size of a zone, one after the other: how many find one.
#[test]
fn a_replay_refuses_whom_the_store_refuses() {
    for kind in [FileKind::Data, FileKind::Flushed] {
        let geometry = Geometry::new(128 << 10, 24).with_limits(14, 14);
        let device = Arc::new(MemDevice::new(geometry).unwrap());
        let store = FileStore::format(device, StoreId(1), false, options_with("ldp")).unwrap();
        let zone_bytes = (store.space().zone_blocks() - 1) * 4096;
        let put = |file: u64| {
            let mut writer = store.create(&path(&format!("/{file}")), FileTags::of(kind))?;
            writer.append(&vec![1; usize::try_from(zone_bytes).unwrap()])?;
            writer.close()
        };
        let fit = (0..).take_while(|file| put(*file).is_ok()).count() as u64;
        let events = (0..=fit).flat_map(|file| {
            let (path, tags, file) = (path(&format!("/{file}")), FileTags::of(kind), FileId(file));
            let created = TraceEvent::Create { file, tags, path };
            [created, TraceEvent::Append { file, bytes: zone_bytes }, TraceEvent::Close { file }]
        });
        let trace: Vec<TraceRecord> = events.map(|event| TraceRecord { at_us: 0, event }).collect();
        let options = ReplayOptions {
            zone_bytes,
            // One is the journal's.
            zones: 23,
            active_max: Some(14),
            reserve_zones: 3,
            free: FreeSpace::AsStore,
            ..ReplayOptions::of_the_paper(by_name("ldp").unwrap())
        };
        let all = replay(&trace[..trace.len() - 3], &options);
        assert!(all.is_ok(), "{kind:?}: {fit} find a zone, {all:?}");
        let refused = replay(&trace, &options).map(drop);
        assert!(matches!(refused, Err(FileError::NoSpace { .. })), "{kind:?}: no more than {fit} do, {refused:?}");
    }
}

fn check(policy: &str, Both { live, resets, replayed, .. }: &Both) {
    let is_near = |one: u64, other: u64, percent: u64| one.abs_diff(other) * 100 <= percent * one.max(other);
    let copied = live.copied_bytes;
    assert!(copied > 8 << 20, "{policy}: {copied} bytes copied");
    let context = format!("{policy}: {copied} bytes copied, {resets} resets; replayed {replayed:?}");
    assert!(is_near(copied, replayed.copied_bytes, 20), "{context}");
    assert!(is_near(*resets, replayed.resets, 6), "{context}");
}
