//! A number that a paper gives, and which of our numbers stands beside it.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// The first over the second: how the machine is cancels out, and what is compared is which side of 1 it is on, and how far.
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
    /// A formula of the paper's analysis: what it comes to is shown beside ours, and never judged.
    Formula(Formula),
    /// A number that no paper gives but a model that this project was planned with.
    Model(f64),
}

/// I/Os of an operation as the paper's analysis has them: accesses of nodes, `log_b m` for nodes of `b` entries and `m` pairs, multiplied
/// and added to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formula {
    /// As the paper prints it, with the values of its parameters.
    pub text: &'static str,
    times: f64,
    /// The power of `b` that accesses are multiplied by, too.
    power: f64,
    more: f64,
    /// Whether the inner nodes, and what is added, are in memory.
    is_leaf_alone: bool,
}

impl Formula {
    /// All accesses; what is not a leaf is in memory.
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, times: 1.0, power: 0.0, more: 0.0, is_leaf_alone: true }
    }

    /// The same so many times.
    pub(super) const fn times(self, times: f64) -> Self {
        Self { times, ..self }
    }

    /// The same and so many more.
    pub(super) const fn plus(self, more: f64) -> Self {
        Self { more, ..self }
    }

    /// The same times this power of the entries of a node, for a tree with inner nodes on the device.
    pub(super) const fn buffered(self, power: f64) -> Self {
        Self { power, is_leaf_alone: false, ..self }
    }

    fn evaluated(self, entries: f64, pairs: f64) -> Predicted {
        let times = self.times * entries.powf(self.power);
        let leaf = self.is_leaf_alone.then_some(times);
        Predicted { nodes: times * pairs.ln() / entries.ln() + self.more, leaf }
    }
}

/// What a [`Formula`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// With an I/O for every node.
    pub nodes: f64,
    /// With one for the leaf alone; `None` for a tree that has not all else in memory.
    pub leaf: Option<f64>,
}

/// What still counts as much the same: less than so many times more or less.
const SIMILAR: f64 = 1.25;

/// How many times as large or as small as the paper's a gain may be and still agree with it.
const FAR: f64 = 2.0;

/// How a ratio of ours stands to what the paper says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// As it says: on its side of 1 and, where it gives a number, with half to twice its gain.
    Agrees,
    /// On its side of 1, but not with such a gain.
    SideOnly,
    /// Not as it says.
    Differs,
}

impl Agreement {
    /// As tables show it: what matters most stands out.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::SideOnly => "side only",
            Self::Differs => "DIFFERS",
        }
    }

    fn of(is_so: bool) -> Self {
        if is_so { Self::Agrees } else { Self::Differs }
    }
}

impl Said {
    /// How a ratio of ours stands to it. `None` where nobody could tell.
    fn compared(self, ours: f64) -> Option<Agreement> {
        let is_so = match self {
            Self::Number(paper) => {
                let is_on_its_side = is_more(paper)? == is_more(ours)?;
                if is_on_its_side && !(1.0 / FAR..=FAR).contains(&(gain(ours) / gain(paper))) {
                    return Some(Agreement::SideOnly);
                }
                is_on_its_side
            }
            Self::More => is_more(ours)?,
            Self::Less => !is_more(ours)?,
            Self::Same => (1.0 / SIMILAR..=SIMILAR).contains(&ours),
            Self::Formula(_) | Self::Model(_) => return None,
        };
        Some(Agreement::of(is_so))
    }

    /// Whether it is a model's, not a paper's.
    pub(super) fn is_model(self) -> bool {
        matches!(self, Self::Model(_))
    }

    /// Whether it is one.
    pub(super) fn is_formula(self) -> bool {
        matches!(self, Self::Formula(_))
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) | Self::Model(number) => write!(f, "{number:.2}"),
            Self::Formula(formula) => f.write_str(formula.text),
            Self::More => f.write_str("> 1"),
            Self::Less => f.write_str("< 1"),
            Self::Same => write!(f, "{:.2} to {SIMILAR}", 1.0 / SIMILAR),
        }
    }
}

