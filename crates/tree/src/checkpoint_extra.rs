//! What a checkpoint says besides structure and images: the engine's own bytes in its `Begin`.
//!
//! ```text
//! extra := nothing | flags(1 byte) | flags(1 byte) count (segment live_bytes written)*       numbers are variable-length
//! ```
//!
//! `written`: 0 for a segment that nobody appended to any more, else one more than the bytes written in it. What follows is of newer
//! programs.

use zonda_pages::{LiveValues, SegmentId};

use crate::TreeError;
use crate::codec::{Reader, put_number};
use crate::format::BEGIN_LOG_DURABLE;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointExtra {
    /// The log was durable up to where its replay begins.
    pub(crate) log_is_durable: bool,
    /// What of the value log was live when the checkpoint began.
    pub(crate) live_values: Vec<LiveValues>,
}

impl CheckpointExtra {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = if self.log_is_durable { BEGIN_LOG_DURABLE } else { 0 };
        let mut bytes = vec![flags];
        put_number(&mut bytes, self.live_values.len() as u64);
        for live in &self.live_values {
            put_number(&mut bytes, live.segment.0);
            put_number(&mut bytes, live.bytes);
            put_number(&mut bytes, live.written.map_or(0, |written| written + 1));
        }
        bytes
    }

    /// # Errors
    /// `Damaged` when the bytes end within.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, TreeError> {
        let Some((flags, rest)) = bytes.split_first() else { return Ok(Self::default()) };
        let mut extra = Self { log_is_durable: flags & BEGIN_LOG_DURABLE != 0, live_values: Vec::new() };
        let mut reader = Reader::new("MetaLog record", rest);
        let count = if reader.is_empty() { 0 } else { reader.number()? };
        for _ in 0..count {
            let (segment, bytes) = (SegmentId(reader.number()?), reader.number()?);
            extra.live_values.push(LiveValues { segment, bytes, written: reader.number()?.checked_sub(1) });
        }
        Ok(extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(segment: u64, bytes: u64, written: Option<u64>) -> LiveValues {
        LiveValues { segment: SegmentId(segment), bytes, written }
    }

    #[test]
    fn what_is_said_comes_back_and_half_of_it_is_damage() {
        let some = vec![value(7, 0, None), value(300, 1 << 40, Some(0)), value(u64::MAX, 4_096, Some(1 << 50))];
        for (log_is_durable, live_values) in [(false, vec![]), (true, vec![]), (true, some)] {
            let extra = CheckpointExtra { log_is_durable, live_values };
            let mut bytes = extra.encode();
            assert_eq!(CheckpointExtra::decode(&bytes).expect("whole"), extra);
            bytes.extend([1, 2, 3]);
            assert_eq!(CheckpointExtra::decode(&bytes).expect("more, of a newer program"), extra);
        }
        let half = CheckpointExtra { log_is_durable: true, live_values: vec![value(300, 1, None)] }.encode();
        assert!(matches!(CheckpointExtra::decode(&half[..half.len() - 1]), Err(TreeError::Damaged { .. })));
    }

    #[test]
    fn what_older_programs_wrote_is_read() {
        assert_eq!(CheckpointExtra::decode(&[]).expect("whole"), CheckpointExtra::default());
        assert!(CheckpointExtra::decode(&[BEGIN_LOG_DURABLE]).expect("whole").log_is_durable);
    }
}
