//! What is kept of runs of a model, and what is taken from there.

use zonda_rt::atomic::{AtomicU64, Ordering};

use super::*;

#[test]
fn names_are_unique_and_points_too() {
    let names: std::collections::BTreeSet<_> = DRIVE_EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    assert_eq!(names.len(), DRIVE_EXPERIMENTS.len());
    for experiment in DRIVE_EXPERIMENTS {
        for scale in Scale::ALL {
            let points = (experiment.points)(scale).unwrap();
            let ids: std::collections::BTreeSet<_> = points.iter().map(|point| &point.id).collect();
            assert!(!ids.is_empty() && ids.len() == points.len(), "{}", experiment.name);
        }
    }
}

/// A number without its unit says nothing.
#[test]
fn axes_have_units() {
    let units = ["second", "/s", "us", "MiB", "GiB", "GB", "MB", "%", "ratio", "zones"];
    for experiment in DRIVE_EXPERIMENTS {
        for (ending, chart) in (experiment.charts)(&DriveResults::new(experiment.name, Scale::Laptop)) {
            let words: Vec<&str> = chart.y_label.split([' ', '(', ')', ',']).collect();
            let has = |unit: &str| words.iter().any(|word| *word == unit || unit == "/s" && word.ends_with(unit));
            assert!(units.iter().any(|unit| has(unit)), "{} {ending}: {}", experiment.name, chart.y_label);
        }
    }
}

/// An experiment that says and draws nothing.
fn experiment(
    name: &'static str,
    points: fn(Scale) -> Result<Vec<Point>>,
    columns: &'static [&'static str],
) -> DriveExperiment {
    let (charts, judge) = (|_: &_| Vec::new(), |_: &_| Vec::new());
    DriveExperiment { name, title: "", source: "", how: "", points, columns, charts, judge }
}

/// Runs all points of an experiment, tiny, with the first seed, and goes on with what the directory has.
fn runner(directory: &tempfile::TempDir) -> DriveRunner {
    let out = directory.path().to_owned();
    let (only, points) = (Vec::new(), Vec::new());
    DriveRunner { scale: Scale::Tiny, out, json: None, resume: true, only, points, seeds: vec![1] }
}

/// Says nothing.
fn run(runner: &DriveRunner, experiment: &DriveExperiment) -> Result<DriveResults> {
    runner.run(experiment, &mut Output::to(Box::new(std::io::sink()), None))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Three points, each a row that says how often points were run before.
fn counting(_: Scale) -> Result<Vec<Point>> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let point = |id: &str| {
        let name = id.to_owned();
        let run =
            move |_| Ok(vec![DriveRow::of(&name, "x").number("runs", RUNS.fetch_add(1, Ordering::Relaxed) as f64)]);
        Point::new(id, Maker::Here, run)
    };
    Ok(["one", "two", "three"].map(point).into())
}

#[test]
fn rows_of_points_that_are_not_run_are_kept() {
    let experiment = experiment("counting", counting, &["runs"]);
    let directory = tempfile::tempdir().unwrap();
    let results_of = |resume: bool, only: &[&str], points: &[&str]| {
        let (only, points) = (owned(only), owned(points));
        run(&DriveRunner { resume, only, points, ..runner(&directory) }, &experiment)
    };
    let run = |resume: bool, only: &[&str]| {
        let results = results_of(resume, only, &[]).unwrap();
        results.rows.iter().map(|row| format!("{} {}", row.series, row.numbers["runs"])).collect::<Vec<_>>()
    };
    let rows = |numbers: [u64; 3]| {
        let names = ["one", "two", "three"].into_iter().zip(numbers);
        names.map(|(name, number)| format!("{name} {number}")).collect::<Vec<_>>()
    };
    assert_eq!(run(true, &["one", "three"]).len(), 2, "0 and 1");
    assert_eq!(run(true, &["two"]), rows([0, 2, 1]), "in their order");
    assert_eq!(run(true, &[]), rows([0, 2, 1]));
    assert_eq!(run(false, &["three"]), rows([0, 2, 3]), "that one is run again");
    assert_eq!(run(false, &[]), rows([4, 5, 6]), "nothing is kept");
    let again = results_of(false, &[], &["two"]).unwrap();
    assert_eq!(again.rows.iter().map(|row| row.numbers["runs"]).collect::<Vec<_>>(), [4.0, 7.0, 6.0]);
    let refused = |only: &[&str], points: &[&str]| results_of(false, only, points).unwrap_err().to_string();
    assert!(refused(&[], &["tw"]).contains("--point"), "{}", refused(&[], &["tw"]));
    assert!(refused(&["four"], &[]).contains("\"one\", \"two\""), "{}", refused(&["four"], &[]));
}

