//! Where the first record of a write-ahead log ends.

/// Logs of `RocksDB` are blocks of so many bytes; no header of a fragment crosses the end of one.
const BLOCK_BYTES: u64 = 32 << 10;
/// Of a fragment: checksum (4), length (2), type (1); where logs are recycled the log's number (4) follows.
const HEADER_BYTES: usize = 7;
const RECYCLED_HEADER_BYTES: u64 = 11;
/// Types of fragments that have the longer header: those of records, and of what newer versions write in front of records.
const RECYCLED: [u8; 6] = [5, 6, 7, 8, 11, 131];
/// Types of fragments with which a record ends: whole ones and last ones. What stands in front of records, such as how they are compressed,
/// is of other types.
const ENDS: [u8; 4] = [1, 4, 5, 8];

/// Looks for the end in what is appended, in pieces of any length.
#[derive(Debug, Default)]
pub(crate) struct FirstRecord {
    /// Bytes that were seen.
    seen: u64,
    /// Where the next header begins.
    next: u64,
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that were seen.
    filled: usize,
    end: Option<u64>,
}

impl FirstRecord {
    /// Offset of the end, from the beginning of the log; `None` before its last header was seen.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// Takes what is appended next.
    pub(crate) fn see(&mut self, mut bytes: &[u8]) {
        while self.end.is_none() && !bytes.is_empty() {
            let skipped = usize::try_from(self.next.saturating_sub(self.seen)).unwrap_or(usize::MAX).min(bytes.len());
            let taken = (HEADER_BYTES - self.filled).min(bytes.len() - skipped);
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[skipped..skipped + taken]);
            self.filled += taken;
            self.seen += (skipped + taken) as u64;
            bytes = &bytes[skipped + taken..];
            if self.filled == HEADER_BYTES {
                self.pass_fragment();
            }
        }
    }

    fn pass_fragment(&mut self) {
        let [.., low, high, kind] = self.header;
        let header_bytes = if RECYCLED.contains(&kind) { RECYCLED_HEADER_BYTES } else { HEADER_BYTES as u64 };
        let end = self.next + header_bytes + u64::from(u16::from_le_bytes([low, high]));
        self.end = ENDS.contains(&kind).then_some(end);
        let left = BLOCK_BYTES - end % BLOCK_BYTES;
        self.next = if left < header_bytes { end + left } else { end };
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as `RocksDB` writes it behind `log`.
    fn add(log: &mut Vec<u8>, record: usize, is_recycled: bool) {
        let (block, header) = (32 << 10, if is_recycled { 11 } else { 7 });
        let mut left = record;
        loop {
            if block - log.len() % block < header {
                log.resize(log.len().next_multiple_of(block), 0);
            }
            let length = left.min(block - log.len() % block - header);
            let (is_first, is_last) = (left == record, left == length);
            let kind = match (is_first, is_last) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            } + if is_recycled { 4 } else { 0 };
            log.extend([9, 9, 9, 9]);
            log.extend(u16::try_from(length).unwrap().to_le_bytes());
            log.push(kind);
            log.resize(log.len() + header - 7 + length, kind);
            left -= length;
            if left == 0 {
                return;
            }
        }
    }

    fn end_of(log: &[u8], piece: usize) -> Option<u64> {
        let mut first = FirstRecord::default();
        log.chunks(piece).for_each(|piece| first.see(piece));
        first.end()
    }

    #[test]
    fn the_first_record_ends_where_rocksdb_ends_it() {
        let block = 32 << 10;
        for is_recycled in [false, true] {
            // Those before the end of a block leave too little of it for a header.
            for record in [1, 100, block - 20, block - 12, block - 7, block, 3 * block - 30, 1 << 20, 3 << 20] {
                let mut log = Vec::new();
                add(&mut log, record, is_recycled);
                let end = log.len();
                for _ in 0..3 {
                    add(&mut log, 50, is_recycled);
                }
                for piece in [1, 5, 4096, 1 << 20, log.len()] {
                    assert_eq!(end_of(&log, piece), Some(end as u64), "{record} bytes in pieces of {piece}");
                }
                let of_part = end_of(&log[..end.min(6)], 1);
                assert_eq!(of_part, None, "not without a header");
            }
        }
    }

    #[test]
    fn what_stands_in_front_of_records_is_none() {
        // How they are compressed: type 9, four bytes.
        let mut log = [[9_u8; 4].as_slice(), &[4, 0, 9], &[7; 4]].concat();
        assert_eq!(end_of(&log, 3), None);
        add(&mut log, 40, false);
        let end = log.len() as u64;
        add(&mut log, 40, false);
        assert_eq!(end_of(&log, 3), Some(end));
    }
}
