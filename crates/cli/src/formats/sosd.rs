//! The binary files of the SOSD data sets: a 64-bit count, then that many 64-bit keys, all little-endian.

use std::io::{BufRead, ErrorKind, Result};

use super::{BadRecord, Entry, Next, Record, Records};

/// Reads keys. Each is stored with its bytes turned around, so that the order of keys is that of numbers; its value is its index in the
/// file, as 8 bytes turned around as well.
pub(crate) struct Sosd {
    input: Box<dyn BufRead>,
    /// Keys that the file promises; `None` until it is read.
    count: Option<u64>,
    keys_read: u64,
    bytes_read: u64,
}

impl Sosd {
    /// The keys of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Self { input, count: None, keys_read: 0, bytes_read: 0 }
    }

    fn count(&mut self) -> Result<Option<u64>> {
        if self.count.is_none() {
            self.count = self.number()?;
        }
        Ok(self.count)
    }

    /// The next number; `None` if the input ends before it does.
    fn number(&mut self) -> Result<Option<u64>> {
        let mut bytes = [0; 8];
        match self.input.read_exact(&mut bytes) {
            Ok(()) => {
                self.bytes_read += bytes.len() as u64;
                Ok(Some(u64::from_le_bytes(bytes)))
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn ends_early(&mut self, why: String) -> Next {
        let line = self.keys_read + 1;
        (self.count, self.keys_read) = (Some(0), 0);
        Ok(Some(Err(BadRecord { line, why })))
    }

    fn at_end(&mut self) -> Next {
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let why = format!("the file goes on behind the {} keys that it promises", self.keys_read);
        self.input = Box::new(std::io::empty());
        Ok(Some(Err(BadRecord { line: self.keys_read + 1, why })))
    }
}

impl Records for Sosd {
    fn next_record(&mut self) -> Next {
        let Some(count) = self.count()? else {
            return self.ends_early("the file ends within its count of keys".to_owned());
        };
        if self.keys_read == count {
            return self.at_end();
        }
        let Some(key) = self.number()? else {
            return self.ends_early(format!("the file ends after {} of {count} keys", self.keys_read));
        };
        let value = self.keys_read.to_be_bytes().to_vec();
        self.keys_read += 1;
        Ok(Some(Ok(Entry::Pair(Record { tree: None, key: key.to_be_bytes().to_vec(), value }))))
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn unit(&self) -> &'static str {
        "key"
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(numbers: &[u64], cut: usize) -> Vec<std::result::Result<Entry, BadRecord>> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.truncate(bytes.len() - cut);
        let mut sosd = Sosd::new(Box::new(Cursor::new(bytes)));
        std::iter::from_fn(|| sosd.next_record().unwrap()).collect()
    }

    #[test]
    fn order_of_keys_is_that_of_numbers() {
        let records = read(&[2, 256, 3], 0);
        let keys: Vec<_> = records.into_iter().map(|record| record.unwrap().pair().key).collect();
        assert_eq!(keys, [[0, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0, 3]]);
    }

    #[test]
    fn a_short_or_long_file_is_noticed() {
        let short = read(&[3, 7, 8], 0);
        assert_eq!(short.len(), 3);
        assert!(short[2].as_ref().unwrap_err().why.contains("2 of 3"), "{short:?}");
        assert_eq!(read(&[2, 7, 8], 3).len(), 2);
        assert!(read(&[1, 7, 8], 0)[1].as_ref().unwrap_err().why.contains("goes on"));
        assert_eq!(read(&[u64::MAX], 0).len(), 1);
        assert_eq!(read(&[1], 5).len(), 1);
        assert_eq!(read(&[0], 0), []);
    }
}
