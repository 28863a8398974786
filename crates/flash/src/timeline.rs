//! A picture of a window of time: what every die did, and what was asked of every zone.
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use crate::core::{Class, Nanos, Span, Work};
use crate::model::Command;
use crate::trace::TraceEntry;

/// What happened in a window.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The window, in the drive's time.
    pub window: Range<Nanos>,
    /// Dies of the drive.
    pub dies: usize,
    /// Bytes from zone to zone; 0 for a conventional drive.
    pub zone_size_bytes: u64,
    /// What the dies did.
    pub spans: Vec<Span>,
    /// What was asked for.
    pub commands: Vec<TraceEntry>,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 10.0;
const ROW: f64 = 9.0;
const TOP: f64 = 46.0;
/// Zones that are drawn at most: the first that were used.
const ZONES_MAX: usize = 48;

impl Timeline {
    /// The picture as an SVG document: a row for each die, below a row for each zone that was used.
    #[must_use]
    pub fn svg(&self) -> String {
        let zones = self.zones();
        let dies = self.dies as f64 * ROW;
        let height = TOP + dies + 30.0 + zones.len() as f64 * ROW + 20.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
             font-size=\"9\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.head(&mut svg);
        for die in 0..self.dies {
            label(&mut svg, TOP + die as f64 * ROW, &format!("die {die}"));
        }
        for span in &self.spans {
            let y = TOP + f64::from(span.die) * ROW;
            self.bar(&mut svg, span.start..span.end, y, colour(span.work, span.class));
        }
        let first = TOP + dies + 30.0;
        for (row, &zone) in zones.iter().enumerate() {
            label(&mut svg, first + row as f64 * ROW, &format!("zone {zone}"));
        }
        for entry in self.shown() {
            if let Some((zone, colour)) = self.of_zone(&entry.command)
                && let Ok(row) = zones.binary_search(&zone)
            {
                self.bar(&mut svg, entry.at..entry.at, first + row as f64 * ROW, colour);
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn head(&self, svg: &mut String) {
        let ms = |ns: Nanos| ns as f64 / 1e6;
        let (start, end) = (ms(self.window.start), ms(self.window.end));
        put(svg, format_args!("<text x=\"{LEFT}\" y=\"14\" font-size=\"12\">{start:.3} to {end:.3} ms</text>"));
        let legend = [
            ("read", colour(Work::Read, Class::Host)),
            ("program", colour(Work::Program, Class::Host)),
            ("erase", colour(Work::Erase, Class::Host)),
            ("collection", colour(Work::Program, Class::Collection)),
            ("padding", colour(Work::Program, Class::Padding)),
        ];
        for (number, (name, fill)) in legend.into_iter().enumerate() {
            let x = LEFT + number as f64 * 90.0;
            put(svg, format_args!("<rect x=\"{x}\" y=\"24\" width=\"9\" height=\"9\" fill=\"{fill}\"/>"));
            put(svg, format_args!("<text x=\"{}\" y=\"32\">{name}</text>", x + 13.0));
        }
    }

    /// A bar for a stretch of time, at least as wide as a line.
    fn bar(&self, svg: &mut String, time: Range<Nanos>, y: f64, fill: &str) {
        let length = (self.window.end - self.window.start).max(1) as f64;
        let x = |at: Nanos| {
            let at = at.clamp(self.window.start, self.window.end) - self.window.start;
            LEFT + at as f64 / length * (WIDTH - LEFT - RIGHT)
        };
        let (from, to) = (x(time.start), x(time.end));
        let width = (to - from).max(0.6);
        let height = ROW - 1.5;
        put(
            svg,
            format_args!(
                "<rect x=\"{from:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{fill}\"/>"
            ),
        );
    }

    /// Commands of the window.
    fn shown(&self) -> impl Iterator<Item = &TraceEntry> {
        self.commands.iter().filter(|entry| self.window.contains(&entry.at))
    }

    /// Zones that something was asked of, ascending.
    fn zones(&self) -> Vec<u64> {
        let used: BTreeSet<u64> = self.shown().filter_map(|e| Some(self.of_zone(&e.command)?.0)).collect();
        used.into_iter().take(ZONES_MAX).collect()
    }

    /// The zone of a command, and the colour of what it does there.
    fn of_zone(&self, command: &Command) -> Option<(u64, &'static str)> {
        if self.zone_size_bytes == 0 {
            return None;
        }
        let at = |at: u64| at / self.zone_size_bytes;
        Some(match *command {
            Command::Read { at: byte, .. } | Command::ReadTold { at: byte, .. } => {
                (at(byte), colour(Work::Read, Class::Host))
            }
            Command::Write { at: byte, .. } => (at(byte), colour(Work::Program, Class::Host)),
            Command::Append { zone, .. }
            | Command::WriteWindow { zone, .. }
            | Command::CommitWindow { zone, .. }
            | Command::AppendSubzone { zone, .. } => (zone.into(), colour(Work::Program, Class::Host)),
            Command::Reset { zone } | Command::ResetSubzone { zone, .. } => {
                (zone.into(), colour(Work::Erase, Class::Host))
            }
            Command::Finish { zone } | Command::FinishSubzone { zone, .. } => {
                (zone.into(), colour(Work::Program, Class::Padding))
            }
            Command::Open { zone }
            | Command::Close { zone }
            | Command::Split { zone }
            | Command::FinishSplit { zone }
            | Command::Join { zone } => (zone.into(), "#444444"),
            Command::Trim { .. } | Command::Flush | Command::Report => return None,
        })
    }
}

fn colour(work: Work, class: Class) -> &'static str {
    match (work, class) {
        (Work::Read, Class::Host) => "#0072b2",
        (Work::Program, Class::Host) => "#009e73",
        (Work::Erase, _) => "#d55e00",
        (_, Class::Collection) => "#cc79a7",
        (_, Class::Padding) => "#bbbbbb",
    }
}

fn label(svg: &mut String, y: f64, words: &str) {
    put(svg, format_args!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{words}</text>", LEFT - 5.0, y + 7.5));
}

fn put(svg: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(svg, "{element}").expect("writing to a string does not fail");
}
