//! The value log: large values, written once to an area of their own, named by pointers in leaves and log.
//!
//! ```text
//! value   := chunk+                               segments of the value in order
//! chunk   := ValueChunkHeader key bytes           the key, so that reclaim can ask the tree whether it is live
//! pointer := number(total_bytes) number(segment_bytes) crc32c(4, of the value) place+
//! place   := number(zigzag(block delta)) number(zigzag(generation delta))      to the place before; the first ones are absolute
//! ```
//!
//! Costs: a value takes its bytes, 16 bytes and its key per segment of at most 1 MiB, and the padding of each chunk to
//! blocks: a value of 1 byte costs a whole block, so small values belong into the leaf. Writing a value is one device
//! write per segment, reading it one device read per segment, those of a value and of several values in flight together.

use std::sync::Arc;

use zerocopy::IntoBytes;
use zonda_pages::{Area, AreaKind, ChunkAddress, PageStore, SegmentId, chunk_blocks};

use crate::TreeError;
use crate::codec::{Reader, put_number};
use crate::format::{CHUNK_VERSION, VALUE_MAGIC, ValueChunkHeader, split_header};
use crate::limits::{SEGMENT_POINTER_BYTES_MAX, VALUE_BYTES_MAX};

type Result<T> = std::result::Result<T, TreeError>;

/// Bytes of a value in one chunk, where the area's chunks are long enough.
const SEGMENT_BYTES_MAX: usize = 1 << 20;

/// Where a chunk is. With the segment it stays the only chunk of this name when its zone is reset and filled again, so that releasing
/// one that reclaim has moved long ago takes nothing from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its first block.
    pub(crate) at: ChunkAddress,
    /// The segment that holds it: in the zoned store the zone's generation.
    pub(crate) segment: SegmentId,
}

/// Where a value is. Encoded it takes at most 200 bytes for 16 MiB (some 60 when its chunks lie one behind the other), if the area
/// takes chunks of 1 MiB; in areas of shorter chunks at most 12 bytes per chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuePointer {
    total_bytes: u32,
    segment_bytes: u32,
    crc: u32,
    places: Vec<Place>,
}

impl ValuePointer {
    /// Appends the encoded pointer: the value of a record of kind `Pointer`.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        put_number(into, self.total_bytes.into());
        put_number(into, self.segment_bytes.into());
        into.extend_from_slice(&self.crc.to_le_bytes());
        let mut before: Option<&Place> = None;
        for place in &self.places {
            put_difference(into, place.at.0, before.map(|before| before.at.0));
            put_difference(into, place.segment.0, before.map(|before| before.segment.0));
            before = Some(place);
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// `Damaged` for any other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("value pointer", bytes);
        let (total_bytes, segment_bytes) = (reader.number32()?, reader.number32()?);
        let crc = reader.take(4)?.try_into().expect("4 bytes were taken");
        let count = segment_count(total_bytes, segment_bytes);
        let Some(count) = count.filter(|&count| count <= reader.rest().len() / 2) else {
            return Err(reader.damaged(format!("{total_bytes} bytes in segments of {segment_bytes}")));
        };
        let mut places: Vec<Place> = Vec::with_capacity(count);
        for _ in 0..count {
            let before = places.last().copied();
            let at = ChunkAddress(take_difference(&mut reader, before.map(|before| before.at.0))?);
            let segment = SegmentId(take_difference(&mut reader, before.map(|before| before.segment.0))?);
            places.push(Place { at, segment });
        }
        if !reader.is_empty() {
            return Err(reader.damaged(format!("{} bytes too many", reader.rest().len())));
        }
        Ok(Self { total_bytes, segment_bytes, crc: u32::from_le_bytes(crc), places })
    }

    /// Bytes of the value.
    pub(crate) fn total_bytes(&self) -> usize {
        self.total_bytes as usize
    }

