//! `zonda device bench`: many requests in flight on a device, without a store, and what a modelled drive did meanwhile.

mod load;
mod report;
mod target;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use zonda_rt::sim;

use crate::size::parse_bytes;
use crate::{BenchError, Result};
use load::Load;
use report::Report;
use target::Target;

/// What `zonda device bench --help` ends with.
pub const EXAMPLES: &str = "\
Examples:
  zonda device bench zbd:/dev/nvme0n1 --operation write --block 128KiB --zones 4
  zonda device bench flash:zn540 --virtual --depth 64 --count 100000 --json
  zonda device bench flash:zn540 --virtual --operation mixed --reads 70 --svg latency.svg --timeline dies.svg
  zonda device bench 'flash:test-conv?time=untimed' --operation write --random
  zonda device bench 'hftl:flash:zn540?scale=1/64' --virtual --operation write --random --span 64MiB

On zones it works on the first ones, which must be empty, and leaves them empty: those that are read are written first.
Writes: one in flight in each zone. Appends: as many as the depth. On a block device it writes the first --span bytes.
Times are the device's: of a modelled drive, what it would have taken, not what the dilated run took.";

/// Measures reads, writes or appends
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DeviceBench {
    /// Path or URI of the device
    pub uri: String,
    /// What to do
    #[arg(long, value_enum, default_value = "read")]
    pub operation: Operation,
    /// Of `mixed`: percent of requests that read
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub reads: u32,
    /// Bytes of one request
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_bytes)]
    pub block: u64,
    /// Most requests in flight
    #[arg(long, default_value_t = 32)]
    pub depth: u32,
    /// Zones to read, and as many to write
    #[arg(long, default_value_t = 4)]
    pub zones: u32,
    /// Bytes of a block device to use; without it all, up to 1 GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub span: Option<u64>,
    /// Writes of a block device go to random places instead of one behind the other
    #[arg(long)]
    pub random: bool,
    /// Requests; writes and appends end at the latest when the zones are full
    #[arg(long, default_value_t = 10_000)]
    pub count: u64,
    /// Most bytes a second, all requests together
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub rate: Option<u64>,
    /// Seed of the places, and of virtual time
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Modelled drives: in virtual time, as fast as this machine can
    #[arg(long = "virtual")]
    pub in_virtual_time: bool,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
    /// Draw the latencies
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Modelled drives: draw what dies and zones did in the first milliseconds of the measurement
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Milliseconds that the timeline shows
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub window: u64,
    /// Modelled drives: take down every command, for `zonda device replay`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// What requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// Random reads.
    Read,
    /// Writes.
    Write,
    /// Appends to zones.
    Append,
    /// Reads and writes.
    Mixed,
}

impl DeviceBench {
    /// Measures; the text to print.
    ///
    /// # Errors
    /// `Usage` for numbers that the device cannot do; `Device`; `Io` for the files asked for.
    pub fn run(&self) -> Result<String> {
        let report = match self.in_virtual_time {
            true if !target::is_modelled(&self.uri) => {
                return Err(usage("--virtual", &self.uri, "a modelled drive: flash:PROFILE, or hftl: over one"));
            }
            true => sim::run(self.seed, || self.measure())?,
            false => self.measure()?,
        };
        if let Some(path) = &self.svg {
            write(path, &report.chart().svg())?;
        }
        if let Some(seen) = &report.seen {
            if let Some(path) = &self.timeline {
                write(path, &seen.svg())?;
            }
            if let Some(path) = &self.trace {
                let lines: Vec<String> = seen.commands.iter().map(ToString::to_string).collect();
                write(path, &(lines.join("\n") + "\n"))?;
            }
        }
        Ok(if self.json { report.json(self).to_string() } else { report.text(self) })
    }

    fn measure(&self) -> Result<Report> {
        let target = Target::open(&self.uri)?;
        if (self.timeline.is_some() || self.trace.is_some()) && !target.is_modelled() {
            return Err(usage("--timeline, --trace", &self.uri, "a modelled drive"));
        }
        let load = Load::new(self, &target)?;
        load.run(self.window)
    }
}

