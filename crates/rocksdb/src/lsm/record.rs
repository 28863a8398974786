//! Records of a MANIFEST, which has the format of a write-ahead log: blocks of 32 KiB with fragments in them.

use crate::lsm::Damaged;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// With the number of the log behind the type, in logs that are written over.
const RECYCLABLE_HEADER_BYTES: usize = 11;
/// Added to a rotated checksum, so that a checksum over a checksum is not 0.
const MASK_DELTA: u32 = 0xa282_ead8;

/// Takes a file's bytes in pieces of any size and gives back its records.
///
/// Owned by whoever follows one MANIFEST. Memory: the unfinished block and record, so no more than it was fed. After an error
/// it gives nothing more: what follows cannot be trusted.
#[derive(Debug, Default)]
pub struct RecordReader {
    /// Bytes of the current block from the first unread fragment on.
    waiting: Vec<u8>,
    /// How much of the current block came before these.
    consumed: usize,
    /// Fragments of a record that is not complete.
    partial: Option<Vec<u8>>,
    is_damaged: bool,
}

/// What a fragment is of its record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Full,
    First,
    Middle,
    Last,
    /// Nothing of ours: padding of a preallocated file, or a kind that newer versions write and older ones pass over.
    Ignored,
}

impl RecordReader {
    /// Takes the next bytes of the file; `record` gets every record that they complete.
    ///
    /// # Errors
    /// `Damaged` for a wrong checksum or fragments that do not fit together, at once and from then on; and what `record` says.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        record: &mut dyn FnMut(&[u8]) -> Result<(), Damaged>,
    ) -> Result<(), Damaged> {
        if self.is_damaged {
            return Err(Damaged("the file was damaged before"));
        }
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.consumed - self.waiting.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.waiting.extend_from_slice(now);
            bytes = later;
            self.take_fragments(record).inspect_err(|_| self.is_damaged = true)?;
        }
        Ok(())
    }

    fn take_fragments(&mut self, record: &mut dyn FnMut(&[u8]) -> Result<(), Damaged>) -> Result<(), Damaged> {
        let mut at = 0;
        while let Some(fragment) = Fragment::parse(&self.waiting[at..], BLOCK_BYTES - self.consumed - at)? {
            let payload = at + fragment.header_bytes..at + fragment.header_bytes + fragment.payload_bytes;
            at = payload.end;
            join(&mut self.partial, fragment.part, &self.waiting[payload], record)?;
        }
        self.waiting.drain(..at);
        self.consumed += at;
        let is_block_over = self.consumed + self.waiting.len() == BLOCK_BYTES;
        if is_block_over {
            // What is left is shorter than a header: zeros.
            self.waiting.clear();
            self.consumed = 0;
        }
        Ok(())
    }
}

/// Adds a fragment to its record and gives the record out when it is complete.
fn join(
    partial: &mut Option<Vec<u8>>,
    part: Part,
    payload: &[u8],
    record: &mut dyn FnMut(&[u8]) -> Result<(), Damaged>,
) -> Result<(), Damaged> {
    match (part, partial.take()) {
        (Part::Full, None) => record(payload),
        (Part::First, None) => {
            *partial = Some(payload.to_vec());
            Ok(())
        }
        (Part::Middle | Part::Last, Some(mut begun)) => {
            begun.extend_from_slice(payload);
            if part == Part::Last {
                return record(&begun);
            }
            *partial = Some(begun);
            Ok(())
        }
        (Part::Ignored, begun) => {
            *partial = begun;
            Ok(())
        }
        _ => Err(Damaged("fragments of records do not fit together")),
    }
}

/// Where a fragment's payload is.
struct Fragment {
    part: Part,
    header_bytes: usize,
    payload_bytes: usize,
}

impl Fragment {
    /// The fragment at the front; `None` if it has not arrived as a whole, or if the block ends. `block_left` counts from the
    /// front to the end of the block.
    fn parse(bytes: &[u8], block_left: usize) -> Result<Option<Self>, Damaged> {
        if block_left < HEADER_BYTES || bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        let crc = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let payload_bytes = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let Some((part, header_bytes)) = part_of(bytes[6]) else {
            return Err(Damaged("a fragment of an unknown kind"));
        };
        if header_bytes + payload_bytes > block_left {
            return Err(Damaged("a fragment is longer than its block"));
        }
        if bytes.len() < header_bytes + payload_bytes {
            return Ok(None);
        }
        // The checksum covers the type and all behind it.
        let is_padding = bytes[6] == 0;
        if !is_padding && unmask(crc) != crc32c::crc32c(&bytes[6..header_bytes + payload_bytes]) {
            return Err(Damaged("a fragment does not have its checksum"));
        }
        Ok(Some(Self { part, header_bytes, payload_bytes }))
    }
}