    /// The chunks, and the payload bytes of each, for a value of a key of `key_bytes` bytes: what to read, and what
    /// dies with the value (`PageStore::release_value`).
    pub(crate) fn chunks(&self, key_bytes: usize) -> impl Iterator<Item = (Place, usize)> + '_ {
        let head = size_of::<ValueChunkHeader>() + key_bytes;
        let starts = (0_u32..).map(|index| index.saturating_mul(self.segment_bytes));
        let part = move |start: u32| self.total_bytes.saturating_sub(start).min(self.segment_bytes);
        self.places.iter().zip(starts).map(move |(&place, start)| (place, head + part(start) as usize))
    }

    /// Whether chunk `at` is part of the value.
    pub(crate) fn refers_to(&self, at: ChunkAddress) -> bool {
        self.places.iter().any(|place| place.at == at)
    }

    /// Puts `new` in the place of chunk `old`. `false`: the value has no such chunk, it is dead there.
    pub(crate) fn replace(&mut self, old: ChunkAddress, new: Place) -> bool {
        let found = self.places.iter_mut().find(|place| place.at == old);
        found.map(|place| *place = new).is_some()
    }
}

/// Chunks of a value; `None` if there is no such value. An empty value has one.
fn segment_count(total_bytes: u32, segment_bytes: u32) -> Option<usize> {
    let sound = segment_bytes > 0 && total_bytes as usize <= VALUE_BYTES_MAX;
    sound.then(|| total_bytes.div_ceil(segment_bytes).max(1) as usize)
}

/// Small for differences of either sign.
const fn zigzag(delta: u64) -> u64 {
    delta << 1 ^ (delta.cast_signed() >> 63).cast_unsigned()
}

const fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Writes a number as its difference to the one before, if there is one.
fn put_difference(into: &mut Vec<u8>, number: u64, before: Option<u64>) {
    put_number(into, before.map_or(number, |before| zigzag(number.wrapping_sub(before))));
}

/// Reads what [`put_difference`] wrote.
fn take_difference(reader: &mut Reader<'_>, before: Option<u64>) -> Result<u64> {
    let number = reader.number()?;
    Ok(before.map_or(number, |before| unzigzag(number).wrapping_add(before)))
}

/// A chunk as reclaim finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueChunk<'a> {
    /// The key that the value belonged to when it was written.
    pub(crate) key: &'a [u8],
    /// Which segment of the value this is.
    pub(crate) segment: u32,
    /// Bytes of the whole value.
    pub(crate) total_bytes: u32,
    /// The segment's bytes.
    pub(crate) bytes: &'a [u8],
}

/// Reads a chunk's payload.
///
/// # Errors
/// `Damaged` when it is none.
pub(crate) fn parse_chunk(payload: &[u8]) -> Result<ValueChunk<'_>> {
    let (header, body) = split_header::<ValueChunkHeader>(payload)?;
    let split = body.split_at_checked(header.key_bytes.get().into());
    let (key, bytes) =
        split.ok_or_else(|| damaged(format!("{} bytes hold no key of {}", body.len(), header.key_bytes)))?;
    Ok(ValueChunk { key, segment: header.segment.get(), total_bytes: header.total_bytes.get(), bytes })
}

/// The bytes in the chunk that was read at a place, if it is that segment of the value of that key and length.
fn part_of<'p>(
    payload: &'p [u8],
    (key, segment, total_bytes): (&[u8], u32, u32),
    (at, payload_bytes): (ChunkAddress, usize),
) -> Result<&'p [u8]> {
    let chunk = parse_chunk(payload)?;
    let found = (chunk.key, chunk.segment, chunk.total_bytes, payload.len());
    if found == (key, segment, total_bytes, payload_bytes) {
        return Ok(chunk.bytes);
    }
    Err(damaged(format!("I5 block {} holds segment {} of another value", at.0, chunk.segment)))
}

fn damaged(why: String) -> TreeError {
    TreeError::Damaged { what: "value", why }
}

