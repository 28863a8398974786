//! `zonda load`: many pairs from a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use zonda::{Batch, Db, Tree};
use zonda_rt::Time;

use crate::exit::{BadArgument, Exit};
use crate::formats::{self, BadRecord, Columns, Entry, Format, Record, Records};
use crate::output::say;
use crate::progress;
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda load app.zonda pairs.tsv                            format by the name's ending
  zonda load app.zonda people.csv --key id --value name     columns by their headers
  zonda dump old.zonda | zonda load new.zonda --format jsonl
  zonda load books.zonda books_200M_uint64 --format sosd --memory 1GiB

Formats:
  tsv    key, tab, value; \\t \\n \\r \\0 \\\\ \\xHH are escapes; empty lines are passed over
  csv    the first column is the key, the second the value; other columns are not loaded
  jsonl  {\"key\":\"...\",\"value\":...}; `key_hex`, `value_hex` for bytes; `tree` for a named tree, alone for one without pairs
  sosd   a 64-bit count and that many 64-bit keys, little-endian; stored as 8 bytes, most significant first, so that their order is
         that of numbers; the value is the key's index in the file, 8 bytes likewise

A byte order mark before the first line is passed over. A key that exists gets the new value. Everything is durable when the command
ends.";

/// Writes go to the store in batches of so many pairs or bytes, which the log of any store takes, however short its zones are.
const BATCH_PAIRS: usize = 1024;
const BATCH_BYTES: usize = 16 << 10;
/// Bad records that are named; the rest are only counted.
const NAMED_MAX: u64 = 20;

/// Loads pairs from a file or standard input
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Load {
    #[command(flatten)]
    store: StoreArgs,
    /// The file; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// How the file is written; without it, by the ending of its name
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    tree: TreeArgs,
    /// Pass over records that cannot be read, instead of ending at the first
    #[arg(long)]
    skip_bad: bool,
    /// csv: header of the key's column
    #[arg(long, value_name = "HEADER")]
    key: Option<String>,
    /// csv: header of the value's column
    #[arg(long, value_name = "HEADER")]
    value: Option<String>,
    /// csv: the first line is a header
    #[arg(long)]
    header: bool,
}

impl Load {
    /// # Errors
    /// Those of reading and writing; the first bad record.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let format = self.format()?;
        if format != Format::Csv && (self.key.is_some() || self.value.is_some() || self.header) {
            bail!(BadArgument(format!(
                "--key, --value and --header are for --format csv; {} has no columns",
                self.file.display()
            )));
        }
        let (input, bytes) = open(&self.file)?;
        let columns = Columns { key: self.key, value: self.value, has_header: self.header };
        let db = self.store.open_or_create()?;
        let mut loader = Loader::new(&db, self.tree.of(&db)?, self.skip_bad);
        let bar = progress::of_bytes(bytes);
        let loaded = loader.load(&mut *formats::reader(format, input, columns), &bar);
        bar.finish_and_clear();
        // What was read before an error stays.
        let (flushed, synced) = (loader.flush(), db.sync());
        let is_durable = synced.is_ok();
        loaded.and(flushed.and(synced).map_err(Into::into)).with_context(|| loader.so_far(is_durable))?;
        say(format_args!("{}", loader.summary()));
        drop(loader);
        db.close()?;
        Ok(Exit::Done)
    }

    fn format(&self) -> anyhow::Result<Format> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        match self.file.extension().and_then(|ending| ending.to_str()) {
            Some("tsv") => Ok(Format::Tsv),
            Some("csv") => Ok(Format::Csv),
            Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
            Some("sosd") => Ok(Format::Sosd),
            _ => bail!(BadArgument(format!(
                "{}: the name does not tell the format; give --format tsv, csv, jsonl or sosd",
                self.file.display()
            ))),
        }
    }
}

/// The input, and its length if that is known.
fn open(path: &Path) -> anyhow::Result<(Box<dyn BufRead>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::with_capacity(1 << 20, io::stdin())), None));
    }
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let metadata = file.metadata().with_context(context)?;
    if metadata.is_dir() {
        bail!("cannot read {}: it is a directory", path.display());
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 20, file)), bytes))
}

