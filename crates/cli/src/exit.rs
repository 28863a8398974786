//! Exit codes that scripts can rely on.

use std::io;
use std::process::ExitCode;

use zonda_bench::BenchError;

use crate::output::say;

/// How a command ended. The numbers are the process's exit codes: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// An error, or the key asked for does not exist.
    Failed = 1,
    /// A wrong command line: clap says so itself, or a bench of an option's value.
    Usage = 2,
    /// A check found damage, or damage was left out.
    Damaged = 3,
}

/// For `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  an error, or `get` found no such key
  2  wrong command line
  3  damage was found (`check`, `fs check`) or left out (`--skip-damaged`)";

impl Exit {
    /// Says what went wrong, if anything did.
    pub(crate) fn of(outcome: anyhow::Result<Self>) -> Self {
        match outcome {
            Ok(exit) => exit,
            Err(error) if is_broken_pipe(&error) => Self::Done,
            Err(error) => {
                say(format_args!("zonda: {}", sentence(&error)));
                if is_usage(&error) { Self::Usage } else { Self::Failed }
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error and its causes, each once: some errors end with the words of their cause, others leave them to whoever prints.
fn sentence(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(BenchError::Usage { .. })))
}

/// Printing, for commands whose exit code says more than that they have printed: that nobody read all of it is no error.
///
/// # Errors
/// All others.
pub(crate) fn printed(outcome: anyhow::Result<()>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        outcome => outcome,
    }
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        cause.downcast_ref::<io::Error>().is_some_and(is_pipe) || json == Some(io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_option_that_makes_no_sense_is_a_wrong_command_line() {
        let usage = BenchError::Usage { option: "--records", given: "-1".into(), expected: "a number".into() };
        let io = BenchError::io("read f", io::ErrorKind::NotFound.into());
        assert_eq!(Exit::of(Err(usage.into())), Exit::Usage);
        assert_eq!(Exit::of(Err(io.into())), Exit::Failed);
    }

    #[test]
    fn every_cause_is_told_once() {
        let system = || io::Error::from(io::ErrorKind::NotFound);
        let told = zonda_device::DeviceError::Io { path: "f".into(), action: "open", source: system().into() };
        let error = anyhow::Error::from(zonda::Error::from(told)).context("cannot open f");
        assert_eq!(sentence(&error), format!("cannot open f: f: cannot open: {}", system()));
        let untold = Err::<(), _>(system()).context("cannot read f").unwrap_err();
        assert_eq!(sentence(&untold), format!("cannot read f: {}", system()));
    }
}
