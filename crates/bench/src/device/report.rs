//! What a measurement of a device found, for people, for scripts, and as a picture.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use zonda_device::HostFtlStats;
use zonda_flash::drive::FlashReport;
use zonda_flash::model::FlashWrites;
use zonda_flash::timeline::Timeline;
use zonda_flash::trace::Replayed;

use super::DeviceBench;
use crate::repro::chart::{Chart, Kind, Series};

/// Kinds of requests, in the order of their histograms.
pub(super) const NAMES: [&str; 3] = ["read", "write", "append"];
/// What is shown of the latencies.
const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// A dilated run that takes more of the processors says more about the host.
const CPU_SHARE_MAX: f64 = 0.6;

/// What was found. Times are the device's.
pub(super) struct Report {
    pub(super) device: String,
    pub(super) seconds: f64,
    pub(super) cpu_share: f64,
    pub(super) is_virtual: bool,
    pub(super) deepest: usize,
    /// Real time for each unit of the device's.
    pub(super) k: u64,
    /// In nanoseconds of real time, by kind.
    pub(super) latency: [Histogram<u64>; 3],
    /// Reads that the device did not do; they are in no latency.
    pub(super) failed_reads: u64,
    /// What the first of them was answered.
    pub(super) first_failure: Option<String>,
    /// What the modelled flash had done before, and after.
    pub(super) flash: Option<(FlashReport, FlashReport)>,
    pub(super) host_ftl: Option<HostFtlStats>,
    pub(super) seen: Option<Timeline>,
}

