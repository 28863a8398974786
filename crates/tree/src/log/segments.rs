//! Which segments of the log area hold which sequence numbers.

use std::collections::VecDeque;

use zonda_pages::{Segment, SegmentId};

/// Bytes of log between two marks: how exact [`Segments::bytes_since_truncation`] is.
const MARK_BYTES: u64 = 64 << 10;

/// The segments that are not released, oldest first, and how many bytes replay would have to read.
///
/// Memory: 16 bytes per segment and 16 bytes per 64 KiB of log since the last truncation.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// Segment and a number above all that it holds.
    ends: VecDeque<(SegmentId, u64)>,
    /// (number above all appended so far, bytes appended so far), one for each [`MARK_BYTES`] begun.
    marks: VecDeque<(u64, u64)>,
    appended_bytes: u64,
    truncated_bytes: u64,
    /// Of `appended_bytes`, those of earlier lives.
    earlier_bytes: u64,
}

impl Segments {
    /// Segments of earlier lives, which hold nothing at or above `first_sequence`. Their bytes count until a truncation, so
    /// that lives which all end in a crash do not pile up log.
    pub(super) fn of_earlier_lives(earlier: &[Segment], first_sequence: u64) -> Self {
        let bytes = earlier.iter().map(|segment| segment.bytes).sum();
        Self {
            ends: earlier.iter().map(|segment| (segment.id, first_sequence)).collect(),
            marks: VecDeque::from([(first_sequence, bytes)]),
            appended_bytes: bytes,
            truncated_bytes: 0,
            earlier_bytes: bytes,
        }
    }

    /// A chunk of `bytes` with numbers below `end` went to segment `id`.
    pub(super) fn appended(&mut self, id: SegmentId, end: u64, bytes: u64) {
        match self.ends.back_mut() {
            Some((last, last_end)) if *last == id => *last_end = end.max(*last_end),
            _ => self.ends.push_back((id, end)),
        }
        self.appended_bytes += bytes;
        match self.marks.back_mut() {
            // Those of earlier lives have a mark to themselves: they may be many, and the next checkpoint needs none of them.
            Some((mark_end, mark))
                if *mark > self.earlier_bytes && *mark / MARK_BYTES == self.appended_bytes / MARK_BYTES =>
            {
                (*mark_end, *mark) = (end.max(*mark_end), self.appended_bytes);
            }
            _ => self.marks.push_back((end, self.appended_bytes)),
        }
    }

    /// The oldest segment, if it holds nothing at or above `before`.
    pub(super) fn releasable(&self, before: u64) -> Option<SegmentId> {
        self.ends.front().filter(|(_, end)| *end <= before).map(|(id, _)| *id)
    }

    /// The oldest segment was released.
    pub(super) fn released(&mut self) {
        self.ends.pop_front();
    }

    /// Bytes up to the number `before` need not be replayed any more.
    pub(super) fn truncated(&mut self, before: u64) {
        while let Some(&(end, bytes)) = self.marks.front()
            && end <= before
        {
            self.truncated_bytes = bytes;
            self.marks.pop_front();
        }
    }

    /// Bytes that replay would have to look at, to within 64 KiB above the truth.
    pub(super) fn bytes_since_truncation(&self) -> u64 {
        self.appended_bytes - self.truncated_bytes
    }

    /// Bytes appended in this life.
    pub(super) fn appended_bytes(&self) -> u64 {
        self.appended_bytes - self.earlier_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_wholly_below_are_released_and_bytes_go_with_them() {
        let mut segments = Segments::of_earlier_lives(&[Segment { id: SegmentId(1), bytes: 8 << 10 }], 10);
        assert_eq!((segments.bytes_since_truncation(), segments.appended_bytes()), (8 << 10, 0));
        segments.appended(SegmentId(2), 15, 40 << 10);
        segments.appended(SegmentId(2), 14, 40 << 10);
        segments.appended(SegmentId(3), 20, 4 << 10);
        assert_eq!(segments.releasable(9), None);
        assert_eq!(segments.releasable(10), Some(SegmentId(1)));
        segments.released();
        assert_eq!(segments.releasable(14), None, "number 14 is in it");
        assert_eq!(segments.releasable(15), Some(SegmentId(2)));
        segments.truncated(14);
        assert_eq!((segments.bytes_since_truncation(), segments.appended_bytes()), (84 << 10, 84 << 10));
        segments.truncated(20);
        assert_eq!(segments.bytes_since_truncation(), 0);
    }
}
