//! Child processes: shown, run, counted.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{tally::Tally, workspace::Workspace};

/// The cargo that runs us, in the root of the workspace.
pub(crate) fn cargo<I: AsRef<OsStr>>(workspace: &Workspace, arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(&workspace.root);
    command
}

/// Shows the command, runs it and fails when it fails.
///
/// # Errors
/// When the command cannot be started or does not exit with 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    expect_success(command, status)
}

/// [`run`], adding the test results that the command prints on its standard output to `tally`.
///
/// # Errors
/// As [`run`]; the tally holds what was printed until then.
pub(crate) fn run_counting(command: &mut Command, tally: &mut Tally) -> Result<()> {
    println!("$ {}", shown(command));
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    let output = child.stdout.take().expect("standard output was piped above");
    echo_counting(BufReader::new(output), &mut std::io::stdout(), tally)?;
    let status = child.wait()?;
    expect_success(command, status)
}

/// Runs the command and returns all that it said, on both outputs, in the order in which it was said.
///
/// # Errors
/// When the command cannot be started.
pub(crate) fn told(mut command: Command) -> Result<(ExitStatus, Vec<u8>)> {
    let (mut reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
    // The command holds the pipe's other end open.
    drop(command);
    let mut said = Vec::new();
    reader.read_to_end(&mut said)?;
    Ok((child.wait()?, said))
}

/// Whether the command can be started and exits with 0; prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The command as one would type it, without the directory of the program.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn echo_counting(mut from: impl BufRead, to: &mut impl Write, tally: &mut Tally) -> Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        tally.count_line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(to.flush()?)
}

fn expect_success(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}`: {status}", shown(command));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_every_byte_and_counts() {
        let text = b"a\xffb\ntest result: ok. 2 passed; 0 failed;\nno newline at the end";
        let (mut echo, mut tally) = (Vec::new(), Tally::default());
        echo_counting(&text[..], &mut echo, &mut tally).unwrap();
        assert_eq!(echo, text);
        assert_eq!(tally, Tally { passed: 2, failed: 0, not_run: 0 });
    }

    #[test]
    fn failure_names_the_command() {
        let error = run(Command::new("false").arg("--flag")).unwrap_err();
        assert!(error.to_string().starts_with("`false --flag`: exit status: 1"), "{error}");
    }

    #[test]
    fn both_outputs_are_told_in_their_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let (status, said) = told(command).unwrap();
        assert_eq!((status.code(), said.as_slice()), (Some(3), &b"one\ntwo\nthree\n"[..]));
    }
}
