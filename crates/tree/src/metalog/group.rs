//! Groups of chunks: what one flush of the MetaLog writes is wholly there or wholly absent.
//!
//! A group is usually one chunk. Chunks are numbered without gaps over the stream; a group is complete when its chunks
//! from position 0 to the one with the flag `last` are there. A new group is begun only after the one before it is
//! durable, so at most the last group of a session can be incomplete; the next session takes its numbers again.
//!
//! A session may go on in the segment of the one before (decision 0053). In place something whole of that one may lie behind a long hole,
//! where nobody looked; what is of an older session than what stands before it is passed over.

use zerocopy::IntoBytes;
use zonda_pages::{Area, SegmentId};

use crate::TreeError;
use crate::format::{CHUNK_VERSION, META_LAST_IN_GROUP, META_MAGIC, MetaChunkHeader, split_header};
use crate::limits::NUMBER_MAX;

/// How the writing of a group ended.
pub(super) struct Written {
    /// Chunks that were appended.
    pub(super) chunks: u64,
    /// The segment of the first one.
    pub(super) segment: Option<SegmentId>,
    /// Why not all of them.
    pub(super) error: Option<TreeError>,
}

/// Appends `group` as chunks numbered from `number`. No flush.
pub(super) fn write_group(area: &dyn Area, session: u32, number: u64, group: &[u8]) -> Written {
    let piece_bytes = area.chunk_bytes_max() - size_of::<MetaChunkHeader>();
    let mut pieces = group.chunks(piece_bytes).zip(0_u32..).peekable();
    let mut written = Written { chunks: 0, segment: None, error: None };
    let mut payload = Vec::with_capacity(size_of::<MetaChunkHeader>() + group.len().min(piece_bytes));
    while let Some((piece, group_position)) = pieces.next() {
        let flags = if pieces.peek().is_none() { META_LAST_IN_GROUP } else { 0 };
        let header = MetaChunkHeader {
            magic: META_MAGIC,
            version: CHUNK_VERSION.into(),
            reserved: 0.into(),
            session: session.into(),
            flags: flags.into(),
            number: (number + u64::from(group_position)).into(),
            group_position: group_position.into(),
            reserved_too: 0.into(),
        };
        payload.clear();
        payload.extend_from_slice(header.as_bytes());
        payload.extend_from_slice(piece);
        match area.append(&payload) {
            Ok((_, segment)) => written.segment = written.segment.or(Some(segment)),
            Err(error) => {
                written.error = Some(error.into());
                return written;
            }
        }
        written.chunks += 1;
    }
    written
}

/// A complete group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    /// Number of its first chunk.
    pub(super) number: u64,
    /// The segment of its first chunk.
    pub(super) segment: SegmentId,
    /// Its records, and before them `known` bytes of records that were found already: the group was there, shorter, and came again.
    pub(super) bytes: &'a [u8],
    pub(super) known: usize,
    /// It does not continue the group that was found before it: chunks are missing, or the stream begins anew.
    pub(super) after_gap: bool,
}

/// Puts groups together from chunks in stream order. Memory: one group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Number that the next group begins with; `None` before the first chunk.
    next: Option<u64>,
    after_gap: bool,
    partial: Option<Partial>,
    /// The last group, if it was one chunk.
    delivered: Option<Partial>,
    newest_session: u32,
}

#[derive(Debug)]
struct Partial {
    number: u64,
    segment: SegmentId,
    session: u32,
    chunks: u32,
    bytes: Vec<u8>,
}

impl Groups {
    /// Takes a chunk's payload; calls `complete` if it completes a group. What is left of a session's last, incomplete
    /// group is passed over.
    ///
    /// # Errors
    /// `Damaged` for a head that is none; those of `complete`.
    pub(super) fn push(
        &mut self,
        segment: SegmentId,
        payload: &[u8],
        complete: &mut dyn FnMut(Group<'_>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let (header, piece) = split_header::<MetaChunkHeader>(payload)?;
        if header.number.get() > NUMBER_MAX {
            let why = format!("{} is no number of a chunk", header.number);
            return Err(TreeError::Damaged { what: "MetaLog chunk", why });
        }
        if header.session.get() < self.newest_session {
            return Ok(());
        }
        self.newest_session = header.session.get();
        if header.group_position.get() == 0 {
            self.begin(segment, &header);
        }
        let Some(partial) = &mut self.partial else { return Ok(()) };
        if !partial.continued_by(&header) {
            return Ok(());
        }
        partial.bytes.extend_from_slice(piece);
        partial.chunks += 1;
        if header.flags.get() & META_LAST_IN_GROUP == 0 {
            return Ok(());
        }
        let Some(partial) = self.partial.take() else { return Ok(()) };
        self.next = Some(partial.number.saturating_add(partial.chunks.into()));
        let known = self.known_of(&partial)?;
        let after_gap = std::mem::take(&mut self.after_gap);
        let Partial { number, segment, ref bytes, .. } = partial;
        let outcome = complete(Group { number, segment, bytes, known, after_gap });
        self.delivered = (partial.chunks == 1).then_some(partial);
        outcome
    }

    /// How much of a group was found before. A write that the drive reported as failed, and had done, is made again in another zone, with
    /// what was recorded meanwhile behind it.
    fn known_of(&self, group: &Partial) -> Result<usize, TreeError> {
        let Some(before) = self.delivered.as_ref().filter(|before| before.is_begun_again_by(group)) else {
            return Ok(0);
        };
        if group.bytes.starts_with(&before.bytes) {
            return Ok(before.bytes.len());
        }
        let why = format!("chunk {} is there twice, and not the same", group.number);
        Err(TreeError::Damaged { what: "MetaLog", why })
    }

    fn begin(&mut self, segment: SegmentId, header: &MetaChunkHeader) {
        let number = header.number.get();
        let partial = Partial { number, segment, session: header.session.get(), chunks: 0, bytes: Vec::new() };
        let comes_again = self.delivered.as_ref().is_some_and(|before| before.is_begun_again_by(&partial));
        self.after_gap |= !comes_again && self.next.is_some_and(|expected| expected != number);
        self.partial = Some(partial);
    }

    /// The number for the next group to be written.
    pub(super) fn next(&self) -> u64 {
        self.next.unwrap_or(0)
    }
}

impl Partial {
    fn is_begun_again_by(&self, group: &Self) -> bool {
        (self.session, self.number) == (group.session, group.number)
    }

