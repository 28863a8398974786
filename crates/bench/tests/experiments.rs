//! Every experiment end to end at its tiny scale, so that none of them rots.
//!
//! Without the usual test harness, because some of them start this very program again: `experiments child TASK` is the
//! child that is killed, `experiments contest PLAN` one that measures a store.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use zonda_bench::contest::{self, Engines, KeysFrom};
use zonda_bench::experiment::{
    ChildProgram, ChildTask, Kill, Large, Overwrite, Reads, Scale, Setting, Space, Suite, Sync,
};
use zonda_bench::race::{Contender, Track};
use zonda_bench::repro::{self, EXPERIMENTS as REPROS, Runner};
use zonda_bench::{BenchError, Output, Result};

type Experiment = fn(Setting, &mut Output) -> Result<()>;

const EXPERIMENTS: [(&str, Experiment); 7] = [
    ("suite", |setting, output| Suite::new(setting).run(output)),
    ("sync", |setting, output| Sync::new(setting).run(output)),
    ("space", |setting, output| Space::new(setting).run(output)),
    ("overwrite", |setting, output| Overwrite::new(setting).run(output)),
    ("large", |setting, output| Large::new(setting, ChildProgram::current(&["child"])?).run(output)),
    ("reads", |setting, output| Reads::new(setting).run(output)),
    ("kill", |setting, output| Kill::new(setting, ChildProgram::current(&["child"])?).run(output)),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [word, task] if word == "child" => report("child", ChildTask::run(task)),
        [word, plan] if word == "contest" => report("contest", contest::serve(plan, Engines::OWN)),
        words => {
            let filter = words.iter().find(|word| !word.starts_with('-')).map(String::as_str);
            all(filter, words.iter().any(|word| word == "--nocapture"))
        }
    }
}

