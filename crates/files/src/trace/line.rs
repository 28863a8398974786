//! One record of a trace as a line of text: words between single spaces. `docs/trace.md` is the table of them.

use std::collections::HashSet;
use std::fmt::Write;

use super::{TraceEvent, TraceRecord};
use crate::lsm::{JobId, JobKind, KeyRange, TreeId};
use crate::{FileId, FileKind, FilePath, FileTags, Lifetime};

type Decoded<T> = Result<T, &'static str>;

/// A line, without its end.
fn encode(record: &TraceRecord) -> String {
    let mut line = record.at_us.to_string();
    put_event(&mut line, &record.event);
    line
}

fn put_event(line: &mut String, event: &TraceEvent) {
    match event {
        TraceEvent::Tree { tree, order, family, directory } => {
            put(line, &[&"tree", &tree.0, order, family, &escape(directory)]);
        }
        TraceEvent::TreeGone { tree } => put(line, &[&"tree-gone", &tree.0]),
        TraceEvent::Mark { name } => put(line, &[&"mark", name]),
        TraceEvent::JobBegin { job, tree, kind, output_level, inputs } => {
            let kind = match kind {
                JobKind::Flush => "flush",
                JobKind::Compaction => "compaction",
            };
            put(line, &[&"job-begin", &job.0, &tree.0, &kind, &level_word(*output_level)]);
            inputs.iter().for_each(|file| put(line, &[&file.0]));
        }
        TraceEvent::JobEnd { job } => put(line, &[&"job-end", &job.0]),
        TraceEvent::MakeDirectory { path } => put(line, &[&"directory", &escape(path)]),
        TraceEvent::Create { file, tags, path } => {
            put(line, &[&"create", &file.0]);
            put_tags(line, tags);
            put(line, &[&escape(path)]);
        }
        TraceEvent::Existing { file, tags, bytes, path } => {
            put(line, &[&"existing", &file.0]);
            put_tags(line, tags);
            put(line, &[bytes, &escape(path)]);
        }
        TraceEvent::Retag { file, lifetime, level } => {
            put(line, &[&"retag", &file.0, &lifetime_word(*lifetime), &level_word(*level)]);
        }
        TraceEvent::Describe { file, tree, job, level, range } => {
            let job = job.map_or("-".to_owned(), |job| job.0.to_string());
            put(line, &[&"describe", &file.0, &tree.0, &job, level]);
            if let Some(range) = range {
                put(line, &[&Key(&range.smallest), &Key(&range.largest)]);
            }
        }
        TraceEvent::Edit { tree, removed, added } => {
            put(line, &[&"edit", &tree.0]);
            removed.iter().for_each(|file| line.push_str(&format!(" -{}", file.0)));
            for (file, level, range) in added {
                line.push_str(&format!(" +{}:{level}:{}:{}", file.0, Key(&range.smallest), Key(&range.largest)));
            }
        }
        other => put_bytes_event(line, other),
    }
}

fn put_bytes_event(line: &mut String, event: &TraceEvent) {
    match event {
        TraceEvent::Append { file, bytes } => put(line, &[&"append", &file.0, bytes]),
        TraceEvent::Truncate { file, size } => put(line, &[&"truncate", &file.0, size]),
        TraceEvent::Sync { file } => put(line, &[&"sync", &file.0]),
        TraceEvent::Close { file } => put(line, &[&"close", &file.0]),
        TraceEvent::Rename { from, to } => put(line, &[&"rename", &escape(from), &escape(to)]),
        TraceEvent::Link { file, path } => put(line, &[&"link", &file.0, &escape(path)]),
        TraceEvent::Unlink { path } => put(line, &[&"unlink", &escape(path)]),
        TraceEvent::Read { file, offset, bytes } => put(line, &[&"read", &file.0, offset, bytes]),
        _ => unreachable!("the caller has the others"),
    }
}

fn put(line: &mut String, words: &[&dyn std::fmt::Display]) {
    for word in words {
        write!(line, " {word}").expect("a string takes everything");
    }
}

