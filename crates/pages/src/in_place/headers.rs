//! Looks again at the headers of segments: the next opening knows a segment by its header, and nothing else reads it.

use zonda_device::{AlignedBuf, ErrorKind};

use super::core::Core;
use super::format::SegmentHeader;
use super::layout::SegmentIndex;
use crate::walk::Blocks;
use crate::{BLOCK_BYTES, PageError};

/// Reads the headers of all segments and hands to `finding` what is damaged. Zeros are no damage where nothing is live: a power cut may
/// leave them. One device read each.
///
/// # Errors
/// `Device`.
pub(super) fn check(core: &Core, finding: &mut dyn FnMut(String)) -> Result<(), PageError> {
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    for entry in core.map() {
        let segment = SegmentIndex(entry.zone.0);
        let at = core.layout.header(segment);
        let why = match core.disk.read(at, &mut block) {
            Ok(()) if SegmentHeader::decode(&block, core.store, segment).is_some() => continue,
            Ok(()) if entry.live_bytes == 0 && block.iter().all(|&byte| byte == 0) => continue,
            Ok(()) => "it is not that of this segment",
            Err(PageError::Device(error)) if error.kind() == ErrorKind::Media => "the device cannot read it",
            Err(error) => return Err(error),
        };
        finding(format!("segment header at block {at}: {why}"));
    }
    Ok(())
}
