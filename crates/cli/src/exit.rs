//! Exit codes that scripts can rely on.

use std::process::ExitCode;
use std::{fmt, io};

use zonda_bench::BenchError;
use zonda_device::DeviceError;
use zonda_files::FileError;

use crate::output::say;

/// How a command ended. The numbers are the process's exit codes: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// An error, or the key asked for does not exist.
    Failed = 1,
    /// A wrong command line: clap says so itself, or whoever looks at what an option or a name says.
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

/// What is wrong with an argument, where the command itself finds it out.
#[derive(Debug)]
pub(crate) struct BadArgument(pub(crate) String);

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadArgument {}

fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<BadArgument>()
            || cause.downcast_ref().is_some_and(is_usage_of_bench)
            || cause.downcast_ref().is_some_and(is_usage_of_store)
            || cause.downcast_ref().is_some_and(is_usage_of_device)
            || cause.downcast_ref().is_some_and(is_usage_of_files)
    })
}

/// A bench's errors say what is below them themselves, or have it in a box: no chain of causes shows it as it is.
fn is_usage_of_bench(error: &BenchError) -> bool {
    match error {
        BenchError::Usage { .. } => true,
        BenchError::Store { source, .. } => is_usage_of_store(source),
        BenchError::Device { source } => is_usage_of_device(source),
        BenchError::Files(source) => is_usage_of_files(source),
        _ => false,
    }
}

fn is_usage_of_store(error: &zonda::Error) -> bool {
    use zonda::Error::{BadOption, BadUri, TooLittleMemory};
    matches!(error, BadOption { .. } | BadUri { .. } | TooLittleMemory { .. })
}

fn is_usage_of_device(error: &DeviceError) -> bool {
    matches!(error, DeviceError::BadName { .. } | DeviceError::Geometry { .. } | DeviceError::Unaligned { .. })
}

fn is_usage_of_files(error: &FileError) -> bool {
    matches!(error, FileError::BadOption { .. } | FileError::UnknownPolicy { .. })
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
        let option = || zonda::Error::BadOption { name: "filter", why: "2 is too much".into() };
        assert_eq!(Exit::of(Err(anyhow::Error::from(option()).context("cannot open f"))), Exit::Usage);
        let boxed = BenchError::Store { doing: "make the store", source: option().into() };
        assert_eq!(Exit::of(Err(boxed.into())), Exit::Usage);
        let name = || DeviceError::BadName { reason: "unknown key".into() };
        assert_eq!(Exit::of(Err(name().into())), Exit::Usage);
        assert_eq!(Exit::of(Err(BenchError::from(name()).into())), Exit::Usage);
        let policy = || FileError::UnknownPolicy { name: "nope".into(), known: "caza".into() };
        assert_eq!(Exit::of(Err(policy().into())), Exit::Usage);
        assert_eq!(Exit::of(Err(BenchError::from(policy()).into())), Exit::Usage);
        assert_eq!(Exit::of(Err(BadArgument("no".into()).into())), Exit::Usage);
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
