//! Comma-separated values.

use std::cell::RefCell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use csv::{ByteRecord, Reader, ReaderBuilder, StringRecord};

use super::lines::{LINE_BYTES_MAX, MARK};
use super::{BadRecord, Entry, Next, Record, Records};

/// Which columns hold key and value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// Header of the key's column; without it the first.
    pub(crate) key: Option<String>,
    /// Header of the value's column; without it the second.
    pub(crate) value: Option<String>,
    /// Whether the first line is a header; it is if a column is named.
    pub(crate) has_header: bool,
}

/// Reads records with quotes as RFC 4180 has them. Columns besides key and value are not loaded.
pub(crate) struct Csv {
    reader: Reader<Quotes>,
    seen: Rc<RefCell<Seen>>,
    columns: Columns,
    /// Indexes of key and value, once the header is read.
    found: Option<(usize, usize)>,
    record: ByteRecord,
}

impl Csv {
    /// The records of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>, columns: Columns) -> Self {
        let has_header = columns.has_header || columns.key.is_some() || columns.value.is_some();
        let seen = Rc::default();
        let input = Quotes { input, at: 0, seen: Rc::clone(&seen) };
        let reader = ReaderBuilder::new().has_headers(has_header).flexible(true).from_reader(input);
        Self { reader, seen, columns, found: None, record: ByteRecord::new() }
    }

    fn columns(&mut self) -> io::Result<(usize, usize)> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        let named = self.columns.key.is_some() || self.columns.value.is_some();
        let header = if named { self.reader.headers()?.clone() } else { StringRecord::new() };
        let key = column(&header, self.columns.key.as_deref(), 0)?;
        let value = column(&header, self.columns.value.as_deref(), 1)?;
        self.found = Some((key, value));
        Ok((key, value))
    }

    /// The line on which the record begins. Where empty lines come before it, its own position is the first of them: then what
    /// counts is the line behind it, less the line ends within.
    fn line(&self) -> u64 {
        let begun = self.record.position().map_or(0, csv::Position::line);
        let within = self.record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
        begun.max(self.reader.position().line().saturating_sub(within + 1))
    }

    /// Whether the input ends within quotes: the reader takes all of it for a record then.
    fn ends_within_quotes(&self) -> bool {
        let mut seen = self.seen.borrow_mut();
        seen.begin = self.reader.position().byte();
        seen.has_ended && seen.within == Within::Quotes
    }

    fn parse(&self, (key, value): (usize, usize)) -> Result<Record, BadRecord> {
        let line = self.line();
        let field = |index: usize| {
            let field = self.record.get(index).map(<[u8]>::to_vec);
            field.ok_or_else(|| format!("{} columns; column {} is needed", self.record.len(), index + 1))
        };
        let record = field(key).and_then(|key| Ok(Record { tree: None, key, value: field(value)? }));
        record.and_then(Record::check).map_err(|why| BadRecord { line, why })
    }
}

impl Records for Csv {
    fn next_record(&mut self) -> Next {
        let columns = self.columns()?;
        let line = self.reader.position().line();
        let read = self.reader.read_byte_record(&mut self.record).map_err(io::Error::from);
        if !read.map_err(|error| io::Error::new(error.kind(), format!("the record from line {line} on: {error}")))? {
            return Ok(None);
        }
        if self.ends_within_quotes() {
            let why = "a quote that begins here is never closed".to_owned();
            return Ok(Some(Err(BadRecord { line: self.line(), why })));
        }
        Ok(Some(self.parse(columns).map(Entry::Pair)))
    }

    fn bytes_read(&self) -> u64 {
        self.reader.position().byte()
    }
}

/// Where the input stands, as the reader takes it: a quote opens only at the start of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// At the start of a field.
    #[default]
    Start,
    /// In a field without quotes, or behind those of one with.
    Field,
    Quotes,
    /// Behind a quote within quotes: their end, or the first half of one that is meant.
    QuoteInQuotes,
}

impl Within {
    /// Where it stands behind one more byte.
    fn behind(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start | Self::QuoteInQuotes, b'"') => Self::Quotes,
            (Self::Quotes, b'"') => Self::QuoteInQuotes,
            (Self::Quotes, _) => Self::Quotes,
            (_, b',' | b'\n' | b'\r') => Self::Start,
            _ => Self::Field,
        }
    }
}

/// What was seen of the input.
#[derive(Default)]
struct Seen {
    /// Where the record that is being read begins.
    begin: u64,
    within: Within,
    has_ended: bool,
}

/// Follows quotes in what it reads, and ends at a record that is too long: all of one is held in memory.
struct Quotes {
    input: Box<dyn BufRead>,
    at: u64,
    seen: Rc<RefCell<Seen>>,
}

