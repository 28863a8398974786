//! What is drawn: which rows, along which axis.

use super::chart::{Chart, Kind, Series};
use super::{Metric, Results};
use crate::profile::Component;
use crate::race::Row;

/// What lies on the x axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The races' parameter: what it is, of which the races' names are values.
    Parameter(&'static str),
    /// The steps: one group of bars for each.
    Phase,
    /// Percentiles of latency.
    Percentile,
    /// Components of a profile.
    Component,
}

/// One drawing.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Ends the file's name, when an experiment has several.
    pub name: &'static str,
    /// Above the drawing.
    pub title: &'static str,
    /// Steps that it is about.
    pub phases: &'static [&'static str],
    /// The only place that it is about, where several have the same steps and these are not its x axis.
    pub x: Option<&'static str>,
    /// Its x axis.
    pub axis: Axis,
    /// Its y axis; unused for percentiles and components.
    pub metric: Metric,
    /// Whether the y axis is logarithmic.
    pub log: bool,
}

impl Figure {
    /// The drawing of `results`.
    #[must_use]
    pub fn chart(&self, results: &Results) -> Chart {
        let rows: Vec<&Row> = results.rows().filter(|row| self.shows(&row.x, &row.report.phase)).collect();
        let labels = self.labels(&rows);
        let series = distinct(rows.iter().map(|row| self.series_of(row)));
        let series = series.into_iter().map(|name| {
            let own: Vec<_> = rows.iter().copied().filter(|row| self.series_of(row) == name).collect();
            let values = labels.iter().enumerate().map(|(at, label)| self.value(&own, at, label)).collect();
            Series { name, values }
        });
        Chart {
            title: self.title.to_owned(),
            x_label: match self.axis {
                Axis::Parameter(what) => what.into(),
                Axis::Percentile => "percentile of the operations".into(),
                Axis::Component => "component".into(),
                Axis::Phase => String::new(),
            },
            y_label: match self.axis {
                Axis::Percentile => "latency, us".into(),
                Axis::Component => "% of the store's CPU time".into(),
                Axis::Parameter(_) | Axis::Phase => self.metric.heading().into(),
            },
            kind: if matches!(self.axis, Axis::Phase | Axis::Component) { Kind::Bars } else { Kind::Lines },
            log: self.log,
            series: series.collect(),
            labels,
        }
    }

    /// Whether it is about this step at this place.
    #[must_use]
    pub fn shows(&self, x: &str, phase: &str) -> bool {
        self.phases.contains(&phase) && self.x.is_none_or(|only| only == x)
    }

    fn labels(&self, rows: &[&Row]) -> Vec<String> {
        match self.axis {
            Axis::Parameter(_) => distinct(rows.iter().map(|row| row.x.clone())),
            Axis::Phase => self.phases.iter().map(|phase| (*phase).to_owned()).collect(),
            Axis::Component => Component::ALL.iter().map(|component| component.name().to_owned()).collect(),
            Axis::Percentile => {
                Metric::PERCENTILES.iter().map(|percentile| percentile.heading().replace(" us", "")).collect()
            }
        }
    }

    /// Several phases along a parameter are several lines for each contender.
    fn series_of(&self, row: &Row) -> String {
        match self.axis {
            Axis::Parameter(_) if self.phases.len() > 1 => format!("{} {}", row.series, row.report.phase),
            _ => row.series.clone(),
        }
    }

    fn value(&self, own: &[&Row], at: usize, label: &str) -> Option<f64> {
        match self.axis {
            Axis::Parameter(_) => self.metric.of(own.iter().find(|row| row.x == label)?),
            Axis::Phase => self.metric.of(own.iter().find(|row| row.report.phase == label)?),
            Axis::Percentile => Metric::PERCENTILES[at].of(own.first()?),
            Axis::Component => Metric::TimeIn(Component::ALL[at]).of(own.first()?),
        }
    }
}

/// Each value once, in the order of their first occurrence.
fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::{Outcome, Race};
    use crate::repro::metric::tests::row;
    use crate::repro::{Point, Scale};

    fn results() -> Results {
        let mut results = Results::new("x", Scale::Tiny, 1);
        let rows = vec![row("4", "a", "load"), row("4", "b", "load"), row("8", "a", "load"), row("8", "a", "get")];
        results.points.push(Point {
            race: Race::new("4", 1, 1),
            outcome: Outcome { rows, ..Outcome::default() },
            from: None,
        });
        results
    }

    const FIGURE: Figure = Figure {
        name: "",
        title: "t",
        phases: &["load"],
        x: None,
        axis: Axis::Parameter("pairs"),
        metric: Metric::Kops,
        log: false,
    };

    #[test]
    fn rows_go_where_they_belong() {
        let chart = FIGURE.chart(&results());
        assert_eq!(chart.labels, ["4", "8"]);
        let values: Vec<_> = chart.series.iter().map(|series| (series.name.as_str(), series.values.clone())).collect();
        assert_eq!(values, [("a", vec![Some(200.0), Some(200.0)]), ("b", vec![Some(200.0), None])]);
        let both = Figure { phases: &["load", "get"], ..FIGURE }.chart(&results());
        assert_eq!(
            both.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(),
            ["a load", "b load", "a get"]
        );
        let latency = Figure { axis: Axis::Percentile, ..FIGURE }.chart(&results());
        assert_eq!((latency.labels.len(), latency.series[0].values[4]), (5, Some(5.0)));
        let bars = Figure { phases: &["load", "get"], axis: Axis::Phase, ..FIGURE }.chart(&results());
        assert_eq!((bars.labels, bars.kind), (vec!["load".to_owned(), "get".to_owned()], Kind::Bars));
    }

    /// Else the bar of who did not run at the place would be of another one.
    #[test]
    fn a_figure_of_one_place_shows_no_other() {
        let bars = Figure { phases: &["load", "get"], x: Some("4"), axis: Axis::Phase, ..FIGURE }.chart(&results());
        let values: Vec<_> = bars.series.iter().map(|series| (series.name.as_str(), series.values.clone())).collect();
        assert_eq!(values, [("a", vec![Some(200.0), None]), ("b", vec![Some(200.0), None])]);
    }
}
