//! Draws bars and lines as SVG: axes with round numbers, a legend, colours that print. A drawing is as large as its words need it:
//! labels that have no room side by side are slanted, and the legend stands beside the plot.

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
    /// Below the x axis, with the unit where the labels have none; nothing if they say what they are.
    pub x_label: String,
    /// Beside the y axis, with the unit.
    pub y_label: String,
    /// Bars or lines.
    pub kind: Kind,
    /// Whether the y axis is logarithmic; values of zero are left out then.
    pub log: bool,
    /// Below the x axis; an empty one marks a place that is not named.
    pub labels: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series>,
}

const PLOT_WIDTH: f64 = 470.0;
const PLOT_HEIGHT: f64 = 310.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 40.0;
/// Below the axis: a row of labels, and one of what they are.
const LABEL_ROW: f64 = 26.0;
const NAME_ROW: f64 = 24.0;
/// From one entry of the legend to the next, and what is left of its text.
const LEGEND_ROW: f64 = 18.0;
const LEGEND_MARK: f64 = 31.0;
/// The mean width of a letter of this size: there is nobody to ask for the real one.
const LETTER: f64 = 6.7;
/// Between labels side by side, and between lines of slanted ones.
const LABEL_GAP: f64 = 8.0;
const SLANTED_GAP: f64 = 19.0;
/// Of 45 degrees, by which labels are slanted that have no room side by side.
const SLANT: f64 = std::f64::consts::FRAC_1_SQRT_2;
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#b8a800"];
/// Angles of the stripes of bars, and dashes of lines, that have the colours of the first eight again.
const STRIPES: [u32; 4] = [45, 135, 0, 90];
const DASHES: [&str; 4] = ["6 3", "2 3", "10 3 2 3", "1 5"];

/// Where everything is: as large as its words need it.
#[derive(Clone, Copy, Debug)]
struct Layout {
    left: f64,
    plot_width: f64,
    right: f64,
    bottom: f64,
    height: f64,
    is_slanted: bool,
}

impl Layout {
    fn of(chart: &Chart) -> Self {
        let named: Vec<(usize, f64)> = chart.named_labels().map(|(at, label)| (at, words_width(label))).collect();
        let places = chart.labels.len().max(1) as f64;
        let fits = |pair: &[(usize, f64)]| {
            let apart = (pair[1].0 - pair[0].0) as f64 * PLOT_WIDTH / places;
            apart >= f64::midpoint(pair[0].1, pair[1].1) + LABEL_GAP
        };
        let is_slanted = !named.windows(2).all(fits);
        let (longest, closest) = (
            named.iter().map(|(_, width)| *width).fold(0.0, f64::max),
            named.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or(1) as f64,
        );
        // Slanted ones lie one below the other, however long they are.
        let plot_width = if is_slanted { PLOT_WIDTH.max(places * SLANTED_GAP / closest) } else { PLOT_WIDTH };
        let first = named.first().map_or(0.0, |(at, _)| (*at as f64 + 0.5) * plot_width / places);
        let left = if is_slanted { LEFT.max(longest * SLANT - first + LABEL_GAP) } else { LEFT };
        let names = chart.series.iter().map(|series| words_width(&series.name)).fold(0.0, f64::max);
        let right = (LEGEND_MARK + names + LABEL_GAP).max(words_width(&chart.title) - left - plot_width + LABEL_GAP);
        let labels = if is_slanted { longest * SLANT + LABEL_ROW } else { LABEL_ROW };
        let bottom = labels + if chart.x_label.is_empty() { LABEL_GAP } else { NAME_ROW };
        let legend = TOP + LEGEND_ROW * chart.series.len() as f64 + LABEL_GAP;
        Self { left, plot_width, right, bottom, height: (TOP + PLOT_HEIGHT + bottom).max(legend), is_slanted }
    }

    fn width(&self) -> f64 {
        self.left + self.plot_width + self.right
    }

    /// The end of the plot to the right.
    fn end(&self) -> f64 {
        self.left + self.plot_width
    }
}

