//! `zonda check`: reads and verifies everything.

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use zonda::{CheckReport, Db, Error, Finding, KeySpan};

use crate::exit::{self, Exit};
use crate::output::{Output, span_json};
use crate::progress;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda check app.zonda && echo all is well      exit code 3 if anything is damaged
  zonda check app.zonda --json

Reads every leaf, every long value and the headers of zones; verifies checksums, identities, key order and structure. Nothing is written. A
finding names the keys that it is about; `zonda dump --skip-damaged` prints all others.";

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

/// What was wrong.
#[derive(Default)]
struct Found {
    sentences: Vec<String>,
    keys: Vec<KeySpan>,
}

impl Found {
    fn add(&mut self, finding: Finding) {
        self.sentences.push(finding.to_string());
        self.keys.extend(finding.keys);
    }
}

impl Check {
    /// # Errors
    /// Those that keep it from looking. Damage is an exit code.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut found = Found::default();
        let report = match self.store.open_read_only() {
            Ok(db) => self.check(&db, &mut found)?,
            Err(error) => match error.downcast_ref() {
                Some(damage) if is_damage(damage) => {
                    found.sentences.push(sentence(damage));
                    None
                }
                _ => return Err(error),
            },
        };
        exit::printed(self.print(report, &found).map_err(Into::into))?;
        Ok(if found.sentences.is_empty() { Exit::Done } else { Exit::Damaged })
    }

    fn check(&self, db: &Db, found: &mut Found) -> anyhow::Result<Option<CheckReport>> {
        let bar = progress::of_items("checking leaves");
        let mut report = |done, total| progress::show(&bar, done, total);
        let checked = db.check(&mut report, &mut |finding| found.add(finding));
        bar.finish_and_clear();
        match checked {
            Ok(report) => Ok(Some(report)),
            Err(error) if is_damage(&error) => {
                found.sentences.push(sentence(&error));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn print(&self, report: Option<CheckReport>, Found { sentences, keys }: &Found) -> std::io::Result<()> {
        let mut out = Output::new();
        if self.json {
            let CheckReport { leaves, records, values, bytes, .. } = report.unwrap_or_default();
            out.json(&json!({
                "leaves": leaves, "records": records, "values": values, "bytes": bytes,
                "complete": report.is_some(), "findings": sentences,
                "keys": keys.iter().map(|span| span_json(&span.tree, &span.from, span.to.as_deref())).collect::<Vec<_>>(),
            }))?;
            return out.finish();
        }
        for sentence in sentences {
            out.line(sentence)?;
        }
        out.line(summary(report, sentences.len()))?;
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

/// What an error says, without the advice to do what is being done.
fn sentence(error: &Error) -> String {
    match error {
        Error::Damaged { what, why } => format!("damaged {what}: {why}"),
        other => other.to_string(),
    }
}

/// What makes a store damaged, as opposed to unreachable.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Truncated { .. })
}
