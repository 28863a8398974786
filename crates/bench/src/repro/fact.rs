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

/// What the paper says of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    /// A number.
    Number(f64),
    /// More than 1, or a picture that shows as much.
    More,
    /// Less than 1, or a picture that shows as much.
    Less,
    /// Much the same.
    Same,
}

impl Said {
    /// On which side of 1; `None` where nobody could tell.
    fn is_more(self) -> Option<bool> {
        /// Closer to 1 than this says nothing.
        const NOISE: f64 = 0.03;
        match self {
            Self::Number(number) => ((number - 1.0).abs() > NOISE).then_some(number > 1.0),
            Self::More => Some(true),
            Self::Less => Some(false),
            Self::Same => None,
        }
    }
}

/// A statement of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// What it is of, in words.
    pub what: &'static str,
    /// What it says.
    pub paper: Said,
    /// Its unit; `x` for ratios.
    pub unit: &'static str,
    /// Ours.
    pub ours: Ours,
}

impl Fact {
    /// A number of a contender.
    pub(super) const fn value(what: &'static str, paper: f64, unit: &'static str, cell: Cell) -> Self {
        Self { what, paper: Said::Number(paper), unit, ours: Ours::Value(cell) }
    }

    /// A ratio of two.
    pub(super) const fn ratio(what: &'static str, paper: f64, one: Cell, other: Cell) -> Self {
        Self { what, paper: Said::Number(paper), unit: "x", ours: Ours::Ratio(one, other) }
    }

    /// A ratio of two of which the paper gives no number.
    pub(super) const fn side(what: &'static str, paper: Said, one: Cell, other: Cell) -> Self {
        Self { what, paper, unit: "x", ours: Ours::Ratio(one, other) }
    }

    /// A number of a system that is not run here.
    pub(super) const fn absent(what: &'static str, paper: f64, unit: &'static str) -> Self {
        Self { what, paper: Said::Number(paper), unit, ours: Ours::Absent }
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
        let is_ratio = matches!(self.ours, Ours::Ratio(..));
        let of = |ratio: f64| Said::Number(ratio).is_more();
        if is_ratio { Some(self.paper.is_more()? == of(ours)?) } else { None }
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
        let side = |said| Fact::side("greater in the paper", said, cell, cell);
        assert_eq!((side(Said::More).agrees(1.2), side(Said::Less).agrees(1.2)), (Some(true), Some(false)));
        assert_eq!(side(Said::Same).agrees(1.2), None);
        assert_eq!(Fact::value("bytes", 222.27, "B", cell).agrees(100.0), None);
        assert_eq!(Fact::absent("SplinterDB", 132.19, "B").ours.cells().count(), 0);
    }
}
