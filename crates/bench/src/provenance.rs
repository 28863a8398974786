//! Where a result is from: commit, machine, when it was measured and how busy the machine was.

use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::Table;

/// The commit that this program was built from; with a `+` when files differed from it, `unknown` outside of git.
const COMMIT: &str = env!("ZONDA_COMMIT");

/// Where one measurement is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Commit of the program.
    pub commit: String,
    /// Processors, memory and kernel.
    pub machine: String,
    /// When it began.
    pub began: Moment,
    /// When it ended.
    pub ended: Moment,
}

/// A moment, and how busy the machine was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Date and time, UTC.
    pub utc: String,
    /// Load average of the last minute, where the system has one: what else ran when a measurement began, and that with the measurement's own
    /// threads when it ended.
    pub load_average: Option<f64>,
}

impl Provenance {
    /// Of what began then and ends now.
    #[must_use]
    pub fn since(began: Moment) -> Self {
        Self { commit: COMMIT.to_owned(), machine: machine(), began, ended: Moment::now() }
    }
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self { utc: utc(since_1970()), load_average: averages.split(' ').next().and_then(|load| load.parse().ok()) }
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, load average {}", self.utc, load(self))
    }
}

/// Who measures now, in a line: for the beginning of a text.
#[must_use]
pub fn here() -> String {
    format!("commit {COMMIT}, {}", machine())
}

/// When and from what each of several points was measured; those of which it is not known are left out.
#[must_use]
pub(crate) fn table<'a>(points: impl Iterator<Item = (&'a str, Option<&'a Provenance>)>) -> String {
    let mut table = Table::new(&["measured", "commit", "began", "load", "ended", "load", "machine"]);
    let known = points.filter_map(|(name, from)| Some((name, from?)));
    for (name, Provenance { commit, machine, began, ended }) in known {
        let (loads, machine) = ([began, ended].map(load), machine.clone());
        let [load_began, load_ended] = loads;
        table.row([
            name.to_owned(),
            commit.clone(),
            began.utc.clone(),
            load_began,
            ended.utc.clone(),
            load_ended,
            machine,
        ]);
    }
    table.render()
}

fn load(moment: &Moment) -> String {
    moment.load_average.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}"))
}

/// Processors, memory and kernel, as far as the system says.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0_u64);
    format!("{cores} cores, {}, Linux {}", crate::show_bytes(memory_kib << 10), kernel.trim())
}

#[expect(
    clippy::disallowed_types,
    reason = "the calendar, which no clock of the engine has; nothing is measured with it"
)]
fn since_1970() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Date and time of the Gregorian calendar, `2026-11-25T04:48:00Z`.
fn utc(since_1970: Duration) -> String {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From 0000-03-01, where leap days end a year, to 1970-01-01.
    const DAYS_BEFORE: u64 = 719_468;
    let seconds = since_1970.as_secs();
    let days = seconds / 86_400 + DAYS_BEFORE;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March on are 31, 30, 31, 30, 31 days long, and so again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", 400 * era + year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_calendars() {
        let at = |seconds| utc(Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!([at(951_782_399), at(951_782_400)], ["2000-02-28T23:59:59Z", "2000-02-29T00:00:00Z"]);
        assert_eq!([at(1_709_251_199), at(1_709_251_200)], ["2024-02-29T23:59:59Z", "2024-03-01T00:00:00Z"]);
        assert_eq!([at(1_767_225_599), at(4_107_542_400)], ["2025-12-31T23:59:59Z", "2100-03-01T00:00:00Z"]);
    }

    #[test]
    fn the_commit_is_gits_or_unknown() {
        let name = COMMIT.trim_end_matches('+');
        let is_commit = name.len() >= 12 && name.chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(is_commit || COMMIT == "unknown", "{COMMIT}");
    }

    #[test]
    fn what_was_measured_says_where_it_is_from() {
        let from = Provenance::since(Moment::now());
        assert!(from.began.utc <= from.ended.utc && !from.commit.is_empty() && from.machine.contains("cores"));
        let text = table([("a", Some(&from)), ("b", None)].into_iter());
        assert!(text.contains(COMMIT) && text.contains(&from.began.utc) && text.lines().count() == 2, "{text}");
    }
}