fn part_of(kind: u8) -> Option<(Part, usize)> {
    Some(match kind {
        0 => (Part::Ignored, HEADER_BYTES),
        1 => (Part::Full, HEADER_BYTES),
        2 => (Part::First, HEADER_BYTES),
        3 => (Part::Middle, HEADER_BYTES),
        4 => (Part::Last, HEADER_BYTES),
        5 => (Part::Full, RECYCLABLE_HEADER_BYTES),
        6 => (Part::First, RECYCLABLE_HEADER_BYTES),
        7 => (Part::Middle, RECYCLABLE_HEADER_BYTES),
        8 => (Part::Last, RECYCLABLE_HEADER_BYTES),
        // Newer kinds that may be passed over have the highest bit.
        128.. => (Part::Ignored, HEADER_BYTES),
        _ => return None,
    })
}

fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// Writes records as RocksDB does.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    fn mask(crc: u32) -> u32 {
        crc.rotate_right(15).wrapping_add(MASK_DELTA)
    }

    /// Appends a record to a file.
    pub(crate) fn write(file: &mut Vec<u8>, mut record: &[u8]) {
        let mut is_first = true;
        loop {
            let left = BLOCK_BYTES - file.len() % BLOCK_BYTES;
            if left < HEADER_BYTES {
                file.resize(file.len() + left, 0);
                continue;
            }
            let bytes = record.len().min(left - HEADER_BYTES);
            let (now, later) = record.split_at(bytes);
            let kind = match (is_first, later.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let mut typed = vec![kind];
            typed.extend_from_slice(now);
            file.extend_from_slice(&mask(crc32c::crc32c(&typed)).to_le_bytes());
            file.extend_from_slice(&u16::try_from(bytes).unwrap().to_le_bytes());
            file.extend_from_slice(&typed);
            (record, is_first) = (later, false);
            if record.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(file: &[u8], pieces: &[usize]) -> (Vec<Vec<u8>>, Result<(), Damaged>) {
        let (mut reader, mut records, mut rest) = (RecordReader::default(), Vec::new(), file);
        let mut pieces = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(pieces.next().unwrap().max(1)));
            let fed = reader.feed(now, &mut |record| {
                records.push(record.to_vec());
                Ok(())
            });
            if fed.is_err() {
                return (records, fed);
            }
            rest = later;
        }
        (records, Ok(()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn records_come_back_however_the_file_is_cut(
            sizes in prop::collection::vec(prop_oneof![0..50_usize, 30_000..70_000_usize], 0..6),
            pieces in prop::collection::vec(1..40_000_usize, 0..12),
        ) {
            let records: Vec<Vec<u8>> = sizes.iter().zip(1_u8..).map(|(&size, byte)| vec![byte; size]).collect();
            let mut file = Vec::new();
            records.iter().for_each(|record| testing::write(&mut file, record));
            prop_assert_eq!(read(&file, &pieces), (records, Ok(())));
        }

        #[test]
        fn any_bytes_are_borne(file in prop::collection::vec(any::<u8>(), 0..3000), pieces in prop::collection::vec(1..50_usize, 0..9)) {
            let (records, _) = read(&file, &pieces);
            prop_assert!(records.iter().map(Vec::len).sum::<usize>() <= file.len());
        }

        #[test]
        fn a_changed_byte_is_found(at in 0..100_usize, by in 1..=255_u8) {
            let mut file = Vec::new();
            testing::write(&mut file, &[7; 93]);
            let at = at % file.len();
            file[at] ^= by;
            let (records, _) = read(&file, &[]);
            prop_assert!(records.is_empty());
        }
    }

    #[test]
    fn after_damage_nothing_more_is_read() {
        let mut file = Vec::new();
        testing::write(&mut file, b"one");
        file[8] ^= 1;
        let mut reader = RecordReader::default();
        assert!(reader.feed(&file, &mut |_| Ok(())).is_err());
        let mut good = Vec::new();
        testing::write(&mut good, b"two");
        assert!(reader.feed(&good, &mut |_| panic!("behind damage")).is_err());
    }
}