    fn continued_by(&self, header: &MetaChunkHeader) -> bool {
        header.session.get() == self.session
            && header.group_position.get() == self.chunks
            && self.number.checked_add(self.chunks.into()) == Some(header.number.get())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use zonda_pages::{AreaKind, PageStore};

    use super::*;
    use crate::testing::{MemOptions, MemStore};

    #[test]
    fn what_an_older_session_left_behind_a_hole_is_passed_over() {
        let store = MemStore::new(MemOptions::default());
        let area = store.area(AreaKind::Meta);
        // The second session did not see the third and fourth group of the first, of which the last is still there.
        for (session, number, group) in
            [(1, 0, b"a"), (1, 1, b"b"), (2, 2, b"c"), (1, 3, b"x"), (2, 3, b"d"), (3, 4, b"e")]
        {
            assert!(write_group(area, session, number, group).error.is_none());
        }
        let (mut found, mut groups) = (Vec::new(), Groups::default());
        let segment = area.segments()[0].id;
        let mut read = |chunk: zonda_pages::Chunk<'_>| {
            let mut keep = |group: Group<'_>| {
                assert!(!group.after_gap);
                found.extend_from_slice(group.bytes);
                Ok(())
            };
            groups.push(segment, chunk.payload, &mut keep).expect("sound");
            Ok(true)
        };
        area.read_segment(segment, &mut read).expect("sound");
        assert_eq!((found.as_slice(), groups.next()), (&b"abcde"[..], 5));
    }

    /// A store was full when the group was to be written again, so more was recorded until it was.
    #[test]
    fn a_group_that_comes_again_longer_brings_the_rest() {
        for (rest, chunks) in [(&b"cd"[..], 1), (&[b'x'; 100], 4)] {
            let store = MemStore::new(MemOptions { chunk_bytes_max: 64, segment_blocks: 64 });
            let area = store.area(AreaKind::Meta);
            let longer = [b"ab", rest].concat();
            for (number, group) in [(0, &b"first"[..]), (1, b"ab"), (1, &longer), (1 + chunks, b"last")] {
                assert!(write_group(area, 1, number, group).error.is_none());
            }
            assert!(write_group(area, 1, 2 + chunks, b"other").error.is_none());
            let (mut found, mut groups) = (Vec::new(), Groups::default());
            let segment = area.segments()[0].id;
            let mut read = |chunk: zonda_pages::Chunk<'_>| {
                let mut keep = |group: Group<'_>| {
                    assert!(!group.after_gap);
                    found.extend_from_slice(&group.bytes[group.known..]);
                    Ok(())
                };
                groups.push(segment, chunk.payload, &mut keep).expect("sound");
                Ok(true)
            };
            area.read_segment(segment, &mut read).expect("sound");
            assert_eq!(found, [&b"firstab"[..], rest, b"lastother"].concat());
            // Not the same group: no writer makes that.
            let mut payload = store.mem_area(AreaKind::Meta).payloads().pop().expect("the last");
            *payload.last_mut().expect("records") ^= 1;
            assert!(groups.push(segment, &payload, &mut |_| Ok(())).is_err());
        }
    }

    #[test]
    fn a_chunk_that_is_there_twice_counts_once() {
        let store = MemStore::new(MemOptions { chunk_bytes_max: 64, segment_blocks: 64 });
        let area = store.area(AreaKind::Meta);
        let (mut number, mut groups) = (0, Vec::new());
        for bytes in [3, 9, 100, 5, 60, 7] {
            let group = vec![u8::try_from(bytes).expect("few"); bytes];
            let written = write_group(area, 1, number, &group);
            assert!(written.error.is_none());
            number += written.chunks;
            groups.push(group);
        }
        let mut payloads = Vec::new();
        let segment = area.segments()[0].id;
        let mut keep = |chunk: zonda_pages::Chunk<'_>| {
            payloads.push(chunk.payload.to_vec());
            Ok(true)
        };
        area.read_segment(segment, &mut keep).expect("sound");
        assert_eq!(payloads.len() as u64, number);
        for twice in 0..payloads.len() {
            let (mut found, mut all) = (Vec::new(), Groups::default());
            for (at, payload) in payloads.iter().enumerate() {
                for _ in 0..if at == twice { 2 } else { 1 } {
                    let mut keep = |group: Group<'_>| {
                        assert!(!group.after_gap, "chunk {twice} twice");
                        if group.known < group.bytes.len() {
                            found.push(group.bytes.to_vec());
                        }
                        Ok(())
                    };
                    all.push(segment, payload, &mut keep).expect("sound");
                }
            }
            assert!(found == groups && all.next() == number, "chunk {twice} twice: {found:?}");
        }
    }
}
