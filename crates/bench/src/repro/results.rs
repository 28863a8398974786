//! What was measured, kept as JSON after every point.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Beside, Cell, Fact, Scale};
use crate::provenance::Provenance;
use crate::race::{Contender, Outcome, Race, Row};
use crate::subject::PEERS;
use crate::{BenchError, Result};

/// A leaf of who does not say otherwise.
const LEAF_BYTES: f64 = 4096.0;

/// All results of one experiment at one scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// The scale.
    pub scale: Scale,
    /// Seed of everything.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// One per race, in the order of the experiment.
    pub points: Vec<Point>,
    /// The paper's statements beside what the points come to; none in results of before it was kept.
    #[serde(default)]
    pub beside: Vec<Beside>,
}

/// A race and how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// All parameters: a point counts as done only for the very same.
    pub race: Race,
    /// What came out.
    pub outcome: Outcome,
    /// Where it is from; unknown of what was measured before this was kept.
    #[serde(default)]
    pub from: Option<Provenance>,
}

impl Results {
    /// No points yet.
    #[must_use]
    pub fn new(experiment: &str, scale: Scale, seed: u64) -> Self {
        let (experiment, version) = (experiment.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Self { experiment, scale, seed, version, points: Vec::new(), beside: Vec::new() }
    }

    /// The same of these points, with what the paper says beside them.
    pub(super) fn with(mut self, points: Vec<Point>, facts: &[Fact]) -> Self {
        self.points = points;
        self.beside = facts.iter().map(|fact| Beside::of(fact, &self)).collect();
        self
    }

    /// Reads what an earlier run left; `None` when there is no file.
    ///
    /// # Errors
    /// `Io` when the file is there and cannot be read; `Usage` when it holds something else, which going on would overwrite.
    pub fn load(path: &Path, experiment: &str, scale: Scale, seed: u64) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read(path).map_err(|source| BenchError::io(format!("read {}", path.display()), source))?;
        let kept: Option<Self> = serde_json::from_slice(&text).ok();
        match kept.filter(|kept| kept.experiment == experiment && kept.scale == scale && kept.seed == seed) {
            Some(kept) => Ok(Some(kept)),
            None => {
                let expected = format!("results of {experiment} at scale {}, seed {seed}", scale.name());
                Err(BenchError::Usage { option: "--json", given: path.display().to_string(), expected })
            }
        }
    }

