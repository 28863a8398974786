//! A child process that works on a store until somebody kills it.
//!
//! The parent starts its own executable again with one more argument, the task as JSON. The child tells on its standard
//! output what is safe: `synced N` after each sync that covers records `0..N` (or N updates), `ended` when it is done.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zonda_rt::{Rng, Seed, sleep, spawn};

use crate::keys::Order;
use crate::phase::DataSet;
use crate::process;
use crate::subject::{Durability, StorePlan, Subject};
use crate::{BenchError, Result};

/// How to start this program again as a child.
#[derive(Clone, Debug)]
pub struct ChildProgram {
    path: PathBuf,
    arguments: Vec<String>,
}

impl ChildProgram {
    /// The running executable, with these arguments before the task.
    ///
    /// # Errors
    /// `Io` when the system does not say which executable is running.
    pub fn current(arguments: &[&str]) -> Result<Self> {
        let path =
            std::env::current_exe().map_err(|source| BenchError::io("find this program's executable", source))?;
        Ok(Self { path, arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect() })
    }

    /// Another program, with these arguments before the task.
    #[cfg(test)]
    pub(crate) fn of(path: PathBuf, arguments: &[&str]) -> Self {
        Self { path, arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect() }
    }

    /// The command that starts the child with `task`.
    pub(crate) fn command(&self, task: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).arg(task);
        command
    }
}

/// What a child does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildTask {
    /// The store; made when `create` says so, else opened.
    pub store: StorePlan,
    /// Whether to make the store.
    pub create: bool,
    /// Records that the data set has room for.
    pub capacity: u64,
    /// Records that exist.
    pub records: u64,
    /// Operations to do at most: inserts from `records` on, or updates among `records`.
    pub operations: u64,
    /// Operations between two syncs.
    pub sync_every: u64,
    /// Whether existing records are updated instead of new ones inserted.
    pub update: bool,
}

impl ChildTask {
    /// The data that the task is about; parent and child compute the same.
    ///
    /// # Errors
    /// As [`DataSet::new`].
    pub fn data(&self) -> Result<DataSet> {
        let mut data = DataSet::new(8, 8, self.capacity, Order::Random, Seed(self.store.seed))?;
        data.set_records(self.records);
        Ok(data)
    }

    /// The child's side: does the task, telling on standard output what is safe. `encoded` is the task as JSON.
    ///
    /// # Errors
    /// `Child` when the text is no task; the store's errors; a closed pipe.
    pub fn run(encoded: &str) -> Result<()> {
        let task: Self = serde_json::from_str(encoded).map_err(|error| BenchError::Child(error.to_string()))?;
        let subject = if task.create { task.store.create()? } else { task.store.open()? };
        task.work(&subject)?;
        subject.close()?;
        say("ended")
    }

    fn work(&self, subject: &Arc<dyn Subject>) -> Result<()> {
        let data = self.data()?;
        let mut rng = data.seed().derive("child").rng();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for done in 1..=self.operations {
            let index = self.index(done, &mut rng);
            data.keys().key(index, &mut key);
            data.values().fill(index, self.version(done), &mut value);
            subject.put(&key, &value, Durability::Buffered)?;
            if done % self.sync_every == 0 {
                subject.sync()?;
                say(&format!("synced {}", if self.update { done } else { self.records + done }))?;
            }
        }
        subject.sync()
    }

    fn index(&self, done: u64, rng: &mut Rng) -> u64 {
        if self.update { rng.below(self.records) } else { self.records + done - 1 }
    }

    /// Grows, so that of two updates of a record it says which was the later one.
    fn version(&self, done: u64) -> u32 {
        if self.update { u32::try_from(done).unwrap_or(u32::MAX) } else { 0 }
    }

    /// The version that each record must have at least after so many acknowledged updates; the others may be as they were.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub(super) fn acknowledged(&self, updates: u64) -> Result<HashMap<u64, u32>> {
        let mut rng = self.data()?.seed().derive("child").rng();
        Ok((1..=updates).map(|done| (self.index(done, &mut rng), self.version(done))).collect())
    }

    /// The parent's side: starts the child.
    ///
    /// # Errors
    /// `Io` when it cannot be started.
    pub(super) fn start(&self, program: &ChildProgram) -> Result<RunningChild> {
        let encoded = serde_json::to_string(self).map_err(|error| BenchError::Child(error.to_string()))?;
        let mut command = program.command(&encoded);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = process::tied_to_this_thread(&mut command).spawn();
        let child = child.map_err(|source| BenchError::io(format!("start {}", program.path.display()), source))?;
        Ok(RunningChild(child))
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|source| BenchError::io("tell the parent", source))
}

/// Its number on every Unix.
const SIGKILL: i32 = 9;

/// A child at work. Dropping it kills it, so that no error path leaves one behind.
#[derive(Debug)]
pub(super) struct RunningChild(Child);

/// What a child had said when it was gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The number of its last `synced` line.
    pub(super) synced: Option<u64>,
    /// Whether it came to its end by itself.
    pub(super) ended: bool,
}

/// When a child is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillAt {
    /// So long after its start, whatever it does: opening and recovering included.
    SinceStart(Duration),
    /// So long after it first said `synced`.
    SinceSynced(Duration),
    /// As soon as it says `synced` with this number or more.
    Synced(u64),
}