/// Results of another seed, experiment or scale are overwritten by none who would go on with them.
#[test]
fn a_run_does_not_go_on_with_what_is_not_its_own() {
    let points = |_| {
        let run = |_| Ok(vec![DriveRow::of("a", "x").number("runs", 1.0)]);
        Ok(vec![Point::new("a", Maker::Here, run)])
    };
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("kept.json");
    let run = |resume: bool, name: &'static str, scale: Scale, seed: u64| {
        let (json, seeds) = (Some(json.clone()), vec![seed]);
        let runner = DriveRunner { scale, json, resume, seeds, ..runner(&directory) };
        run(&runner, &experiment(name, points, &["runs"])).map(drop)
    };
    run(true, "own", Scale::Tiny, 1).unwrap();
    let kept = fs::read_to_string(&json).unwrap();
    for (name, scale, seed) in [("own", Scale::Tiny, 2), ("other", Scale::Tiny, 1), ("own", Scale::Laptop, 1)] {
        let refused = run(true, name, scale, seed).unwrap_err();
        assert!(matches!(refused, BenchError::Usage { option: "--json", .. }), "{refused}");
        assert_eq!(fs::read_to_string(&json).unwrap(), kept);
    }
    run(true, "own", Scale::Tiny, 1).unwrap();
    fs::write(&json, "{}").unwrap();
    assert!(run(true, "own", Scale::Tiny, 1).unwrap_err().to_string().contains("results of own at scale tiny"));
    run(false, "other", Scale::Tiny, 2).unwrap();
}

#[test]
fn what_failed_is_run_again_and_what_cannot_be_run_leaves_what_is_there() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let points = |_| {
        let run = |_| {
            let row = DriveRow::of("a", "x").number("runs", 1.0);
            Ok(match RUNS.fetch_add(1, Ordering::Relaxed) {
                0 => vec![row.option(FAILED, "no space")],
                1 => vec![row],
                _ => Vec::new(),
            })
        };
        Ok(vec![Point::new("a", Maker::Here, run)])
    };
    let experiment = experiment("failing", points, &["runs"]);
    let directory = tempfile::tempdir().unwrap();
    let run = |resume: bool| run(&DriveRunner { resume, ..runner(&directory) }, &experiment);
    let kept = || fs::read_to_string(directory.path().join("failing-tiny.json")).unwrap();
    assert!(run(false).unwrap_err().to_string().contains("a of a: no space"));
    assert!(kept().contains("no space"));
    assert_eq!(run(true).unwrap().rows.len(), 1);
    let whole = kept();
    assert!(!whole.contains("no space"));
    assert_eq!(run(true).unwrap().rows.len(), 1);
    assert_eq!(RUNS.load(Ordering::Relaxed), 2, "taken from what is kept");
    assert!(run(false).unwrap().rows.is_empty());
    assert_eq!(kept(), whole);
}

#[test]
fn rows_of_another_model_are_left_out_and_kept_beside() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let points = |_| {
        let run = |_| Ok(vec![DriveRow::of("a", "x").number("runs", RUNS.fetch_add(1, Ordering::Relaxed) as f64)]);
        Ok(["one", "two"].map(|id| Point::new(id, Maker::Drive("zn540"), run)).into())
    };
    let experiment = experiment("modelled", points, &["runs"]);
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("modelled-tiny.json");
    let run = |points: &[&str]| {
        let results = run(&DriveRunner { points: owned(points), ..runner(&directory) }, &experiment).unwrap();
        results.rows.iter().map(|row| row.numbers["runs"]).collect::<Vec<_>>()
    };
    assert_eq!(run(&[]), [0.0, 1.0]);
    assert_eq!(run(&[]), [0.0, 1.0], "taken from what is kept");
    let kept = fs::read_to_string(&json).unwrap();
    let mut results = DriveResults::load(&json, "modelled", Scale::Tiny, Some(1)).unwrap().unwrap();
    results.rows[0].model = Some("profile 0, drives 0".to_owned());
    results.rows[1].model = None;
    results.save(&json).unwrap();
    let of_other = fs::read_to_string(&json).unwrap();
    assert_eq!(run(&["two"]), [1.0], "who does not say is taken, who says another is not");
    assert_eq!(fs::read_to_string(json.with_extension("other-model.json")).unwrap(), of_other);
    assert_eq!(run(&[]), [2.0, 1.0], "run anew");
    results.rows[0].model = Some("profile 1, drives 1".to_owned());
    for copies in [2, 2] {
        results.save(&json).unwrap();
        assert_eq!(run(&["two"]), [1.0]);
        assert_eq!(fs::read_to_string(json.with_extension("other-model.json")).unwrap(), of_other, "the older one");
        assert!(fs::read_to_string(json.with_extension("other-model-2.json")).unwrap().contains("drives 1"));
        assert!(!json.with_extension(format!("other-model-{}.json", copies + 1)).exists(), "there is a copy");
    }
    assert!(kept.contains("\"model\": \"profile "), "{kept}");
}