/// The x axis, from the top of the drawing.
const FLOOR: f64 = TOP + PLOT_HEIGHT;

fn words_width(words: &str) -> f64 {
    words.chars().count() as f64 * LETTER
}

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
        TOP + (1.0 - share) * PLOT_HEIGHT
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
        let (scale, layout) = (Scale::of(self), Layout::of(self));
        let (width, height) = (layout.width(), layout.height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        if self.kind == Kind::Bars {
            (COLOURS.len()..self.series.len()).for_each(|nth| stripes(&mut svg, nth));
        }
        text(&mut svg, (width / 2.0, 22.0), "middle", &self.title);
        self.axes(&mut svg, &scale, &layout);
        for (nth, series) in self.series.iter().enumerate() {
            match self.kind {
                Kind::Bars => self.bars(&mut svg, (&scale, &layout), nth, series),
                Kind::Lines => self.line(&mut svg, (&scale, &layout), nth, series),
            }
            self.legend(&mut svg, &layout, nth, &series.name);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn named_labels(&self) -> impl Iterator<Item = (usize, &str)> {
        self.labels.iter().map(String::as_str).enumerate().filter(|(_, label)| !label.is_empty())
    }

    fn axes(&self, svg: &mut String, scale: &Scale, layout: &Layout) {
        let (left, right) = (layout.left, layout.end());
        for tick in scale.ticks() {
            let y = scale.y(tick);
            put(
                svg,
                format_args!("<line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"),
            );
            text(svg, (left - 6.0, y + 4.0), "end", &number(tick));
        }
        for (at, label) in self.named_labels() {
            let (x, label) = (self.centre(layout, at), escaped(label));
            if layout.is_slanted {
                let y = FLOOR + 14.0;
                let place = format!("transform=\"translate({x:.1} {y:.1}) rotate(-45)\" text-anchor=\"end\"");
                put(svg, format_args!("<text {place}>{label}</text>"));
            } else {
                let y = FLOOR + 18.0;
                put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>"));
            }
        }
        if !self.x_label.is_empty() {
            let below = FLOOR + layout.bottom - 8.0;
            text(svg, (f64::midpoint(left, right), below), "middle", &self.x_label);
        }
        let (middle, y_label) = (TOP + PLOT_HEIGHT / 2.0, escaped(&self.y_label));
        let place = format!("transform=\"translate({:.1} {middle:.1}) rotate(-90)\"", left - LEFT + 16.0);
        put(svg, format_args!("<text {place} text-anchor=\"middle\">{y_label}</text>"));
    }

    fn slot(&self, layout: &Layout) -> f64 {
        layout.plot_width / self.labels.len().max(1) as f64
    }

    fn centre(&self, layout: &Layout, at: usize) -> f64 {
        layout.left + (at as f64 + 0.5) * self.slot(layout)
    }

    fn bars(&self, svg: &mut String, (scale, layout): (&Scale, &Layout), nth: usize, series: &Series) {
        let slot = self.slot(layout);
        let width = slot * 0.8 / self.series.len().max(1) as f64;
        for (at, value) in series.values.iter().enumerate().filter_map(|(at, value)| Some((at, drawable(*value)?))) {
            let x = self.centre(layout, at) - slot * 0.4 + width * nth as f64;
            let y = scale.y(value);
            rectangle(svg, (x, y), (width, FLOOR - y), &fill(nth));
        }
    }

    fn line(&self, svg: &mut String, (scale, layout): (&Scale, &Layout), nth: usize, series: &Series) {
        let places: Vec<_> = series
            .values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| Some((self.centre(layout, at), scale.y(drawable(*value)?))))
            .collect();
        joined(svg, nth, &places);
        places.into_iter().for_each(|at| mark(svg, nth, at));
    }

    fn legend(&self, svg: &mut String, layout: &Layout, nth: usize, name: &str) {
        let (x, y) = (layout.end() + 10.0, TOP + LEGEND_ROW * nth as f64);
        match self.kind {
            Kind::Bars => rectangle(svg, (x + 2.0, y), (11.0, 11.0), &fill(nth)),
            Kind::Lines => {
                joined(svg, nth, &[(x, y + 5.5), (x + 16.0, y + 5.5)]);
                mark(svg, nth, (x + 8.0, y + 5.5));
            }
        }
        text(svg, (x + 21.0, y + 10.0), "start", name);
    }
}

