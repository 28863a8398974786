//! What stock `db_bench` prints: operations a second, percentiles, stalls.

/// One benchmark of `db_bench`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) per_second: f64,
    pub(super) operations: f64,
    pub(super) writes: Option<Latency>,
    pub(super) reads: Option<Latency>,
    /// Of the time since the database was opened, up to the end of this step: where the statistics are first printed behind it.
    pub(super) stalled_percent: Option<f64>,
    /// Read and written by compactions over the time that they took, the same way.
    pub(super) compaction_mb_s: Option<f64>,
    /// Of the database when its statistics were first printed behind this step, and when last.
    uptime_seconds: Option<(f64, f64)>,
}

impl Step {
    /// Operations a second of this step and of what was waited for between the statistics behind it; nothing if they were printed once.
    pub(super) fn settled_per_second(&self) -> Option<f64> {
        let (first, last) = self.uptime_seconds.filter(|(first, last)| last > first)?;
        Some(self.operations / (self.operations / self.per_second + last - first))
    }
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// The lines that we know of it.
pub(super) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_of_writes = false;
    for line in text.lines() {
        if let Some((name, rest)) = line.split_once(" : ")
            && let Some(per_second) = number_before(rest, "ops/sec")
        {
            let operations = number_before(rest, "operations").unwrap_or(0.0);
            steps.push(Step { name: name.trim().to_owned(), per_second, operations, ..Step::default() });
        } else if let Some(what) = line.strip_prefix("Microseconds per ") {
            is_of_writes = !what.starts_with("read") && !what.starts_with("seek");
        } else if line.starts_with("Percentiles:")
            && let Some(step) = steps.last_mut()
        {
            let of = |name: &str| line.split_once(name).and_then(|(_, rest)| first_number(rest));
            let latency = Latency {
                p50: of("P50: ").unwrap_or(0.0),
                p99: of("P99: ").unwrap_or(0.0),
                p999: of("P99.9: ").unwrap_or(0.0),
            };
            *(if is_of_writes { &mut step.writes } else { &mut step.reads }) = Some(latency);
        } else if let Some(rest) = line.strip_prefix("Uptime(secs):") {
            if let (Some(step), Some(now)) = (steps.last_mut(), number_before(rest, "total")) {
                step.uptime_seconds = Some((step.uptime_seconds.map_or(now, |(first, _)| first), now));
            }
        } else if line.starts_with("Cumulative stall:") {
            if let Some(step) = steps.last_mut() {
                // Who drives compactions adds what he held up, behind the statistics.
                let is_first = step.uptime_seconds.is_none_or(|(first, last)| first == last);
                let is_more = is_first && line.contains("outside RocksDB");
                if is_more || step.stalled_percent.is_none() {
                    step.stalled_percent = number_before(line, "percent");
                }
            }
        } else if let Some(rest) = line.strip_prefix("Cumulative compaction:") {
            let of = |unit: &str| number_before(rest, unit);
            if let (Some(written), Some(read), Some(seconds)) = (of("GB write"), of("GB read"), of("seconds"))
                && seconds > 0.0
            {
                let speed = (written + read) * 1024.0 / seconds;
                let last = steps.last_mut();
                last.into_iter().for_each(|step| step.compaction_mb_s = step.compaction_mb_s.or(Some(speed)));
            }
        }
    }
    steps
}

fn number_before(text: &str, unit: &str) -> Option<f64> {
    text.split_once(unit)?.0.split_whitespace().next_back()?.parse().ok()
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_who_drives_compactions_count_where_statistics_are_first_printed() {
        let of_rocksdb = |uptime: &str, percent: &str| {
            format!(
                "Uptime(secs): {uptime} total, 1.0 interval\nCumulative stall: 00:00:2.9 H:M:S, {percent} percent\n"
            )
        };
        let step = "overwrite    :      44.710 micros/op 89462 ops/sec 0.671 seconds 60000 operations;   88.7 MB/s\n";
        let driven = |percent: &str| format!("Cumulative stall: 1.000 seconds outside RocksDB; {percent} percent\n");
        let once = [step, &of_rocksdb("10.0", "16.8"), &driven("26.8")].concat();
        assert_eq!(steps(&once)[0].stalled_percent, Some(26.8));
        let twice = [&once, &*of_rocksdb("20.0", "8.4"), &driven("13.4")].concat();
        assert_eq!(steps(&twice)[0].stalled_percent, Some(26.8));
    }

    #[test]
    fn what_db_bench_prints_is_understood() {
        let text = "\
overwrite    :      44.710 micros/op 89462 ops/sec 0.671 seconds 60000 operations;   88.7 MB/s
Microseconds per write:
Count: 60000 Average: 44.7100  StdDev: 900.44
Percentiles: P50: 8.31 P75: 12.76 P99: 120.93 P99.9: 20213.33 P99.99: 41000.00
readrandom   :     101.250 micros/op 39505 ops/sec 1.519 seconds 60000 operations;   39.2 MB/s (60000 of 60000 found)

Microseconds per read:
Percentiles: P50: 90.00 P75: 110.76 P99: 320.93 P99.9: 913.33 P99.99: 1000.00
Cumulative compaction: 0.44 GB write, 210.34 MB/s write, 0.45 GB read, 217.46 MB/s read, 2.0 seconds
Cumulative stall: 00:00:0.500 H:M:S, 24.5 percent
";
        let steps = steps(text);
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].per_second, steps[1].name.as_str()), (89462.0, "readrandom"));
        assert_eq!(steps[0].writes, Some(Latency { p50: 8.31, p99: 120.93, p999: 20213.33 }));
        assert_eq!((steps[0].reads, steps[1].reads.map(|it| it.p99)), (None, Some(320.93)));
        let last = &steps[1];
        assert_eq!((last.stalled_percent, last.compaction_mb_s), (Some(24.5), Some(0.89 * 1024.0 / 2.0)));
    }

    #[test]
    fn what_is_waited_for_behind_a_step_counts_and_leaves_its_statistics_alone() {
        let text = "\
overwrite    :      44.710 micros/op 40000 ops/sec 1.500 seconds 60000 operations;   88.7 MB/s
Uptime(secs): 1.6 total, 1.6 interval
Cumulative compaction: 1.00 GB write, 0 MB/s write, 1.00 GB read, 0 MB/s read, 2.0 seconds
Uptime(secs): 1.6 total, 0.0 interval
Cumulative stall: 00:00:0.500 H:M:S, 24.5 percent
waitforcompaction(/db): finished
Uptime(secs): 6.1 total, 4.5 interval
Cumulative compaction: 9.00 GB write, 0 MB/s write, 9.00 GB read, 0 MB/s read, 9.0 seconds
Uptime(secs): 6.1 total, 0.0 interval
Cumulative stall: 00:00:0.500 H:M:S, 8.2 percent
readrandom   :     101.250 micros/op 39505 ops/sec 1.519 seconds 60000 operations;   39.2 MB/s (60000 of 60000 found)
Uptime(secs): 7.7 total, 1.6 interval
";
        let steps = steps(text);
        assert_eq!(steps[0].settled_per_second(), Some(10_000.0), "60,000 in 1.5 and 4.5 seconds");
        assert_eq!((steps[0].stalled_percent, steps[0].compaction_mb_s), (Some(24.5), Some(1024.0)));
        assert_eq!(steps[1].settled_per_second(), None, "nothing was waited for");
    }
}
