//! Runs the `zonda` binary on stores in a temporary directory.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory in which commands run.
pub(crate) struct Shell {
    dir: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Runs `zonda` with these arguments, separated by spaces, and nothing on standard input.
    pub(crate) fn run(&self, arguments: &str) -> Ended {
        self.pipe(arguments, b"")
    }

    /// Runs `zonda` with `input` on standard input.
    pub(crate) fn pipe(&self, arguments: &str, input: &[u8]) -> Ended {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read its input closes the pipe: that is no failure of the test.
        let _ = stdin.write_all(input);
        drop(stdin);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ended = Ended { code: status.code(), out: text(stdout), err: text(stderr) };
        assert!(!ended.err.contains("panicked"), "{arguments}: {}", ended.err);
        ended
    }

    /// Runs `zonda`, which must succeed, and returns what it printed.
    pub(crate) fn ok(&self, arguments: &str) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "zonda {arguments}: {}", ended.err);
        ended.out
    }

    /// Runs `zonda`, which must fail with `code`, and returns what it said.
    pub(crate) fn fails(&self, code: i32, arguments: &str) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(code), "zonda {arguments}: {}{}", ended.out, ended.err);
        assert!(!ended.err.is_empty(), "zonda {arguments} failed without a word");
        ended.err
    }

    /// Runs `zonda` with nobody who reads what it prints on standard output or error.
    pub(crate) fn unread(&self, arguments: &str) -> Option<i32> {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        command.status().unwrap().code()
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonda"));
        command.args(arguments.split(' ').filter(|word| !word.is_empty())).current_dir(self.dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(name)).unwrap()
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.dir.path()
    }
}
