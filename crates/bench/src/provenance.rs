//! Where a result is from: commit, machine, when it was measured and how busy the machine was.

use std::fs;

use serde::{Deserialize, Serialize};
use zonda_built::COMMIT;

use crate::process;
use crate::report::Table;

/// Where one measurement is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Commit of the program.
    pub commit: String,
    /// Build of the plugin for `RocksDB`, or of `zonda-db-bench`, of what these ran: commit, with a `+` as above, and when the file was
    /// written. Unknown of what was measured before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
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
    /// Load average of the last minute, where the system has one: what else ran when a measurement began, and that with the measurement's
    /// own threads when it ended.
    pub load_average: Option<f64>,
}

impl Provenance {
    /// Of what began then and ends now.
    #[must_use]
    pub fn since(began: Moment) -> Self {
        Self { commit: COMMIT.to_owned(), plugin: None, machine: machine(), began, ended: Moment::now() }
    }
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        // To the second: `2026-11-25T04:48:00Z`.
        let utc = format!("{:.0}", jiff::Timestamp::now());
        Self { utc, load_average: averages.split(' ').next().and_then(|load| load.parse().ok()) }
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
    let known: Vec<_> = points.filter_map(|(name, from)| Some((name, from?))).collect();
    let has_plugins = known.iter().any(|(_, from)| from.plugin.is_some());
    let plugin_column = if has_plugins { &["plugin"][..] } else { &[] };
    let columns = ["began", "load", "ended", "load", "machine"];
    let mut table = Table::new(&[&["measured", "commit"][..], plugin_column, &columns[..]].concat());
    for (name, Provenance { commit, plugin, machine, began, ended }) in known {
        let plugin = has_plugins.then(|| plugin.clone().unwrap_or_else(|| "-".to_owned()));
        let moments = [began, ended].into_iter().flat_map(|moment| [moment.utc.clone(), load(moment)]);
        let row = [name.to_owned(), commit.clone()].into_iter().chain(plugin).chain(moments);
        table.row(row.chain([machine.clone()]));
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
    let memory_bytes = process::machine_memory_bytes().unwrap_or(0);
    format!("{cores} cores, {}, Linux {}", crate::show_bytes(memory_bytes), kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_says_where_it_is_from() {
        let from = Provenance::since(Moment::now());
        assert!(from.began.utc.len() == "2026-11-25T04:48:00Z".len() && from.began.utc.ends_with('Z'), "{from:?}");
        assert!(from.began.utc <= from.ended.utc && !from.commit.is_empty() && from.machine.contains("cores"));
        let text = table([("a", Some(&from)), ("b", None)].into_iter());
        assert!(text.contains(COMMIT) && text.contains(&from.began.utc) && text.lines().count() == 2, "{text}");
        assert!(!text.contains("plugin"), "{text}");
        let live = Provenance { plugin: Some("0123456789ab+ of 2026-11-29T16:00:00Z".to_owned()), ..from.clone() };
        let text = table([("a", Some(&from)), ("live b", Some(&live))].into_iter());
        assert!(text.contains("plugin") && text.contains("0123456789ab+ of 2026"), "{text}");
        // What was kept before plugins were named is read.
        let mut kept = serde_json::to_value(&from).unwrap();
        assert!(kept.as_object_mut().unwrap().get("plugin").is_none());
        assert_eq!(serde_json::from_value::<Provenance>(kept).unwrap(), from);
    }
}