/// Writes and reads large values.
///
/// The log flushes the values area before it writes a record that points into it (*values first*), so a durable pointer
/// always finds its value.
pub(crate) struct ValueLog {
    store: Arc<dyn PageStore>,
}

impl ValueLog {
    /// The value log of a store.
    pub(crate) fn new(store: Arc<dyn PageStore>) -> Self {
        Self { store }
    }

    /// Writes a value; durable after the next flush of the area. Must be called with no latch held.
    ///
    /// # Errors
    /// `ValueTooLong` and `NoSpace`; those of the area. The chunks that were written are released again.
    pub(crate) fn write(&self, key: &[u8], value: &[u8]) -> Result<ValuePointer> {
        let (bytes, bytes_max) = (value.len(), VALUE_BYTES_MAX);
        let total_bytes = u32::try_from(bytes).ok().filter(|_| bytes <= bytes_max);
        let total_bytes = total_bytes.ok_or(TreeError::ValueTooLong { bytes, bytes_max })?;
        let segment_bytes = self.segment_bytes(key.len())?;
        let mut pointer = ValuePointer { total_bytes, segment_bytes, crc: crc32c::crc32c(value), places: Vec::new() };
        let outcome = self.write_segments(key, value, &mut pointer);
        outcome.inspect_err(|_| self.release(key.len(), &pointer)).map(|()| pointer)
    }

    fn write_segments(&self, key: &[u8], value: &[u8], pointer: &mut ValuePointer) -> Result<()> {
        let segment_bytes = pointer.segment_bytes as usize;
        let count = segment_count(pointer.total_bytes, pointer.segment_bytes).expect("both were checked");
        let mut payload =
            Vec::with_capacity(size_of::<ValueChunkHeader>() + key.len() + segment_bytes.min(value.len()));
        for (segment, start) in (0_u32..).zip((0..count).map(|index| index * segment_bytes)) {
            let header = ValueChunkHeader {
                magic: VALUE_MAGIC,
                version: CHUNK_VERSION.into(),
                key_bytes: u16::try_from(key.len()).expect("the segment's size was computed from it").into(),
                segment: segment.into(),
                total_bytes: pointer.total_bytes.into(),
            };
            payload.clear();
            payload.extend_from_slice(header.as_bytes());
            payload.extend_from_slice(key);
            payload.extend_from_slice(&value[start..value.len().min(start + segment_bytes)]);
            pointer.places.push(self.write_chunk(&payload)?);
        }
        Ok(())
    }

    /// Bytes of a value that fit a chunk beside the key.
    fn segment_bytes(&self, key_bytes: usize) -> Result<u32> {
        let bytes_max = usize::from(u16::MAX);
        if key_bytes > bytes_max {
            return Err(TreeError::KeyTooLong { bytes: key_bytes, bytes_max });
        }
        let chunk_bytes_max = self.area().chunk_bytes_max();
        let room = chunk_bytes_max.checked_sub(size_of::<ValueChunkHeader>() + key_bytes).filter(|room| *room > 0);
        let why = || format!("a value chunk of {chunk_bytes_max} bytes holds no key of {key_bytes}");
        let room = room.ok_or_else(|| TreeError::BadOption { name: "zone size", why: why() })?;
        Ok(u32::try_from(room.min(SEGMENT_BYTES_MAX)).expect("at most 1 MiB"))
    }

    /// Blocks that a value takes: each of its chunks is padded.
    ///
    /// # Errors
    /// `KeyTooLong`, `BadOption` where no chunk holds the key.
    pub(crate) fn blocks(&self, key_bytes: usize, value_bytes: usize) -> Result<u32> {
        let segment_bytes = self.segment_bytes(key_bytes)? as usize;
        let blocks = |part: usize| chunk_blocks(size_of::<ValueChunkHeader>() + key_bytes + part);
        let (full, rest) = (value_bytes / segment_bytes, value_bytes % segment_bytes);
        let last = if rest > 0 || full == 0 { blocks(rest) } else { 0 };
        Ok(u32::try_from(full as u64 * blocks(segment_bytes) + last).unwrap_or(u32::MAX / 4))
    }

