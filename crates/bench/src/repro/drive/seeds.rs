//! Runs of several seeds as one: their means, and targets that are judged by the means and say how far the seeds are apart.

use std::collections::BTreeMap;

use super::{DriveExperiment, DriveResults, DriveRow};
use crate::verdict::{SeedSpread, Verdict};

/// 1 if a row is void: judged and drawn nowhere.
pub(super) const VOID: &str = "void";
/// The processors' time that `db_bench` took, the modelled drive in it.
pub(super) const CPU: &str = "CPU %";
/// The processors' busy time, all programs together but for the user time of those that give way to others (nice).
pub(super) const MACHINE: &str = "machine busy %";
/// A run above this share of the processors says more about the host than about the drive.
const CPU_PERCENT_MAX: f64 = 60.0;
/// Other programs that take more of the processors make threads wake up late.
const OTHERS_PERCENT_MAX: f64 = 25.0;

/// What a row says of [`VOID`]: of a run in dilated time that took so much of the processors, where all programs together took so much.
pub(super) fn void(cpu_percent: f64, machine_percent: f64) -> f64 {
    let is_void = cpu_percent > CPU_PERCENT_MAX || machine_percent - cpu_percent > OTHERS_PERCENT_MAX;
    f64::from(u8::from(is_void))
}

/// Of a row of means: runs that are not void, and that it is the mean of.
pub(super) const SEEDS: &str = "seeds";

impl DriveRow {
    pub(super) fn is_void(&self) -> bool {
        self.numbers.get(VOID).is_some_and(|void| *void != 0.0)
    }

    /// Says whether it is void by the rule as it is now, which may have been another one when it was kept; where it cannot be told, what
    /// it says stays.
    pub(super) fn judge_void(&mut self) {
        let shares = self.numbers.get(CPU).copied().zip(self.numbers.get(MACHINE).copied());
        if let (Some(is_void), Some((cpu, machine))) = (self.numbers.get_mut(VOID), shares) {
            *is_void = void(cpu, machine);
        }
    }
}

impl DriveResults {
    /// A row for all seeds that have it: means over those that are not void, or over all if all are.
    #[must_use]
    pub fn mean(&self) -> Self {
        let mut means: Vec<DriveRow> = Vec::new();
        for row in &self.rows {
            if means.iter().any(|mean| mean.is_of(row)) {
                continue;
            }
            let runs = self.runs_of(row);
            let valid = runs.iter().filter(|run| !run.is_void() && !run.is_broken()).count();
            let mut numbers: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            for (name, number) in runs.iter().flat_map(|run| &run.numbers) {
                numbers.entry(name.clone()).or_default().push(*number);
            }
            let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
            let numbers = numbers.into_iter().map(|(name, numbers)| (name, mean(numbers))).collect();
            means.push(DriveRow { numbers, ..row.clone() }.number(SEEDS, valid as f64));
        }
        Self { rows: means, ..self.clone() }
    }

    /// The runs that a row of means is of.
    pub(super) fn runs_of(&self, mean: &DriveRow) -> Vec<&DriveRow> {
        let all: Vec<&DriveRow> = self.rows.iter().filter(|row| mean.is_of(row)).collect();
        let valid: Vec<&DriveRow> = all.iter().copied().filter(|row| !row.is_void()).collect();
        if valid.is_empty() { all } else { valid }
    }
}

impl DriveRow {
    /// Whether both are of the same, seeds aside.
    fn is_of(&self, other: &Self) -> bool {
        self.point == other.point && self.series == other.series && self.x == other.x
    }
}

/// Targets by what is shown, which are means; those of live runs say what each seed alone would give.
pub(super) fn judged(experiment: &DriveExperiment, shown: &DriveResults, runs: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = of_valid(experiment, shown);
    if !experiment.is_live() {
        return verdicts;
    }
    let of_seed = |seed: &u64| {
        let mut alone = runs.clone();
        alone.retain(|row| row.seed == *seed && shown.rows.iter().any(|mean| mean.is_of(row)));
        of_valid(experiment, &alone)
    };
    let by_seed: Vec<Vec<Verdict>> = runs.seeds.iter().map(of_seed).collect();
    for verdict in &mut verdicts {
        let of_it = |alone: &Vec<Verdict>| Some(alone.iter().find(|one| one.target == verdict.target)?.measured);
        verdict.seeds = Some(SeedSpread::of(by_seed.iter().filter_map(of_it)));
    }
    verdicts
}

