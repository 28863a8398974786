//! The smoke run: every target on stable Rust for a few seconds, from a seed.
//!
//! It finds what I10 forbids: a panic (caught), a hang (a watchdog ends the program) and unbounded allocation (the
//! allocator ends the program). Each prints the command that replays the one input. Every target runs in a process of its own, so
//! that one which ends does not hide what the others find.

#[path = "smoke/children.rs"]
mod children;
#[path = "smoke/heap.rs"]
mod heap;
#[path = "smoke/running.rs"]
mod running;

use std::{fs, panic, process::ExitCode, time::Duration};

use clap::Parser;
use zonda_fuzz::{TARGETS, Target, generate::Generator, regressions, target};

#[global_allocator]
static HEAP: heap::LimitedHeap = heap::LimitedHeap;

/// Feeds every decoder seeded random and mutated inputs.
#[derive(Parser)]
struct Arguments {
    /// Seconds per target
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Seed of the generated inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Targets at a time [default: as many as there are processors]
    #[arg(long, conflicts_with = "target")]
    jobs: Option<usize>,
    /// This target only, in this process [default: all]
    #[arg(long, value_parser = named_target)]
    target: Option<&'static Target>,
    /// Replay the generated input with this number only
    #[arg(long, requires = "target")]
    input: Option<u64>,
    /// Write the replayed input to this file, to keep it in regressions/TARGET/
    #[arg(long, requires = "input")]
    save: Option<std::path::PathBuf>,
}

fn named_target(name: &str) -> Result<&'static Target, String> {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    target(name).ok_or_else(|| format!("no such target; there are {}", names.join(", ")))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some(target) = arguments.target else { return conclude(all(&arguments)) };
    running::start_watchdog();
    match arguments.input {
        Some(index) => replay(&arguments, target, index),
        None if smoke(target, &arguments) => conclude((1, 0)),
        None => conclude((0, 1)),
    }
}

fn all(arguments: &Arguments) -> (usize, usize) {
    let Arguments { seconds, seed, .. } = arguments;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let passed_on = ["--seconds".to_owned(), seconds.to_string(), "--seed".to_owned(), seed.to_string()];
    children::run_all(&passed_on, arguments.jobs.unwrap_or_else(processors))
}

/// Says how many targets passed and how many failed, as cargo's test harness does.
fn conclude((passed, failed): (usize, usize)) -> ExitCode {
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("{}{verdict}. {passed} passed; {failed} failed; (fuzz targets)", children::VERDICT);
    ExitCode::from(u8::from(failed > 0))
}

/// Runs one target on its regressions, then on generated inputs until the time is up. False after a panic.
fn smoke(target: &'static Target, arguments: &Arguments) -> bool {
    let generator = Generator::new(target, arguments.seed);
    let regressions = regressions::of(target).expect("the repository's regressions can be read");
    if !regressions.iter().all(|(name, input)| runs(target, input, &format!("regression {name}"))) {
        return false;
    }
    let (began, limit) = (zonda_rt::now(), Duration::from_secs(arguments.seconds));
    for index in 0.. {
        if zonda_rt::now().since(began) >= limit {
            println!("{}: {} regressions, {index} inputs", target.name, regressions.len());
            break;
        }
        running::begin(target.name, arguments.seed, index);
        if !runs(target, &generator.input(index), "a generated input") {
            running::print_replay();
            return false;
        }
        running::end();
    }
    true
}

fn replay(arguments: &Arguments, target: &'static Target, index: u64) -> ExitCode {
    let input = Generator::new(target, arguments.seed).input(index);
    println!("{} bytes: {:02x?}", input.len(), &input[..input.len().min(256)]);
    if let Some(path) = &arguments.save {
        fs::write(path, &input).expect("the file given with --save can be written");
    }
    running::begin(target.name, arguments.seed, index);
    let passed = runs(target, &input, "the replayed input");
    ExitCode::from(u8::from(!passed))
}

/// Runs one input; prints what it was when the target panics.
fn runs(target: &Target, input: &[u8], what: &str) -> bool {
    let passed = panic::catch_unwind(|| (target.run)(input)).is_ok();
    if !passed {
        println!("{}: panic on {what} of {} bytes", target.name, input.len());
    }
    passed
}
