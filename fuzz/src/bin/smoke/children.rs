//! Several targets at a time, each in a process of its own: the limit of the heap and the input that is running are of a process.

use std::{
    io,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use zonda_fuzz::{TARGETS, Target};

/// How a line begins that says how many targets passed; the parent prints its own.
pub(crate) const VERDICT: &str = "test result: ";

/// Runs every target with these arguments, `jobs` at a time, and shows what each said when it has ended. Returns how many
/// passed and how many failed.
pub(crate) fn run_all(arguments: &[String], jobs: usize) -> (usize, usize) {
    let (next, arguments) = (Arc::new(AtomicUsize::new(0)), Arc::new(arguments.to_vec()));
    let worker = |_| {
        let (next, arguments) = (Arc::clone(&next), Arc::clone(&arguments));
        zonda_rt::spawn("targets", move || {
            let mut passed = 0;
            while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                passed += usize::from(passes(target, &arguments));
            }
            passed
        })
    };
    let workers: Vec<_> = (0..jobs.max(1)).map(worker).collect();
    let passed = workers.into_iter().map(|worker| worker.join().expect("a worker only waits and prints")).sum();
    (passed, TARGETS.len() - passed)
}

/// Whether the process of a target ended well. One that was ended by the watchdog or the allocator did not.
fn passes(target: &Target, arguments: &[String]) -> bool {
    match run(target, arguments) {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<_> = said.lines().filter(|line| !line.starts_with(VERDICT)).collect();
            println!("{}", lines.join("\n"));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            if !output.status.success() {
                println!("{}: {}", target.name, output.status);
            }
            output.status.success()
        }
        Err(error) => {
            println!("{}: cannot be started: {error}", target.name);
            false
        }
    }
}

fn run(target: &Target, arguments: &[String]) -> io::Result<Output> {
    Command::new(std::env::current_exe()?).args(["--target", target.name]).args(arguments).output()
}