/// An hour's measurement is not to end with its first point.
#[test]
fn a_point_that_cannot_be_run_ends_no_experiment() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let points = |_| {
        let run = |_| match RUNS.fetch_add(1, Ordering::Relaxed) {
            0 | 3 => Err(BenchError::Child("put error: no space".to_owned())),
            _ => Ok(vec![DriveRow::of("a", "x").number("ops", 1.0).option("rocksdb", "b=1")]),
        };
        Ok(["one", "two"].map(|id| Point::new(id, Maker::Here, run).told("b=1".to_owned())).into())
    };
    let charts = |results: &DriveResults| {
        assert!(results.rows.iter().all(|row| row.series == "a"), "what failed is not drawn");
        Vec::new()
    };
    let experiment = DriveExperiment { charts, ..experiment("breaking", points, &["ops"]) };
    let directory = tempfile::tempdir().unwrap();
    let run = |resume: bool, only: &[&str]| {
        run(&DriveRunner { resume, only: owned(only), ..runner(&directory) }, &experiment)
    };
    let said = run(false, &[]).unwrap_err();
    assert!(
        matches!(&said, BenchError::Failed(why) if why.contains("one: child process: put error: no space")),
        "{said}"
    );
    assert_eq!(RUNS.load(Ordering::Relaxed), 2, "the other one is run");
    let text = fs::read_to_string(directory.path().join("breaking-tiny.txt")).unwrap();
    assert!(text.contains("FAILED: one of one, seed 1: child process: put error: no space"), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().eq(["one", "failed", "-"])), "{text}");
    assert!(run(true, &["two"]).is_err(), "that one is not run again, and its failure is still one");
    let json = directory.path().join("breaking-tiny.json");
    let kept = || DriveResults::load(&json, "breaking", Scale::Tiny, None).unwrap().unwrap().rows;
    assert_eq!(kept().iter().filter(|row| row.is_broken()).count(), 1);
    assert_eq!(run(true, &[]).unwrap().rows.len(), 2);
    assert_eq!(RUNS.load(Ordering::Relaxed), 3, "that one is run again, and the other taken");
    let good = kept();
    let said = run(false, &["one"]).unwrap_err().to_string();
    assert!(said.contains("one, seed 1, which keeps its rows of before: child process: put error: no space"), "{said}");
    assert_eq!(kept(), good, "what was measured outlives a run that breaks");
}

#[test]
fn seeds_are_kept_and_added() {
    let points = |_| {
        let run = |seed| Ok(vec![DriveRow::of("a", "x").number("seed", seed as f64).option("rocksdb", "b=1")]);
        Ok(vec![Point::new("live a", Maker::Here, run).told("b=1".to_owned())])
    };
    let experiment = experiment("splitzns-fig13", points, &["seed"]);
    let directory = tempfile::tempdir().unwrap();
    let run = |experiment: &DriveExperiment, resume: bool, seeds: &[u64]| {
        let (scale, seeds) = (Scale::Laptop, seeds.to_vec());
        run(&DriveRunner { scale, resume, seeds, ..runner(&directory) }, experiment).map(|results| results.seeds)
    };
    assert_eq!(run(&experiment, false, &[1, 2]).unwrap(), [1, 2]);
    assert_eq!(run(&experiment, true, &[4]).unwrap(), [1, 2, 4], "one is added");
    let text = fs::read_to_string(directory.path().join("splitzns-fig13-laptop.txt")).unwrap();
    assert!(
        text.contains("seeds 1, 2, 4,") && text.contains("1.00..4.00") && text.contains("live a, seed 4"),
        "{text}"
    );
    let other = |_| {
        let run = |_| Ok(vec![DriveRow::of("a", "x").option("rocksdb", "b=2")]);
        Ok(vec![Point::new("live a", Maker::Here, run).told("b=2".to_owned())])
    };
    let changed = DriveExperiment { points: other, ..experiment };
    assert_eq!(run(&changed, true, &[2]).unwrap(), [2], "rows of other options are not this experiment's");
    assert_eq!(run(&experiment, false, &[3]).unwrap(), [3], "a run that does not go on begins anew");
    let replay = DriveExperiment { name: "splitzns-fig11", ..experiment };
    assert!(run(&replay, false, &[1, 2]).unwrap_err().to_string().contains("--seeds"));
}

/// Every experiment, tiny, twice: the second time from what the first one kept.
#[test]
fn tiny_experiments_run_are_kept_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let runner = runner(&directory);
    for experiment in DRIVE_EXPERIMENTS {
        let first = run(&runner, experiment).unwrap();
        assert_eq!(run(&runner, experiment).unwrap(), first, "{}", experiment.name);
        assert!(!first.rows.is_empty() || !splitzns::has_tools(experiment), "{}: no rows", experiment.name);
        assert!(first.rows.iter().all(|row| row.numbers.values().all(|number| number.is_finite())));
        for (ending, _) in (experiment.charts)(&first) {
            assert_eq!(runner.file(experiment, ending, "svg").exists(), !first.rows.is_empty());
        }
    }
}
