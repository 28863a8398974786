//! What runs of a model gave, kept as JSON after every point.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zonda_flash::profile::Profile;

use super::made::by_numbers;
use super::seeds::VOID;
use crate::provenance::Provenance;
use crate::repro::Scale;
use crate::{BenchError, Result};

/// All rows of one experiment at one scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveResults {
    /// The experiment's name.
    pub experiment: String,
    /// The scale.
    pub scale: Scale,
    /// Seeds of the rows, in order.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Version of the program.
    pub version: String,
    /// In the order of the experiment, those of a point by their seeds.
    pub rows: Vec<DriveRow>,
}

/// One row: what was run, what came out, what others found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveRow {
    /// The point that made it.
    pub point: String,
    /// Name in the legend.
    pub series: String,
    /// Place on the x axis.
    pub x: String,
    /// What came out.
    pub numbers: BTreeMap<String, f64>,
    /// What the paper or the data sheet says, by the same names.
    pub facts: BTreeMap<String, f64>,
    /// Everything that the run was told.
    pub options: BTreeMap<String, Value>,
    /// The drive's profile; empty where there is no drive.
    pub profile: String,
    /// Hash over the profile's numbers, scale included; empty where there is no drive.
    pub profile_hash: String,
    /// The model that made it: hashes of the profile without scale, and of the code. Nothing where there is no model, of programs that
    /// do not say it, and of what was measured before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Seed.
    pub seed: u64,
    /// Dilation of time; `None` is virtual time.
    pub k: Option<u32>,
    /// CPU time of the point, and its share of the machine's processors.
    pub cpu_seconds: f64,
    /// See `cpu_seconds`.
    pub cpu_share: f64,
    /// The time series, where there is one.
    pub windows: Vec<Window>,
    /// Outcome of the steady-state test, where there is one.
    pub steady: Option<bool>,
    /// Hash over all answers of the model: equal for equal runs.
    pub answers_hash: Option<String>,
    /// Where it is from; unknown of what was measured before this was kept.
    #[serde(default)]
    pub from: Option<Provenance>,
}

/// One window of a time series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its end, in simulated seconds.
    pub end_s: f64,
    /// Times that the capacity had been written.
    pub passes: f64,
    /// Speed of the host's writes.
    pub mib_s: f64,
    /// Bytes on flash for each byte of the host.
    pub amplification: f64,
}

impl DriveRow {
    /// A row without a drive.
    pub(super) fn of(series: &str, x: &str) -> Self {
        Self { series: series.to_owned(), x: x.to_owned(), ..Self::default() }
    }

    /// A row of a run on a drive.
    pub(super) fn new(series: &str, x: &str, profile: &Profile) -> Self {
        Self {
            series: series.to_owned(),
            x: x.to_owned(),
            profile: profile.name.clone(),
            profile_hash: by_numbers(profile),
            ..Self::default()
        }
    }

    /// The same with a number.
    pub(super) fn number(mut self, name: &str, value: impl Into<Option<f64>>) -> Self {
        if let Some(value) = value.into() {
            self.numbers.insert(name.to_owned(), value);
        }
        self
    }

    /// The same with what others found.
    pub(super) fn fact(mut self, name: &str, value: impl Into<Option<f64>>) -> Self {
        if let Some(value) = value.into() {
            self.facts.insert(name.to_owned(), value);
        }
        self
    }

    /// The same with an option of the run.
    pub(super) fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.insert(name.to_owned(), value.into());
        self
    }
}

