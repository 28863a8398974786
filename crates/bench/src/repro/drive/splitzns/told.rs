//! What `--print-options` shows: all that the runs of an experiment are told, the paper's or the default beside ours.

use super::driven::{COMPETITORS, Contender, Setting};
use super::live::Live;
use super::live::options::Line;
use super::{controls, fig9, fig16, fig17, pointer, robust, setup, sustained};
use crate::repro::Scale;

/// Of an experiment at a scale: of its first setting all, of the others what differs, and what some of its systems have besides.
pub(in super::super) fn rocksdb_options(experiment: &str, scale: Scale) -> Vec<[String; 3]> {
    match experiment.strip_prefix("splitzns-").unwrap_or_default() {
        "setup" => of_all(setup::settings(scale).into_iter().map(|(name, live)| (name, live.lines()))),
        "fig13" | "fig14" | "fig15" => of_all([(String::new(), Live::of(scale).lines())].into_iter()),
        "sustained" => of_all(
            sustained::settings(scale)
                .iter()
                .map(|live| (live.label().trim_start_matches(", ").to_owned(), live.lines())),
        ),
        "fig9" | "fig10" => of_driven(&fig9::settings(scale), &COMPETITORS),
        "fig16" => of_driven(&fig16::settings(scale), &fig16::CONTENDERS),
        "fig17" => of_driven(&fig17::settings(scale), &fig17::CONTENDERS),
        "pointer" => of_driven(&pointer::settings(scale), &pointer::CONTENDERS),
        "controls" => of_driven(&controls::settings(scale), &controls::CONTENDERS),
        "robust" => of_driven(&robust::settings(scale), &robust::CONTENDERS),
        _ => Vec::new(),
    }
}

fn of_driven(settings: &[Setting], contenders: &[Contender]) -> Vec<[String; 3]> {
    let mut lines = of_all(settings.iter().map(|setting| (setting.label().to_owned(), setting.lines())));
    for setting in settings {
        for contender in contenders {
            let more = contender.more_options(setting);
            // What all of a setting have is said once.
            let is_said = lines.iter().any(|line| line[2] == more && line[0].contains(contender.name));
            if !more.is_empty() && !is_said {
                let name = format!("{}{}", contender.name, of(setting.label()));
                lines.push([name, "-".to_owned(), more]);
            }
        }
    }
    lines
}

/// All lines of the first; of the others those that differ from the first's.
fn of_all(mut settings: impl Iterator<Item = (String, Vec<Line>)>) -> Vec<[String; 3]> {
    let Some((label, first)) = settings.next() else { return Vec::new() };
    let line = |label: &str, (name, paper, ours): &Line| [format!("{name}{}", of(label)), paper.clone(), ours.clone()];
    let mut lines: Vec<_> = first.iter().map(|one| line(&label, one)).collect();
    for (label, others) in settings {
        lines.extend(others.iter().filter(|other| !first.contains(other)).map(|other| line(&label, other)));
    }
    lines
}

fn of(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!(" [{label}]") }
}

#[cfg(test)]
mod tests {
    use super::super::super::DRIVE_EXPERIMENTS;
    use super::super::live::SYSTEMS;
    use super::super::{driven, live};
    use super::*;

    /// Names of words of `db_bench` and `zonda-db-bench` for lines that are no options of `RocksDB`.
    const WORDS: [(&str, &[&str]); 8] = [
        ("keys loaded", &["--num="]),
        ("operations of a thread", &["--writes=", "--operations="]),
        ("reads of a thread", &["--reads=", "--benchmarks=readrandom:"]),
        ("threads", &["--threads="]),
        ("cache_size", &["--cache_size="]),
        ("key_size", &["--key_size="]),
        ("value_size", &["--value_size="]),
        ("skew", &["--skew="]),
    ];
    /// Lines that follow from others, are the drive's, or are said in words.
    const NO_WORDS: [&str; 7] = [
        "drive",
        "dilation",
        "bytes loaded",
        "log_buffer of the file system",
        "copy_buffer of the file system",
        "chips",
        "loading",
    ];

