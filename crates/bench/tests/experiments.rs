//! Every experiment end to end at its tiny scale, so that none of them rots.
//!
//! Without the usual test harness, because two of them start this very program again as a child to be killed:
//! `experiments child TASK` is that child.

use std::io;
use std::process::ExitCode;

use zonda_bench::experiment::{
    ChildProgram, ChildTask, Kill, Large, Overwrite, Reads, Scale, Setting, Space, Suite, Sync,
};
use zonda_bench::{Output, Result};

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
        words => {
            let filter = words.iter().find(|word| !word.starts_with('-')).map(String::as_str);
            all(filter, words.iter().any(|word| word == "--nocapture"))
        }
    }
}

/// Runs the experiments whose names contain `filter`, and prints what `cargo test` users expect; with `shown`, the
/// experiments' own words too.
fn all(filter: Option<&str>, shown: bool) -> ExitCode {
    let chosen = EXPERIMENTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter)));
    let (mut passed, mut failed) = (0, 0);
    for (name, experiment) in chosen {
        let result = tiny(*experiment, shown);
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        let succeeded = report(name, result) == ExitCode::SUCCESS;
        passed += u32::from(succeeded);
        failed += u32::from(!succeeded);
    }
    println!("\ntest result: {}. {passed} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tiny(experiment: Experiment, shown: bool) -> Result<()> {
    let directory = tempfile::tempdir().expect("the system has a directory for temporary files");
    let mut setting = Setting::new(1, Scale::Tiny);
    setting.directory = directory.path().to_owned();
    let text: Box<dyn io::Write> = if shown { Box::new(io::stdout()) } else { Box::new(io::sink()) };
    experiment(setting, &mut Output::to(text, Some(Box::new(io::sink()))))
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
