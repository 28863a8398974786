//! A number that a paper gives, and which of our numbers stands beside it.

use super::{Metric, Results};

/// One of our numbers: a metric of one contender at one place in one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The contender.
    pub series: &'static str,
    /// The place on the x axis; empty when there is only one.
    pub x: &'static str,
    /// The step.
    pub phase: &'static str,
    /// The number.
    pub metric: Metric,
}

/// What of ours is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ours {
    /// The number itself.
    Value(Cell),
    /// The first over the second: how the machine is cancels out, and what is compared is which side of 1 it is on.
    Ratio(Cell, Cell),
    /// Nothing: the system is not run here.
    Absent,
}

impl Ours {
    /// All cells named.
    pub fn cells(self) -> impl Iterator<Item = Cell> {
        let cells = match self {
            Self::Value(cell) => [Some(cell), None],
            Self::Ratio(one, other) => [Some(one), Some(other)],
            Self::Absent => [None, None],
        };
        cells.into_iter().flatten()
    }
}

/// A number of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// What it is of, in words.
    pub what: &'static str,
    /// The number.
    pub paper: f64,
    /// Its unit; `x` for ratios.
    pub unit: &'static str,
    /// Ours.
    pub ours: Ours,
}

impl Fact {
    /// A number of a contender.
    pub(super) const fn value(what: &'static str, paper: f64, unit: &'static str, cell: Cell) -> Self {
        Self { what, paper, unit, ours: Ours::Value(cell) }
    }

    /// A ratio of two.
    pub(super) const fn ratio(what: &'static str, paper: f64, one: Cell, other: Cell) -> Self {
        Self { what, paper, unit: "x", ours: Ours::Ratio(one, other) }
    }

    /// A number of a system that is not run here.
    pub(super) const fn absent(what: &'static str, paper: f64, unit: &'static str) -> Self {
        Self { what, paper, unit, ours: Ours::Absent }
    }

    /// Our number, when the run has it.
    #[must_use]
    pub fn ours(&self, results: &Results) -> Option<f64> {
        match self.ours {
            Ours::Value(cell) => results.value(&cell),
            Ours::Ratio(one, other) => {
                let below = results.value(&other).filter(|below| *below != 0.0)?;
                Some(results.value(&one)? / below)
            }
            Ours::Absent => None,
        }
    }

    /// Whether a ratio is on the paper's side of 1; `None` for other numbers, and for ratios that nobody could tell from 1.
    #[must_use]
    pub fn agrees(&self, ours: f64) -> Option<bool> {
        /// Closer to 1 than this says nothing.
        const NOISE: f64 = 0.03;
        let tells = |ratio: f64| (ratio - 1.0).abs() > NOISE;
        let is_ratio = matches!(self.ours, Ours::Ratio(..));
        (is_ratio && tells(self.paper) && tells(ours)).then_some((self.paper > 1.0) == (ours > 1.0))
    }
}

/// Shorthand for a cell.
#[must_use]
pub const fn cell(series: &'static str, x: &'static str, phase: &'static str, metric: Metric) -> Cell {
    Cell { series, x, phase, metric }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ratios_have_directions() {
        let cell = cell("zkv", "", "zkv-a", Metric::Kops);
        let ratio = Fact::ratio("faster", 1.35, cell, cell);
        assert_eq!((ratio.agrees(1.2), ratio.agrees(0.8), ratio.agrees(1.01)), (Some(true), Some(false), None));
        assert_eq!(Fact::value("bytes", 222.27, "B", cell).agrees(100.0), None);
        assert_eq!(Fact::absent("SplinterDB", 132.19, "B").ours.cells().count(), 0);
    }
}