/// Runs the experiments whose names contain `filter`, as many at a time as there are processors (with `shown` one by one, with
/// the experiments' own words), and prints what `cargo test` users expect.
fn all(filter: Option<&str>, shown: bool) -> ExitCode {
    let benches = EXPERIMENTS.iter().map(|(name, experiment)| (*name, Test::Bench(*experiment)));
    let repros = REPROS.iter().map(|repro| (repro.name, Test::Repro(repro)));
    let tests = benches.chain(repros).chain([("keys-from-a-file", Test::Keys), ("kept-points", Test::Kept)]);
    let tests: Vec<_> = tests.filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter))).collect();
    let lanes = if shown { 1 } else { thread::available_parallelism().map_or(1, usize::from) };
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut passed = 0;
        while let Some((name, test)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            passed += usize::from(test.passes(name, shown));
        }
        passed
    };
    let passed: usize = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap_or(0)).sum()
    });
    let failed = tests.len() - passed;
    println!("\ntest result: {}. {passed} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

enum Test {
    Bench(Experiment),
    Repro(&'static repro::Experiment),
    Keys,
    Kept,
}

impl Test {
    fn passes(&self, name: &str, shown: bool) -> bool {
        let result = match self {
            Self::Bench(experiment) => tiny(*experiment, shown),
            Self::Repro(experiment) => reproduced(experiment, shown),
            Self::Keys => keys_from_a_file(shown),
            Self::Kept => kept_points(shown),
        };
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        report(name, result) == ExitCode::SUCCESS
    }
}

/// Runs a reproduction twice: the second time takes every complete point from the first one's results. The first experiment
/// measures in children, as the command does; the others here, which is faster.
fn reproduced(experiment: &'static repro::Experiment, shown: bool) -> Result<()> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let in_children = experiment.name == REPROS[0].name;
    let program = if in_children { Some(ChildProgram::current(&["contest"])?) } else { None };
    let mut runner = runner(directory.path(), program);
    let scale = runner.scale;
    runner.points = vec!["no such point".to_owned()];
    if runner.run(experiment, &mut quiet(false)).is_ok() || runner.out.exists() {
        return Err(BenchError::Wrong { index: 0, what: "a point that does not exist was run".to_owned() });
    }
    runner.points.clear();
    let first = runner.run(experiment, &mut quiet(shown))?;
    runner.resume = true;
    // Nothing is run again for a point that is not asked for.
    runner.points = first.points.first().map(|point| point.race.x.clone()).into_iter().collect();
    let second = runner.run(experiment, &mut quiet(false))?;
    if in_children {
        runner.resume = false;
        runner.run(experiment, &mut quiet(false))?;
        let json = runner.out.join(format!("{}-tiny.json", experiment.name));
        let kept = repro::Results::load(&json, experiment.name, scale, 1)?.map_or(0, |kept| kept.points.len());
        if kept != first.points.len() {
            let what = format!("{kept} points are kept of {}, one of which was run again", first.points.len());
            return Err(BenchError::Wrong { index: 0, what });
        }
        runner.resume = true;
    }
    runner.points.clear();
    let here = |contender: &Contender| contender.store.unavailable().is_none();
    let complete = first.points.iter().filter(|point| first.done(&point.race, here).is_some());
    let wrong = complete.into_iter().find(|point| second.done(&point.race, here) != Some(point));
    let missing = first.missing();
    let drawn = std::fs::read_dir(&runner.out).into_iter().flatten().count();
    let files = 2 + experiment.figures.len();
    match (wrong, missing.is_empty(), drawn == files) {
        (None, true, true) => Ok(()),
        (wrong, ..) => {
            let what = format!("again: {wrong:?}; missing: {missing:?}; {drawn} files of {files}");
            Err(BenchError::Wrong { index: 0, what })
        }
    }
}

fn runner(directory: &Path, program: Option<ChildProgram>) -> Runner {
    let track = Track { engines: Engines::OWN, program, directory: directory.to_owned(), seed: 1 };
    Runner {
        track,
        scale: repro::Scale::Tiny,
        out: directory.join("out"),
        json: None,
        resume: false,
        only: Vec::new(),
        points: Vec::new(),
        keys: None,
    }
}

/// A file of keys takes the place of all that are computed; one with too few of them is refused.
fn keys_from_a_file(shown: bool) -> Result<()> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let experiment = REPROS.iter().find(|repro| repro.name == "zkv-fig20").expect("an experiment of this name");
    let mut runner = runner(directory.path(), None);
    let file = directory.path().join("squares");
    let squares = |count: u64| {
        let numbers = std::iter::once(count).chain((0..count).map(|root| root * root));
        fs::write(&file, numbers.flat_map(u64::to_le_bytes).collect::<Vec<_>>()).expect("room for a file");
    };
    runner.keys = Some(file.clone());
    squares(100);
    if runner.run(experiment, &mut quiet(false)).is_ok() {
        return Err(BenchError::Wrong { index: 0, what: "100 keys were enough".to_owned() });
    }
    squares(1 << 18);
    let results = runner.run(experiment, &mut quiet(shown))?;
    let given = Some(KeysFrom::File(file.clone()));
    match results.points.as_slice() {
        [point] if point.race.data.keys_from == given => Ok(()),
        points => {
            let what = format!("points: {:?}", points.iter().map(|point| &point.race).collect::<Vec<_>>());
            Err(BenchError::Wrong { index: 0, what })
        }
    }
}

/// What was measured with other work is not shown beside what is measured now.
fn kept_points(shown: bool) -> Result<()> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let experiment = REPROS.iter().find(|repro| repro.name == "zkv-fig20").expect("an experiment of this name");
    let mut runner = runner(directory.path(), None);
    let first = runner.run(experiment, &mut quiet(shown))?;
    let json = runner.out.join("zkv-fig20-tiny.json");
    let mut others = first.clone();
    for point in &mut others.points {
        point.race.slices += 1;
    }
    others.save(&json)?;
    runner.points = first.points.first().map(|point| point.race.x.clone()).into_iter().collect();
    let again = runner.run(experiment, &mut quiet(false))?;
    if again.points.len() != 1 {
        let what = format!("{} points are kept of other work", again.points.len() - 1);
        return Err(BenchError::Wrong { index: 0, what });
    }
    Ok(())
}

fn quiet(shown: bool) -> Output {
    let text: Box<dyn io::Write> = if shown { Box::new(io::stdout()) } else { Box::new(io::sink()) };
    Output::to(text, Some(Box::new(io::sink())))
}

fn tiny(experiment: Experiment, shown: bool) -> Result<()> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let mut setting = Setting::new(1, Scale::Tiny);
    setting.directory = directory.path().to_owned();
    let said = directory.path().join("said");
    let text = Box::new(fs::File::create(&said).expect("room for a file"));
    experiment(setting, &mut Output::to(text, Some(Box::new(io::sink()))))?;
    let said = fs::read_to_string(said).expect("what was written is read");
    if shown {
        println!("{said}");
    }
    // What targets stand for is much more than this.
    let judged = said.lines().find(|line| line.starts_with("target ") && line.ends_with("ed"));
    match judged {
        Some(line) => Err(BenchError::Wrong { index: 0, what: format!("is judged at a tiny scale: {line}") }),
        None if said.contains(": not judged, it stands for ") => Ok(()),
        None => Err(BenchError::Wrong { index: 0, what: format!("has no target that is not judged: {said}") }),
    }
}

fn report(name: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
