//! Runs an experiment: every race that is not kept yet, then table, figures and targets.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Experiment, Point, Results, Scale, show};
use crate::contest::KeysFrom;
use crate::output::Output;
use crate::provenance::{Moment, Provenance};
use crate::race::{Contender, Race, Track};
use crate::verdict::Verdict;
use crate::{BenchError, Result};

/// Keys from files are 64-bit numbers.
const GIVEN_KEY_BYTES: usize = 8;

/// How experiments are run and where their results go.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Where and how stores are made.
    pub track: Track,
    /// How much.
    pub scale: Scale,
    /// Directory of tables and figures, made if missing.
    pub out: PathBuf,
    /// File of the results; without one `NAME-SCALE.json` in `out`.
    pub json: Option<PathBuf>,
    /// Whether points that the file has already are taken from it.
    pub resume: bool,
    /// Only contenders of these series; empty for all.
    pub only: Vec<String>,
    /// Only points of these names on the x axis; empty for all. The others are taken from the file, if it has them.
    pub points: Vec<String>,
    /// A SOSD file that keys of 8 bytes are taken from; points with a generator's keys are left out then.
    pub keys: Option<PathBuf>,
}

impl Runner {
    /// Runs `experiment` and shows it. A store that failed is in the text, and the last word is an error.
    ///
    /// # Errors
    /// `Io`; `Failed` when a contender failed, after everything has been written.
    pub fn run(&self, experiment: &Experiment, output: &mut Output) -> Result<Results> {
        let json = self.json.clone().unwrap_or_else(|| self.file(experiment, ".json"));
        let results = self.races(experiment, &json)?;
        let (text, verdicts) = (show::text(experiment, &results), self.verdicts(experiment, &results));
        write(&self.file(experiment, ".txt"), &with_verdicts(&text, &verdicts))?;
        output.line(&text)?;
        for figure in experiment.figures {
            let ending = if figure.name.is_empty() { ".svg".into() } else { format!("-{}.svg", figure.name) };
            write(&self.file(experiment, &ending), &figure.chart(&results).svg())?;
        }
        if self.scale == Scale::Tiny {
            output.line("scale tiny: it works; its figures mean nothing")?;
        }
        verdicts.iter().try_for_each(|verdict| output.verdict(verdict))?;
        output.line(format!("results: {}, table and figures: {}", json.display(), self.out.display()))?;
        let all_ran = results.points.iter().try_for_each(|point| point.outcome.none_failed());
        all_ran.map_err(|error| BenchError::Failed(error.to_string())).map(|()| results)
    }

    fn races(&self, experiment: &Experiment, json: &Path) -> Result<Results> {
        let seed = self.track.seed;
        let keeps = self.resume || !self.points.is_empty();
        let kept = if keeps { Results::load(json, experiment.name, self.scale, seed)? } else { None };
        let mut races = (experiment.races)(self.scale);
        if self.keys.is_some() {
            // What a generator stands in for.
            races.retain(|race| race.data.keys_from.is_none());
        }
        self.check_points(&races)?;
        self.check_only(&races)?;
        self.check_keys(&races)?;
        fs::create_dir_all(&self.out)
            .map_err(|source| BenchError::io(format!("make {}", self.out.display()), source))?;
        let mut results = Results::new(experiment.name, self.scale, seed);
        if let Some(keys) = &self.keys {
            let from_file = Some(KeysFrom::File(keys.clone()));
            let take_keys = races.iter_mut().filter(|race| race.data.key_bytes == GIVEN_KEY_BYTES);
            take_keys.for_each(|race| race.data.keys_from.clone_from(&from_file));
        }
        // What is kept of the same work stays in the file until it has been measured again, whatever ends the run before that.
        let mut points: Vec<Option<Point>> = Vec::new();
        for race in &races {
            let found = kept.as_ref().and_then(|kept| kept.at(&race.id));
            let same = found.filter(|point| point.race.is_same_work(race));
            if same.is_none() && found.is_some() {
                eprintln!("{}: \"{}\" is left out, which was measured with other work", experiment.name, race.x);
            }
            points.push(same.cloned());
        }
        for (nth, mut race) in races.into_iter().enumerate() {
            race.contenders.retain(|contender| self.only.is_empty() || self.only.contains(&contender.series));
            let is_wanted = self.points.is_empty() || self.points.contains(&race.x);
            let here = |contender: &Contender| (self.track.engines.unavailable)(&contender.store).is_none();
            let is_done = self.resume && kept.as_ref().is_some_and(|kept| kept.done(&race, here).is_some());
            // Where nobody of those that are wanted takes part, what was measured stays.
            if !is_wanted || is_done || race.contenders.is_empty() {
                continue;
            }
            let began = Moment::now();
            let outcome = self.track.run(&race, &mut |told| eprintln!("{}: {told}", experiment.name))?;
            points[nth] = Some(Point { race, outcome, from: Some(Provenance::since(began)) });
            results = results.with(points.iter().flatten().cloned().collect(), experiment.facts);
            results.save(json)?;
        }
        Ok(results.with(points.into_iter().flatten().collect(), experiment.facts))
    }

