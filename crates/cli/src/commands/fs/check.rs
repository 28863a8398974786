//! `zonda fs check`.

use std::io;

use clap::Args;
use indicatif::HumanBytes;
use serde_json::{Value, json};
use zonda_files::{CheckReport, FileId, FilePath};

use super::StoreArg;
use crate::bytes::escape;
use crate::exit::{self, Exit};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs check disk.zoned && echo all is well      exit code 3 if anything is damaged
  zonda fs check disk.zoned --json

Reads every extent and compares its checksum; every extent must be in its zone, of its generation, and share no block with another. A
journal of which something is missing that was recorded is a finding too; what a crash left behind its end is not.
What is found is told with all names of the file, in `found_in` of the JSON one by one.
Nothing is written. Beside a program that has the store mounted, files are checked as they were at the start; what is deleted or moved
meanwhile is counted, and is no damage.";

/// Verifies every file
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    store: StoreArg,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    /// # Errors
    /// Those that keep it from looking. Damage is an exit code.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let report = self.look()?;
        exit::printed(self.print(&report).map_err(Into::into))?;
        Ok(if report.findings.is_empty() { Exit::Done } else { Exit::Damaged })
    }

    fn print(&self, report: &CheckReport) -> io::Result<()> {
        let CheckReport { files, extents, bytes_read, findings, names, stale, .. } = report;
        let findings: Vec<String> = findings.iter().map(|finding| finding.told(names)).collect();
        let stale = stale.len();
        let mut out = Output::new();
        if self.json {
            let found_in: Vec<Value> = names.iter().map(|(file, paths)| found_in(*file, paths)).collect();
            out.json(&json!({
                "files": files, "extents": extents, "bytes": bytes_read, "findings": findings, "found_in": found_in,
                "stale_extents": stale,
            }))?;
        } else {
            findings.iter().try_for_each(|finding| out.line(escape(finding.as_bytes())))?;
            let said = match findings.len() {
                0 => "all is well".to_owned(),
                1 => "1 finding".to_owned(),
                many => format!("{many} findings"),
            };
            out.line(format!("{files} files, {extents} extents, {} read: {said}", HumanBytes(*bytes_read)))?;
            if stale > 0 {
                out.line(format!(
                    "{stale} extents were deleted or moved meanwhile and not checked: the store is in use"
                ))?;
            }
        }
        out.finish()
    }

    /// Checks the store; what was not there any more is told from damage by a second look at the names.
    fn look(&self) -> anyhow::Result<CheckReport> {
        let mut report = self.store.mount_read_only()?.check()?;
        if !report.stale.is_empty() {
            self.store.mount_read_only()?.settle_stale(&mut report);
        }
        Ok(report)
    }
}

fn found_in(file: FileId, paths: &[FilePath]) -> Value {
    json!({ "file": file.0, "paths": paths.iter().map(FilePath::as_str).collect::<Vec<_>>() })
}