impl Report {
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &Histogram<u64>)> {
        NAMES.into_iter().zip(&self.latency).filter(|(_, histogram)| !histogram.is_empty())
    }

    fn us(&self, nanos: u64) -> f64 {
        nanos as f64 / 1e3 / self.k as f64
    }

    fn requests(&self) -> u64 {
        self.latency.iter().map(Histogram::len).sum()
    }

    fn per_second(&self) -> f64 {
        self.requests() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// A dilated run is void if it took too much of the processors.
    fn is_void(&self) -> bool {
        self.flash.is_some() && !self.is_virtual && self.k > 1 && self.cpu_share > CPU_SHARE_MAX
    }

    pub(super) fn text(&self, bench: &DeviceBench) -> String {
        let (requests, rate) = (self.requests(), self.per_second());
        let mib = rate * bench.block as f64 / f64::from(1 << 20);
        let mut text = format!("{}: {requests} requests of {} bytes\n", self.device, bench.block);
        put(
            &mut text,
            format_args!("{rate:.0}/s, {mib:.1} MiB/s, {:.3} s, at most {} in flight", self.seconds, self.deepest),
        );
        for (name, histogram) in self.kinds() {
            let (count, mean) = (histogram.len(), histogram.mean() / 1e3 / self.k as f64);
            let mut line = format!("{name}: {count} requests, mean {mean:.1} us");
            for (quantile, share) in QUANTILES {
                let _ = write!(line, ", {quantile} {:.1}", self.us(histogram.value_at_quantile(share)));
            }
            put(&mut text, format_args!("{line}, max {:.1}", self.us(histogram.max())));
        }
        if let Some(first) = &self.first_failure {
            put(&mut text, format_args!("{} reads failed, the first with: {first}", self.failed_reads));
        }
        if let Some((before, after)) = &self.flash {
            let writes = after.writes.since(&before.writes);
            put(&mut text, format_args!("{}", flash_line(&writes)));
            let busy: Option<Vec<f64>> = self.busy_shares(before, after).collect();
            if let Some(busy) = busy {
                let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64 * 100.0;
                let most = busy.iter().copied().fold(0.0, f64::max) * 100.0;
                put(&mut text, format_args!("dies busy {mean:.0} % on average, {most:.0} % at most"));
            }
        }
        if let Some(ftl) = &self.host_ftl {
            let (memory, own) = (ftl.memory_bytes, ftl.own_time);
            put(
                &mut text,
                format_args!(
                    "host FTL: {memory} bytes of memory, {own:.1?} of its own, amplification {:.2}",
                    ftl.amplification()
                ),
            );
        }
        if !self.is_virtual && self.k > 1 {
            let void = if self.is_void() { ": VOID, the host was the limit" } else { "" };
            put(
                &mut text,
                format_args!("time times {}, {:.0} % of the processors{void}", self.k, self.cpu_share * 100.0),
            );
        }
        text.trim_end().to_owned()
    }

    /// Part of the measurement's time; of an untimed drive none is known, whose time is its own.
    fn share(&self, ns: u128) -> Option<f64> {
        let is_timed = self.flash.as_ref().is_some_and(|(_, after)| !after.is_untimed);
        is_timed.then(|| ns as f64 / 1e9 / self.seconds.max(1e-9))
    }

    /// Busy share of each die.
    fn busy_shares(&self, before: &FlashReport, after: &FlashReport) -> impl Iterator<Item = Option<f64>> {
        let dies = before.core.dies.iter().zip(&after.core.dies);
        dies.map(|(before, after)| self.share((after.busy_ns() - before.busy_ns()).into()))
    }

    pub(super) fn json(&self, bench: &DeviceBench) -> Value {
        let rate = self.per_second();
        let counts: Map<_, _> =
            self.kinds().map(|(name, histogram)| (name.to_owned(), json!(histogram.len()))).collect();
        let mut object = json!({
            "device": self.device, "operation": format!("{:?}", bench.operation).to_lowercase(),
            "block_bytes": bench.block, "zones": bench.zones, "depth": bench.depth, "in_flight_max": self.deepest,
            "requests": self.requests(), "requests_by_kind": counts, "seconds": self.seconds,
            "requests_per_second": rate, "mib_per_second": rate * bench.block as f64 / f64::from(1 << 20),
            "latency_us": self.latencies(), "seed": bench.seed, "virtual": self.is_virtual, "k": self.k,
            "void": self.is_void(), "failed_reads": self.failed_reads,
        });
        if !self.is_virtual {
            object["cpu_share"] = json!(self.cpu_share);
        }
        if let Some((before, after)) = &self.flash {
            object["flash"] = self.flash_json(before, after);
        }
        if let Some(ftl) = &self.host_ftl {
            object["host_ftl"] = json!({
                "memory_bytes": ftl.memory_bytes, "map_bytes": ftl.map_bytes, "host_blocks": ftl.host_blocks,
                "moved_blocks": ftl.moved_blocks, "overhead_blocks": ftl.overhead_blocks,
                "cleaned_zones": ftl.cleaned_zones, "amplification": ftl.amplification(),
                "own_us": if self.is_virtual { 0 } else { ftl.own_time.as_micros() },
            });
        }
        object
    }

    fn latencies(&self) -> Value {
        let mut kinds = Map::new();
        for (name, histogram) in self.kinds() {
            let mut numbers = Map::new();
            numbers.insert("mean".to_owned(), json!(histogram.mean() / 1e3 / self.k as f64));
            for (quantile, share) in QUANTILES {
                numbers.insert(quantile.to_owned(), json!(self.us(histogram.value_at_quantile(share))));
            }
            numbers.insert("max".to_owned(), json!(self.us(histogram.max())));
            kinds.insert(name.to_owned(), Value::Object(numbers));
        }
        Value::Object(kinds)
    }

    fn flash_json(&self, before: &FlashReport, after: &FlashReport) -> Value {
        let writes = after.writes.since(&before.writes);
        let busy = self.busy_shares(before, after);
        let dies = before.core.dies.iter().zip(&after.core.dies).zip(busy).map(|((before, after), busy)| {
            json!({
                "busy": busy, "reads": after.reads - before.reads, "programs": after.programs - before.programs,
                "erases": after.erases - before.erases, "suspends": after.suspends - before.suspends,
            })
        });
        let channels = before.core.channel_busy_ns.iter().zip(&after.core.channel_busy_ns);
        let channels = channels.map(|(before, after)| self.share((after - before).into()));
        let waited = after.core.latency_sum_ns - before.core.latency_sum_ns;
        json!({
            "host_bytes": writes.host_bytes, "rounding_bytes": writes.rounding_bytes,
            "collection_bytes": writes.collection_bytes, "padding_bytes": writes.padding_bytes, "erases": writes.erases, "amplification": writes.amplification(),
            "dies": dies.collect::<Vec<_>>(), "channels_busy": channels.collect::<Vec<_>>(),
            "requests_in_drive_mean": self.share(waited),
            "buffer_bytes_max": after.core.buffer_bytes_max,
        })
    }

    /// Percentiles of the latencies.
    pub(super) fn chart(&self) -> Chart {
        let series = self.kinds().map(|(name, histogram)| Series {
            name: name.to_owned(),
            values: QUANTILES.iter().map(|&(_, share)| Some(self.us(histogram.value_at_quantile(share)))).collect(),
        });
        Chart {
            title: format!("latency: {}", self.device),
            x_label: "percentile of the requests".to_owned(),
            y_label: "latency, us".to_owned(),
            kind: Kind::Lines,
            log: true,
            labels: QUANTILES.map(|(name, _)| name.to_owned()).into(),
            series: series.collect(),
        }
    }
}

fn flash_line(writes: &FlashWrites) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "flash: {:.1} MiB of the host, {:.1} of rounding, {:.1} of collection, {:.1} of padding: amplification {:.2}; {} erases",
        mib(writes.host_bytes),
        mib(writes.rounding_bytes),
        mib(writes.collection_bytes),
        mib(writes.padding_bytes),
        writes.amplification(),
        writes.erases
    )
}

/// What came of a replay.
pub(super) fn replayed(replayed: &Replayed, writes: &FlashWrites) -> String {
    let latency = &replayed.tally.latency;
    let us = |share| latency.quantile_ns(share) as f64 / 1e3;
    format!(
        "{} commands, {:.6} s, latency mean {:.1} us, p50 {:.1}, p99 {:.1}, max {:.1}\n{}\nhash of all answers {:016x}",
        latency.count(),
        replayed.end as f64 / 1e9,
        latency.mean_ns() / 1e3,
        us(0.5),
        us(0.99),
        latency.max_ns() as f64 / 1e3,
        flash_line(writes),
        replayed.answers_hash
    )
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}
