//! What a checkpoint says besides structure and images: the engine's own bytes in its `Begin`.
//!
//! ```text
//! extra := nothing | flags(1 byte) (segment live_bytes)*          numbers are variable-length
//! ```
//!
//! Programs that know fewer of these read the flags alone.

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
        for LiveValues { segment, bytes: live_bytes } in &self.live_values {
            put_number(&mut bytes, segment.0);
            put_number(&mut bytes, *live_bytes);
        }
        bytes
    }

    /// # Errors
    /// `Damaged` when the bytes end within a number.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, TreeError> {
        let Some((flags, values)) = bytes.split_first() else { return Ok(Self::default()) };
        let mut extra = Self { log_is_durable: flags & BEGIN_LOG_DURABLE != 0, live_values: Vec::new() };
        let mut reader = Reader::new("MetaLog record", values);
        while !reader.is_empty() {
            let (segment, bytes) = (SegmentId(reader.number()?), reader.number()?);
            extra.live_values.push(LiveValues { segment, bytes });
        }
        Ok(extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back_and_half_of_it_is_damage() {
        let values = |numbers: &[(u64, u64)]| {
            numbers.iter().map(|&(segment, bytes)| LiveValues { segment: SegmentId(segment), bytes }).collect()
        };
        for (log_is_durable, live_values) in
            [(false, vec![]), (true, vec![]), (true, values(&[(7, 0), (300, 1 << 40), (u64::MAX, 4_096)]))]
        {
            let extra = CheckpointExtra { log_is_durable, live_values };
            assert_eq!(CheckpointExtra::decode(&extra.encode()).expect("whole"), extra);
        }
        let half = CheckpointExtra { log_is_durable: true, live_values: values(&[(300, 1)]) }.encode();
        assert!(matches!(CheckpointExtra::decode(&half[..half.len() - 1]), Err(TreeError::Damaged { .. })));
    }

    #[test]
    fn what_older_programs_wrote_is_read() {
        assert_eq!(CheckpointExtra::decode(&[]).expect("whole"), CheckpointExtra::default());
        assert!(CheckpointExtra::decode(&[BEGIN_LOG_DURABLE]).expect("whole").log_is_durable);
    }
}