/// By how much more than 1 a ratio is, or its reciprocal where it is less: 0.5 is as large a gain as 2.
fn gain(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
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
    pub(super) const fn formula(what: &'static str, formula: Formula, ours: Ours) -> Self {
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

    /// What a formula comes to for the tree that ours was counted on, or for the first one where ours is absent.
    #[must_use]
    pub fn predicted(&self, results: &Results) -> Option<Predicted> {
        let Said::Formula(formula) = self.paper else { return None };
        let (entries, pairs) = results.tree(self.ours.cells().next().as_ref())?;
        Some(formula.evaluated(entries, pairs))
    }

    /// How a ratio stands to what the paper says; `None` for other numbers, and for ratios too close to 1 to have a side.
    #[must_use]
    pub fn compared(&self, ours: f64) -> Option<Agreement> {
        if matches!(self.ours, Ours::Ratio(..)) { self.paper.compared(ours) } else { None }
    }
}

/// A statement of the paper beside what was measured, as it is kept with the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// What it is of, in words.
    pub what: String,
    /// What the paper says, in words where it gives no number.
    pub paper: String,
    /// What a formula of the paper comes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Our number, when the run has it.
    pub ours: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// How ours stands to the paper's, where that can be told.
    pub agreement: Option<Agreement>,
}

impl Beside {
    /// What `fact` says beside what `results` have.
    #[must_use]
    pub fn of(fact: &Fact, results: &Results) -> Self {
        let ours = fact.ours(results);
        let agreement = ours.and_then(|ours| fact.compared(ours));
        let (what, paper, unit) = (fact.what.to_owned(), fact.paper.to_string(), fact.unit.to_owned());
        Self { what, paper, predicted: fact.predicted(results), ours, unit, agreement }
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
    fn only_ratios_are_compared() {
        use Agreement::{Agrees, Differs};
        let cell = cell("zkv", "", "zkv-a", Metric::Kops);
        let ratio = Fact::ratio("faster", 1.35, cell, cell);
        assert_eq!([1.2, 0.8, 1.01].map(|ours| ratio.compared(ours)), [Some(Agrees), Some(Differs), None]);
        let side = |said| Fact::side("greater in the paper", said, cell, cell);
        assert_eq!([Said::More, Said::Less].map(|said| side(said).compared(1.2)), [Some(Agrees), Some(Differs)]);
        assert_eq!(side(Said::More).compared(1000.0), Some(Agrees), "it says no more than that");
        let same = side(Said::Same);
        assert_eq!(
            [0.79, 0.81, 1.0, 1.2, 1.3].map(|ours| same.compared(ours).unwrap()),
            [Differs, Agrees, Agrees, Agrees, Differs]
        );
        assert_eq!(Fact::formula("I/O", Formula::new("log_b m"), Ours::Ratio(cell, cell)).compared(2.0), None);
        assert_eq!(Fact::value("bytes", 222.27, "B", cell).compared(100.0), None);
        assert_eq!(Fact::absent("SplinterDB", 132.19, "B").ours.cells().count(), 0);
    }

    #[test]
    fn the_side_alone_is_not_the_papers_number() {
        use Agreement::{Agrees, Differs, SideOnly};
        let cell = cell("zkv", "", "zkv-a", Metric::Kops);
        let beside =
            |paper, ours: [f64; 4]| ours.map(|ours| Fact::ratio("", paper, cell, cell).compared(ours).unwrap());
        assert_eq!(beside(30.0, [6.0, 15.6, 58.0, 61.0]), [SideOnly, Agrees, Agrees, SideOnly]);
        assert_eq!(beside(100.0, [3.7, 0.9, 49.0, 51.0]), [SideOnly, Differs, SideOnly, Agrees]);
        assert_eq!(
            beside(1.9, [1.04, 1.44, 1.46, 0.5]),
            [SideOnly, SideOnly, Agrees, Differs],
            "of the gain, not of 1"
        );
        assert_eq!(beside(0.25, [0.5, 0.39, 0.15, 0.14]), [SideOnly, Agrees, Agrees, SideOnly], "three times less");
    }

    #[test]
    fn formulas_are_evaluated() {
        let plain = Formula::new("log_b m").evaluated(10.0, 1000.0);
        assert!((plain.nodes - 3.0).abs() < 1e-9 && plain.leaf == Some(1.0), "{plain:?}");
        let lists = Formula::new("log_b m + L").plus(32.0).evaluated(10.0, 1000.0);
        assert!((lists.nodes - 35.0).abs() < 1e-9 && lists.leaf == Some(1.0), "deltas are in memory: {lists:?}");
        let batches = Formula::new("log_b m / K").times(1.0 / 30.0).evaluated(10.0, 1000.0);
        assert!((batches.nodes - 0.1).abs() < 1e-9 && batches.leaf == Some(1.0 / 30.0), "{batches:?}");
        let buffers = Formula::new("log_b m / (e * b^(1-e))").times(2.0).buffered(-0.5).evaluated(100.0, 1e6);
        assert!((buffers.nodes - 0.6).abs() < 1e-9 && buffers.leaf.is_none(), "{buffers:?}");
    }
}
