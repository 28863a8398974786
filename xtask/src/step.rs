//! Steps: what they are and how a list of them runs.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::{clock::Stopwatch, tally::Tally, workspace::Workspace};

type Run = Box<dyn Fn(&Workspace, &mut Tally) -> Result<()>>;

/// One step: a name and what it does. It adds the tests it ran to the tally; a step that adds none is one check.
pub(crate) struct Step {
    /// The subcommand's name.
    pub(crate) name: &'static str,
    run: Run,
}

impl Step {
    /// A step that is done by `run`.
    pub(crate) fn new(name: &'static str, run: impl Fn(&Workspace, &mut Tally) -> Result<()> + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// Runs the step and settles its tally: at least one check passed, or at least one failed.
    fn settle(&self, workspace: &Workspace) -> (Tally, Result<()>) {
        let mut tally = Tally::default();
        let result = (self.run)(workspace, &mut tally);
        match &result {
            Ok(()) if tally.is_empty() => tally.passed = 1,
            Err(_) if tally.failed == 0 => tally.failed = 1,
            _ => {}
        }
        (tally, result)
    }
}

/// Runs the steps in order, stopping at the first that fails. The last line printed is `N passed, N failed`.
///
/// # Errors
/// What the first failing step says.
pub(crate) fn run(workspace: &Workspace, steps: &[Step]) -> Result<()> {
    let (mut total, watch) = (Tally::default(), Stopwatch::start());
    let mut done = Vec::new();
    for step in steps {
        println!("\n=== {} ({} of {}) ===", step.name, done.len() + 1, steps.len());
        let step_watch = Stopwatch::start();
        let (tally, result) = step.settle(workspace);
        total.add(tally);
        done.push((step.name, tally, step_watch.elapsed()));
        if let Err(error) = result {
            print_summary(&done, total, watch.elapsed());
            bail!("step {} failed: {error:#}\nrun it alone: cargo xtask {}", step.name, step.name);
        }
    }
    print_summary(&done, total, watch.elapsed());
    Ok(())
}

fn print_summary(done: &[(&str, Tally, Duration)], total: Tally, elapsed: Duration) {
    println!("\n=== summary ===");
    for (name, tally, time) in done {
        println!("{name:<12} {:>8.1} s  {tally}", time.as_secs_f64());
    }
    println!("{:<12} {:>8.1} s", "all", elapsed.as_secs_f64());
    println!("{} passed, {} failed", total.passed, total.failed);
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn settled(run: impl Fn(&Workspace, &mut Tally) -> Result<()> + 'static) -> Tally {
        Step::new("step", run).settle(&Workspace::find().unwrap()).0
    }

    #[test]
    fn a_step_without_tests_is_one_check() {
        assert_eq!(settled(|_, _| Ok(())), Tally { passed: 1, failed: 0, not_run: 0 });
        assert_eq!(settled(|_, _| Err(anyhow!("no"))), Tally { passed: 0, failed: 1, not_run: 0 });
    }

    #[test]
    fn a_failure_outside_the_tests_is_counted() {
        let fail_after_tests = |_: &Workspace, tally: &mut Tally| {
            tally.passed = 7;
            Err(anyhow!("did not compile"))
        };
        assert_eq!(settled(fail_after_tests), Tally { passed: 7, failed: 1, not_run: 0 });
    }
}
