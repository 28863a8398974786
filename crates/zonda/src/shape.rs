//! What a copy of a store takes over from it.

use crate::backing::Device;
use crate::limits::{CAPACITY_BYTES_MAX, ZONE_BYTES_MAX};
use crate::options::CAPACITY_BYTES;
use crate::{Options, StoreKind};

/// A copy may have more in its reserve than its original: zones of another size, a longer log with more memory, at most a fifth. So its
/// capacity is no less than what is live, half of that and so many zones.
const ZONES_MORE: u64 = 64;

/// How a store lies on its device, and how large it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    kind: StoreKind,
    leaf_bytes: u32,
    /// As whoever opened it said, if he did.
    value_inline_bytes: Option<u32>,
    /// Of zones; segments of a store in place are as the copy's options say.
    zone_bytes: Option<u64>,
    capacity_bytes: u64,
}

impl Shape {
    /// The shape of an open store.
    pub(crate) fn of(device: &Device, leaf_bytes: u32, options: &Options) -> Self {
        let (kind, zone_bytes) = match device {
            Device::Zoned(zones) => (StoreKind::Zoned, Some(zones.geometry().zone_capacity_bytes())),
            Device::Block { .. } => (StoreKind::InPlace, None),
        };
        let value_inline_bytes = options.value_inline_bytes;
        Self { kind, leaf_bytes, value_inline_bytes, zone_bytes, capacity_bytes: device.capacity_bytes() }
    }

    /// `options` for a copy of `live_bytes` whose index needs a budget of `memory_bytes`: what they do not say is as here. Zones are no
    /// smaller than by default, so that there are not too many; neither are capacity and budget. Where they say the capacity, zones are no
    /// larger than lets it hold enough of them.
    pub(crate) fn of_copy(self, options: &Options, live_bytes: u64, memory_bytes: u64) -> Options {
        let mut copy = options.clone();
        if !copy.memory_is_set {
            copy.memory_bytes = copy.memory_bytes.max(memory_bytes);
        }
        copy.store_of_preset = self.kind;
        let leaf_bytes = *copy.leaf_bytes.get_or_insert(self.leaf_bytes);
        copy.value_inline_bytes =
            copy.value_inline_bytes.or(self.value_inline_bytes.map(|most| most.min(leaf_bytes / 4)));
        let most_bytes = copy.capacity_bytes.map_or(ZONE_BYTES_MAX, |capacity| capacity / ZONES_MORE);
        let zone_bytes = self.zone_bytes.unwrap_or(0).min(most_bytes).next_multiple_of(4096);
        let zone_bytes = zone_bytes.max(options.zone_size_bytes()).min(ZONE_BYTES_MAX);
        let zone_bytes = *copy.zone_bytes.get_or_insert(zone_bytes);
        let needed_bytes = live_bytes + live_bytes / 2 + ZONES_MORE * zone_bytes;
        let least_bytes = CAPACITY_BYTES.max(zone_bytes);
        copy.capacity_bytes.get_or_insert(self.capacity_bytes.max(needed_bytes).clamp(least_bytes, CAPACITY_BYTES_MAX));
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_memory_that_its_index_needs_if_nobody_says_how_much() {
        let shape = Shape {
            kind: StoreKind::Zoned,
            leaf_bytes: 4096,
            value_inline_bytes: None,
            zone_bytes: None,
            capacity_bytes: 1 << 30,
        };
        let memory_of = |options: Options, needed| shape.of_copy(&options, 0, needed).memory_bytes;
        assert_eq!(memory_of(Options::new(), 3 << 20), 64 << 20);
        assert_eq!(memory_of(Options::new(), 100 << 20), 100 << 20);
        assert_eq!(memory_of(Options::new().memory(4 << 20), 100 << 20), 4 << 20);
    }

    #[test]
    fn generations_of_copies_do_not_grow_but_where_they_are_full() {
        let capacity_of = |capacity_bytes, live_bytes| {
            let shape = Shape {
                kind: StoreKind::Zoned,
                leaf_bytes: 4096,
                value_inline_bytes: None,
                zone_bytes: Some(64 << 20),
                capacity_bytes,
            };
            let copy = shape.of_copy(&Options::new(), live_bytes, 0);
            assert_eq!(copy.zone_bytes, Some(64 << 20));
            copy.capacity_bytes.expect("it was asked for")
        };
        let tib = 1 << 40;
        assert_eq!(capacity_of(tib, 0), tib);
        assert_eq!(capacity_of(tib, tib / 2), tib);
        let more = capacity_of(tib, tib / 10 * 9);
        assert!(more > tib && more < 3 * tib / 2);
        assert_eq!(capacity_of(more, tib / 10 * 9), more, "so much live has its room by now");
        assert_eq!(capacity_of(1 << 20, 0), CAPACITY_BYTES);
    }
}
