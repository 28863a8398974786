//! Draws bars and lines as SVG: axes with round numbers, a legend, colours that print.

use std::fmt::Write;

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A group of bars per label.
    Bars,
    /// Points joined by lines.
    Lines,
}

/// One contender's values, a place for each label.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// `None` where nothing was measured.
    pub values: Vec<Option<f64>>,
}

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Beside the y axis.
    pub y_label: String,
    /// Bars or lines.
    pub kind: Kind,
    /// Whether the y axis is logarithmic; values of zero are left out then.
    pub log: bool,
    /// Below the x axis.
    pub labels: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#b8a800"];

/// From values to heights.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    fn of(chart: &Chart) -> Self {
        let values = chart.series.iter().flat_map(|series| series.values.iter().flatten());
        let positive = values.copied().filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = positive.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        match (high > 0.0, chart.log) {
            (false, _) => Self { log: false, low: 0.0, high: 1.0 },
            (true, false) => Self { log: false, low: 0.0, high: step_of(high) * (high / step_of(high)).ceil() },
            (true, true) => {
                let (low, high) = (low.log10().floor(), high.log10().ceil());
                Self { log: true, low, high: high.max(low + 1.0) }
            }
        }
    }

    /// Place of `value` from the top of the drawing.
    fn y(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        TOP + (1.0 - share) * (HEIGHT - TOP - BOTTOM)
    }

    /// Values that get a line and a number.
    fn ticks(&self) -> Vec<f64> {
        let step = if self.log { 1.0 } else { step_of(self.high) };
        let mut ticks = Vec::new();
        let mut at = self.low;
        while at <= self.high + step / 2.0 {
            ticks.push(if self.log { 10_f64.powf(at) } else { at });
            at += step;
        }
        ticks
    }
}

/// A round number (1, 2 or 5 times a power of ten) of which four to ten reach `high`.
fn step_of(high: f64) -> f64 {
    let magnitude = 10_f64.powf((high / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|factor| factor * magnitude).find(|step| high / step >= 4.0).unwrap_or(magnitude)
}

impl Chart {
    /// The drawing as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let scale = Scale::of(self);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, (WIDTH / 2.0, 22.0), "middle", &self.title);
        self.axes(&mut svg, &scale);
        for (nth, series) in self.series.iter().enumerate() {
            match self.kind {
                Kind::Bars => self.bars(&mut svg, &scale, nth, series),
                Kind::Lines => self.line(&mut svg, &scale, nth, series),
            }
            legend(&mut svg, nth, &series.name);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String, scale: &Scale) {
        for tick in scale.ticks() {
            let y = scale.y(tick);
            let (left, right) = (LEFT, WIDTH - RIGHT);
            put(svg, format_args!("<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"));
            text(svg, (LEFT - 6.0, y + 4.0), "end", &number(tick));
        }
        for (at, label) in self.labels.iter().enumerate() {
            text(svg, (self.centre(at), HEIGHT - BOTTOM + 18.0), "middle", label);
        }
        let middle = HEIGHT / 2.0;
        let y_label = escaped(&self.y_label);
        put(
            svg,
            format_args!(
                "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{y_label}</text>"
            ),
        );
    }

    fn slot(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64
    }

    fn centre(&self, at: usize) -> f64 {
        LEFT + (at as f64 + 0.5) * self.slot()
    }

    fn bars(&self, svg: &mut String, scale: &Scale, nth: usize, series: &Series) {
        let width = self.slot() * 0.8 / self.series.len().max(1) as f64;
        let floor = HEIGHT - BOTTOM;
        for (at, value) in series.values.iter().enumerate().filter_map(|(at, value)| Some((at, drawable(*value)?))) {
            let x = self.centre(at) - self.slot() * 0.4 + width * nth as f64;
            let y = scale.y(value);
            let (height, fill) = (floor - y, colour(nth));
            put(
                svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
                ),
            );
        }
    }

    fn line(&self, svg: &mut String, scale: &Scale, nth: usize, series: &Series) {
        let stroke = colour(nth);
        let places: Vec<_> = series
            .values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| Some((self.centre(at), scale.y(drawable(*value)?))))
            .collect();
        let points: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        put(svg, format_args!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"/>"));
        for (x, y) in places {
            put(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{stroke}\"/>"));
        }
    }
}

fn drawable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

fn legend(svg: &mut String, nth: usize, name: &str) {
    let (x, y, fill) = (WIDTH - RIGHT + 14.0, TOP + 18.0 * nth as f64, colour(nth));
    put(svg, format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"11\" height=\"11\" fill=\"{fill}\"/>"));
    text(svg, (x + 17.0, y + 10.0), "start", name);
}

fn colour(nth: usize) -> &'static str {
    COLOURS[nth % COLOURS.len()]
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escaped(words);
    put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"));
}

fn put(svg: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(svg, "{element}").expect("writing to a string does not fail");
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A tick's number, short.
fn number(value: f64) -> String {
    let text = match value {
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e4 => format!("{:.0}k", value / 1e3),
        value => format!("{value:.2}"),
    };
    if text.contains('.') && !text.ends_with('M') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: Kind, log: bool) -> Chart {
        let series = vec![
            Series { name: "a & <b>".into(), values: vec![Some(1.0), Some(37.0)] },
            Series { name: "c".into(), values: vec![None, Some(0.0)] },
        ];
        let labels = vec!["4".into(), "8".into()];
        Chart { title: "t".into(), y_label: "kops/s".into(), kind, log, labels, series }
    }

    #[test]
    fn what_was_measured_is_drawn_and_nothing_else() {
        let bars = chart(Kind::Bars, false).svg();
        // Background, two bars, two entries of the legend.
        assert_eq!(bars.matches("<rect").count(), 5, "{bars}");
        assert!(bars.contains("a &amp; &lt;b&gt;") && bars.ends_with("</svg>\n"));
        let lines = chart(Kind::Lines, true).svg();
        assert_eq!((lines.matches("<circle").count(), lines.matches("<polyline").count()), (2, 2));
        assert!(!lines.contains("NaN") && !lines.contains("inf"), "{lines}");
    }

    #[test]
    fn axes_have_round_numbers() {
        for (high, ticks) in [(37.0, 5), (1.0, 6), (9_999.0, 6), (0.3, 7)] {
            let mut chart = chart(Kind::Bars, false);
            chart.series[0].values = vec![Some(high)];
            assert_eq!(Scale::of(&chart).ticks().len(), ticks, "{high}: {:?}", Scale::of(&chart).ticks());
        }
        let scale = Scale::of(&chart(Kind::Lines, true));
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0]);
        assert!(scale.y(100.0) < scale.y(1.0));
    }

    #[test]
    fn nothing_measured_is_no_reason_to_fail() {
        let mut empty = chart(Kind::Lines, true);
        empty.series.clear();
        empty.labels.clear();
        assert!(empty.svg().contains("</svg>"));
    }
}
