//! A number that a paper gives, and which of our numbers stands beside it.

use super::{Metric, Results, Scale};

/// One of our numbers: a metric of one contender at one place in one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The contender.
    pub series: &'static str,
    /// The place on the x axis at each scale, in the order of [`Scale::ALL`]; empty when there is only one.
    pub x: [&'static str; 3],
    /// The step.
    pub phase: &'static str,
    /// The number.
    pub metric: Metric,
}

impl Cell {
    /// Its place on the x axis at `scale`.
    #[must_use]
    pub fn at(&self, scale: Scale) -> &'static str {
        let [tiny, laptop, paper] = self.x;
        scale.pick(tiny, laptop, paper)
    }
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
    /// Much the same: 0.80 to 1.25 of it.
    Same,
    /// A formula with parameters that only the paper's analysis knows: shown beside ours, never judged.
    Formula(&'static str),
    /// A number that no paper gives but a model that this project was planned with.
    Model(f64),
}

/// What still counts as much the same: less than so many times more or less.
pub(super) const SIMILAR: f64 = 1.25;

impl Said {
    /// Whether a ratio of ours is as it says: on its side of 1, or near it. `None` where nobody could tell.
    fn is_so(self, ours: f64) -> Option<bool> {
        match self {
            Self::Number(paper) => Some(is_more(paper)? == is_more(ours)?),
            Self::More => is_more(ours),
            Self::Less => is_more(ours).map(|more| !more),
            Self::Same => Some((1.0 / SIMILAR..=SIMILAR).contains(&ours)),
            Self::Formula(_) | Self::Model(_) => None,
        }
    }

    /// Whether it is a model's, not a paper's.
    pub(super) fn is_model(self) -> bool {
        matches!(self, Self::Model(_))
    }
}

/// On which side of 1 a ratio is; `None` for one too close to it.
fn is_more(ratio: f64) -> Option<bool> {
    /// Closer to 1 than this says nothing.
    const NOISE: f64 = 0.03;
    ((ratio - 1.0).abs() > NOISE).then_some(ratio > 1.0)
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

    /// A formula for device reads or writes per operation.
    pub(super) const fn formula(what: &'static str, formula: &'static str, ours: Ours) -> Self {
        Self { what, paper: Said::Formula(formula), unit: "I/O", ours }
    }

    /// A number that a model gives, in bytes per operation.
    pub(super) const fn model(what: &'static str, bytes: f64, cell: Cell) -> Self {
        Self { what, paper: Said::Model(bytes), unit: "B/op", ours: Ours::Value(cell) }
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

    /// Whether a ratio is on the paper's side of 1, or near 1 where the paper says so; `None` for other numbers, and for ratios too
    /// close to 1 to have a side.
    #[must_use]
    pub fn agrees(&self, ours: f64) -> Option<bool> {
        if matches!(self.ours, Ours::Ratio(..)) { self.paper.is_so(ours) } else { None }
    }
}

/// Shorthand for a cell whose place is the same at every scale.
#[must_use]
pub const fn cell(series: &'static str, x: &'static str, phase: &'static str, metric: Metric) -> Cell {
    cell_by_scale(series, [x; 3], phase, metric)
}

/// Shorthand for a cell whose place depends on the scale.
pub(super) const fn cell_by_scale(
    series: &'static str,
    x: [&'static str; 3],
    phase: &'static str,
    metric: Metric,
) -> Cell {
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
        let same = side(Said::Same);
        assert_eq!(
            [0.79, 0.81, 1.0, 1.2, 1.3].map(|ours| same.agrees(ours).unwrap()),
            [false, true, true, true, false]
        );
        assert_eq!(Fact::formula("I/O", "log_b m", Ours::Ratio(cell, cell)).agrees(2.0), None);
        assert_eq!(Fact::value("bytes", 222.27, "B", cell).agrees(100.0), None);
        assert_eq!(Fact::absent("SplinterDB", 132.19, "B").ours.cells().count(), 0);
    }
}