impl RunningChild {
    /// Listens to the child, kills it (SIGKILL) at the moment given and returns what it had said until then.
    ///
    /// # Errors
    /// `Child` if it had ended before, without having done all that it was told.
    pub(super) fn kill(mut self, at: KillAt) -> Result<Said> {
        let pipe = self.0.stdout.take().ok_or_else(|| BenchError::Child("has no standard output".into()))?;
        let (tell, told) = zonda_rt::channel::bounded(1);
        let listener =
            spawn("bench-listener", move || listen(BufReader::new(pipe), at, |_| tell.send(()).unwrap_or_default()));
        match at {
            KillAt::SinceStart(delay) => sleep(delay),
            // The listener tells once, or drops its end when the child is gone.
            KillAt::SinceSynced(delay) => told.recv().map_or((), |()| sleep(delay)),
            KillAt::Synced(_) => drop(told.recv()),
        }
        let status = self.stop()?;
        let said = listener.join()?.map_err(|source| BenchError::io("listen to the child", source))?;
        if status.signal() == Some(SIGKILL) || status.success() && said.ended {
            return Ok(said);
        }
        Err(BenchError::Child(format!("ended by itself, {status}, having said {said:?}")))
    }

    fn stop(&mut self) -> Result<ExitStatus> {
        // `kill` of a child that has ended by itself is no error.
        self.0.kill().and_then(|()| self.0.wait()).map_err(|source| BenchError::io("kill the child", source))
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the error path that led here is reported.
        drop(self.stop());
    }
}

/// Reads the child's lines to their end; `tell` is called once, when `at` asks for it.
fn listen(mut pipe: impl BufRead, at: KillAt, tell: impl FnOnce(u64)) -> io::Result<Said> {
    let mut said = Said::default();
    let mut tell = Some(tell);
    let mut text = String::new();
    while pipe.read_line(&mut text)? > 0 {
        let line = std::mem::take(&mut text);
        // A line without its end was cut off by the kill: no promise.
        let Some(line) = line.strip_suffix('\n') else { break };
        said.ended |= line == "ended";
        let Some(synced) = line.strip_prefix("synced ").and_then(|number| number.parse().ok()) else { continue };
        said.synced = Some(synced);
        if !matches!(at, KillAt::Synced(enough) if synced < enough)
            && let Some(tell) = tell.take()
        {
            tell(synced);
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::MapSubject;

    #[test]
    fn the_last_synced_line_counts() {
        let mut told = None;
        let at = KillAt::Synced(20);
        let said = listen(&b"synced 10\nsynced 20\nsynced 30\n"[..], at, |synced| told = Some(synced)).unwrap();
        assert_eq!((said, told), (Said { synced: Some(30), ended: false }, Some(20)));
        let said = listen(&b"synced 10\nsynced 2"[..], KillAt::Synced(99), |_| {}).unwrap();
        assert_eq!(said.synced, Some(10));
    }

    #[test]
    fn the_end_is_noticed() {
        let said = listen(&b"ended\n"[..], KillAt::SinceStart(Duration::ZERO), |_| {}).unwrap();
        assert_eq!(said, Said { synced: None, ended: true });
    }

    fn task(update: bool) -> ChildTask {
        let store = StorePlan::new("mem:".to_owned(), 8 << 20, 3);
        ChildTask { store, create: false, capacity: 40, records: 20, operations: 50, sync_every: 1 << 20, update }
    }

    #[test]
    fn an_acknowledged_update_that_is_lost_is_found() {
        let subject: Arc<dyn Subject> = Arc::new(MapSubject::default());
        let load = ChildTask { records: 0, operations: 20, ..task(false) };
        load.work(&subject).unwrap();
        let data = task(true).data().unwrap();
        let acknowledged = task(true).acknowledged(50).unwrap();
        assert!(acknowledged.len() > 10 && acknowledged.values().any(|version| *version == 50));
        assert!(matches!(data.verify_updated(&subject, &acknowledged), Err(BenchError::Wrong { .. })));
        task(true).work(&subject).unwrap();
        assert_eq!(data.verify_updated(&subject, &acknowledged).unwrap(), 20);
        assert_eq!(data.verify_updated(&subject, &task(true).acknowledged(30).unwrap()).unwrap(), 20, "later ones do");
    }

    #[test]
    fn a_child_that_gives_up_is_not_one_that_was_killed() {
        for script in ["exit 1", "echo synced 3; exit 1", "exit 0"] {
            let mut command = Command::new("sh");
            let mut child = command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
            child.wait().unwrap();
            let ended = RunningChild(child).kill(KillAt::SinceSynced(Duration::ZERO));
            assert!(matches!(ended, Err(BenchError::Child(_))), "{script}: {ended:?}");
        }
        let mut command = Command::new("sh");
        let script = "echo synced 3; exec sleep 1000";
        let child = command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let said = RunningChild(child).kill(KillAt::Synced(3)).unwrap();
        assert_eq!(said, Said { synced: Some(3), ended: false });
    }

    #[test]
    fn nonsense_is_no_task() {
        assert!(ChildTask::run("{}").is_err());
    }
}
