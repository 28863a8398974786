//! What a copy of a store takes over from it.

use crate::backing::Device;
use crate::limits::{CAPACITY_BYTES_MAX, ZONE_BYTES_MAX};
use crate::options::{CAPACITY_BYTES, ZONE_BYTES};
use crate::{Options, StoreKind};

/// A copy may have more in its reserve than its original: zones of another size, a longer log with more memory, at most a fifth. So its
/// capacity is a quarter more, and so many zones.
const CAPACITY_MORE: u64 = 4;
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

    /// `options` for a copy: what they do not say is as here. Zones are no smaller than by default, so that there are not too many.
    pub(crate) fn of_copy(self, options: &Options) -> Options {
        let mut copy = options.clone();
        copy.store_of_preset = self.kind;
        let leaf_bytes = *copy.leaf_bytes.get_or_insert(self.leaf_bytes);
        copy.value_inline_bytes =
            copy.value_inline_bytes.or(self.value_inline_bytes.map(|most| most.min(leaf_bytes / 4)));
        let zone_bytes = self.zone_bytes.unwrap_or(0).next_multiple_of(4096).clamp(ZONE_BYTES, ZONE_BYTES_MAX);
        let zone_bytes = *copy.zone_bytes.get_or_insert(zone_bytes);
        let more = self.capacity_bytes / CAPACITY_MORE + ZONES_MORE * zone_bytes;
        let capacity_bytes = (self.capacity_bytes + more).clamp(CAPACITY_BYTES.max(zone_bytes), CAPACITY_BYTES_MAX);
        copy.capacity_bytes.get_or_insert(capacity_bytes);
        copy
    }
}
