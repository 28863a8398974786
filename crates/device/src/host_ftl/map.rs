//! Where every block of the volume is, what is live in every zone, and who reads there.

/// Not mapped: reads as zeros.
const NONE: u32 = u32::MAX;
/// In the group in memory, at the index in the other bits.
const IN_MEMORY: u32 = 1 << 31;
/// Most blocks of a device: addresses have 31 bits.
pub(super) const BLOCKS_MAX: u64 = IN_MEMORY as u64;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Nowhere: it was never written, or trimmed.
    Nowhere,
    /// In the group in memory.
    Memory(usize),
    /// On the device: zone times capacity plus offset.
    Device(u32),
}

/// The page map. Always: `live` counts, zone by zone, the blocks that the table puts there.
#[derive(Debug)]
pub(super) struct Map {
    table: Vec<u32>,
    live: Vec<u32>,
    readers: Vec<u32>,
    zone_blocks: u32,
}

impl Map {
    /// A map of nothing.
    pub(super) fn new(blocks: usize, zones: u32, zone_blocks: u32) -> Self {
        let per_zone = vec![0; zones as usize];
        Self { table: vec![NONE; blocks], live: per_zone.clone(), readers: per_zone, zone_blocks }
    }

    /// Blocks of the volume.
    pub(super) fn blocks(&self) -> u64 {
        self.table.len() as u64
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        (self.table.len() + self.live.len() + self.readers.len()) as u64 * 4
    }

    /// Where a block is.
    pub(super) fn at(&self, block: u64) -> At {
        match self.table[index(block)] {
            NONE => At::Nowhere,
            entry if entry & IN_MEMORY != 0 => At::Memory((entry & !IN_MEMORY) as usize),
            entry => At::Device(entry),
        }
    }

    /// A block is somewhere else now.
    pub(super) fn put(&mut self, block: u64, at: At) {
        let entry = match at {
            At::Nowhere => NONE,
            At::Memory(index) => u32::try_from(index).expect("a group is small") | IN_MEMORY,
            At::Device(address) => address,
        };
        self.count(entry, 1);
        let old = std::mem::replace(&mut self.table[index(block)], entry);
        self.count(old, -1);
    }

    fn count(&mut self, entry: u32, by: i32) {
        if entry & IN_MEMORY == 0 {
            let live = &mut self.live[(entry / self.zone_blocks) as usize];
            *live = live.checked_add_signed(by).expect("what is live in a zone was counted when it came");
        }
    }

    /// Live blocks of a zone.
    pub(super) fn live(&self, zone: u32) -> u32 {
        self.live[zone as usize]
    }

    /// Somebody begins to read in the zone of an address; the zone is not reset until [`end_read`](Self::end_read).
    pub(super) fn begin_read(&mut self, address: u32) {
        self.readers[(address / self.zone_blocks) as usize] += 1;
    }

    /// The read is over; true if it was the last in its zone.
    pub(super) fn end_read(&mut self, address: u32) -> bool {
        let readers = &mut self.readers[(address / self.zone_blocks) as usize];
        *readers -= 1;
        *readers == 0
    }

    /// True if somebody reads in the zone.
    pub(super) fn is_read(&self, zone: u32) -> bool {
        self.readers[zone as usize] > 0
    }
}

fn index(block: u64) -> usize {
    usize::try_from(block).expect("a table that fits memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_blocks_are_counted_where_they_are() {
        let mut map = Map::new(4, 3, 10);
        map.put(0, At::Memory(5));
        map.put(1, At::Device(12));
        map.put(2, At::Device(19));
        map.put(0, At::Device(25));
        map.put(1, At::Nowhere);
        assert_eq!([0, 1, 2].map(|zone| map.live(zone)), [0, 1, 1]);
        assert_eq!([0, 1, 2].map(|block| map.at(block)), [At::Device(25), At::Nowhere, At::Device(19)]);
        map.begin_read(19);
        assert!(map.is_read(1) && !map.is_read(2) && map.end_read(11));
    }
}
