//! Jobs of the databases: what the event listener says.

use std::cell::Cell;
use std::collections::BTreeMap;

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

/// A job of one database.
type JobOf = (FilePath, i32);

/// Which jobs run, and which tables they have begun.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<JobOf, Running>,
    begun: BTreeMap<FilePath, Begun>,
}

thread_local! {
    /// Job and output level of the subcompaction that runs on this thread: compactions that a user's thread asks for by name of
    /// their files are told only so. The tables of a subcompaction are begun on its thread.
    static SUBCOMPACTION: Cell<Option<(i32, u8)>> = const { Cell::new(None) };
}

impl Jobs {
    pub(crate) fn begin(&self, database: &FilePath, job: i32, running: Running) {
        self.state.lock().running.insert((database.clone(), job), running);
    }

    /// The job has ended; returns it.
    pub(crate) fn end(&self, database: &FilePath, job: i32) -> Option<Running> {
        self.state.lock().running.remove(&(database.clone(), job))
    }

    /// The database is closed: RocksDB does not tell the end of what it broke off. Returns what ran.
    pub(crate) fn end_all(&self, database: &FilePath) -> Vec<Running> {
        let mut state = self.state.lock();
        state.begun.retain(|_, begun| begun.database != *database);
        let ended: Vec<JobOf> = state.running.keys().filter(|(of, _)| of == database).cloned().collect();
        ended.iter().filter_map(|job| state.running.remove(job)).collect()
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
        let running = state.running.get(&(database.clone(), job));
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
        let of_database = state.running.iter().filter(|((of, _), _)| of == database);
        of_database.map(|(_, running)| running.clone()).collect()
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
        jobs.begin(&db, 7, compaction.clone());
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
