//! Traces: what happened to the files of a store, in order and in time, without their bytes.
//!
//! A [`TraceWriter`] is handed to a store with its options; the store then records every change of files and names, and what
//! it is told of LSM-trees ([`crate::lsm`]): whoever calls that has nothing else to do. [`read`] reads a trace back, and
//! [`crate::replay`] runs placement policies over it. The format is text, one record a line: `docs/trace.md`.

mod line;
mod writer;

use std::io::{BufRead, Read};

use crate::lsm::{JobId, JobKind, KeyRange, TreeId};
use crate::{FileError, FileId, FilePath, FileTags, Lifetime, Result};

pub use writer::TraceWriter;

/// The first line of every trace.
pub const TRACE_HEADER: &str = "zonda-trace 1";

/// Bytes of the longest line that is read (I10); those that are written are shorter (`line::lines`).
const LINE_BYTES_MAX: u64 = 16 << 20;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Microseconds since the trace began.
    pub at_us: u64,
    /// What.
    pub event: TraceEvent,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A tree has a number from now on.
    Tree {
        /// The number.
        tree: TreeId,
        /// Name of the order of its keys.
        order: String,
        /// Number of the column family.
        family: u32,
        /// Where its files are.
        directory: FilePath,
    },
    /// A moment that replays can refer to.
    Mark {
        /// Its name: letters, digits, `-`.
        name: String,
    },
    /// A tree was closed or dropped.
    TreeGone {
        /// Which.
        tree: TreeId,
    },
    /// A flush or compaction began.
    JobBegin {
        /// Its number.
        job: JobId,
        /// Of which tree.
        tree: TreeId,
        /// What it does.
        kind: JobKind,
        /// The level that it writes to.
        output_level: Option<u8>,
        /// The tables that it reads.
        inputs: Vec<FileId>,
    },
    /// It ended.
    JobEnd {
        /// Its number.
        job: JobId,
    },
    /// A directory was made.
    MakeDirectory {
        /// Its name.
        path: FilePath,
    },
    /// A file was made; what had its name lost it.
    Create {
        /// Its number.
        file: FileId,
        /// What it is.
        tags: FileTags,
        /// Its name.
        path: FilePath,
    },
    /// A file of before the trace began, with its bytes.
    Existing {
        /// Its number.
        file: FileId,
        /// What it is.
        tags: FileTags,
        /// Its bytes.
        bytes: u64,
        /// Its name.
        path: FilePath,
    },
    /// More is known of how long it will live.
    Retag {
        /// The file.
        file: FileId,
        /// The lifetime.
        lifetime: Lifetime,
        /// The level.
        level: Option<u8>,
    },
    /// What a table holds is known, or a part of that.
    Describe {
        /// The file.
        file: FileId,
        /// Of which tree.
        tree: TreeId,
        /// Written by which job.
        job: Option<JobId>,
        /// For which level.
        level: u8,
        /// Its keys.
        range: Option<KeyRange>,
    },
    /// Bytes were added at the end. Neighbouring appends of a file are one record.
    Append {
        /// The file.
        file: FileId,
        /// How many.
        bytes: u64,
    },
    /// It was cut.
    Truncate {
        /// The file.
        file: FileId,
        /// To so many bytes.
        size: u64,
    },
    /// It is durable.
    Sync {
        /// The file.
        file: FileId,
    },
    /// Its writer is gone.
    Close {
        /// The file.
        file: FileId,
    },
    /// A tree has another version.
    Edit {
        /// Which tree.
        tree: TreeId,
        /// Tables that are not part of it any more; one that is added too was moved.
        removed: Vec<FileId>,
        /// Tables that are, with levels and keys.
        added: Vec<(FileId, u8, KeyRange)>,
    },
    /// A name became another.
    Rename {
        /// The name.
        from: FilePath,
        /// The other.
        to: FilePath,
    },
    /// A file got another name.
    Link {
        /// The file.
        file: FileId,
        /// The name.
        path: FilePath,
    },
    /// A name is gone, of a file or an empty directory.
    Unlink {
        /// The name.
        path: FilePath,
    },
    /// Bytes were read, if reads are traced.
    Read {
        /// The file.
        file: FileId,
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
    },
}

/// Writes records that were made, not recorded.
///
/// # Errors
/// Those of the sink.
pub fn write(records: &[TraceRecord], mut to: impl std::io::Write) -> std::io::Result<()> {
    writeln!(to, "{TRACE_HEADER}")?;
    records.iter().flat_map(line::lines).try_for_each(|line| writeln!(to, "{line}"))?;
    to.flush()
}

/// Reads a whole trace.
///
/// # Errors
/// `BadTrace` with the line, for anything that is no trace (I10).
pub fn read(from: impl BufRead) -> Result<Vec<TraceRecord>> {
    let mut lines = Lines { from, number: 0, line: Vec::new() };
    if lines.next()? != Some(TRACE_HEADER) {
        return Err(lines.bad("a trace begins with `zonda-trace 1`"));
    }
    let mut records = Vec::new();
    while let Some(text) = lines.next()? {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match line::decode(text) {
            Ok(record) => records.push(record),
            Err(why) => return Err(lines.bad(why)),
        }
    }
    Ok(records)
}

/// Lines of bounded length.
struct Lines<R> {
    from: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.from).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        match read {
            Err(_) => return Err(self.bad("it cannot be read")),
            Ok(0) => return Ok(None),
            Ok(_) => {}
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() as u64 == LINE_BYTES_MAX {
            return Err(self.bad("a line is at most 16 MiB long"));
        }
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(FileError::BadTrace { line: self.number, why: "it is not UTF-8" }),
        }
    }

    fn bad(&self, why: &'static str) -> FileError {
        FileError::BadTrace { line: self.number, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let refused = |text: &[u8]| match read(text) {
            Err(FileError::BadTrace { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(b""), 1);
        assert_eq!(refused(b"zonda-trace 2\n"), 1);
        assert_eq!(refused(b"zonda-trace 1\n# well\n5 jump 3\n"), 3);
        assert_eq!(refused(b"zonda-trace 1\n5 sync 3\n\xff\n"), 3);
    }

    #[test]
    fn a_last_line_without_end_counts() {
        let records = read(&b"zonda-trace 1\n5 sync 3"[..]).expect("fine");
        assert_eq!(records, [TraceRecord { at_us: 5, event: TraceEvent::Sync { file: FileId(3) } }]);
    }
}