/// Targets by rows that are not void. Those that void ones alone would say something of are named as void.
fn of_valid(experiment: &DriveExperiment, results: &DriveResults) -> Vec<Verdict> {
    if !experiment.columns.contains(&VOID) {
        // Bytes alone are what they are on a busy machine, too.
        return (experiment.judge)(results);
    }
    let (mut valid, mut all) = (results.clone(), results.clone());
    valid.rows.retain(|row| !row.is_void());
    let mut verdicts = (experiment.judge)(&valid);
    if valid.rows.len() == results.rows.len() {
        return verdicts;
    }
    all.rows.iter_mut().filter_map(|row| row.numbers.get_mut(VOID)).for_each(|void| *void = 0.0);
    for of_void in (experiment.judge)(&all).into_iter().filter(|verdict| verdict.unjudged.is_none()) {
        match verdicts.iter_mut().find(|verdict| verdict.target == of_void.target) {
            Some(verdict) if verdict.unjudged.is_some() => *verdict = of_void.of_void(),
            Some(_) => {}
            None => verdicts.push(of_void.of_void()),
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::Scale;

    fn row(series: &str, seed: u64, ops: f64, void: f64) -> DriveRow {
        let row = DriveRow::of(series, "x").number("ops", ops).number(VOID, void);
        DriveRow { seed, point: series.to_owned(), ..row }
    }

    fn results(rows: Vec<DriveRow>) -> DriveResults {
        let mut results = DriveResults::new("splitzns-fig13", Scale::Laptop);
        results.rows = rows;
        results.retain(|_| true);
        results
    }

    #[test]
    fn a_busy_machine_voids_whatever_ran_on_it() {
        assert_eq!([void(60.0, 85.0), void(60.1, 61.0), void(10.0, 35.1), void(40.0, 0.0)], [0.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn means_are_over_seeds_that_are_not_void() {
        let rows = vec![row("a", 1, 10.0, 0.0), row("a", 2, 20.0, 0.0), row("a", 3, 900.0, 1.0), row("b", 1, 7.0, 1.0)];
        let mean = results(rows).mean();
        let of = |name| ["a", "b"].map(|series| mean.number(series, "x", name).unwrap());
        assert_eq!((of("ops"), of(SEEDS), of(VOID)), ([15.0, 7.0], [2.0, 0.0], [0.0, 1.0]));
        assert_eq!((mean.rows.len(), &mean.seeds[..]), (2, &[1, 2, 3][..]));
    }

    const OVER: DriveExperiment = DriveExperiment {
        name: "splitzns-fig13",
        title: "",
        source: "",
        how: "",
        points: |_| Ok(Vec::new()),
        columns: &["ops", VOID],
        charts: |_| Vec::new(),
        judge: |results| {
            let of = |series| results.number(series, "x", "ops").unwrap_or(f64::NAN);
            vec![Verdict::at_least("a over b", of("a") / of("b"), 1.0, "x").paper(2.77)]
        },
    };

    /// A judge that does not look whether rows are void is told of none.
    #[test]
    fn void_rows_are_not_judged() {
        let outcome = |rows: Vec<DriveRow>| {
            let runs = results(rows);
            judged(&OVER, &runs.mean(), &runs)[0].to_string()
        };
        let void = outcome(vec![row("a", 1, 10.0, 1.0), row("b", 1, 5.0, 0.0)]);
        assert_eq!(void, "target a over b (paper: 2.77): >= 1 x: void");
        let missing = outcome(vec![row("b", 1, 5.0, 0.0)]);
        assert_eq!(missing, "target a over b (paper: 2.77): >= 1 x: not run");
        let one_of_two = outcome(vec![row("a", 1, 10.0, 1.0), row("a", 2, 10.0, 0.0), row("b", 1, 5.0, 0.0)]);
        assert!(one_of_two.contains("measured 2 ("), "{one_of_two}");
        let bytes_alone = DriveExperiment { columns: &["ops"], ..OVER };
        let runs = results(vec![row("a", 1, 10.0, 1.0), row("b", 1, 5.0, 0.0)]);
        assert_eq!(judged(&bytes_alone, &runs.mean(), &runs)[0].outcome(), "reached");
    }

    #[test]
    fn targets_are_of_means_and_tell_the_spread() {
        let experiment = OVER;
        let rows = vec![row("a", 1, 10.0, 0.0), row("a", 2, 30.0, 0.0), row("b", 1, 10.0, 0.0), row("b", 2, 10.0, 0.0)];
        let runs = results(rows);
        let verdicts = judged(&experiment, &runs.mean(), &runs);
        let said = "target a over b (paper: 2.77): >= 1 x: measured 2 (mean of 2 seeds, 1 to 3): reached";
        assert_eq!(verdicts[0].to_string(), said);
        let text = super::super::text::beside_the_paper(&verdicts);
        let cells: Vec<&str> =
            text.lines().last().unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["a over b", "2.77", "2", "1", "3", "2", ">= 1 x", "reached"]);
        let one = results(runs.rows.iter().filter(|row| row.seed == 1 || row.series == "b").cloned().collect());
        assert_eq!(judged(&experiment, &one.mean(), &one)[0].seeds.unwrap().count, 1, "seed 2 has only half of it");
    }
}
