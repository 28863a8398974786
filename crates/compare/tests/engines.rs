//! Every engine that is here against a map, with its log off and on, through the same calls as the bench makes; and both comparisons and
//! the papers' experiments that have other engines in them end to end, tiny. Engines that are not installed are named as not run;
//! `ZONDA_PEERS` says which must be.
//!
//! Without the usual test harness, because the comparison starts this very program again: `engines contest PLAN` is the
//! process that one engine is measured in.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::process::ExitCode;

use zonda_bench::experiment::ChildProgram;
use zonda_bench::race::Track;
use zonda_bench::repro::{EXPERIMENTS, Experiment, Runner, Scale};
use zonda_bench::{BenchError, Durability, Output, Result, StorePlan, Subject, contest};
use zonda_compare::{engines, speed};
use zonda_rt::Rng;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, plan] = words.as_slice()
        && word == "contest"
    {
        return served(plan);
    }
    let mut count = Count::default();
    for engine in engines::names().into_iter().chain(["zonda"]) {
        count.test(engine, agrees_with_a_map(engine, false));
        if (engines::ALL.unavailable)(&plan(Path::new("."), engine, true)).is_none() {
            count.test(engine, agrees_with_a_map(engine, true));
        }
    }
    count.test("rocksdb", rocksdb_is_told_what_is_fair());
    count.test("bf-tree", bftree_has_logged_what_is_put());
    for experiment in [&speed::ZKV, &speed::BFTREE].into_iter().chain(EXPERIMENTS.into_iter().filter(has_peers)) {
        count.test(experiment.name, compared(experiment).map(|()| Ran::Yes));
    }
    count.close()
}

/// How a test went that did not fail.
enum Ran {
    Yes,
    /// Its engine is not installed, and nobody demands it.
    No(String),
}

/// Which engines must be here: their names, separated by commas, or `all`. Without it those that are not installed are not tested, and the
/// test says so.
const DEMANDED: &str = "ZONDA_PEERS";

fn is_demanded(engine: &str) -> bool {
    let demanded = std::env::var(DEMANDED).unwrap_or_default();
    demanded.split(',').any(|name| name == engine || name == "all")
}

#[derive(Default)]
struct Count {
    passed: u32,
    failed: u32,
    not_run: u32,
}

impl Count {
    fn test(&mut self, name: &str, result: Result<Ran>) {
        match result {
            Ok(Ran::No(why)) => {
                eprintln!("test {name} ... NOT RUN: {why} ({DEMANDED}={name} makes this a failure)");
                self.not_run += 1;
            }
            Ok(Ran::Yes) => {
                eprintln!("test {name} ... ok");
                self.passed += 1;
            }
            Err(error) => {
                eprintln!("test {name} ... FAILED: {error}");
                self.failed += 1;
            }
        }
    }