fn usage(option: &'static str, given: &str, expected: &str) -> BenchError {
    BenchError::Usage { option, given: given.to_owned(), expected: expected.to_owned() }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| BenchError::io(format!("write {}", path.display()), source))
}

/// Gives a modelled drive the commands of a trace, each at its time; the text to print.
///
/// # Errors
/// `Io`; `Usage`, `Device` for a name that is not understood; `Model` for such a trace, and for a command about what the drive has not.
pub fn replay(uri: &str, trace: &Path) -> Result<String> {
    let text =
        fs::read_to_string(trace).map_err(|source| BenchError::io(format!("read {}", trace.display()), source))?;
    let model = |reason: String| BenchError::Model { reason };
    let name = uri.strip_prefix("flash:").ok_or_else(|| usage("device", uri, "flash:PROFILE"))?;
    let spec: zonda_flash::drive::Spec = name.parse()?;
    let places = spec.places().map_err(|error| model(error.to_string()))?;
    let entries = zonda_flash::trace::parse_for(&text, &places)
        .map_err(|error| model(format!("{}: {error}", trace.display())))?;
    let mut drive = spec.model_for(&entries).map_err(|error| model(error.to_string()))?;
    let replayed = zonda_flash::trace::replay(&mut *drive, &entries);
    Ok(report::replayed(&replayed, &drive.flash_writes()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use zonda_device::{DeviceUri, OpenMode};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        bench: DeviceBench,
    }

    fn bench(words: &str) -> DeviceBench {
        Program::parse_from(std::iter::once("bench").chain(words.split_whitespace())).bench
    }

    fn number(text: &str, path: &[&str]) -> f64 {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        path.iter().fold(&value, |value, key| &value[*key]).as_f64().unwrap_or_else(|| panic!("{path:?} in {text}"))
    }

    #[test]
    fn a_modelled_drive_is_as_fast_as_its_profile_says() {
        let text = bench("flash:zn540?scale=1/64&zones=20 --virtual --depth 1 --count 300 --json").run().unwrap();
        let mean = number(&text, &["latency_us", "read", "mean"]);
        assert!((mean / 72.6 - 1.0).abs() < 0.05, "{mean}");
        assert!(number(&text, &["flash", "amplification"]) >= 1.0);
        let random = "--operation write --random --count 300 --json";
        let text = bench(&format!("flash:atc21-7op?capacity=268435456 --virtual {random}")).run().unwrap();
        let [host, rounding] = ["host_bytes", "rounding_bytes"].map(|cause| number(&text, &["flash", cause]));
        assert!(host > 0.0 && rounding > 2.5 * host, "blocks of 4 KiB in units of 16: {rounding} beside {host}");
        let once = bench("flash:test --virtual --operation mixed --count 500 --json").run().unwrap();
        assert_eq!(once, bench("flash:test --virtual --operation mixed --count 500 --json").run().unwrap());
    }

    /// A write that waits for its zone is not thrown away for a read.
    #[test]
    fn a_mix_has_the_share_of_reads_that_was_asked_for() {
        let words =
            "flash:zn540?scale=1/64&zones=20 --virtual --operation mixed --reads 50 --zones 1 --depth 32 --count 4000";
        let json = bench(&format!("{words} --json")).run().unwrap();
        let [reads, writes] = ["read", "write"].map(|kind| number(&json, &["requests_by_kind", kind]));
        assert!((reads / 4000.0 - 0.5).abs() < 0.03 && reads + writes == 4000.0, "{json}");
        let text = bench(words).run().unwrap();
        assert!(
            text.contains(&format!("read: {reads} requests")) && text.contains(&format!("write: {writes} requests"))
        );
    }

    #[test]
    fn every_kind_of_device_is_measured() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("z").display().to_string();
        let create: DeviceUri = format!("{file}?zones=20&zone_size=1MiB").parse().unwrap();
        create.open_zoned(OpenMode::Create).unwrap();
        for uri in ["flash:test", "flash:test-conv", "hftl:flash:test", &file] {
            for operation in ["read", "write", "mixed"] {
                let time = if uri.contains("flash:") { "--virtual" } else { "" };
                let words = format!("{uri} --operation {operation} --count 200 --span 4MiB --zones 2 --json {time}");
                let text = bench(&words).run().unwrap_or_else(|error| panic!("{words}: {error}"));
                assert!(number(&text, &["requests"]) > 0.0, "{words}: {text}");
            }
        }
        assert!(bench("flash:test --virtual --operation append --count 200").run().unwrap().contains("append"));
    }

    #[test]
    fn an_untimed_drive_has_no_busy_shares() {
        let text = |more: &str| bench(&format!("flash:test{more}")).run().unwrap();
        assert!(text(" --virtual --count 300").contains("dies busy"));
        assert!(!text("?time=untimed --count 300").contains("dies busy"));
        let json: serde_json::Value = serde_json::from_str(&text("?time=untimed --count 300 --json")).unwrap();
        assert!(json["flash"]["dies"][0]["busy"].is_null() && json["flash"]["channels_busy"][0].is_null(), "{json}");
        assert!(
            json["flash"]["requests_in_drive_mean"].is_null() && json["flash"]["amplification"].is_number(),
            "{json}"
        );
    }

    #[test]
    fn reads_that_fail_are_counted_and_others_go_on() {
        let text = |more: &str| bench(&format!("flash:test?faults=read:{more}")).run().unwrap();
        let some = text("media@1% --virtual --count 2000 --json");
        let failed = number(&some, &["failed_reads"]);
        assert!(failed > 5.0 && failed + number(&some, &["requests"]) == 2000.0, "{some}");
        assert!(text("io@3 --virtual --count 10").contains("1 reads failed, the first with: "), "{some}");
        let all = text("media --virtual --count 100");
        assert!(all.contains("100 reads failed") && all.contains("medium error at block"), "{all}");
        assert!(bench("flash:test?faults=read:power-lost@3+ --virtual").run().is_err());
    }

    #[test]
    fn rates_are_kept() {
        let text = bench("flash:test --virtual --rate 1MiB --count 64 --depth 8 --json").run().unwrap();
        let rate = number(&text, &["mib_per_second"]);
        assert!((rate - 1.0).abs() < 0.05, "{rate}");
    }

    #[test]
    fn pictures_and_traces_are_written_and_a_trace_replays() {
        let directory = tempfile::tempdir().unwrap();
        let name = |file: &str| directory.path().join(file).display().to_string();
        let files = format!("--svg {} --timeline {} --trace {}", name("l.svg"), name("t.svg"), name("trace"));
        bench(&format!("flash:test --virtual --operation mixed --count 300 {files}")).run().unwrap();
        let timeline = fs::read_to_string(name("t.svg")).unwrap();
        assert!(timeline.contains("die 0") && timeline.contains("zone 0") && timeline.ends_with("</svg>\n"));
        assert!(fs::read_to_string(name("l.svg")).unwrap().contains("polyline"));
        let text = replay("flash:test", Path::new(&name("trace"))).unwrap();
        assert_eq!(text, replay("flash:test", Path::new(&name("trace"))).unwrap());
        assert!(text.contains("commands"), "{text}");
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |words: &str| bench(words).run().unwrap_err().to_string();
        assert!(refusal("mem: --virtual").contains("--virtual"));
        assert!(refusal("flash:test --zones 0 --virtual").contains("--zones"));
        assert!(refusal("flash:test --block 5 --virtual").contains("--block"));
        assert!(refusal("flash:test-conv --operation append --virtual").contains("append"));
        assert!(refusal("mem:?zones=9 --trace x").contains("--trace"));
        assert!(refusal("flash:none").contains("zn540"));
        assert!(refusal("flash:test --depth 0 --virtual").contains("depth"));
        for uri in ["flash:test --virtual", "mem:?zones=20&zone_size=1MiB"] {
            assert!(refusal(&format!("{uri} --rate 0")).contains("--rate: \"0\""), "{uri}");
        }
    }

    #[test]
    fn a_window_may_be_longer_than_any_measurement() {
        bench(&format!("flash:test --virtual --count 10 --window {}", u64::MAX)).run().unwrap();
    }

    #[test]
    fn a_measurement_makes_no_device() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("none");
        for scheme in ["", "file:", "hftl:"] {
            let said = bench(&format!("{scheme}{}", file.display())).run().unwrap_err().to_string();
            assert!(said.contains("zonda device create") && !file.exists(), "{said}");
        }
    }
}
