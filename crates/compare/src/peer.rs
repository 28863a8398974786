//! What all adapters have in common.

use std::fmt::Display;
use std::path::PathBuf;

use zonda_bench::process;
use zonda_bench::subject::Counters;
use zonda_bench::{BenchError, Result, StorePlan};

/// Wraps an engine's words.
pub(crate) fn failed<E: Display>(engine: &'static str, doing: &'static str) -> impl Fn(E) -> BenchError {
    move |said| BenchError::Peer { engine, doing, said: said.to_string() }
}

/// The directory beside the file that the plan names: engines of several files get it to themselves.
///
/// # Errors
/// `Peer` when it cannot be made, or the plan names no file.
pub(crate) fn directory(engine: &'static str, plan: &StorePlan) -> Result<PathBuf> {
    let path = plan.uri.strip_prefix("file:").unwrap_or(&plan.uri);
    let refused = failed(engine, "make its directory");
    if path.contains(':') {
        return Err(refused(format!("{path} is no file")));
    }
    let directory = PathBuf::from(format!("{path}.{engine}"));
    std::fs::create_dir(&directory).map_err(failed(engine, "make its directory"))?;
    Ok(directory)
}

/// Counts of the process: the only ones that every engine has. Direct and buffered writes count; reads that the page cache
/// answers do not.
pub(crate) fn counters() -> Counters {
    let bytes = process::storage_bytes().unwrap_or_default();
    Counters { device_written_bytes: bytes.written, device_read_bytes: bytes.read, ..Counters::default() }
}