fn drawable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

fn colour(nth: usize) -> &'static str {
    COLOURS[nth % COLOURS.len()]
}

/// How often all colours were used before, counted from 0; `None` the first time.
fn round(nth: usize) -> Option<usize> {
    (nth / COLOURS.len()).checked_sub(1)
}

/// What a bar is filled with: a colour, or from the ninth series on stripes of one.
fn fill(nth: usize) -> String {
    if round(nth).is_none() { colour(nth).to_owned() } else { format!("url(#stripes{nth})") }
}

/// The pattern that [`fill`] names. The more rounds, the narrower the stripes.
fn stripes(svg: &mut String, nth: usize) {
    let Some(round) = round(nth) else { return };
    let (angle, colour) = (STRIPES[round % STRIPES.len()], colour(nth));
    let step = 8.0 / (1 + round / STRIPES.len()) as f64;
    let of = format!("width=\"{step}\" height=\"{step}\" patternUnits=\"userSpaceOnUse\"");
    let back = format!("<path d=\"M0 0h{step}v{step}h-{step}z\" fill=\"{colour}\"/>");
    let stripe = format!("<path d=\"M0 0v{step}\" stroke=\"white\" stroke-width=\"{}\"/>", step / 2.0);
    put(
        svg,
        format_args!("<pattern id=\"stripes{nth}\" {of} patternTransform=\"rotate({angle})\">{back}{stripe}</pattern>"),
    );
}

/// The line of a series: dashed from the ninth on.
fn joined(svg: &mut String, nth: usize, places: &[(f64, f64)]) {
    let points: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let (points, stroke) = (points.join(" "), colour(nth));
    let dashes = round(nth).map(|round| format!(" stroke-dasharray=\"{}\"", DASHES[round % DASHES.len()]));
    let dashes = dashes.unwrap_or_default();
    put(
        svg,
        format_args!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"{dashes}/>"),
    );
}

/// A point of a series: a circle, from the ninth on squares, hollow ones, and hollow circles.
fn mark(svg: &mut String, nth: usize, (x, y): (f64, f64)) {
    let colour = colour(nth);
    let (is_square, is_hollow) = match round(nth).map(|round| round % 3) {
        None => (false, false),
        Some(0) => (true, false),
        Some(1) => (true, true),
        Some(_) => (false, true),
    };
    let fill = if is_hollow { "white" } else { colour };
    let paint = format!("fill=\"{fill}\" stroke=\"{colour}\"");
    match is_square {
        true => put(svg, format_args!("<path d=\"M{:.1} {:.1}h7v7h-7z\" {paint}/>", x - 3.5, y - 3.5)),
        false => put(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" {paint}/>")),
    }
}

