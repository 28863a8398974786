//! Tab-separated values: key, tab, value.

use std::io::BufRead;

use super::lines::Lines;
use super::{BadRecord, Entry, Next, Record, Records};
use crate::bytes::unescape;

/// Reads `key<TAB>value` lines. The first tab ends the key; further ones belong to the value. Empty lines count for nothing.
pub(crate) struct Tsv {
    lines: Lines,
}

impl Tsv {
    /// The records of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Self { lines: Lines::new(input) }
    }
}

impl Records for Tsv {
    fn next_record(&mut self) -> Next {
        Ok(self.lines.next_line()?.map(|line| {
            let (line, text) = line?;
            parse(text).map(Entry::Pair).map_err(|why| BadRecord { line, why })
        }))
    }

    fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }
}

fn parse(line: &[u8]) -> Result<Record, String> {
    let tab = line.iter().position(|&byte| byte == b'\t').ok_or("no tab between key and value")?;
    let key = unescape(&line[..tab]).map_err(|why| format!("key: {why}"))?.into_owned();
    let value = unescape(&line[tab + 1..]).map_err(|why| format!("value: {why}"))?.into_owned();
    Record { tree: None, key, value }.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_tab_value() {
        let record = parse(b"a\\tb\tc\td\\n").unwrap();
        assert_eq!((record.key.as_slice(), record.value.as_slice()), (&b"a\tb"[..], &b"c\td\n"[..]));
        assert!(parse(b"\t").unwrap().key.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(parse(b"no tab").unwrap_err().contains("no tab"));
        assert!(parse(b"a\\q\tb").unwrap_err().starts_with("key: "));
        assert!(parse(b"a\tb\\").unwrap_err().starts_with("value: "));
        assert!(parse(&[&[b'k'; 1025][..], b"\tv"].concat()).unwrap_err().contains("1024"));
    }
}
