//! Does this file system tell holes from data block by block? Decides at creation how write pointers survive a crash.
use super::host_file::HostFile;
use crate::{AlignedBuf, Result};

/// Blocks the probe may write, from its offset on.
const PROBE_BLOCKS: u64 = 8;

/// True if single blocks, zeros included, show as data, their neighbours as holes, and a punched hole as a hole again.
/// Leaves only holes in `offset..offset + 8 blocks` if true. A file system that fails in any way is not exact.
pub(crate) fn holes_are_exact(file: &HostFile, offset: u64, block_bytes: u32) -> Result<bool> {
    let block = u64::from(block_bytes);
    let before = file.len_bytes()?;
    file.set_len(before.max(offset + PROBE_BLOCKS * block))?;
    let mut data = AlignedBuf::with_len(block_bytes as usize);
    file.write_data(offset + 2 * block, &data)?;
    data.fill(0xA5);
    file.write_data(offset, &data)?;
    let shown = data_map(file, offset, block);
    let punched = file.punch(offset, PROBE_BLOCKS * block)?;
    let cleared = data_map(file, offset, block);
    file.set_len(before)?;
    let expected = [true, false, true, false, false, false, false, false];
    Ok(punched && shown == Some(expected) && cleared == Some([false; 8]))
}

/// Which blocks show as data; `None` if the system cannot say.
fn data_map(file: &HostFile, offset: u64, block: u64) -> Option<[bool; 8]> {
    let mut map = [false; 8];
    for (shows, at) in map.iter_mut().zip((offset..).step_by(usize::try_from(block).ok()?)) {
        match file.data_end(at, block).ok()? {
            0 => {}
            end if end == block => *shows = true,
            _ => return None,
        }
    }
    Some(map)
}