fn put_tags(line: &mut String, tags: &FileTags) {
    put(line, &[&kind_word(tags.kind), &lifetime_word(tags.lifetime), &level_word(tags.level)]);
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Log => "log",
        FileKind::Meta => "meta",
        FileKind::Flushed => "flushed",
        FileKind::Data => "data",
    }
}

fn lifetime_word(lifetime: Lifetime) -> String {
    lifetime.name().replace(' ', "-")
}

fn level_word(level: Option<u8>) -> String {
    level.map_or("-".to_owned(), |level| level.to_string())
}

/// Bytes of a key that a line has; the rest is left out.
pub(super) const KEY_BYTES_MAX: usize = 64 << 10;

/// A key as `x` and hexadecimal digits.
struct Key<'a>(&'a [u8]);

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("x")?;
        self.0.iter().take(KEY_BYTES_MAX).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Bytes that the words of an edit may take in one line, as far as tables are small beside them.
const EDIT_BYTES_MAX: usize = 4 << 20;
/// More than a removed table takes, or an added one without its keys.
const TABLE_BYTES: usize = 32;

/// The lines of a record: one, but of an edit with many tables several, each as a record of its own. A table that was moved is whole in
/// one of them, and those that only go are in the first: what one compaction read dies at once.
pub(super) fn lines(record: &TraceRecord) -> Vec<String> {
    let TraceEvent::Edit { tree, removed, added } = &record.event else { return vec![encode(record)] };
    if (removed.len() + added.len()) * TABLE_BYTES + added.iter().map(key_bytes).sum::<usize>() <= EDIT_BYTES_MAX {
        return vec![encode(record)];
    }
    let all: HashSet<FileId> = removed.iter().copied().collect();
    let moved: HashSet<FileId> = added.iter().map(|(file, ..)| *file).filter(|file| all.contains(file)).collect();
    let edit = |removed, added| {
        let event = TraceEvent::Edit { tree: *tree, removed, added };
        encode(&TraceRecord { at_us: record.at_us, event })
    };
    let mut lines = Vec::new();
    let mut gone: Vec<FileId> = removed.iter().copied().filter(|file| !moved.contains(file)).collect();
    let (mut came, mut bytes) = (Vec::new(), gone.len() * TABLE_BYTES);
    for table in added {
        let of_table = 2 * TABLE_BYTES + key_bytes(table);
        if bytes + of_table > EDIT_BYTES_MAX && bytes > 0 {
            lines.push(edit(std::mem::take(&mut gone), std::mem::take(&mut came)));
            bytes = 0;
        }
        gone.extend(Some(table.0).filter(|file| moved.contains(file)));
        came.push(table.clone());
        bytes += of_table;
    }
    lines.push(edit(gone, came));
    lines
}

/// What the keys of an added table take in a line.
fn key_bytes((_, _, range): &(FileId, u8, KeyRange)) -> usize {
    [&range.smallest, &range.largest].iter().map(|key| 2 * key.len().min(KEY_BYTES_MAX)).sum()
}

