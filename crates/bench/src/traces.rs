//! Traces by name: recorded ones that come with the program, simulated ones, files.
//!
//! The recorded ones are stock `db_bench` through the plugin, `crates/bench/traces/README.md` says how: the CAZA paper's load
//! (section 5.1) with every size divided by [`RECORDED_SCALE`].

use std::fs;
use std::io::{BufReader, Read};

use flate2::read::GzDecoder;
use zonda_files::trace::{self, TraceRecord};

use crate::lsm::{self, LsmWorkload};
use crate::{BenchError, Result};

/// Multiplies the lengths of the recorded traces to the paper's.
pub const RECORDED_SCALE: u64 = 32;

/// `null_blk`, which the CAZA paper emulates its zones with, makes them a power of two: its hundred zones of 1 GB are of 1 GiB.
pub const ZONE_BYTES: u64 = 1 << 30;

/// What every gzip file begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A trace has at most so many bytes when it is unpacked: a file that unpacks to more is none of ours (I10).
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// How many were recorded.
pub const RECORDED_COUNT: usize = 3;

/// The recorded ones, by number from 1.
const RECORDED: [&[u8]; RECORDED_COUNT] = [
    include_bytes!("../traces/caza-1.trace.gz"),
    include_bytes!("../traces/caza-2.trace.gz"),
    include_bytes!("../traces/caza-3.trace.gz"),
];

/// The trace called `name`: `caza:1` to `caza:3` are recorded, `lsm:SEED` is simulated at the CAZA paper's size, everything else is
/// a file, which may be compressed by gzip.
///
/// # Errors
/// `Usage` for a number that no trace has; `Io`, `Files` for what cannot be read or is no trace.
pub fn read(name: &str) -> Result<Vec<TraceRecord>> {
    if let Some(number) = name.strip_prefix("caza:") {
        let known = number.parse::<usize>().ok().and_then(|number| RECORDED.get(number.checked_sub(1)?));
        let expected = || format!("caza:1 to caza:{}", RECORDED.len());
        let bytes =
            known.ok_or_else(|| BenchError::Usage { option: "trace", given: name.to_owned(), expected: expected() })?;
        return unpacked(bytes);
    }
    if let Some(seed) = name.strip_prefix("lsm:") {
        let expected = || BenchError::Usage {
            option: "trace",
            given: name.to_owned(),
            expected: "lsm:SEED with a number".to_owned(),
        };
        let seed = seed.parse().map_err(|_| expected())?;
        return Ok(lsm::trace(LsmWorkload::of_the_caza_paper(1, seed)));
    }
    let bytes = fs::read(name).map_err(|source| BenchError::io(format!("read {name}"), source))?;
    if bytes.starts_with(&GZIP) { unpacked(&bytes) } else { Ok(trace::read(bytes.as_slice())?) }
}

/// What lengths in the trace called `name` are to be multiplied by unless somebody says otherwise.
#[must_use]
pub fn scale(name: &str) -> u64 {
    if name.starts_with("caza:") { RECORDED_SCALE } else { 1 }
}

/// Bytes of a zone that the trace called `name` is replayed on unless somebody says otherwise: for the CAZA paper's load those of its
/// experiments here.
#[must_use]
pub fn zone_bytes(name: &str) -> u64 {
    if has_load(name) { ZONE_BYTES } else { 1_000_000_000 }
}

/// Whether the trace called `name` is known to have a mark between load and overwrites ([`LOADED`](lsm::LOADED)).
#[must_use]
pub fn has_load(name: &str) -> bool {
    name.starts_with("caza:") || name.starts_with("lsm:")
}

fn unpacked(bytes: &[u8]) -> Result<Vec<TraceRecord>> {
    Ok(trace::read(BufReader::new(GzDecoder::new(bytes).take(UNPACKED_BYTES_MAX)))?)
}

#[cfg(test)]
mod tests {
    use zonda_files::trace::TraceEvent;

    use super::*;

    #[test]
    fn recorded_traces_hold_the_load_that_they_are_named_after() {
        for name in ["caza:1", "caza:2", "caza:3"] {
            let trace = read(name).unwrap();
            let marks =
                trace.iter().filter(|record| matches!(&record.event, TraceEvent::Mark { name } if name == lsm::LOADED));
            assert_eq!(marks.count(), 1, "{name}");
            let bytes =
                |record: &TraceRecord| if let TraceEvent::Append { bytes, .. } = record.event { bytes } else { 0 };
            let written = trace.iter().map(bytes).sum::<u64>() * RECORDED_SCALE;
            assert!(written > 200_000_000_000, "{name}: twice 40 GB and their compactions, not {written}");
        }
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for name in ["caza:0", "caza:9", "caza:", "lsm:x"] {
            assert!(matches!(read(name), Err(BenchError::Usage { .. })), "{name}");
        }
        assert!(matches!(read("/no/such/trace"), Err(BenchError::Io { .. })));
    }

    #[test]
    fn a_file_may_be_compressed_and_must_be_a_trace() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.gz");
        let name = path.to_str().unwrap();
        fs::write(&path, RECORDED[0]).unwrap();
        assert_eq!(read(name).unwrap(), read("caza:1").unwrap());
        fs::write(&path, &RECORDED[0][..RECORDED[0].len() / 2]).unwrap();
        assert!(read(name).is_err(), "half a file");
        fs::write(&path, "nothing").unwrap();
        assert!(matches!(read(name), Err(BenchError::Files(_))));
    }
}
