//! Exit codes that scripts can rely on.

use std::io;
use std::process::ExitCode;

/// How a command ended. The numbers are the process's exit codes: never renumber. 2 is clap's, for a wrong command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// An error, or the key asked for does not exist.
    Failed = 1,
    /// `check` found damage.
    Damaged = 3,
}

/// For `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  an error, or `get` found no such key
  2  wrong command line
  3  `check` found damage";

impl Exit {
    /// Says what went wrong, if anything did.
    pub(crate) fn of(outcome: anyhow::Result<Self>) -> Self {
        match outcome {
            Ok(exit) => exit,
            Err(error) if is_broken_pipe(&error) => Self::Done,
            Err(error) => {
                eprintln!("zonda: {error:#}");
                Self::Failed
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
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
