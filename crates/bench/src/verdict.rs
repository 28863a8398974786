//! A target, what was measured, and whether it was reached.

use std::fmt;

use serde::Serialize;

/// Which side of the target is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The measured value must not exceed the target.
    AtMost,
    /// The measured value must not fall short of the target.
    AtLeast,
}

/// One line of "Show it": printed by every experiment and written by `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What is measured.
    pub target: String,
    /// Which side is good.
    pub goal: Goal,
    /// The bound.
    pub bound: f64,
    /// What came out.
    pub measured: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// Whether `measured` is on the good side of `bound`; nothing if it is not judged.
    pub reached: Option<bool>,
    /// Why it is not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Unjudged>,
    /// What a paper says of it, where it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// How far apart runs of several seeds are; `measured` is of their means. Nothing for what is run once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeds: Option<SeedSpread>,
}

/// Why a target is not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unjudged {
    /// Nothing was measured that says anything of it.
    NotRun,
    /// What was measured is void.
    Void,
    /// The run was smaller than what the target stands for, which is this.
    TooSmall(String),
}

/// One number over runs of several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeedSpread {
    /// Seeds for which the number is known.
    pub count: usize,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
}

impl SeedSpread {
    /// Of these numbers, one for each seed; those that are no numbers are left out.
    #[must_use]
    pub fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let none = Self { count: 0, least: f64::INFINITY, most: f64::NEG_INFINITY };
        numbers.filter(|number| number.is_finite()).fold(none, |all, number| Self {
            count: all.count + 1,
            least: all.least.min(number),
            most: all.most.max(number),
        })
    }
}

impl fmt::Display for SeedSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => f.write_str("no seed has all of it"),
            1 => f.write_str("1 seed"),
            count => write!(f, "mean of {count} seeds, {} to {}", short(self.least), short(self.most)),
        }
    }
}

impl Verdict {
    /// `measured` should be at most `bound`.
    #[must_use]
    pub fn at_most(target: impl Into<String>, measured: f64, bound: f64, unit: &'static str) -> Self {
        Self::of(target.into(), (Goal::AtMost, bound), measured, unit, measured <= bound)
    }

    /// `measured` should be at least `bound`.
    #[must_use]
    pub fn at_least(target: impl Into<String>, measured: f64, bound: f64, unit: &'static str) -> Self {
        Self::of(target.into(), (Goal::AtLeast, bound), measured, unit, measured >= bound)
    }

    fn of(target: String, (goal, bound): (Goal, f64), measured: f64, unit: &'static str, reached: bool) -> Self {
        let unjudged = measured.is_nan().then_some(Unjudged::NotRun);
        let reached = unjudged.is_none().then_some(reached);
        Self { target, goal, bound, measured, unit, reached, unjudged, paper: None, seeds: None }
    }

    /// The same of rows that are void: they prove nothing, whatever they say.
    #[must_use]
    pub fn of_void(self) -> Self {
        Self { measured: f64::NAN, reached: None, unjudged: Some(Unjudged::Void), seeds: None, ..self }
    }

    /// The same, not judged if the run was smaller than what the target stands for, which is then given.
    #[must_use]
    pub fn unless_too_small(self, stands_for: Option<&str>) -> Self {
        match stands_for {
            Some(size) if self.unjudged.is_none() => {
                Self { reached: None, unjudged: Some(Unjudged::TooSmall(size.to_owned())), ..self }
            }
            _ => self,
        }
    }

    /// The same with what a paper says.
    #[must_use]
    pub fn paper(self, paper: impl fmt::Display) -> Self {
        Self { paper: Some(paper.to_string()), ..self }
    }

    /// The bound with its side, as text.
    #[must_use]
    pub fn to_reach(&self) -> String {
        let sign = if self.goal == Goal::AtMost { "<=" } else { ">=" };
        let space = if self.unit.is_empty() { "" } else { " " };
        format!("{sign} {}{space}{}", short(self.bound), self.unit)
    }

    /// Whether it was reached, in a word or two.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match (&self.unjudged, self.reached) {
            (Some(Unjudged::NotRun), _) | (None, None) => "not run",
            (Some(Unjudged::Void), _) => "void",
            (Some(Unjudged::TooSmall(_)), _) => "not judged",
            (None, Some(true)) => "reached",
            (None, Some(false)) => "missed",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paper = self.paper.iter().map(|paper| format!(" (paper: {paper})")).collect::<String>();
        write!(f, "target {}{paper}: {}: ", self.target, self.to_reach())?;
        if self.measured.is_nan() {
            return f.write_str(self.outcome());
        }
        let seeds = self.seeds.iter().map(|seeds| format!(" ({seeds})")).collect::<String>();
        write!(f, "measured {}{seeds}: {}", short(self.measured), self.outcome())?;
        match &self.unjudged {
            Some(Unjudged::TooSmall(size)) => write!(f, ", it stands for {size}"),
            _ => Ok(()),
        }
    }
}

/// A number with three digits after the point at most.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_which_side_it_is_on() {
        let reached = Verdict::at_most("space after random load", 1.52, 1.7, "x");
        assert_eq!(reached.to_string(), "target space after random load: <= 1.7 x: measured 1.52: reached");
        let missed = Verdict::at_least("synced puts", 0.5, 0.9, "");
        assert_eq!(missed.to_string(), "target synced puts: >= 0.9: measured 0.5: missed");
        let seeds = SeedSpread::of([1.5, f64::NAN, 1.25, 2.0].into_iter());
        let of_seeds = Verdict { seeds: Some(seeds), ..Verdict::at_least("gain", 1.583, 1.0, "x").paper(2.77) };
        let text = "target gain (paper: 2.77): >= 1 x: measured 1.583 (mean of 3 seeds, 1.25 to 2): reached";
        assert_eq!(of_seeds.to_string(), text);
        let nothing = Verdict::at_most("nothing", f64::NAN, 1.0, "");
        assert_eq!(nothing.reached, None);
        assert_eq!(nothing.to_string(), "target nothing: <= 1: not run");
    }

    #[test]
    fn what_says_nothing_is_not_judged() {
        let verdict = || Verdict::at_most("space", 1.5, 1.7, "x");
        assert_eq!(verdict().unless_too_small(None), verdict());
        let small = verdict().unless_too_small(Some("4,000,000 records"));
        let said = "target space: <= 1.7 x: measured 1.5: not judged, it stands for 4,000,000 records";
        assert_eq!((small.reached, small.to_string().as_str()), (None, said));
        let void = verdict().of_void();
        assert_eq!((void.reached, void.to_string().as_str()), (None, "target space: <= 1.7 x: void"));
        let json = serde_json::to_value(&small).unwrap();
        assert!(json["reached"].is_null() && json["unjudged"]["too_small"] == "4,000,000 records", "{json}");
        assert!(serde_json::to_value(verdict()).unwrap()["reached"] == true);
    }
}
