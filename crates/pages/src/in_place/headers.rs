//! Looks again at the headers of segments: the next opening knows a segment by its header, and nothing else reads it.

use zonda_device::AlignedBuf;

use super::core::Core;
use super::format::SegmentHeader;
use super::layout::SegmentIndex;
use super::table::Table;
use crate::walk::Blocks;
use crate::{BLOCK_BYTES, PageError};

/// Reads the headers of all segments and hands to `finding` what is damaged. Zeros are no damage where nothing is live: a power cut may
/// leave them. One device read each.
///
/// # Errors
/// `Device`.
pub(super) fn check(core: &Core, finding: &mut dyn FnMut(String)) -> Result<(), PageError> {
    for entry in core.map() {
        let segment = SegmentIndex(entry.zone.0);
        if fault(core, segment, entry.live_bytes)?.is_none() {
            continue;
        }
        // It may be on its way, or the segment another one by now: again, while nobody writes headers of pages.
        let _writer = core.writer.lock();
        let is_written = |table: &Table| table.generation(segment) == entry.generation && !table.is_unwritten(segment);
        if core.with_table(|table| is_written(table))
            && let Some(why) = fault(core, segment, entry.live_bytes)?
        {
            finding(format!("segment header at block {}: {why}", core.layout.header(segment)));
        }
    }
    Ok(())
}

/// What is wrong with the header of a segment as it is on the device.
fn fault(core: &Core, segment: SegmentIndex, live_bytes: u64) -> Result<Option<&'static str>, PageError> {
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    match core.disk.read(core.layout.header(segment), &mut block) {
        Ok(()) if SegmentHeader::decode(&block, core.store, segment).is_some() => Ok(None),
        Ok(()) if live_bytes == 0 && block.iter().all(|&byte| byte == 0) => Ok(None),
        Ok(()) => Ok(Some("it is not that of this segment")),
        Err(error) if error.is_unreadable() => Ok(Some("the device cannot read it")),
        Err(error) => Err(error),
    }
}