    fn close(self) -> ExitCode {
        let Self { passed, failed, not_run } = self;
        let word = if failed == 0 { "ok" } else { "FAILED" };
        println!("\ntest result: {word}. {passed} passed; {failed} failed; {not_run} ignored");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn served(plan: &str) -> ExitCode {
    match contest::serve(plan, engines::ALL) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(directory: &Path, engine: &str, log: bool) -> StorePlan {
    let mut plan = StorePlan::new(format!("file:{}", directory.join("pairs").display()), 8 << 20, 1);
    engine.clone_into(&mut plan.design);
    plan.log = log;
    plan
}

/// What RocksDB itself says that it was told, and that a put is in its log's file before anybody asks for that.
fn rocksdb_is_told_what_is_fair() -> Result<Ran> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let plan = plan(directory.path(), "rocksdb", true);
    if (engines::ALL.unavailable)(&plan).is_some() {
        return Ok(Ran::No("its options are not seen".to_owned()));
    }
    let subject = (engines::ALL.create)(&plan)?;
    let files = directory.path().join("pairs.rocksdb");
    let named = |wanted: &dyn Fn(&str) -> bool| {
        let names = std::fs::read_dir(&files).expect("its directory is there").flatten().map(|entry| entry.path());
        names.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(wanted)).collect::<Vec<_>>()
    };
    let options = named(&|name| name.starts_with("OPTIONS-"));
    let told = std::fs::read_to_string(&options[0]).expect("its options are in a file");
    let of_tables =
        ["index_type=kTwoLevelIndexSearch", "partition_filters=true", "pin_top_level_index_and_filter=true"];
    let of_database = ["optimize_filters_for_hits=true", "max_open_files=-1", "manual_wal_flush=true"];
    for option in of_database.into_iter().chain(of_tables) {
        if !told.contains(option) {
            return wrong(0, format!("rocksdb was not told {option}")).map(|()| Ran::Yes);
        }
    }
    subject.put(b"key", b"value", Durability::Buffered)?;
    let logged =
        || named(&|name| name.ends_with(".log")).iter().any(|path| path.metadata().is_ok_and(|it| it.len() > 0));
    while !logged() {
        zonda_rt::yield_now();
    }
    subject.close().map(|()| Ran::Yes)
}

/// That a put is in its log's file when it returns, in segments that its recovery can read.
fn bftree_has_logged_what_is_put() -> Result<Ran> {
    const SEGMENT_BYTES: usize = 4096;
    const PAIRS: u64 = 200;
    // 47 B each, and a segment is left once it is half full.
    const SEGMENTS_MAX: usize = 5;
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let subject = (engines::ALL.create)(&plan(directory.path(), "bf-tree", true))?;
    let log = directory.path().join("pairs.bf-tree/log");
    for number in 0..PAIRS {
        let value = format!("value {number:04}");
        subject.put(&number.to_be_bytes(), value.as_bytes(), Durability::Buffered)?;
        let logged = std::fs::read(&log).expect("its log is there");
        // It waits for every put but the first.
        if number > 0 && !logged.windows(value.len()).any(|found| found == value.as_bytes()) {
            return wrong(number, "bf-tree returned before its log had the put".to_owned()).map(|()| Ran::Yes);
        }
        if !logged.len().is_multiple_of(SEGMENT_BYTES) || logged.len() > SEGMENTS_MAX * SEGMENT_BYTES {
            return wrong(number, format!("its log has {} bytes", logged.len())).map(|()| Ran::Yes);
        }
    }
    subject.sync()?;
    subject.close().map(|()| Ran::Yes)
}

/// Random puts, deletes, gets, multi-gets and scans; every answer must be the map's.
fn agrees_with_a_map(engine: &str, log: bool) -> Result<Ran> {
    const SEED: u64 = 7;
    const OPERATIONS: u64 = 4_000;
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let plan = plan(directory.path(), engine, log);
    if let Some(why) = (engines::ALL.unavailable)(&plan) {
        return if is_demanded(engine) { Err(BenchError::Child(why)) } else { Ok(Ran::No(why)) };
    }
    let subject = (engines::ALL.create)(&plan)?;
    let (mut map, mut rng) = (BTreeMap::new(), Rng::seeded(SEED));
    for operation in 0..OPERATIONS {
        let key = rng.below(500).to_be_bytes().to_vec();
        match rng.below(10) {
            0 => {
                subject.delete(&key)?;
                map.remove(&key);
            }
            1..6 => {
                let value = [rng.next_u64().to_le_bytes(); 2].concat();
                subject.put(&key, &value, Durability::Buffered)?;
                map.insert(key, value);
            }
            6..8 => expect_get(&*subject, &map, &key, operation)?,
            8 => {
                let keys: Vec<_> = (0..1 + rng.below(70)).map(|_| rng.below(500).to_be_bytes().to_vec()).collect();
                expect_multi_get(&*subject, &map, &keys, operation)?;
            }
            _ => expect_scan(&*subject, &map, &key, 1 + rng.below(30), operation)?,
        }
    }
    expect_scan(&*subject, &map, &[], u64::MAX, OPERATIONS)?;
    subject.sync()?;
    subject.checkpoint()?;
    expect_scan(&*subject, &map, &[], u64::MAX, OPERATIONS)?;
    let all: Vec<_> = (0..500_u64).map(|key| key.to_be_bytes().to_vec()).collect();
    expect_multi_get(&*subject, &map, &all, OPERATIONS)?;
    subject.close().map(|()| Ran::Yes)
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn wrong(index: u64, what: String) -> Result<()> {
    Err(BenchError::Wrong { index, what: format!("(operation of seed 7) {what}") })
}

fn expect_get(subject: &dyn Subject, map: &Map, key: &[u8], operation: u64) -> Result<()> {
    let mut value = Vec::new();
    let found = subject.get(key, &mut value)?.then_some(value);
    if found.as_ref() == map.get(key) { Ok(()) } else { wrong(operation, format!("got {found:?} for {key:?}")) }
}

fn expect_multi_get(subject: &dyn Subject, map: &Map, keys: &[Vec<u8>], operation: u64) -> Result<()> {
    let found = subject.multi_get(keys)?;
    let expected: Vec<_> = keys.iter().map(|key| map.get(key).cloned()).collect();
    if found == expected { Ok(()) } else { wrong(operation, format!("got {found:?} for {} keys", keys.len())) }
}

fn expect_scan(subject: &dyn Subject, map: &Map, from: &[u8], pairs: u64, operation: u64) -> Result<()> {
    let mut found = Vec::new();
    let seen = subject.scan(from, pairs, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    let limit = usize::try_from(pairs).unwrap_or(usize::MAX);
    let expected = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).take(limit);
    let expected: Vec<_> = expected.map(|(key, value)| (key.clone(), value.clone())).collect();
    if found == expected && seen == expected.len() as u64 {
        return Ok(());
    }
    wrong(operation, format!("a scan of {pairs} from {from:?} found {} pairs, not {}", found.len(), expected.len()))
}

/// Whether one of the engines is in an experiment of a paper.
fn has_peers(experiment: &&Experiment) -> bool {
    let races = (experiment.races)(Scale::Tiny);
    races.iter().flat_map(|race| &race.contenders).any(|one| engines::names().contains(&one.store.design.as_str()))
}

/// A whole comparison at its tiny scale, each engine in a process of its own. Everybody who is here must have done every step.
fn compared(experiment: &Experiment) -> Result<()> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let program = Some(ChildProgram::current(&["contest"])?);
    let track = Track { engines: engines::ALL, program, directory: directory.path().to_owned(), seed: 1 };
    let out = directory.path().join("out");
    let runner = Runner {
        track,
        scale: Scale::Tiny,
        out,
        json: None,
        resume: false,
        only: Vec::new(),
        points: Vec::new(),
        keys: None,
    };
    let results = runner.run(experiment, &mut Output::to(Box::new(std::io::sink()), None))?;
    let missing = results.missing();
    if missing.is_empty() { Ok(()) } else { wrong(0, format!("left out {missing:?}")) }
}