/// Writes records to a store, a batch at a time.
struct Loader<'a> {
    db: &'a Db,
    tree: Tree,
    /// Trees that records named.
    named: BTreeMap<String, Tree>,
    batch: Batch,
    skip_bad: bool,
    started: Time,
    pairs: u64,
    /// Those of them that the store has taken.
    taken: u64,
    bytes: u64,
    bad: u64,
}

impl<'a> Loader<'a> {
    fn new(db: &'a Db, tree: Tree, skip_bad: bool) -> Self {
        let (named, batch, started) = (BTreeMap::new(), Batch::new(), zonda_rt::now());
        Self { db, tree, named, batch, skip_bad, started, pairs: 0, taken: 0, bytes: 0, bad: 0 }
    }

    fn load(&mut self, records: &mut dyn Records, bar: &ProgressBar) -> anyhow::Result<()> {
        while let Some(record) = records.next_record()? {
            match record {
                Ok(Entry::Pair(record)) => self.put(&record)?,
                Ok(Entry::Tree(name)) => drop(self.named(&name)?),
                Err(bad) if self.skip_bad => self.skip(&bad, records.unit(), bar),
                Err(bad) => bail!("{} {}: {} (--skip-bad passes over such)", records.unit(), bad.line, bad.why),
            }
            if self.pairs.is_multiple_of(BATCH_PAIRS as u64) {
                bar.set_position(records.bytes_read());
                bar.set_message(format!("{} pairs/s", HumanCount(self.pairs_per_second())));
            }
        }
        Ok(())
    }

    fn put(&mut self, record: &Record) -> zonda::Result<()> {
        let bytes = record.key.len() + record.value.len();
        if self.batch.len() >= BATCH_PAIRS || self.batch.len_bytes() + bytes > BATCH_BYTES {
            self.flush()?;
        }
        let tree = match &record.tree {
            None => self.tree.clone(),
            Some(name) => self.named(name)?,
        };
        self.batch.put_in(&tree, &record.key, &record.value);
        (self.pairs, self.bytes) = (self.pairs + 1, self.bytes + bytes as u64);
        Ok(())
    }

    /// The tree called `name`, made if need be.
    fn named(&mut self, name: &str) -> zonda::Result<Tree> {
        if let Some(known) = self.named.get(name) {
            return Ok(known.clone());
        }
        let tree = self.db.tree(name)?;
        self.named.insert(name.to_owned(), tree.clone());
        Ok(tree)
    }

    fn flush(&mut self) -> zonda::Result<()> {
        self.db.write_with(&self.batch, zonda::Durability::Buffered)?;
        self.taken += self.batch.len() as u64;
        self.batch.clear();
        Ok(())
    }

    fn skip(&mut self, bad: &BadRecord, unit: &str, bar: &ProgressBar) {
        self.bad += 1;
        if self.bad <= NAMED_MAX {
            bar.suspend(|| say(format_args!("zonda: {unit} {}: {}", bad.line, bad.why)));
        }
    }

    fn pairs_per_second(&self) -> u64 {
        let micros = zonda_rt::now().since(self.started).as_micros().max(1);
        u64::try_from(u128::from(self.pairs) * 1_000_000 / micros).unwrap_or(u64::MAX)
    }

    /// What is in the store; not all of it where the last of it could not be made durable.
    fn so_far(&self, is_durable: bool) -> String {
        let most = if is_durable { "" } else { "at most " };
        format!("{most}{} pairs before it are loaded", HumanCount(self.taken))
    }

    fn summary(&self) -> String {
        let seconds = zonda_rt::now().since(self.started).as_secs_f64();
        let (pairs, rate) = (HumanCount(self.pairs), HumanCount(self.pairs_per_second()));
        let loaded = format!("{pairs} pairs, {} in {seconds:.1} s: {rate} pairs/s", HumanBytes(self.bytes));
        match self.bad {
            0 => loaded,
            bad => format!("{loaded}; {} bad records passed over", HumanCount(bad)),
        }
    }
}
