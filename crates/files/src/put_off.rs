//! Zones that cleaning could not read for now.

use std::collections::HashMap;
use std::time::Duration;

use zonda_rt::{Mutex, Time};
use zonda_space::ZoneId;

/// Before the second attempt; doubled before each later one.
const FIRST: Duration = Duration::from_secs(1);
/// A drive that is back is noticed within this.
const LAST: Duration = Duration::from_secs(64);

/// A zone, by generation.
pub(crate) type ZoneOf = (ZoneId, u64);

/// When the device refuses a read, all may be well a little later: the zone is tried again, less and less often. Unlike a damaged one it is
/// never given up: each attempt costs a read that fails.
///
/// One entry a zone: that of an earlier generation goes when its zone is put off again. A leaf in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    zones: Mutex<HashMap<ZoneId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    generation: u64,
    wait: Duration,
    until: Time,
}

impl PutOff {
    /// It could not be read at `now`.
    pub(crate) fn put_off(&self, (zone, generation): ZoneOf, now: Time) {
        let mut zones = self.zones.lock();
        let before = zones.get(&zone).filter(|entry| entry.generation == generation);
        let wait = before.map_or(FIRST, |entry| (entry.wait * 2).min(LAST));
        zones.insert(zone, Entry { generation, wait, until: now + wait });
    }

    /// Whether it is to be left alone at `now`.
    pub(crate) fn is_put_off(&self, (zone, generation): ZoneOf, now: Time) -> bool {
        self.zones.lock().get(&zone).is_some_and(|entry| entry.generation == generation && now < entry.until)
    }

    /// Whether it could not be read when that was last tried.
    pub(crate) fn has_failed(&self, (zone, generation): ZoneOf) -> bool {
        self.zones.lock().get(&zone).is_some_and(|entry| entry.generation == generation)
    }

    /// It could be read.
    pub(crate) fn forget(&self, zone: ZoneId) {
        self.zones.lock().remove(&zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_tried_again_less_and_less_often() {
        let (put_off, zone) = (PutOff::default(), (ZoneId(3), 7));
        let mut now = zonda_rt::now();
        let mut waited = Vec::new();
        for _ in 0..9 {
            put_off.put_off(zone, now);
            let began = now;
            while put_off.is_put_off(zone, now) {
                now = now + Duration::from_secs(1);
            }
            waited.push(now.since(began).as_secs());
        }
        assert_eq!(waited, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        put_off.put_off((ZoneId(3), 8), now);
        assert!(put_off.is_put_off((ZoneId(3), 8), now) && !put_off.is_put_off(zone, now));
        put_off.forget(ZoneId(3));
        assert!(!put_off.is_put_off((ZoneId(3), 8), now));
    }
}
