//! A contest in a process of its own.
//!
//! The parent starts its own executable again with the plan as JSON. Then each line on the child's standard input is a
//! [`Request`], each line on its standard output the [`Reply`]; between requests the child is stopped, and what it left dirty in the page
//! cache is written out before the parent goes on. The end of its input ends the child.

use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde::{Deserialize, Serialize};

use super::{Contest, ContestPlan, Engines, LocalContest, MemoryGroup, Step, pause, writeback};
use crate::experiment::ChildProgram;
use crate::measured::Measured;
use crate::place;
use crate::process;
use crate::{BenchError, Result};

#[derive(Serialize, Deserialize)]
enum Request {
    Run { step: Step, nth: u32, slices: u32 },
    Finish,
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Ready,
    Measured(Box<Measured>),
    Finished(u64),
    Failed(String),
}

/// A child that runs one contest. Dropping it kills the child.
#[derive(Debug)]
pub struct ChildContest {
    child: Child,
    requests: Option<ChildStdin>,
    replies: Lines<BufReader<ChildStdout>>,
    /// Where its store is, if that is in files.
    directory: Option<PathBuf>,
    /// Dropped after the child has ended.
    memory: Option<MemoryGroup>,
}

impl ChildContest {
    /// Starts the child, in `memory` if there is one, and waits until its store is made.
    ///
    /// # Errors
    /// `Io` when it cannot be started, `Child` with its own words when it cannot make the store.
    pub(crate) fn start(plan: &ContestPlan, program: &ChildProgram, memory: Option<MemoryGroup>) -> Result<Self> {
        let mut command = program.command(&encode(plan)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // One that is stopped would not notice that it is alone.
        let child = process::tied_to_this_thread(&mut command).spawn();
        let mut child = child.map_err(|source| BenchError::io("start a child process", source))?;
        let (requests, replies) = (child.stdin.take(), child.stdout.take());
        let replies = BufReader::new(replies.expect("standard output is a pipe")).lines();
        let directory = place::path_of(&plan.store.uri).and_then(|path| path.parent().map(Path::to_path_buf));
        let mut contest = Self { child, requests, replies, directory, memory };
        if let Some(memory) = &contest.memory {
            memory.take_in(contest.child.id())?;
        }
        match contest.reply()? {
            Reply::Ready => contest.paused().map(|()| contest),
            _ => Err(out_of_turn()),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        pause::resume(self.child.id())?;
        let line = encode(request)?;
        let requests = self.requests.as_mut().ok_or_else(out_of_turn)?;
        writeln!(requests, "{line}").and_then(|()| requests.flush()).map_err(|source| BenchError::io("ask", source))?;
        let reply = self.reply()?;
        self.paused()?;
        Ok(reply)
    }

    fn reply(&mut self) -> Result<Reply> {
        let line = self.replies.next().ok_or_else(|| BenchError::Child("it ended without an answer".into()))?;
        let line = line.map_err(|source| BenchError::io("read an answer", source))?;
        match serde_json::from_str(&line) {
            Ok(Reply::Failed(why)) => Err(BenchError::Child(why)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(BenchError::Child(format!("{error} in {line}"))),
        }
    }

    /// Stops it, and writes out what it left dirty: while it is stopped, so that its own threads gain no time by that, and after its time
    /// was taken, which is no different for those that have nothing dirty.
    fn paused(&self) -> Result<()> {
        pause::pause(self.child.id())?;
        self.directory.as_deref().map_or(Ok(()), writeback::finish)
    }
}

impl Contest for ChildContest {
    fn run(&mut self, step: &Step, nth: u32, slices: u32) -> Result<Measured> {
        match self.ask(&Request::Run { step: step.clone(), nth, slices })? {
            Reply::Measured(measured) => Ok(*measured),
            _ => Err(out_of_turn()),
        }
    }

    fn finish(&mut self) -> Result<u64> {
        match self.ask(&Request::Finish)? {
            Reply::Finished(pairs) => Ok(pairs),
            _ => Err(out_of_turn()),
        }
    }
}

impl Drop for ChildContest {
    fn drop(&mut self) {
        // Both fail only if the child is gone already, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn out_of_turn() -> BenchError {
    BenchError::Child("it answered out of turn".into())
}

fn encode(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| BenchError::Child(error.to_string()))
}

/// The child's side: makes the store that `encoded` describes and does what the parent asks until it hangs up.
///
/// # Errors
/// A closed pipe, or text that is no request. What the store answers goes to the parent.
pub fn serve(encoded: &str, engines: Engines) -> Result<()> {
    let plan: ContestPlan = serde_json::from_str(encoded).map_err(|error| BenchError::Child(error.to_string()))?;
    let mut contest = match LocalContest::new(&plan, engines) {
        Ok(contest) => contest,
        Err(error) => return answer(&Reply::Failed(error.to_string())),
    };
    answer(&Reply::Ready)?;
    for line in io::stdin().lines() {
        let line = line.map_err(|source| BenchError::io("read a request", source))?;
        let request: Request = serde_json::from_str(&line).map_err(|error| BenchError::Child(error.to_string()))?;
        let reply = match request {
            Request::Run { step, nth, slices } => contest.run(&step, nth, slices).map(Box::new).map(Reply::Measured),
            Request::Finish => contest.finish().map(Reply::Finished),
        };
        answer(&reply.unwrap_or_else(|error| Reply::Failed(error.to_string())))?;
    }
    Ok(())
}

fn answer(reply: &Reply) -> Result<()> {
    let line = encode(reply)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|source| BenchError::io("answer", source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::DataShape;
    use crate::subject::StorePlan;

    /// A child that is ready and then answers every request with a word that says nothing.
    const ANSWERS: &str = r#"echo '"Ready"'; while read request; do echo '{"Finished":0}'; done"#;

    #[test]
    fn what_a_child_left_dirty_is_written_out_after_every_answer() {
        let program = ChildProgram::of("/bin/sh".into(), &["-c", ANSWERS]);
        let place = tempfile::tempdir().unwrap();
        let store = StorePlan::new(format!("file:{}", place.path().join("store").display()), 8 << 20, 1);
        let plan = ContestPlan { store, data: DataShape::small(1), live_percent: None, zones_min: None, records: 1 };
        let mut contest = ChildContest::start(&plan, &program, None).unwrap();
        assert_eq!(contest.finish().unwrap(), 0);
        // Where there is no directory any more nothing can be written out, which tells that it was to be.
        place.close().unwrap();
        let said = contest.finish().unwrap_err().to_string();
        assert!(said.contains("write out what is dirty"), "{said}");
        assert!(ChildContest::start(&plan, &program, None).is_err(), "after it was made, too");
    }
}