    /// The most bytes that the encoded pointer to a value of `value_bytes` takes.
    ///
    /// # Errors
    /// As [`blocks`](Self::blocks).
    pub(crate) fn pointer_bytes_max(&self, key_bytes: usize, value_bytes: usize) -> Result<usize> {
        let segment_bytes = self.segment_bytes(key_bytes)? as usize;
        Ok(SEGMENT_POINTER_BYTES_MAX * value_bytes.div_ceil(segment_bytes).max(1))
    }

    /// The value, if every chunk is the one that was written for `key` (I5). One device read per segment, all of them in flight together.
    ///
    /// # Errors
    /// `Damaged` when something else is there; those of the area.
    pub(crate) fn read(&self, key: &[u8], pointer: &ValuePointer) -> Result<Vec<u8>> {
        Ok(self.read_many(&[(key, pointer)])?.pop().expect("a value for each pointer"))
    }

    /// As [`read`](Self::read) for several keys: the reads of all their segments are in flight together.
    ///
    /// # Errors
    /// As `read`, if one of them cannot be read.
    pub(crate) fn read_many(&self, wanted: &[(&[u8], &ValuePointer)]) -> Result<Vec<Vec<u8>>> {
        let (mut chunks, mut parts) = (Vec::new(), Vec::new());
        for (nth, (key, pointer)) in wanted.iter().enumerate() {
            for (segment, (place, payload_bytes)) in (0_u32..).zip(pointer.chunks(key.len())) {
                chunks.push((place.at, payload_bytes));
                parts.push((nth, segment));
            }
        }
        let mut values: Vec<Vec<u8>> =
            wanted.iter().map(|(_, pointer)| vec![0; pointer.total_bytes as usize]).collect();
        let mut outcome = Ok(());
        self.area().read_chunks(&chunks, &mut |index, payload| {
            let ((nth, segment), at) = (parts[index], chunks[index]);
            let (key, pointer) = wanted[nth];
            let part = part_of(payload, (key, segment, pointer.total_bytes), at);
            match part {
                Ok(bytes) => {
                    let start = segment as usize * pointer.segment_bytes as usize;
                    values[nth][start..start + bytes.len()].copy_from_slice(bytes);
                }
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome?;
        for ((_, pointer), value) in wanted.iter().zip(&values) {
            let crc = crc32c::crc32c(value);
            if crc != pointer.crc {
                return Err(damaged(format!("I5 checksum {crc:#010x} of the value is not {:#010x}", pointer.crc)));
            }
        }
        Ok(values)
    }

    /// Writes a chunk: a new one, or as it is one that reclaim found live; the pointer that then names it is logged like a put.
    ///
    /// # Errors
    /// Those of the area.
    pub(crate) fn write_chunk(&self, payload: &[u8]) -> Result<Place> {
        let (at, segment) = self.area().append(payload)?;
        Ok(Place { at, segment })
    }

    /// The value of a key of `key_bytes` bytes is dead.
    pub(crate) fn release(&self, key_bytes: usize, pointer: &ValuePointer) {
        for (place, payload_bytes) in pointer.chunks(key_bytes) {
            self.store.release_value(place.at, place.segment, payload_bytes as u64);
        }
    }

    /// `old` is replaced by `new`, with which it may share chunks that reclaim did not move.
    pub(crate) fn release_replaced(&self, key_bytes: usize, old: &ValuePointer, new: &ValuePointer) {
        for (place, payload_bytes) in old.chunks(key_bytes).filter(|(place, _)| !new.places.contains(place)) {
            self.store.release_value(place.at, place.segment, payload_bytes as u64);
        }
    }

    fn area(&self) -> &dyn Area {
        self.store.area(AreaKind::Values)
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zonda_rt::Rng;

    use super::*;
    use crate::testing::{MemOptions, MemStore};

    fn value_log(options: MemOptions) -> (Arc<MemStore>, ValueLog) {
        let store = MemStore::new(options);
        (Arc::clone(&store), ValueLog::new(store))
    }

    fn random(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Rng::seeded(len as u64).fill(&mut bytes);
        bytes
    }

    fn place(block: u64, segment: u64) -> Place {
        Place { at: ChunkAddress(block), segment: SegmentId(segment) }
    }

    fn encoded(pointer: &ValuePointer) -> Vec<u8> {
        let mut bytes = Vec::new();
        pointer.encode(&mut bytes);
        bytes
    }

    #[test]
    fn blocks_are_those_that_a_value_is_written_to() {
        let (_, log) = value_log(MemOptions::default());
        let segment_bytes = log.segment_bytes(8).unwrap() as usize;
        let around = |bytes: usize| [bytes - 1, bytes, bytes + 1];
        let lengths = [0, 1, 13]
            .into_iter()
            .chain(around(4096 - 48))
            .chain(around(segment_bytes))
            .chain(around(3 * segment_bytes));
        for bytes in lengths {
            let pointer = log.write(b"8 bytes.", &vec![7; bytes]).unwrap();
            let blocks: u64 = pointer.chunks(8).map(|(_, payload_bytes)| chunk_blocks(payload_bytes)).sum();
            assert_eq!(u64::from(log.blocks(8, bytes).unwrap()), blocks, "{bytes} bytes");
        }
        assert_eq!(log.blocks(8, 13).unwrap(), 1, "a block to itself");
    }

    #[test]
    fn values_of_all_sizes_come_back_through_an_encoded_pointer() {
        let (_, values) = value_log(MemOptions::default());
        for len in [0, 1, SEGMENT_BYTES_MAX - 1, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MAX + 1, VALUE_BYTES_MAX] {
            let value = random(len);
            let pointer = values.write(b"key", &value).expect("room");
            let bytes = encoded(&pointer);
            assert!(bytes.len() <= 200, "a pointer of {} bytes for {len}", bytes.len());
            let pointer = ValuePointer::decode(&bytes).expect("just encoded");
            assert_eq!(pointer.total_bytes as usize, len);
            assert!(values.read(b"key", &pointer).expect("sound") == value);
        }
        let error = values.write(b"key", &random(VALUE_BYTES_MAX + 1)).expect_err("too long");
        assert!(matches!(error, TreeError::ValueTooLong { .. }), "{error}");
    }

    #[test]
    fn short_chunks_make_more_segments() {
        let (store, values) = value_log(MemOptions { chunk_bytes_max: 1019, segment_blocks: 8 });
        let value = random(5000);
        let pointer = values.write(b"key", &value).expect("room");
        assert_eq!(store.mem_area(AreaKind::Values).payloads().len(), 5);
        assert_eq!(values.read(b"key", &pointer).expect("sound"), value);
        assert_eq!(pointer.chunks(3).map(|(_, bytes)| bytes).sum::<usize>(), 5000 + 5 * (16 + 3));
    }

    #[test]
    fn segments_of_several_values_are_asked_for_together() {
        let (store, values) = value_log(MemOptions { chunk_bytes_max: 1019, segment_blocks: 8 });
        let keys: Vec<Vec<u8>> = (1..=5).map(|len| vec![b'k'; len]).collect();
        let written: Vec<_> = (keys.iter().zip([3_000, 0, 1, 1_000, 2_000]))
            .map(|(key, len)| (random(len), values.write(key, &random(len)).expect("room")))
            .collect();
        let wanted: Vec<_> = keys.iter().zip(&written).map(|(key, (_, pointer))| (key.as_slice(), pointer)).collect();
        let segments: usize = written.iter().map(|(_, pointer)| pointer.places.len()).sum();
        let read = values.read_many(&wanted).expect("sound");
        assert!(read.iter().eq(written.iter().map(|(value, _)| value)));
        assert!(segments > 8);
        assert_eq!(store.mem_area(AreaKind::Values).most_together(), segments);
        assert_eq!(values.read_many(&[]).expect("nothing"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn another_keys_chunks_and_wrong_checksums_are_damage() {
        let (_, values) = value_log(MemOptions::default());
        let (one, two) = (values.write(b"one", b"value").expect("room"), values.write(b"two", b"VALUE").expect("room"));
        assert!(matches!(values.read(b"two", &one), Err(TreeError::Damaged { .. })), "identity");
        let swapped = ValuePointer { crc: one.crc, ..two };
        assert!(matches!(values.read(b"two", &swapped), Err(TreeError::Damaged { .. })), "checksum");
        let nowhere = ValuePointer { places: vec![place(999, 1)], ..one };
        assert!(values.read(b"one", &nowhere).is_err());
    }

    #[test]
    fn reclaim_moves_a_chunk() {
        let (store, values) = value_log(MemOptions { chunk_bytes_max: 1019, segment_blocks: 8 });
        let value = random(2500);
        let mut pointer = values.write(b"key", &value).expect("room");
        let old = pointer.places[1].at;
        let payload = store.mem_area(AreaKind::Values).payloads()[1].clone();
        let chunk = parse_chunk(&payload).expect("sound");
        assert_eq!((chunk.key, chunk.segment, chunk.total_bytes), (&b"key"[..], 1, 2500));
        let new = values.write_chunk(&payload).expect("room");
        assert!(pointer.replace(old, new));
        assert!(!pointer.replace(old, new), "it is not there any more");
        assert_eq!(values.read(b"key", &pointer).expect("sound"), value);
    }

    #[test]
    fn a_value_that_could_not_be_written_is_released() {
        let (store, values) = value_log(MemOptions { chunk_bytes_max: 1019, segment_blocks: 8 });
        store.wire().cut_after(3);
        assert!(values.write(b"key", &random(5000)).is_err());
        assert_eq!(store.wire().released_value_bytes(), 2 * 1019);
    }

    /// What a batch is measured by before its values are written.
    #[test]
    fn no_pointer_is_longer_than_was_said_before() {
        for chunk_bytes_max in [1019, 2 << 20] {
            let (_, values) = value_log(MemOptions { chunk_bytes_max, segment_blocks: 1024 });
            for len in [0, 1, 999, 1001, 5_000, SEGMENT_BYTES_MAX + 1] {
                let pointer = values.write(b"key", &random(len)).expect("room");
                let said = values.pointer_bytes_max(3, len).expect("a key fits");
                let far = |index: usize| {
                    if index.is_multiple_of(2) { place((1 << 49) - 1, (1 << 42) - 1) } else { place(1, 1) }
                };
                let places = (0..pointer.places.len()).map(far).collect();
                let bytes = encoded(&ValuePointer { places, ..pointer }).len();
                assert!(bytes <= said, "{bytes} bytes, not {said}, for {len} in chunks of {chunk_bytes_max}");
            }
        }
    }

    #[test]
    fn pointers_are_small_when_the_chunks_lie_anywhere() {
        let far = |index: u64| if index.is_multiple_of(2) { place((1 << 40) - 1, 1 << 20) } else { place(1, 1) };
        let pointer = ValuePointer {
            total_bytes: 16 << 20,
            segment_bytes: (1 << 20) - 2000,
            crc: 7,
            places: (0..17).map(far).collect(),
        };
        let bytes = encoded(&pointer);
        assert!(bytes.len() <= 200, "{} bytes", bytes.len());
        assert_eq!(ValuePointer::decode(&bytes).expect("just encoded"), pointer);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_pointer_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(pointer) = ValuePointer::decode(&bytes) {
                prop_assert!(2 * pointer.places.len() <= bytes.len());
                let _ = pointer.chunks(8).count();
            }
        }

        #[test]
        fn any_payload_is_a_chunk_or_refused(head in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let payload = if head { [&b"ZNva\x01\x00"[..], &bytes].concat() } else { bytes };
            let _ = parse_chunk(&payload);
        }
    }
}