impl DriveResults {
    /// No rows yet.
    #[must_use]
    pub fn new(experiment: &str, scale: Scale) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { experiment: experiment.to_owned(), scale, seeds: Vec::new(), version, rows: Vec::new() }
    }

    /// Reads what an earlier run left, of one seed or of all; `None` when there is no file.
    ///
    /// # Errors
    /// `Io` when the file is there and cannot be read; `Usage` when it holds something else, which going on would overwrite.
    pub fn load(path: &Path, experiment: &str, scale: Scale, seed: Option<u64>) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let is_of_seed = |row: &DriveRow| seed.is_none_or(|seed| row.seed == seed);
        match Self::read(path, experiment, scale)?.filter(|kept| kept.rows.iter().all(is_of_seed)) {
            Some(kept) => Ok(Some(kept)),
            None => {
                let of_seed = seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
                let expected = format!("results of {experiment} at scale {}{of_seed}", scale.name());
                Err(BenchError::Usage { option: "--json", given: path.display().to_string(), expected })
            }
        }
    }

    /// Reads what a run of another experiment left, to take from it what there is; `None` when there is nothing, or something else.
    ///
    /// # Errors
    /// `Io` when the file is there and cannot be read.
    pub(super) fn load_sibling(path: &Path, experiment: &str, scale: Scale) -> Result<Option<Self>> {
        if path.exists() { Self::read(path, experiment, scale) } else { Ok(None) }
    }

    /// What a file has; `None` for what is no such results.
    fn read(path: &Path, experiment: &str, scale: Scale) -> Result<Option<Self>> {
        let text = fs::read(path).map_err(|source| BenchError::io(format!("read {}", path.display()), source))?;
        let kept: Option<Self> = serde_json::from_slice(&text).ok();
        let mut kept = kept.filter(|kept| kept.experiment == experiment && kept.scale == scale);
        kept.iter_mut().flat_map(|kept| &mut kept.rows).for_each(DriveRow::judge_void);
        Ok(kept)
    }

    /// Keeps only these rows.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&DriveRow) -> bool) {
        self.rows.retain(is_kept);
        self.seeds = self.rows.iter().map(|row| row.seed).collect::<BTreeSet<_>>().into_iter().collect();
    }

    /// Writes everything: to a new file that then takes the old one's place.
    ///
    /// # Errors
    /// `Io`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(self).map_err(|error| BenchError::io("encode results", error.into()))?;
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
        written.map_err(|source| BenchError::io(format!("write {}", path.display()), source))
    }

    /// Puts the rows of a point and seed in the place of those that it had; rows stay in the order of these points, and of seeds. A
    /// point that gave no rows keeps those that it had.
    pub(super) fn replace(&mut self, (point, seed): (&str, u64), rows: Vec<DriveRow>, order: &[String]) {
        if rows.is_empty() {
            return;
        }
        self.rows.retain(|row| row.point != point || row.seed != seed);
        self.rows.extend(rows);
        let place = |row: &DriveRow| order.iter().position(|id| *id == row.point).unwrap_or(order.len());
        self.rows.sort_by_key(|row| (place(row), row.seed));
        self.retain(|_| true);
    }

    /// Rows of a point and seed.
    #[must_use]
    pub fn rows_of(&self, point: &str, seed: u64) -> Vec<DriveRow> {
        self.rows.iter().filter(|row| row.point == point && row.seed == seed).cloned().collect()
    }

    /// The same without the rows of points that gave none.
    pub(super) fn without_broken(&self) -> Self {
        let mut all = self.clone();
        all.rows.retain(|row| !row.is_broken());
        all
    }

    /// One number.
    #[must_use]
    pub fn number(&self, series: &str, x: &str, name: &str) -> Option<f64> {
        let found = self.rows.iter().find(|row| row.series == series && row.x == x)?;
        found.numbers.get(name).copied()
    }

    /// A number of a row that says that it is not void.
    pub(super) fn valid(&self, series: &str, x: &str, name: &str) -> Option<f64> {
        self.number(series, x, VOID).filter(|void| *void == 0.0)?;
        self.number(series, x, name)
    }

    /// One series over another; not a number where one is missing or void.
    pub(super) fn ratio(&self, x: &str, name: &str, (one, other): (&str, &str)) -> f64 {
        let of = |series| self.valid(series, x, name).unwrap_or(f64::NAN);
        of(one) / of(other)
    }
}

#[cfg(test)]
mod tests {
    use super::super::seeds::{CPU, MACHINE};
    use super::*;

    #[test]
    fn rows_that_are_kept_are_void_by_the_rule_of_today() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kept.json");
        let mut results = DriveResults::new("a", Scale::Tiny);
        let row =
            |machine: Option<f64>| DriveRow::of("a", "x").number(CPU, 41.0).number(MACHINE, machine).number(VOID, 0.0);
        results.rows.extend([row(Some(76.0)), row(Some(64.0)), row(None)]);
        results.save(&path).unwrap();
        let kept = DriveResults::load(&path, "a", Scale::Tiny, None).unwrap().unwrap();
        let void: Vec<bool> = kept.rows.iter().map(DriveRow::is_void).collect();
        assert_eq!(void, [true, false, false], "others took 35 and 23 %, or it is not known");
    }
}
