//! Where results go: text for people, one JSON object per line for scripts.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::progress::Progress;
use crate::provenance::{self, Moment, Provenance};
use crate::report::{PhaseReport, bytes_table, rates_table};
use crate::verdict::Verdict;
use crate::{BenchError, Result};

/// The results' way out.
///
/// Text goes to standard output, or to standard error when JSON has standard output (`--json -`).
pub struct Output {
    text: Box<dyn Write>,
    json: Option<Box<dyn Write>>,
    bars: bool,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("json", &self.json.is_some()).field("bars", &self.bars).finish_non_exhaustive()
    }
}

impl Output {
    /// Results for a person and, when `json` is given, for a script: a file, or `-` for standard output.
    ///
    /// # Errors
    /// `Io` when the file cannot be made.
    pub fn new(json: Option<&Path>) -> Result<Self> {
        let (text, json): (Box<dyn Write>, Option<Box<dyn Write>>) = match json {
            None => (Box::new(io::stdout()), None),
            Some(path) if path == Path::new("-") => (Box::new(io::stderr()), Some(Box::new(io::stdout()))),
            Some(path) => {
                let file = File::create(path)
                    .map_err(|source| BenchError::io(format!("create {}", path.display()), source))?;
                (Box::new(io::stdout()), Some(Box::new(file)))
            }
        };
        Ok(Self { text, json, bars: true })
    }

    /// Results into these writers, with no progress bars: for tests and for callers with their own screen.
    #[must_use]
    pub fn to(text: Box<dyn Write>, json: Option<Box<dyn Write>>) -> Self {
        Self { text, json, bars: false }
    }

    /// A line for people.
    ///
    /// # Errors
    /// `Io`, a closed pipe included.
    pub fn line(&mut self, line: impl AsRef<str>) -> Result<()> {
        writeln!(self.text, "{}", line.as_ref().trim_end()).map_err(|source| BenchError::io("write results", source))
    }

    /// An object for scripts.
    ///
    /// # Errors
    /// `Io`, a closed pipe included.
    pub fn object(&mut self, object: &impl Serialize) -> Result<()> {
        let Some(json) = &mut self.json else { return Ok(()) };
        let line = serde_json::to_string(object).map_err(|error| BenchError::io("encode results", error.into()))?;
        writeln!(json, "{line}").map_err(|source| BenchError::io("write JSON", source))
    }

    /// The command, so that a result can be repeated, and where the result is from.
    ///
    /// # Errors
    /// `Io`.
    pub fn command(&mut self, seed: u64) -> Result<()> {
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        self.line(format!("command: {}   (seed {seed})", words.join(" ")))?;
        self.line(format!("{}; began {}", provenance::here(), Moment::now()))
    }

    /// Where all results since `began` are from.
    ///
    /// # Errors
    /// `Io`.
    pub fn ended(&mut self, began: Moment) -> Result<()> {
        let from = Provenance::since(began);
        self.line(format!("ended {}", from.ended))?;
        self.object(&serde_json::json!({ "from": from }))
    }

    /// Measured phases: two tables and an object each.
    ///
    /// # Errors
    /// `Io`.
    pub fn phases(&mut self, phases: &[PhaseReport]) -> Result<()> {
        phases.iter().try_for_each(|phase| self.object(phase))?;
        self.line(rates_table(phases))?;
        self.line("")?;
        self.line(bytes_table(phases))?;
        self.cross_check(phases)
    }

    /// Says how far the process's own count of written bytes is from the device layer's.
    fn cross_check(&mut self, phases: &[PhaseReport]) -> Result<()> {
        let worst = phases
            .iter()
            .filter_map(PhaseReport::written_disagreement)
            .fold(None, |worst: Option<f64>, share| Some(worst.map_or(share, |worst| worst.max(share))));
        let Some(worst) = worst else { return Ok(()) };
        self.line(format!("written bytes: device layer and /proc/self/io differ by at most {:.1} %", worst * 100.0))
    }

    /// A target and whether it was reached.
    ///
    /// # Errors
    /// `Io`.
    pub fn verdict(&mut self, verdict: &Verdict) -> Result<()> {
        self.object(verdict)?;
        self.line(verdict.to_string())
    }

    /// A progress bar, hidden where this output has none.
    #[must_use]
    pub fn progress(&self, phase: &str, total: u64) -> Progress {
        if self.bars { Progress::new(phase, total) } else { Progress::hidden() }
    }
}