    /// Refuses a file of keys that nothing would be taken from: what was measured would make room for a run in which all fails.
    fn check_keys(&self, races: &[Race]) -> Result<()> {
        let Some(keys) = &self.keys else { return Ok(()) };
        let first = fs::File::open(keys).and_then(|mut file| file.read(&mut [0]));
        first.map_err(|source| BenchError::io(format!("read {}", keys.display()), source))?;
        if races.iter().any(|race| race.data.key_bytes == GIVEN_KEY_BYTES) {
            return Ok(());
        }
        let expected = format!("an experiment with keys of {GIVEN_KEY_BYTES} bytes");
        Err(BenchError::Usage { option: "--keys", given: keys.display().to_string(), expected })
    }

    /// Refuses points that the experiment does not have: nothing would be run for them.
    fn check_points(&self, races: &[Race]) -> Result<()> {
        let Some(unknown) = self.points.iter().find(|point| races.iter().all(|race| race.x != **point)) else {
            return Ok(());
        };
        let known: Vec<_> = races.iter().map(|race| race.x.as_str()).collect();
        let expected = match known.as_slice() {
            [""] => "none: the experiment has one point".to_owned(),
            known => format!("one of \"{}\"", known.join("\", \"")),
        };
        Err(BenchError::Usage { option: "--point", given: unknown.clone(), expected })
    }

    /// Refuses contenders that the experiment does not have: what was measured would make room for nothing.
    fn check_only(&self, races: &[Race]) -> Result<()> {
        let has = |name: &String| races.iter().any(|race| race.contenders.iter().any(|one| one.series == *name));
        let Some(unknown) = self.only.iter().find(|name| !has(name)) else { return Ok(()) };
        let mut known: Vec<&str> = Vec::new();
        for contender in races.iter().flat_map(|race| &race.contenders) {
            if !known.contains(&contender.series.as_str()) {
                known.push(&contender.series);
            }
        }
        let expected = format!("one of \"{}\"", known.join("\", \""));
        Err(BenchError::Usage { option: "--only", given: unknown.clone(), expected })
    }

    fn verdicts(&self, experiment: &Experiment, results: &Results) -> Vec<Verdict> {
        if self.scale == Scale::Tiny { Vec::new() } else { (experiment.judge)(results) }
    }

    fn file(&self, experiment: &Experiment, ending: &str) -> PathBuf {
        self.out.join(format!("{}-{}{ending}", experiment.name, self.scale.name()))
    }
}

/// What a file of text has behind what is printed of `text`.
pub(super) fn with_verdicts(text: &str, verdicts: &[Verdict]) -> String {
    verdicts.iter().fold(text.to_owned(), |text, verdict| format!("{text}{verdict}\n"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| BenchError::io(format!("write {}", path.display()), source))
}