/// A path without spaces: these, `%` and control characters are `%` and two digits.
fn escape(path: &FilePath) -> String {
    let mut out = String::new();
    for byte in path.as_str().bytes() {
        if byte <= b' ' || byte == b'%' || byte >= 0x7f {
            write!(out, "%{byte:02x}").expect("a string takes everything");
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// The record of a line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(line: &str) -> Decoded<TraceRecord> {
    let mut words = Words(line.split(' '));
    let at_us = words.number()?;
    let event = event(&mut words)?;
    match words.0.next() {
        None => Ok(TraceRecord { at_us, event }),
        Some(_) => Err("there is something behind the last word"),
    }
}

fn event(words: &mut Words<'_>) -> Decoded<TraceEvent> {
    Ok(match words.word()? {
        "tree" => {
            let (tree, order, family) = (words.tree()?, words.word()?.to_owned(), words.narrow()?);
            TraceEvent::Tree { tree, order, family, directory: words.path()? }
        }
        "mark" => TraceEvent::Mark { name: words.word()?.to_owned() },
        "tree-gone" => TraceEvent::TreeGone { tree: words.tree()? },
        "job-begin" => job_begin(words)?,
        "job-end" => TraceEvent::JobEnd { job: JobId(words.number()?) },
        "directory" => TraceEvent::MakeDirectory { path: words.path()? },
        "create" => TraceEvent::Create { file: words.file()?, tags: words.tags()?, path: words.path()? },
        "existing" => {
            let (file, tags) = (words.file()?, words.tags()?);
            TraceEvent::Existing { file, tags, bytes: words.number()?, path: words.path()? }
        }
        "retag" => TraceEvent::Retag { file: words.file()?, lifetime: words.lifetime()?, level: words.level()? },
        "describe" => describe(words)?,
        "append" => TraceEvent::Append { file: words.file()?, bytes: words.number()? },
        "truncate" => TraceEvent::Truncate { file: words.file()?, size: words.number()? },
        "sync" => TraceEvent::Sync { file: words.file()? },
        "close" => TraceEvent::Close { file: words.file()? },
        "edit" => edit(words)?,
        "rename" => TraceEvent::Rename { from: words.path()?, to: words.path()? },
        "link" => TraceEvent::Link { file: words.file()?, path: words.path()? },
        "unlink" => TraceEvent::Unlink { path: words.path()? },
        "read" => TraceEvent::Read { file: words.file()?, offset: words.number()?, bytes: words.number()? },
        _ => return Err("no event has this name"),
    })
}

fn job_begin(words: &mut Words<'_>) -> Decoded<TraceEvent> {
    let (job, tree) = (JobId(words.number()?), words.tree()?);
    let kind = match words.word()? {
        "flush" => JobKind::Flush,
        "compaction" => JobKind::Compaction,
        _ => return Err("a job is a flush or a compaction"),
    };
    let output_level = words.level()?;
    let inputs = words.0.by_ref().map(|word| number(word).map(FileId)).collect::<Decoded<_>>()?;
    Ok(TraceEvent::JobBegin { job, tree, kind, output_level, inputs })
}

fn describe(words: &mut Words<'_>) -> Decoded<TraceEvent> {
    let (file, tree) = (words.file()?, words.tree()?);
    let job = match words.word()? {
        "-" => None,
        job => Some(JobId(number(job)?)),
    };
    let level = words.narrow()?;
    let range = match words.0.next() {
        None => None,
        Some(smallest) => Some(KeyRange { smallest: key(smallest)?, largest: key(words.word()?)? }),
    };
    Ok(TraceEvent::Describe { file, tree, job, level, range })
}

fn edit(words: &mut Words<'_>) -> Decoded<TraceEvent> {
    let tree = words.tree()?;
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for word in words.0.by_ref() {
        match (word.strip_prefix('-'), word.strip_prefix('+')) {
            (Some(file), _) => removed.push(FileId(number(file)?)),
            (_, Some(table)) => added.push(added_table(table)?),
            _ => return Err("an edit adds with `+` and removes with `-`"),
        }
    }
    Ok(TraceEvent::Edit { tree, removed, added })
}

fn added_table(word: &str) -> Decoded<(FileId, u8, KeyRange)> {
    let mut parts = Words(word.split(':'));
    // Four parts between colons: what is behind the last one makes its key bad.
    let (file, level) = (parts.file()?, parts.narrow()?);
    let range = KeyRange { smallest: key(parts.word()?)?, largest: key(parts.word()?)? };
    match parts.0.next() {
        None => Ok((file, level, range)),
        Some(_) => Err("an added table has four parts"),
    }
}

/// The words of a line that are left.
struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Decoded<&'a str> {
        self.0.next().ok_or("the line is too short")
    }

    fn number(&mut self) -> Decoded<u64> {
        number(self.word()?)
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Decoded<T> {
        T::try_from(self.number()?).map_err(|_| "a number is too large")
    }

    fn file(&mut self) -> Decoded<FileId> {
        self.number().map(FileId)
    }

    fn tree(&mut self) -> Decoded<TreeId> {
        self.narrow().map(TreeId)
    }

    fn level(&mut self) -> Decoded<Option<u8>> {
        match self.word()? {
            "-" => Ok(None),
            level => u8::try_from(number(level)?).map(Some).map_err(|_| "a number is too large"),
        }
    }

    fn lifetime(&mut self) -> Decoded<Lifetime> {
        let word = self.word()?;
        Lifetime::ALL.into_iter().find(|known| lifetime_word(*known) == word).ok_or("no lifetime has this name")
    }

    fn tags(&mut self) -> Decoded<FileTags> {
        let word = self.word()?;
        let kind = FileKind::ALL.into_iter().find(|known| kind_word(*known) == word);
        let kind = kind.ok_or("no kind of file has this name")?;
        Ok(FileTags { kind, lifetime: self.lifetime()?, level: self.level()? })
    }

    fn path(&mut self) -> Decoded<FilePath> {
        let word = self.word()?;
        let mut bytes = Vec::with_capacity(word.len());
        let mut rest = word.as_bytes();
        while let Some((&first, behind)) = rest.split_first() {
            rest = behind;
            if first == b'%' {
                let digits = rest.get(..2).ok_or("a path ends within an escape")?;
                bytes.push(hex_byte(digits)?);
                rest = &rest[2..];
            } else {
                bytes.push(first);
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| "a path is not UTF-8")?;
        FilePath::parse(&text).map_err(|_| "a path is none")
    }
}

fn number(word: &str) -> Decoded<u64> {
    word.parse().map_err(|_| "a number was expected")
}

fn key(word: &str) -> Decoded<Vec<u8>> {
    let digits = word.strip_prefix('x').ok_or("a key begins with `x`")?;
    digits.as_bytes().chunks(2).map(hex_byte).collect()
}

fn hex_byte(digits: &[u8]) -> Decoded<u8> {
    let digit = |at: usize| digits.get(at).and_then(|&digit| char::from(digit).to_digit(16));
    let byte = digit(0).zip(digit(1)).map(|(high, low)| high * 16 + low).ok_or("hexadecimal digits come in pairs")?;
    Ok(u8::try_from(byte).expect("two digits"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<TraceEvent> {
        let path = |text| FilePath::parse(text).expect("a good path");
        let (file, tree, job) = (FileId(7), TreeId(1), JobId(4));
        let range = KeyRange::new([0, 255], []);
        let tags = FileTags::of(FileKind::Data).with_level(3);
        vec![
            TraceEvent::Tree { tree, order: "bytewise".into(), family: 2, directory: path("/d b/100%") },
            TraceEvent::TreeGone { tree },
            TraceEvent::Mark { name: "load-done".into() },
            TraceEvent::JobBegin {
                job,
                tree,
                kind: JobKind::Compaction,
                output_level: Some(2),
                inputs: vec![file, FileId(8)],
            },
            TraceEvent::JobBegin { job, tree, kind: JobKind::Flush, output_level: None, inputs: Vec::new() },
            TraceEvent::JobEnd { job },
            TraceEvent::MakeDirectory { path: path("/d") },
            TraceEvent::Create { file, tags, path: path("/d/ü.sst") },
            TraceEvent::Existing { file, tags, bytes: 9, path: path("/d/8.sst") },
            TraceEvent::Retag { file, lifetime: Lifetime::Extreme, level: None },
            TraceEvent::Describe { file, tree, job: Some(job), level: 3, range: Some(range.clone()) },
            TraceEvent::Describe { file, tree, job: None, level: 0, range: None },
            TraceEvent::Append { file, bytes: 1 << 40 },
            TraceEvent::Truncate { file, size: 0 },
            TraceEvent::Sync { file },
            TraceEvent::Close { file },
            TraceEvent::Edit { tree, removed: vec![file], added: vec![(FileId(8), 1, range)] },
            TraceEvent::Rename { from: path("/a"), to: path("/b") },
            TraceEvent::Link { file, path: path("/c") },
            TraceEvent::Unlink { path: path("/c") },
            TraceEvent::Read { file, offset: 4, bytes: 5 },
        ]
    }

    #[test]
    fn every_event_comes_back() {
        for (at_us, event) in (0..).zip(all()) {
            let record = TraceRecord { at_us, event };
            assert_eq!(decode(&encode(&record)).as_ref(), Ok(&record), "{}", encode(&record));
        }
    }

    #[test]
    fn a_line_reads_well() {
        let event = TraceEvent::Edit {
            tree: TreeId(0),
            removed: vec![FileId(3)],
            added: vec![(FileId(3), 2, KeyRange::new("ab", "c"))],
        };
        assert_eq!(encode(&TraceRecord { at_us: 17, event }), "17 edit 0 -3 +3:2:x6162:x63");
    }

    /// As when a database with many tables and long keys is opened.
    #[test]
    fn a_large_edit_is_several_lines_that_are_read_back() {
        let key = |file: u64| vec![u8::try_from(file % 251).expect("a byte"); 1 << 10];
        let table = |file: u64| (FileId(file), 6, KeyRange::new(key(file), key(file + 1)));
        // The first half of them was moved, and some are gone.
        let added: Vec<_> = (0..5_000).map(table).collect();
        let removed: Vec<_> = (0..2_500).chain(9_000..9_100).map(FileId).collect();
        let event = TraceEvent::Edit { tree: TreeId(3), removed: removed.clone(), added: added.clone() };
        let mut written = Vec::new();
        super::super::write(&[TraceRecord { at_us: 5, event }], &mut written).expect("to memory");
        let (mut came, mut went) = (Vec::new(), HashSet::new());
        for (at, record) in super::super::read(written.as_slice()).expect("a trace").into_iter().enumerate() {
            let TraceEvent::Edit { tree: TreeId(3), removed, added } = record.event else { panic!("{record:?}") };
            let here: HashSet<FileId> = added.iter().map(|(file, ..)| *file).collect();
            let is_whole = |file: &FileId| here.contains(file) == (file.0 < 5_000) && (file.0 < 5_000 || at == 0);
            assert!(record.at_us == 5 && removed.iter().all(is_whole), "record {at}: {removed:?}");
            assert!(here.iter().all(|file| (file.0 < 2_500) == removed.contains(file)), "record {at}");
            came.extend(added);
            went.extend(removed);
        }
        assert_eq!((came, went), (added, removed.into_iter().collect()));
    }

    #[test]
    fn of_a_very_long_key_a_line_has_the_beginning() {
        let range = Some(KeyRange::new(vec![7; 9 << 20], vec![8; 9 << 20]));
        let event = TraceEvent::Describe { file: FileId(7), tree: TreeId(1), job: None, level: 3, range };
        let mut written = Vec::new();
        super::super::write(&[TraceRecord { at_us: 5, event }], &mut written).expect("to memory");
        let records = super::super::read(written.as_slice()).expect("a trace");
        let [TraceRecord { event: TraceEvent::Describe { range: Some(range), .. }, .. }] = &records[..] else {
            panic!("{} records", records.len())
        };
        assert_eq!((range.smallest.len(), range.largest.len()), (KEY_BYTES_MAX, KEY_BYTES_MAX));
    }

    proptest! {
        #[test]
        fn any_line_is_a_record_or_none(words in prop::collection::vec("[a-z0-9x:+%-]{0,9}", 0..8), which in 0_usize..21, cut in 0_usize..90) {
            let _ = decode(&words.join(" "));
            let line = encode(&TraceRecord { at_us: 1, event: all().swap_remove(which) });
            let _ = decode(line.get(..cut.min(line.len())).unwrap_or_default());
            let _ = decode(&format!("{line} {}", words.join(" ")));
        }
    }
}
