//! What is in each zone, for people who look after a store.

use crate::Result;
use crate::store::Store;

/// One zone of the device, or one segment of a store in place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Zone {
    /// Its number.
    pub number: u32,
    /// The device's state of it: `empty`, `implicitly open`, `explicitly open`, `closed`, `full`, `read-only`, `offline`.
    /// Of a segment: `empty`, `open`, `full`, `offline`.
    pub state: String,
    /// What lives in it: `log`, `meta`, `hot`, `cold`, `relocated` or `values`, in place also `pages`; `None` if nothing does.
    pub content: Option<&'static str>,
    /// Bytes of live pages and values, or of log and MetaLog that recovery would read.
    pub live_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that it can hold.
    pub capacity_bytes: u64,
    /// How many zones the store had begun when it began this one.
    pub generation: u64,
    /// Whether nothing in it is live and it waits for its reset.
    pub is_condemned: bool,
}

/// All zones by number.
///
/// # Errors
/// `Forked`; those of asking the device.
pub(crate) fn map(store: &Store) -> Result<Vec<Zone>> {
    store.reader()?;
    let entries = store.pages().map();
    let states = store.device().zone_states(&entries)?;
    let zones = entries.into_iter().zip(states).map(|(entry, state)| Zone {
        number: entry.zone.0,
        state,
        content: entry.stream,
        live_bytes: entry.live_bytes,
        written_bytes: entry.written_bytes,
        capacity_bytes: entry.capacity_bytes,
        generation: entry.generation,
        is_condemned: entry.condemned,
    });
    Ok(zones.collect())
}
