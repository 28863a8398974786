//! Input formats of `zonda load`: each turns bytes into records, one at a time, in bounded memory.

mod csv;
mod jsonl;
mod lines;
mod sosd;
mod tsv;

use std::io::BufRead;

use clap::ValueEnum;
use zonda::limits::{KEY_BYTES_MAX, TREE_NAME_BYTES_MAX, VALUE_BYTES_MAX};

pub(crate) use self::csv::{Columns, Csv};
pub(crate) use jsonl::Jsonl;
pub(crate) use sosd::Sosd;
pub(crate) use tsv::Tsv;

/// Name of a format on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Key, tab, value; \t \n \r \0 \\ \xHH are escapes
    Tsv,
    /// Comma-separated values with quotes (RFC 4180)
    Csv,
    /// One JSON object per line: {"key":...,"value":...}
    Jsonl,
    /// A count and that many 64-bit keys, as the SOSD data sets have
    Sosd,
}

/// One record of the input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Named tree that the record itself asks for.
    pub(crate) tree: Option<String>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// What a record asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A pair.
    Pair(Record),
    /// A named tree, with or without pairs.
    Tree(String),
}

#[cfg(test)]
impl Entry {
    fn pair(self) -> Record {
        match self {
            Self::Pair(record) => record,
            Self::Tree(name) => panic!("a tree, {name}"),
        }
    }
}

/// A record that cannot be loaded. The reader can go on behind it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadRecord {
    /// Line, or number of the key in a SOSD file, from 1.
    pub(crate) line: u64,
    /// Why not.
    pub(crate) why: String,
}

/// What a reader comes to next.
pub(crate) type Next = std::io::Result<Option<Result<Entry, BadRecord>>>;

/// Reads records one after the other.
pub(crate) trait Records {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// Those of reading the input, behind which nothing can be read.
    fn next_record(&mut self) -> Next;

    /// Bytes of input read so far.
    fn bytes_read(&self) -> u64;

    /// What `BadRecord::line` counts.
    fn unit(&self) -> &'static str {
        "line"
    }
}

impl Record {
    /// # Errors
    /// Says which limit it breaks, with numbers.
    pub(crate) fn check(self) -> Result<Self, String> {
        if self.key.len() > KEY_BYTES_MAX {
            return Err(format!("a key of {} bytes; the limit is {KEY_BYTES_MAX}", self.key.len()));
        }
        if self.value.len() > VALUE_BYTES_MAX {
            return Err(format!("a value of {} bytes; the limit is {VALUE_BYTES_MAX}", self.value.len()));
        }
        self.tree.as_deref().map_or(Ok(()), check_tree)?;
        Ok(self)
    }
}

fn check_tree(name: &str) -> Result<(), String> {
    if (1..=TREE_NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("a tree name of {} bytes; it must have 1 to {TREE_NAME_BYTES_MAX}", name.len()))
}

/// A reader for `format`.
pub(crate) fn reader(format: Format, input: Box<dyn BufRead>, columns: Columns) -> Box<dyn Records> {
    match format {
        Format::Tsv => Box::new(Tsv::new(input)),
        Format::Csv => Box::new(Csv::new(input, columns)),
        Format::Jsonl => Box::new(Jsonl::new(input)),
        Format::Sosd => Box::new(Sosd::new(input)),
    }
}
