//! `zonda check`: reads and verifies everything.

use anyhow::bail;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use zonda::{CheckReport, Db, Error};

use crate::exit::Exit;
use crate::output::Output;
use crate::progress;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda check app.zonda && echo all is well      exit code 3 if anything is damaged
  zonda check app.zonda --json

Reads every leaf and every long value; verifies checksums, identities, key order and structure. Nothing is written.";

/// Verifies the whole store
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    store: StoreArgs,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    /// # Errors
    /// Those that keep it from looking. Damage is an exit code.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut findings = Vec::new();
        let report = match self.store.options().open_read_only(&self.store.store) {
            Ok(db) => self.check(&db, &mut findings)?,
            Err(error) if is_damage(&error) => {
                findings.push(error.to_string());
                None
            }
            Err(error) => bail!("cannot open {}: {error}", self.store.store),
        };
        self.print(report, &findings)?;
        Ok(if findings.is_empty() { Exit::Done } else { Exit::Damaged })
    }

    fn check(&self, db: &Db, findings: &mut Vec<String>) -> anyhow::Result<Option<CheckReport>> {
        let bar = progress::of_items("checking leaves");
        let mut report = |done, total| progress::show(&bar, done, total);
        let checked = db.check(&mut report, &mut |finding| findings.push(finding));
        bar.finish_and_clear();
        match checked {
            Ok(report) => Ok(Some(report)),
            Err(error) if is_damage(&error) => {
                findings.push(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn print(&self, report: Option<CheckReport>, findings: &[String]) -> std::io::Result<()> {
        let mut out = Output::new();
        if self.json {
            let CheckReport { leaves, records, values, bytes, .. } = report.unwrap_or_default();
            out.json(&json!({
                "leaves": leaves, "records": records, "values": values, "bytes": bytes,
                "complete": report.is_some(), "findings": findings,
            }))?;
            return out.finish();
        }
        for finding in findings {
            out.line(finding)?;
        }
        out.line(summary(report, findings.len()))?;
        out.finish()
    }
}

fn summary(report: Option<CheckReport>, findings: usize) -> String {
    let checked = report.map_or("could not be walked".to_owned(), |report| {
        let CheckReport { leaves, records, values, bytes, .. } = report;
        let [leaves, records, values] = [leaves, records, values].map(HumanCount);
        format!("{leaves} leaves, {records} records, {values} long values, {} read", HumanBytes(bytes))
    });
    match findings {
        0 => format!("{checked}: all is well"),
        1 => format!("{checked}: 1 finding"),
        many => format!("{checked}: {many} findings"),
    }
}

/// What makes a store damaged, as opposed to unreachable.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Truncated { .. })
}