    /// Whether a run is told a line.
    fn is_told(told: &str, (name, _, ours): &Line) -> bool {
        let mut words = told.split(['\n', ';', ' ']).map(|word| word.trim_start_matches("--options="));
        match WORDS.iter().find(|(line, _)| line == name) {
            Some((_, begins)) => words.any(|word| begins.iter().any(|begin| word == format!("{begin}{ours}"))),
            None => NO_WORDS.contains(name) || words.any(|word| word == format!("{name}={ours}")),
        }
    }

    #[test]
    fn runs_are_told_what_is_shown() {
        for scale in Scale::ALL {
            let all = [Live::of(scale), setup::settings(scale)[0].1];
            for (live, (name, ..)) in all.iter().flat_map(|live| live.lines().into_iter().map(move |line| (live, line)))
            {
                let line = live.lines().into_iter().find(|line| line.0 == name).unwrap();
                let told = live::db_bench::told(live, &SYSTEMS[0]);
                assert!(is_told(&told, &line), "{line:?}: {told}");
            }
            let settings = [
                fig9::settings(scale).to_vec(),
                fig16::settings(scale),
                fig17::settings(scale),
                robust::settings(scale),
            ];
            for setting in settings.concat() {
                let told = driven::told(&setting, &driven::SPLITZNS);
                let missing: Vec<_> = setting.lines().into_iter().filter(|line| !is_told(&told, line)).collect();
                assert!(missing.is_empty(), "{missing:?}: {told}");
                let on = format!("scale=1/{}", setting.lines()[0].2.trim_start_matches("1/"));
                assert!(told.contains(&on) && told.contains(&format!("k={}&", setting.lines()[1].2)), "{told}");
            }
        }
    }

    #[test]
    fn what_is_shown_is_of_the_points_of_the_experiment() {
        for experiment in DRIVE_EXPERIMENTS.iter().filter(|experiment| experiment.is_live()) {
            let lines = rocksdb_options(experiment.name, Scale::Laptop);
            let of =
                |name: &str| lines.iter().find(|line| line[0].split(" [").next() == Some(name)).unwrap()[2].clone();
            let points = (experiment.points)(Scale::Laptop).unwrap();
            assert!(points[0].id.contains(&of("drive")), "{}: {} of {}", experiment.name, of("drive"), points[0].id);
            let rocksdb = points[0].rocksdb.clone().unwrap();
            let told: Vec<&str> = rocksdb.split([';', ' ']).collect();
            for name in ["write_buffer_size", "target_file_size_base", "max_bytes_for_level_base", "max_total_wal_size"]
            {
                assert!(told.contains(&&*format!("{name}={}", of(name))), "{}: {name}: {rocksdb}", experiment.name);
            }
            assert!(of("bytes loaded").parse::<u64>().unwrap() > 1 << 30, "{}", experiment.name);
        }
        let halves = ["fig9", "fig10", "fig16", "fig17", "pointer"].map(|name| format!("splitzns-{name}"));
        assert!(halves.iter().all(|name| rocksdb_options(name, Scale::Laptop)[0][2] == "1/32"));
        assert_eq!(rocksdb_options("splitzns-fig13", Scale::Laptop)[0][2], "1/16");
        let controls = rocksdb_options("splitzns-controls", Scale::Laptop);
        assert!(
            controls.iter().any(|line| line[0] == "ldp, ring as write buffers" && line[2].starts_with("write_buffer"))
        );
        assert!(rocksdb_options("zns-fig1", Scale::Laptop).is_empty());
    }

    #[test]
    fn blob_files_are_as_large_as_the_scale_has_them() {
        for (scale, bytes) in [(Scale::Laptop, 8 << 20), (Scale::Paper, 16 << 20)] {
            let (lines, told) = (rocksdb_options("splitzns-fig17", scale), format!("blob_file_size={bytes}"));
            assert!(lines.iter().any(|line| line[2].contains(&told)), "{scale:?}: {lines:?}");
        }
    }
}
