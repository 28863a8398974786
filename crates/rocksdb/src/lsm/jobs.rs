//! Jobs of the databases: what the event listener says.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread::{self, ThreadId};

use zonda_files::FilePath;
use zonda_files::lsm::JobId;
use zonda_rt::Mutex;

/// Why a table is written. The numbers are those of `shim/bridge.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Of a memtable.
    Flush = 0,
    /// Merged from others.
    Compaction = 1,
    /// From a log, when a database is opened.
    Recovery = 2,
    /// Anything else.
    Other = 3,
}

/// A table or blob file that is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Directory of the database.
    pub database: FilePath,
    /// Name of the column family.
    pub family: String,
    /// Whether it comes from memory: such a file may draw on the reserve.
    pub is_flush: bool,
    /// The level that it is for, if the job is known.
    pub level: Option<u8>,
    /// The store's number of the job, if it was told of it.
    pub job: Option<JobId>,
}

/// A running flush or compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Column family.
    pub column_family: u32,
    /// The level that it writes to.
    pub output_level: u8,
    /// Numbers of the tables that it reads and then deletes; none for a flush.
    pub inputs: Vec<u64>,
    /// The store's number of it, if it was told.
    pub id: Option<JobId>,
}

/// Database, number and column family: an atomic flush is one job of several families.
type JobOf = (FilePath, i32, String);

/// Which jobs run, and which tables they have begun.
///
/// None stays longer than its thread works on it. The end of a compaction is always told, that of a flush only if it succeeded: of
/// one that failed the error is told on its thread, and of one whose family was dropped, or that found nothing to do, nothing. But a thread
/// runs one job at a time, so with its next one it has ended those before.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// With the thread that each was begun on.
    running: BTreeMap<JobOf, (ThreadId, Running)>,
    begun: BTreeMap<FilePath, Begun>,
}

thread_local! {
    /// Job and output level of the subcompaction that runs on this thread: compactions that a user's thread asks for by name of
    /// their files are told only so. The tables of a subcompaction are begun on its thread.
    static SUBCOMPACTION: Cell<Option<(i32, u8)>> = const { Cell::new(None) };
}

impl Jobs {
    /// Another job begins on this thread: what it ran before has ended, even if nobody told. Returns that.
    pub(crate) fn over(&self, database: &FilePath, next: i32) -> Vec<Running> {
        let here = thread::current().id();
        let is_before = |(of, job, _): &JobOf| of != database || *job != next;
        self.state.lock().end_where(|job, (thread, _)| *thread == here && is_before(job))
    }

    /// A job begins on this thread, for a family; returns what it replaces.
    pub(crate) fn begin(&self, database: &FilePath, job: i32, family: &str, running: Running) -> Option<Running> {
        let here = thread::current().id();
        let replaced = self.state.lock().running.insert((database.clone(), job, family.to_owned()), (here, running));
        replaced.map(|(_, running)| running)
    }

    /// The job has ended for this family; returns it.
    pub(crate) fn end(&self, database: &FilePath, job: i32, family: &str) -> Option<Running> {
        let ended = self.state.lock().running.remove(&(database.clone(), job, family.to_owned()));
        ended.map(|(_, running)| running)
    }

    /// An error was told on this thread: the flushes that it runs will not be told to have ended. Returns them.
    pub(crate) fn failed(&self) -> Vec<Running> {
        let here = thread::current().id();
        self.state.lock().end_where(|_, (thread, running)| *thread == here && running.inputs.is_empty())
    }

    /// The database is closed: RocksDB does not tell the end of what it broke off. Returns what ran.
    pub(crate) fn end_all(&self, database: &FilePath) -> Vec<Running> {
        let mut state = self.state.lock();
        state.begun.retain(|_, begun| begun.database != *database);
        state.end_where(|(of, ..), _| of == database)
    }

    pub(crate) fn subcompaction_begun(job: i32, output_level: u8) {
        SUBCOMPACTION.set(Some((job, output_level)));
    }

    pub(crate) fn subcompaction_ended() {
        SUBCOMPACTION.set(None);
    }

    /// A table will be created next, on this thread.
    pub(crate) fn table_begun(&self, table: NewTable<'_>) {
        let NewTable { database, family, path, job, reason } = table;
        let mut state = self.state.lock();
        let running = state.running.get(&(database.clone(), job, family.to_owned())).map(|(_, running)| running);
        let level = match reason {
            Reason::Flush | Reason::Recovery => Some(0),
            Reason::Compaction => {
                let here = SUBCOMPACTION.get().filter(|(of, _)| *of == job).map(|(_, level)| level);
                here.or_else(|| running.map(|job| job.output_level))
            }
            Reason::Other => None,
        };
        let job = running.and_then(|running| running.id);
        let is_flush = matches!(reason, Reason::Flush | Reason::Recovery);
        state.begun.insert(path, Begun { database, family: family.to_owned(), is_flush, level, job });
    }

    /// Takes what is known of a table that is created now.
    pub(crate) fn take_begun(&self, path: &FilePath) -> Option<Begun> {
        self.state.lock().begun.remove(path)
    }

