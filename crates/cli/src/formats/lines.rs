//! Lines of bounded length.

use std::io::{BufRead, Read, Result};

use zonda::limits::VALUE_BYTES_MAX;

use super::BadRecord;

/// The longest line or record: the longest value with every byte escaped as JSON does at worst, `\u0000`, and room for the rest.
pub(super) const LINE_BYTES_MAX: usize = 6 * VALUE_BYTES_MAX + (1 << 20);

/// A byte order mark, which editors put before the first line; it belongs to none.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// A line and its number, from 1.
pub(crate) type Line<'a> = std::result::Result<(u64, &'a [u8]), BadRecord>;

/// Reads lines without their ends. Holds one line.
pub(crate) struct Lines {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    bytes_read: u64,
}

impl Lines {
    /// The lines of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Self { input, line: Vec::new(), number: 0, bytes_read: 0 }
    }

    /// The next line that is not empty, with its number from 1; a line that is too long is a bad record.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line<'_>>> {
        loop {
            if !self.read()? {
                return Ok(None);
            }
            if self.line.len() > LINE_BYTES_MAX {
                let why = format!("a line of more than {LINE_BYTES_MAX} bytes");
                return Ok(Some(Err(BadRecord { line: self.number, why })));
            }
            if !self.line.is_empty() {
                return Ok(Some(Ok((self.number, &self.line))));
            }
        }
    }

    /// Bytes of input read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn read(&mut self) -> Result<bool> {
        self.line.clear();
        let limit = LINE_BYTES_MAX as u64 + 2;
        let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
        self.bytes_read += read as u64;
        self.number += u64::from(read > 0);
        if self.line.pop_if(|byte| *byte == b'\n').is_none() && self.line.len() > LINE_BYTES_MAX {
            self.bytes_read += self.input.skip_until(b'\n')? as u64;
        }
        self.line.pop_if(|byte| *byte == b'\r');
        if self.number == 1 && self.line.starts_with(MARK) {
            drop(self.line.drain(..MARK.len()));
        }
        Ok(read > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn all(text: &'static [u8]) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Lines::new(Box::new(Cursor::new(text)));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let (number, line) = line.unwrap();
            found.push((number, line.to_vec()));
        }
        assert_eq!(lines.bytes_read(), text.len() as u64);
        found
    }

    #[test]
    fn ends_of_all_kinds() {
        assert_eq!(all(b""), []);
        assert_eq!(all(b"a\r\n\n\nb"), [(1, b"a".to_vec()), (4, b"b".to_vec())]);
        assert_eq!(all(b"a\n"), [(1, b"a".to_vec())]);
    }

    #[test]
    fn a_byte_order_mark_belongs_to_no_line() {
        let marked = b"\xef\xbb\xbfb".to_vec();
        assert_eq!(all(b"\xef\xbb\xbfa\n\xef\xbb\xbfb"), [(1, b"a".to_vec()), (2, marked)], "only the file has one");
        assert_eq!(all(b"\xef\xbb\xbf\n\xef\xbb"), [(2, b"\xef\xbb".to_vec())]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = std::io::repeat(b'x').take(LINE_BYTES_MAX as u64 + 5).chain(&b"\nshort"[..]);
        let mut lines = Lines::new(Box::new(std::io::BufReader::new(long)));
        assert_eq!(lines.next_line().unwrap().unwrap().unwrap_err().line, 1);
        assert_eq!(lines.next_line().unwrap().unwrap().unwrap(), (2, &b"short"[..]));
        assert!(lines.next_line().unwrap().is_none());
    }
}
