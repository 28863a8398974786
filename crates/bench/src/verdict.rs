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
    /// Whether `measured` is on the good side of `bound`.
    pub reached: bool,
}

impl Verdict {
    /// `measured` should be at most `bound`.
    #[must_use]
    pub fn at_most(target: impl Into<String>, measured: f64, bound: f64, unit: &'static str) -> Self {
        Self { target: target.into(), goal: Goal::AtMost, bound, measured, unit, reached: measured <= bound }
    }

    /// `measured` should be at least `bound`.
    #[must_use]
    pub fn at_least(target: impl Into<String>, measured: f64, bound: f64, unit: &'static str) -> Self {
        Self { target: target.into(), goal: Goal::AtLeast, bound, measured, unit, reached: measured >= bound }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.goal == Goal::AtMost { "<=" } else { ">=" };
        let outcome = if self.reached { "reached" } else { "missed" };
        let space = if self.unit.is_empty() { "" } else { " " };
        write!(f, "target {}: {sign} {}{space}{}: ", self.target, short(self.bound), self.unit)?;
        if self.measured.is_nan() {
            return f.write_str("not measured");
        }
        write!(f, "measured {}: {outcome}", short(self.measured))
    }
}

/// A number with three digits after the point at most.
fn short(value: f64) -> String {
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
        let nothing = Verdict::at_most("nothing", f64::NAN, 1.0, "");
        assert!(!nothing.reached);
        assert_eq!(nothing.to_string(), "target nothing: <= 1: not measured");
    }
}
