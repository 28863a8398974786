//! Looks again at the headers of zones in use: the next opening knows a zone by its header, and nothing else reads it.

use zonda_space::{ZoneUse, ZoneView};

use crate::PageError;
use crate::flusher::Flusher;

/// Reads the header of every zone with something in it and hands to `finding` what is damaged, called `what`. One device read each.
///
/// # Errors
/// `Space`.
pub(crate) fn check(flusher: &Flusher, what: &str, finding: &mut dyn FnMut(String)) -> Result<(), PageError> {
    let space = &flusher.space;
    // One that is changing is being begun or reset. What a power cut leaves of a zone has no stream, and nobody refers to it.
    let is_used = |view: &ZoneView| view.written_bytes > 0 && view.stream.is_some() && view.state != ZoneUse::Changing;
    for view in space.view().into_iter().filter(is_used) {
        let Some(why) = space.header_fault(view.zone)? else { continue };
        // It may have been reset meanwhile.
        let is_same = |now: &ZoneView| (now.zone, now.generation) == (view.zone, view.generation) && is_used(now);
        if space.view().iter().any(is_same) {
            finding(format!("{what} at block {}: {why}", space.first_block(view.zone)));
        }
    }
    Ok(())
}

/// The same of the device that a log has for itself, if it has one.
///
/// # Errors
/// `Space`.
pub(crate) fn check_log(log: Option<&Flusher>, finding: &mut dyn FnMut(String)) -> Result<(), PageError> {
    log.map_or(Ok(()), |flusher| check(flusher, "zone header of the log device", finding))
}
