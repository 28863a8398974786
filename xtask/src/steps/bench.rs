//! Tiny benchmarks: they show that the benchmark still runs and reports every figure, not how fast anything is.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    process,
    programs::{self, ZONDA},
    tally::Tally,
    workspace::Workspace,
};

const WORKLOADS: [&str; 7] = ["zkv-a", "zkv-b", "zkv-c", "zkv-d", "zkv-e", "ycsb-a", "scan:10"];

/// What every phase of a report must state.
const FIELDS: [&str; 19] = [
    "phase",
    "design",
    "device",
    "threads",
    "records",
    "operations",
    "seconds",
    "operations_per_second",
    "cpu_us_per_operation",
    "latency_us",
    "written_bytes_per_operation",
    "read_bytes_per_operation",
    "written_by",
    "zones_reset",
    "longest_gap_ms",
    "slowest_second_share",
    "memory_peak_bytes",
    "rss_peak_bytes",
    "seed",
];

/// Runs `zonda bench ycsb` on 20,000 records and checks its JSON report.
///
/// # Errors
/// When the command fails, a workload is missing in the report, or a phase lacks a figure.
pub(crate) fn smoke(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let report = empty_report(workspace)?;
    let [zonda] = programs::build(workspace, [ZONDA])?;
    let mut command = Command::new(zonda);
    command.args(["bench", "ycsb", "--records", "20000", "--operations", "2000", "--seed", "1", "--workload"]);
    command.arg(WORKLOADS.join(",")).arg("--json").arg(&report);
    process::run(&mut command)?;
    let text = fs::read_to_string(&report).with_context(|| format!("no report in {}", report.display()))?;
    tally.passed += check_report(&text)?;
    Ok(())
}

/// An empty file for the report: one of an earlier run must not stand in for this one.
fn empty_report(workspace: &Workspace) -> Result<PathBuf> {
    let directory = workspace.root.join("target");
    fs::create_dir_all(&directory).context("cannot make the target directory")?;
    let report = directory.join("bench-smoke.json");
    fs::write(&report, "").with_context(|| format!("cannot write {}", report.display()))?;
    Ok(report)
}

/// Checks the report (one JSON object per phase, and what it is of) and returns the number of phases.
fn check_report(text: &str) -> Result<u64> {
    let mut phases: Vec<Value> = serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>()?;
    let last = phases.pop().unwrap_or_default();
    ensure!(last["from"]["commit"].is_string(), "the report does not end with the commit that it is of: {last}");
    for phase in &phases {
        check_phase(phase)?;
    }
    let is_reported = |name: &str| phases.iter().any(|phase| phase["phase"] == name);
    let missing: Vec<_> = WORKLOADS.into_iter().filter(|name| !is_reported(name)).collect();
    ensure!(missing.is_empty(), "the report lacks {}", missing.join(", "));
    Ok(phases.len() as u64)
}

fn check_phase(phase: &Value) -> Result<()> {
    let missing: Vec<_> = FIELDS.into_iter().filter(|field| phase.get(field).is_none()).collect();
    ensure!(missing.is_empty(), "phase {} lacks {}", phase["phase"], missing.join(", "));
    let rate = phase["operations_per_second"].as_f64().unwrap_or(0.0);
    ensure!(rate > 0.0, "phase {} reports {rate} operations/s", phase["phase"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str) -> Value {
        let mut phase: Value = FIELDS.iter().map(|field| ((*field).to_owned(), Value::from(1.0))).collect();
        phase["phase"] = name.into();
        phase
    }

    #[test]
    fn a_full_report_passes_and_a_missing_figure_is_named() {
        let mut phases: Vec<Value> = WORKLOADS.into_iter().map(phase).collect();
        let from = serde_json::json!({ "from": { "commit": "0123456" } });
        let text = |phases: &[Value]| phases.iter().chain([&from]).map(|p| format!("{p}\n")).collect::<String>();
        assert_eq!(check_report(&text(&phases)).unwrap(), 7);
        assert!(check_report(&text(&phases[1..])).unwrap_err().to_string().contains("lacks zkv-a"));
        assert!(check_report(&phases[0].to_string()).unwrap_err().to_string().contains("does not end with the commit"));
        phases[2].as_object_mut().unwrap().remove("zones_reset");
        assert!(check_report(&text(&phases)).unwrap_err().to_string().contains("lacks zones_reset"));
    }
}