    /// Writes everything: to a new file that then takes the old one's place, so that a crash leaves one of both.
    ///
    /// # Errors
    /// `Io`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(self).map_err(|error| BenchError::io("encode results", error.into()))?;
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
        written.map_err(|source| BenchError::io(format!("write {}", path.display()), source))
    }

    /// The outcome of exactly this race, if it was run, nobody failed in it, and nobody who was unavailable then is `here` now.
    #[must_use]
    pub fn done(&self, race: &Race, here: impl Fn(&Contender) -> bool) -> Option<&Point> {
        let is_still_away = |(series, _): &(String, String)| {
            race.contenders.iter().find(|contender| contender.series == *series).is_some_and(|one| !here(one))
        };
        let complete =
            |point: &&Point| point.outcome.failed.is_empty() && point.outcome.unavailable.iter().all(is_still_away);
        self.points.iter().filter(|point| point.race == *race).find(complete)
    }

    /// The point of this name, whoever ran in it.
    pub(super) fn at(&self, race: &str) -> Option<&Point> {
        self.points.iter().find(|point| point.race.id == race)
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.points.iter().flat_map(|point| &point.outcome.rows)
    }

    /// The row of one contender at one place in one phase.
    #[must_use]
    pub fn row(&self, series: &str, x: &str, phase: &str) -> Option<&Row> {
        let matches = |row: &&Row| row.series == series && row.report.phase == phase && (x.is_empty() || row.x == x);
        self.rows().find(matches)
    }

    /// One number.
    #[must_use]
    pub fn value(&self, cell: &Cell) -> Option<f64> {
        cell.metric.of(self.row(cell.series, cell.at(self.scale), cell.phase)?)
    }

    /// How many pairs fill a node, and how many the tree had when the step of `cell` began; without a cell those of the first race's load.
    pub(super) fn tree(&self, cell: Option<&Cell>) -> Option<(f64, f64)> {
        let at = |point: &&Point| {
            cell.is_none_or(|cell| cell.at(self.scale).is_empty() || cell.at(self.scale) == point.race.x)
        };
        let race = &self.points.iter().find(at)?.race;
        let store = cell.and_then(|cell| race.contenders.iter().find(|one| one.series == cell.series));
        let leaf_bytes = store.and_then(|one| one.store.leaf_bytes).map_or(LEAF_BYTES, f64::from);
        let pairs = match cell {
            Some(cell) => self.row(cell.series, cell.at(self.scale), cell.phase)?.report.records,
            None => race.records,
        };
        Some((leaf_bytes / (race.data.key_bytes + race.data.value_bytes) as f64, pairs as f64))
    }

    /// Who has no row for a step of a point, although only engines of others may be unavailable.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for Point { race, outcome, .. } in &self.points {
            let may_be_absent = |contender: &Contender| {
                PEERS.contains(&contender.store.design.as_str())
                    && outcome.unavailable.iter().any(|(series, _)| *series == contender.series)
            };
            let rows_of = |series: &str| outcome.rows.iter().filter(|row| row.series == series).count();
            let expected = race.contenders.iter().filter(|contender| !may_be_absent(contender));
            let absent = expected.filter(|contender| rows_of(&contender.series) != race.steps.len());
            missing.extend(absent.map(|contender| format!("{} in {}", contender.series, race.id)));
        }
        missing
    }

    /// Who did not run or failed, and why; each once.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for outcome in self.points.iter().map(|point| &point.outcome) {
            let unavailable = outcome.unavailable.iter().map(|(who, why)| format!("not run here: {who}: {why}"));
            let failed = outcome.failed.iter().map(|(who, why)| format!("FAILED: {who}: {why}"));
            let unbounded = outcome.unbounded.iter().map(|(who, why)| format!("page cache not bounded: {who}: {why}"));
            let wider = outcome.wider.iter().map(|(who, what)| format!("wider memory group: {who}: {what}"));
            lines.extend(unavailable.chain(failed).chain(unbounded).chain(wider));
        }
        lines.sort();
        lines.dedup();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Moment;
    use crate::repro::metric::tests::row;
    use crate::repro::{Agreement, Metric, Said, contenders, fact::cell};

    #[test]
    fn points_survive_the_file_and_are_found_again() {
        let mut results = Results::new("zkv-table3", Scale::Tiny, 7);
        let race = Race::new("a", 10, 1);
        let outcome = Outcome { rows: vec![row("a", "zonda", "load")], ..Outcome::default() };
        let from = Some(Provenance::since(Moment::now()));
        let [log, reads] = [Metric::Log, Metric::ReadIo].map(|metric| cell("zonda", "", "load", metric));
        let facts = [Fact::side("log / reads", Said::Less, log, reads)];
        results = results.with(vec![Point { race: race.clone(), outcome, from }], &facts);
        assert_eq!(results.beside[0].agreement, Some(Agreement::Differs), "10 beside 1");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        assert!(Results::load(&path, "zkv-table3", Scale::Tiny, 7).unwrap().is_none());
        results.save(&path).unwrap();
        let kept = Results::load(&path, "zkv-table3", Scale::Tiny, 7).unwrap().unwrap();
        assert_eq!(kept, results);
        assert!(kept.done(&race, |_| true).is_some() && kept.done(&Race::new("a", 11, 1), |_| true).is_none());
        assert_eq!(kept.value(&cell("zonda", "", "load", Metric::Log)), Some(10.0));
        let json = fs::read_to_string(&path).unwrap();
        assert!(json.contains(r#""agreement": "differs""#), "{json}");
        let old = json.replace("beside", "unknown");
        fs::write(&path, old).unwrap();
        let old = Results::load(&path, "zkv-table3", Scale::Tiny, 7).unwrap().unwrap();
        assert_eq!((old.points, old.beside.len()), (results.points, 0), "from before it was kept");
        let refused = |seed| Results::load(&path, "zkv-table3", Scale::Tiny, seed).unwrap_err().to_string();
        assert!(refused(8).contains("scale tiny, seed 8"), "going on would overwrite it: {}", refused(8));
        fs::write(&path, "torn").unwrap();
        assert!(refused(7).contains("r.json"), "{}", refused(7));
    }

    #[test]
    fn a_point_with_somebody_missing_is_done_until_that_one_is_here() {
        let mut results = Results::new("x", Scale::Tiny, 7);
        let race = Race::new("a", 10, 1).contender(contenders::rocksdb(8 << 20)).contender(contenders::zonda(8 << 20));
        let unavailable = vec![("RocksDB".into(), "no library".into())];
        let outcome = Outcome { unavailable, ..Outcome::default() };
        let point = Point { race: race.clone(), outcome, from: None };
        results.points.extend([point.clone(), point]);
        assert!(results.done(&race, |_| true).is_none());
        assert!(results.done(&race, |contender| contender.store.design == "zonda").is_some());
        assert_eq!(results.troubles(), ["not run here: RocksDB: no library"]);
        results.points[1].outcome.failed.push(("zonda".into(), "torn".into()));
        results.points.remove(0);
        assert!(results.done(&race, |_| false).is_none(), "who failed is run again");
    }
    /// A switch that was renamed makes its contender unavailable, which is no excuse.
    #[test]
    fn only_engines_of_others_may_be_missing() {
        use crate::subject::StorePlan;
        let contender = |design: &str| {
            let mut store = StorePlan::new(String::new(), 8 << 20, 1);
            design.clone_into(&mut store.design);
            Contender::new(design, store)
        };
        let mut race = Race::new("a", 10, 1);
        race.contenders = ["zonda", "zkv", "rocksdb", "lmdb"].map(contender).into();
        let unavailable = ["zkv", "rocksdb"].map(|who| (who.to_owned(), "no such".to_owned())).into();
        let outcome = Outcome { rows: vec![row("a", "zonda", "load")], unavailable, ..Outcome::default() };
        let mut results = Results::new("x", Scale::Tiny, 7);
        results.points.push(Point { race, outcome, from: None });
        assert_eq!(results.missing(), ["zkv in a", "lmdb in a"]);
    }
}