fn rectangle(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
    put(
        svg,
        format_args!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"),
    );
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
        let (title, x_label, y_label) = ("t".into(), "threads".into(), "kops/s".into());
        Chart { title, x_label, y_label, kind, log, labels, series }
    }

    #[test]
    fn what_was_measured_is_drawn_and_nothing_else() {
        let bars = chart(Kind::Bars, false).svg();
        // Background, two bars, two entries of the legend.
        assert_eq!(bars.matches("<rect").count(), 5, "{bars}");
        assert!(bars.contains("a &amp; &lt;b&gt;") && bars.ends_with("</svg>\n"));
        let lines = chart(Kind::Lines, true).svg();
        // Two points, two lines, and as many in the legend.
        assert_eq!((lines.matches("<circle").count(), lines.matches("<polyline").count()), (4, 4));
        assert!(bars.contains(">threads</text>"));
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

    /// Nobody could tell two series of one look apart.
    #[test]
    fn series_differ_however_many_there_are() {
        for kind in [Kind::Bars, Kind::Lines] {
            let mut chart = chart(kind, false);
            let name = |nth: usize| format!("series {nth}");
            chart.series = (0..30).map(|nth| Series { name: name(nth), values: vec![Some(1.0), None] }).collect();
            let svg = chart.svg();
            let legend: Vec<&str> = svg.lines().collect();
            let looks: std::collections::BTreeSet<String> = (0..30)
                .map(|nth| {
                    let at = legend.iter().position(|line| line.ends_with(&format!(">{}</text>", name(nth)))).unwrap();
                    let look = |line: &str| {
                        let words = line.split(' ').filter(|word| {
                            ["fill=", "stroke", "h7v7h"].iter().any(|begin| word.contains(begin))
                                && !word.contains("points")
                        });
                        words.collect::<Vec<_>>().join(" ")
                    };
                    let dashes = |line: &str| line.split("dasharray=").nth(1).unwrap_or_default().to_owned();
                    format!("{} {} {}", look(legend[at - 1]), look(legend[at - 2]), dashes(legend[at - 2]))
                })
                .collect();
            assert_eq!(looks.len(), 30, "{looks:?}");
            // What the stripes are must differ, too.
            let patterns: Vec<&str> = svg.lines().filter(|line| line.starts_with("<pattern")).collect();
            let drawn: std::collections::BTreeSet<_> =
                patterns.iter().map(|line| line.split_once(' ').unwrap().1.split_once(' ').unwrap().1).collect();
            assert_eq!(drawn.len(), patterns.len());
        }
    }

    fn attribute(line: &str, name: &str) -> f64 {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{name} in {line}"));
        rest.split('"').next().unwrap().parse().unwrap()
    }

    /// The legend stands beside the plot, and in the drawing, however long names are and however many.
    #[test]
    fn the_legend_is_in_nobodys_way() {
        let mut chart = chart(Kind::Bars, false);
        let long = "splitzns, no reads of the ring, copies of 1 MiB";
        let values = vec![Some(1.0), Some(2.0)];
        chart.series = (0..30).map(|nth| Series { name: format!("{long} {nth}"), values: values.clone() }).collect();
        let svg = chart.svg();
        let size: Vec<f64> = svg
            .split("viewBox=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .split(' ')
            .map(|n| n.parse().unwrap())
            .collect();
        let bars = svg.lines().filter(|line| line.starts_with("<rect x"));
        let right =
            bars.filter(|bar| attribute(bar, "width") != 11.0).map(|bar| attribute(bar, "x") + attribute(bar, "width"));
        let right = right.fold(0.0, f64::max);
        for line in svg.lines().filter(|line| line.contains(long)) {
            let (x, y) = (attribute(line, "x"), attribute(line, "y"));
            assert!(
                x > right && x + words_width(long) <= size[2] && y < size[3],
                "{line} of {size:?}, bars to {right}"
            );
        }
    }

    #[test]
    fn labels_do_not_lie_on_each_other() {
        let mut chart = chart(Kind::Bars, false);
        let plain = chart.svg();
        assert!(!plain.contains("rotate(-45)"), "there is room");
        chart.labels = (0..40).map(|nth| format!("readwhilewriting, limited {nth}")).collect();
        let slanted = chart.svg();
        let places: Vec<f64> = slanted
            .lines()
            .filter(|line| line.contains("rotate(-45)"))
            .map(|line| line.split("translate(").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(places.len(), 40);
        assert!(places.windows(2).all(|pair| (pair[1] - pair[0]) * SLANT >= 12.0), "{places:?}");
        let longest = words_width(&chart.labels[39]) * SLANT;
        assert!(places[0] >= longest && Layout::of(&chart).bottom > longest, "all of them are in the drawing");
    }

    #[test]
    fn nothing_measured_is_no_reason_to_fail() {
        let mut empty = chart(Kind::Lines, true);
        empty.series.clear();
        empty.labels.clear();
        assert!(empty.svg().contains("</svg>"));
    }
}
