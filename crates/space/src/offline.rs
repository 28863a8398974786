//! Zones that the device has lost, as a journal remembers them: who opens the store next cannot ask what was in them.

use zonda_device::ZoneId;

use crate::format::OfflineRange;
use crate::{Space, StreamId, StreamSet, ZoneUse};

/// Zones that were offline when a snapshot of a journal ended, and of which streams each may have held something that counts. A zone that
/// is offline and not among them was lost since. Some devices have such zones from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfflineZones {
    /// By number, each as long as it can be.
    ranges: Vec<OfflineRange>,
}

impl OfflineZones {
    /// Of which streams the zone may hold something that counts; `None` for one that was not offline.
    #[must_use]
    pub fn held_by(&self, zone: ZoneId) -> Option<StreamSet> {
        self.ranges.iter().find(|range| range.contains(zone.0)).map(|range| range.holds)
    }

    /// Adds a zone behind the others.
    fn push(&mut self, zone: ZoneId, holds: StreamSet) {
        match self.ranges.last_mut().filter(|range| range.end() == u64::from(zone.0) && range.holds == holds) {
            Some(range) => range.zones += 1,
            None => self.ranges.push(OfflineRange { first: zone.0, zones: 1, holds }),
        }
    }

    /// The item of a snapshot's end.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.ranges.iter().flat_map(|range| range.encode()).collect()
    }

    /// Reads the item from any bytes (I10); `None` if it is none.
    pub(crate) fn decode(item: &[u8]) -> Option<Self> {
        let ranges: Option<Vec<OfflineRange>> = OfflineRange::decode_all(item).collect();
        ranges.map(|ranges| Self { ranges })
    }
}

impl Space {
    /// The zones that are known to be offline. Nothing counts of what the journal of a stream had in them, once it says so, or where no
    /// byte is live. Cost: one pass over the zones.
    pub(crate) fn offline_zones(&self, journal: StreamId) -> OfflineZones {
        let table = self.core.table.lock();
        let mut offline = OfflineZones::default();
        for (zone, slot) in table.slots().filter(|(_, slot)| slot.state == ZoneUse::Offline) {
            let counts = slot.stream != Some(journal) && self.live_bytes(zone) > 0;
            offline.push(zone, if counts { slot.holds } else { StreamSet::EMPTY });
        }
        offline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let (log, none) = (StreamSet::of(StreamId(1)), StreamSet::EMPTY);
        let mut offline = OfflineZones::default();
        [(0, none), (1, none), (2, log), (3, log), (9, none)]
            .iter()
            .for_each(|&(zone, it)| offline.push(ZoneId(zone), it));
        assert_eq!(offline.encode().len(), 36);
        let decoded = OfflineZones::decode(&offline.encode());
        assert_eq!(decoded.as_ref(), Some(&offline));
        let held = |zone| offline.held_by(ZoneId(zone));
        assert_eq!(
            [0, 1, 2, 3, 4, 9, 10].map(held),
            [Some(none), Some(none), Some(log), Some(log), None, Some(none), None]
        );
        assert_eq!(OfflineZones::decode(&[]), Some(OfflineZones::default()));
        assert_eq!(OfflineZones::decode(&offline.encode()[1..]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            if let Some(offline) = OfflineZones::decode(&bytes) {
                proptest::prop_assert_eq!(offline.encode(), bytes);
                _ = offline.held_by(ZoneId(u32::MAX));
            }
        }
    }
}
