//! Figures of a file store, as JSON and in the text format of Prometheus: gauges for what is there, counters (`_total`) for what
//! was done since the store was made.

use std::io;

use serde_json::{Map, Value, json};
use zonda_files::{FileUsage, SplitUsage, Work};

use crate::output::Output;

/// What may become of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

/// A figure: its samples differ in their labels.
#[derive(Debug)]
pub(super) struct Metric {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: Value,
}

impl Metric {
    fn gauge(name: &'static str, value: u64, help: &'static str) -> Self {
        let samples = vec![Sample { labels: Vec::new(), value: value.into() }];
        Self { name, help, kind: Kind::Gauge, samples }
    }

    fn counter(name: &'static str, value: impl Into<Value>, help: &'static str) -> Self {
        let samples = vec![Sample { labels: Vec::new(), value: value.into() }];
        Self { name, help, kind: Kind::Counter, samples }
    }
}

/// All that is known: what is there, what was done, and split zones on devices that have them.
pub(super) fn all(usage: &FileUsage, work: &Work, split: Option<&SplitUsage>) -> Vec<Metric> {
    let split = split.map(of_split_zones).into_iter().flatten();
    of_space(usage).into_iter().chain(of_work(work)).chain(split).collect()
}

fn of_space(usage: &FileUsage) -> [Metric; 12] {
    let space = &usage.space;
    [
        Metric::gauge("capacity_bytes", usage.capacity_bytes, "What all zones can hold"),
        Metric::gauge("usable_bytes", usage.usable_bytes, "What live bytes may fill"),
        Metric::gauge("live_bytes", usage.live_bytes, "Live bytes"),
        Metric::gauge(
            "free_bytes",
            usage.free_bytes,
            "What compactions of a mount with default options can still write, after cleaning",
        ),
        Metric::gauge("files", usage.files, "Files"),
        Metric::gauge("zones", space.zones.into(), "Zones"),
        Metric::gauge("free_zones", space.free_zones.into(), "Zones with nothing in them"),
        Metric::gauge(
            "reserve_zones",
            space.reserve_zones.into(),
            "Free zones that only cleaning and the journal take",
        ),
        Metric::gauge("lost_zones", space.lost_zones.into(), "Zones that can never be written again"),
        Metric::gauge("damaged_zones", space.damaged_zones.into(), "Zones whose header cannot be read"),
        Metric::gauge("active_zones", space.active.into(), "Zones that hold an active token"),
        Metric::gauge("active_zones_max", space.active_max.into(), "Active tokens in all"),
    ]
}

fn of_work(work: &Work) -> [Metric; 5] {
    [
        Metric::counter("copied_bytes_total", work.copied_bytes, "Bytes copied by cleaning"),
        Metric::counter(
            "finish_wasted_bytes_total",
            work.finished_unwritten_bytes,
            "Bytes left in zones that were finished before they were full",
        ),
        Metric::counter("finish_seconds_total", work.finishing_time.as_secs_f64(), "Time that finishing zones took"),
        resets(work),
        allocations(work),
    ]
}

fn resets(work: &Work) -> Metric {
    let of = |copied: &str, value: u64| Sample { labels: vec![("copied", copied.to_owned())], value: value.into() };
    let samples = vec![of("yes", work.resets_with_copy), of("no", work.resets_without_copy)];
    let help = "Zones reset, by whether live bytes had to be copied out of them first";
    Metric { name: "resets_total", help, kind: Kind::Counter, samples }
}

fn allocations(work: &Work) -> Metric {
    let samples = work.allocations.iter().map(|((rule, level), count)| {
        let level = level.map_or("none".to_owned(), |level| level.to_string());
        Sample { labels: vec![("rule", rule.name().to_owned()), ("level", level)], value: (*count).into() }
    });
    let help = "Times that a zone was chosen, by the rule of the policy and the level of the file";
    Metric { name: "allocations_total", help, kind: Kind::Counter, samples: samples.collect() }
}

fn of_split_zones(split: &SplitUsage) -> [Metric; 5] {
    [
        Metric::gauge("split_zones", split.split_zones, "Zones that are split"),
        Metric::gauge("active_split_zones", split.active_split_zones, "Split zones that hold an active token"),
        Metric::gauge("full_subzones", split.full_subzones, "Subzones that hold a table, or held one"),
        Metric::gauge("empty_subzones", split.empty_subzones, "Subzones of split zones with nothing in them"),
        Metric::gauge("subzone_wasted_bytes", split.wasted_bytes, "Bytes that tables left of their subzones"),
    ]
}

/// One object: numbers by name, and where samples have labels an array of objects with these and `value`.
pub(super) fn json(metrics: &[Metric]) -> Value {
    let with_labels = |sample: &Sample| {
        let labels = sample.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        Value::Object(labels.chain([("value".to_owned(), sample.value.clone())]).collect())
    };
    let of = |metric: &Metric| match metric.samples.as_slice() {
        [sample] if sample.labels.is_empty() => sample.value.clone(),
        samples => samples.iter().map(with_labels).collect(),
    };
    metrics.iter().map(|metric| (metric.name.to_owned(), of(metric))).collect::<Map<_, _>>().into()
}

/// Every sample with the device as its first label.
///
/// # Errors
/// Those of writing.
pub(super) fn prometheus(device: &str, metrics: &[Metric], out: &mut Output) -> io::Result<()> {
    for Metric { name, help, kind, samples } in metrics {
        let kind = if *kind == Kind::Counter { "counter" } else { "gauge" };
        out.line(format!("# HELP zonda_fs_{name} {help}."))?;
        out.line(format!("# TYPE zonda_fs_{name} {kind}"))?;
        for Sample { labels, value } in samples {
            let labels: String = labels.iter().map(|(label, text)| format!(",{label}=\"{}\"", escaped(text))).collect();
            out.line(format!("zonda_fs_{name}{{device=\"{}\"{labels}}} {value}", escaped(device)))?;
        }
    }
    Ok(())
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