    /// The jobs of a database that run now.
    pub(crate) fn running(&self, database: &FilePath) -> Vec<Running> {
        let state = self.state.lock();
        let of_database = state.running.iter().filter(|((of, ..), _)| of == database);
        of_database.map(|(_, (_, running))| running.clone()).collect()
    }
}

impl State {
    fn end_where(&mut self, mut is_over: impl FnMut(&JobOf, &(ThreadId, Running)) -> bool) -> Vec<Running> {
        let mut ended = Vec::new();
        self.running.retain(|job, one| {
            let over = is_over(job, one);
            if over {
                ended.push(one.1.clone());
            }
            !over
        });
        ended
    }
}

/// A table or blob file that is about to be created.
#[derive(Clone, Debug)]
pub struct NewTable<'a> {
    /// Directory of the database.
    pub database: FilePath,
    /// Name of the column family.
    pub family: &'a str,
    /// Where it will be.
    pub path: FilePath,
    /// The job that writes it.
    pub job: i32,
    /// What for.
    pub reason: Reason,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> FilePath {
        FilePath::parse(text).unwrap()
    }

    fn begin(jobs: &Jobs, database: &str, name: &str, job: i32, reason: Reason) {
        let path = path(&format!("{database}/{name}"));
        jobs.table_begun(NewTable { database: self::path(database), family: "default", path, job, reason });
    }

    fn taken(jobs: &Jobs, name: &str) -> Option<(bool, Option<u8>)> {
        jobs.take_begun(&path(name)).map(|begun| (begun.is_flush, begun.level))
    }

    #[test]
    fn a_table_has_the_level_of_its_job() {
        let (jobs, db) = (Jobs::default(), path("/db"));
        let compaction = Running { column_family: 0, output_level: 3, inputs: vec![4, 5], id: None };
        jobs.begin(&db, 7, "default", compaction.clone());
        begin(&jobs, "/db", "9.sst", 7, Reason::Compaction);
        begin(&jobs, "/db", "10.sst", 8, Reason::Flush);
        begin(&jobs, "/other", "9.sst", 7, Reason::Compaction);
        assert_eq!(taken(&jobs, "/db/9.sst"), Some((false, Some(3))));
        assert_eq!(taken(&jobs, "/db/9.sst"), None);
        assert_eq!(taken(&jobs, "/db/10.sst"), Some((true, Some(0))));
        assert_eq!(taken(&jobs, "/other/9.sst"), Some((false, None)));
        assert_eq!(jobs.running(&db), std::slice::from_ref(&compaction));
        assert_eq!(jobs.end_all(&path("/other")), []);
        assert_eq!(jobs.end_all(&db), [compaction]);
        assert_eq!(jobs.running(&db), []);
    }

    fn flush(column_family: u32) -> Running {
        Running { column_family, output_level: 0, inputs: Vec::new(), id: None }
    }

    #[test]
    fn an_atomic_flush_is_a_job_of_each_family() {
        let (jobs, db) = (Jobs::default(), path("/db"));
        jobs.begin(&db, 3, "default", flush(0));
        assert_eq!(jobs.over(&db, 3), []);
        jobs.begin(&db, 3, "a", flush(1));
        assert_eq!(jobs.running(&db).len(), 2);
        assert_eq!(jobs.end(&db, 3, "default"), Some(flush(0)));
        assert_eq!(jobs.end(&db, 3, "default"), None);
        assert_eq!(jobs.end(&db, 3, "a"), Some(flush(1)));
        assert_eq!(jobs.running(&db), []);
    }

    #[test]
    fn a_flush_that_fails_is_over_with_the_error_or_the_next_job_of_its_thread() {
        let (jobs, db) = (Jobs::default(), path("/db"));
        let compaction = Running { inputs: vec![4], ..flush(0) };
        let elsewhere = || jobs.begin(&db, 1, "default", flush(9));
        std::thread::scope(|scope| scope.spawn(elsewhere).join()).unwrap();
        jobs.begin(&db, 3, "default", flush(0));
        jobs.begin(&db, 3, "a", flush(1));
        assert_eq!(jobs.failed(), [flush(1), flush(0)]);
        assert_eq!(jobs.failed(), [], "what another thread does goes on");
        jobs.begin(&db, 4, "default", flush(0));
        assert_eq!(jobs.over(&db, 5), [flush(0)]);
        jobs.begin(&db, 5, "default", compaction.clone());
        assert_eq!(jobs.failed(), [], "the end of a compaction is told");
        assert_eq!(jobs.over(&db, 6), [compaction]);
        jobs.begin(&db, 6, "default", flush(0));
        assert_eq!(jobs.running(&db), [flush(9), flush(0)]);
    }

    #[test]
    fn a_subcompaction_speaks_for_its_thread() {
        let jobs = Jobs::default();
        Jobs::subcompaction_begun(5, 2);
        begin(&jobs, "/db", "1.sst", 5, Reason::Compaction);
        begin(&jobs, "/db", "2.sst", 6, Reason::Compaction);
        Jobs::subcompaction_ended();
        begin(&jobs, "/db", "3.sst", 5, Reason::Compaction);
        let level = |name| taken(&jobs, name).unwrap().1;
        assert_eq!([level("/db/1.sst"), level("/db/2.sst"), level("/db/3.sst")], [Some(2), None, None]);
    }
}