impl Read for Quotes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut seen = self.seen.borrow_mut();
        if self.at - seen.begin > LINE_BYTES_MAX as u64 {
            let why = format!("it has more than {LINE_BYTES_MAX} bytes; is a quote never closed?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let count = self.input.read(into)?;
        let mark = usize::try_from(self.at).ok().and_then(|at| MARK.get(at..)).unwrap_or_default();
        let marked = mark.iter().zip(&into[..count]).take_while(|(mark, byte)| mark == byte).count();
        seen.within = into[marked..count].iter().fold(seen.within, |within, &byte| within.behind(byte));
        seen.has_ended |= count == 0;
        self.at += count as u64;
        Ok(count)
    }
}

fn column(header: &StringRecord, name: Option<&str>, default: usize) -> io::Result<usize> {
    let Some(name) = name else {
        return Ok(default);
    };
    header.iter().position(|field| field == name).ok_or_else(|| {
        let known: Vec<&str> = header.iter().collect();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("no column is called `{name}`; there are {}", known.join(", ")),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(text: &'static str, columns: Columns) -> Vec<Result<(String, String), (u64, String)>> {
        let mut csv = Csv::new(Box::new(Cursor::new(text)), columns);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let mut records = Vec::new();
        while let Some(record) = csv.next_record().unwrap() {
            let pair = record.map(Entry::pair);
            records.push(pair.map(|r| (text(r.key), text(r.value))).map_err(|bad| (bad.line, bad.why)));
        }
        records
    }

    fn pair(key: &str, value: &str) -> Result<(String, String), (u64, String)> {
        Ok((key.to_owned(), value.to_owned()))
    }

    #[test]
    fn the_first_two_columns() {
        let records = read("a,1,x\n\"b,\"\"c\",\"2\n3\"\n", Columns::default());
        assert_eq!(records, [pair("a", "1"), pair("b,\"c", "2\n3")]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_no_value() {
        for text in ["x,1\n1,\"a\n2,b\n3,c\n", "x,1\n1,\"a"] {
            let records = read(text, Columns::default());
            assert_eq!(records.len(), 2, "{text}");
            let (line, why) = records[1].as_ref().unwrap_err();
            assert!(*line == 2 && why.contains("quote"), "{line}: {why}");
        }
        let records = read("a\"b,1\n\"2\",\"x\n\"\"y\"", Columns::default());
        assert_eq!(records, [pair("a\"b", "1"), pair("2", "x\n\"y")]);
    }

    /// Also in the last record, and whether a line end comes behind it or not.
    #[test]
    fn a_quote_within_a_field_opens_nothing() {
        for text in ["6\" nail,1\n7\" nail,2\n", "6\" nail,1\n7\" nail,2", "6\" nail,1\n\"7\"\" nail\",2"] {
            assert_eq!(read(text, Columns::default()), [pair("6\" nail", "1"), pair("7\" nail", "2")], "{text}");
        }
        let marked = read("\u{feff}\"a\",\"b", Columns::default());
        assert!(marked[0].as_ref().unwrap_err().1.contains("quote"), "{marked:?}");
    }

    #[test]
    fn a_record_without_end_is_not_read_into_memory() {
        for (begin, endless) in [("a,1\n", b'x'), ("a,1\n", b'"'), ("", b','), ("a,1\nb,\"2", b'\n')] {
            let input = Cursor::new(begin).chain(io::repeat(endless));
            let mut csv = Csv::new(Box::new(io::BufReader::new(input)), Columns::default());
            let error = loop {
                match csv.next_record() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it has no end"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("on: it has more than") && error.contains("quote"), "{error}");
            assert!(csv.bytes_read() <= 2 * LINE_BYTES_MAX as u64);
        }
    }

    #[test]
    fn quotes_are_counted_over_what_is_read_at_a_time() {
        let long = "\"".repeat(20_001);
        let text: &'static str =
            Box::leak(format!("a,\"{long}\nb,2\n\"c\",\"{}\"\n", "x".repeat(20_000)).into_boxed_str());
        let records = read(text, Columns::default());
        assert_eq!(records[0], pair("a", &"\"".repeat(10_000)));
        assert_eq!(records[1..], [pair("b", "2"), pair("c", &"x".repeat(20_000))]);
    }

    #[test]
    fn columns_by_name() {
        let columns = Columns { key: Some("id".into()), value: Some("name".into()), has_header: false };
        assert_eq!(read("name,age,id\nada,36,7\n", columns), [pair("7", "ada")]);
    }

    #[test]
    fn a_missing_column_names_the_line() {
        let records = read("a,1\n\nlonely\nb,2\n", Columns::default());
        assert_eq!(records.len(), 3);
        assert_eq!(records[1].as_ref().unwrap_err().0, 3);
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let columns = Columns { key: Some("id".into()), ..Columns::default() };
        let error = Csv::new(Box::new(Cursor::new("a,b\n1,2\n")), columns).next_record().unwrap_err();
        assert!(error.to_string().contains("a, b"), "{error}");
    }
}
