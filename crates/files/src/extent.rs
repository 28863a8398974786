//! Where the bytes of a file are.

use std::ops::Range;

use zonda_space::{BLOCK_BYTES, ZoneId};

/// Bytes of one file that stand one behind the other in one zone. Never spans zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The zone.
    pub zone: ZoneId,
    /// The allocation of the zone that it was written to: a later one holds something else (I5).
    pub generation: u64,
    /// The first block, counted through the whole device.
    pub block: u64,
    /// Bytes of the first block before the data: the header of a chunk of a log file.
    pub skip: u32,
    /// Bytes of data; the last block is padded.
    pub bytes: u64,
    /// CRC-32C of the data; `None` once a part of it was cut off.
    pub crc: Option<u32>,
}

impl Extent {
    /// Blocks that it takes.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        (u64::from(self.skip) + self.bytes).div_ceil(BLOCK_BYTES as u64)
    }

    /// Bytes that it takes on the device.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.blocks() * BLOCK_BYTES as u64
    }

    /// What is behind its first `blocks`, as an extent of nobody's; `None` if nothing is.
    pub(crate) fn behind(&self, blocks: u64) -> Option<Self> {
        let rest = self.blocks() - blocks;
        let bytes = rest * BLOCK_BYTES as u64;
        (rest > 0).then_some(Self { block: self.block + blocks, skip: 0, bytes, crc: None, ..*self })
    }

    /// Whether it starts at the same place: two extents of a store with this in common are the same.
    pub(crate) fn is_at(&self, place: Place) -> bool {
        self.place() == place
    }

    pub(crate) fn place(&self) -> Place {
        Place { zone: self.zone, generation: self.generation, block: self.block }
    }

    /// Takes in `next` if it continues this one without a gap.
    fn absorb(&mut self, next: &Self) -> bool {
        let end = u64::from(self.skip) + self.bytes;
        let continues = self.zone == next.zone
            && self.generation == next.generation
            && next.skip == 0
            && end.is_multiple_of(BLOCK_BYTES as u64)
            && next.block == self.block + end / BLOCK_BYTES as u64;
        if continues {
            self.crc = self.crc.zip(next.crc).map(|(crc, more)| combine(crc, more, next.bytes));
            self.bytes += next.bytes;
        }
        continues
    }
}

/// The identity of an extent while its zone keeps its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) zone: ZoneId,
    pub(crate) generation: u64,
    pub(crate) block: u64,
}

/// A piece of an extent that a read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The extent.
    pub(crate) extent: Extent,
    /// Bytes of its data before the piece.
    pub(crate) from: u64,
    /// Bytes of the piece.
    pub(crate) bytes: u64,
}

/// The extents of a file in order, found by offset in O(log n); by place in one step, where they are asked for in the order of the file.
///
/// Always: no two neighbours could be one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    /// Offset in the file of each extent.
    offsets: Vec<u64>,
    list: Vec<Extent>,
    bytes: u64,
    /// The index behind the extent that was replaced last: what cleaning moves of a file it moves in order, a MANIFEST's thousands too.
    next: usize,
}

/// Where a search begins is no difference.
impl PartialEq for Extents {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Extents {}

impl Extents {
    /// Bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The extent at a place, if there is one.
    pub(crate) fn at(&self, place: Place) -> Option<&Extent> {
        self.find(place).map(|(index, _)| &self.list[index])
    }

    /// The index of the extent at a place, and how many extents were looked at.
    fn find(&self, place: Place) -> Option<(usize, usize)> {
        let next = self.next.min(self.list.len());
        let mut indexes = (next..self.list.len()).chain(0..next).enumerate();
        let (before, index) = indexes.find(|(_, index)| self.list[*index].is_at(place))?;
        Some((index, before + 1))
    }

    /// All, in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.list.iter()
    }

    /// All, with their offsets in the file.
    pub(crate) fn with_offsets(&self) -> impl Iterator<Item = (u64, &Extent)> {
        self.offsets.iter().copied().zip(&self.list)
    }

    /// Adds an extent at the end; one that continues the last becomes part of it.
    pub(crate) fn push(&mut self, extent: Extent) {
        let joined = self.list.last_mut().is_some_and(|last| last.absorb(&extent));
        if !joined {
            self.offsets.push(self.bytes);
            self.list.push(extent);
        }
        self.bytes += extent.bytes;
    }

    /// Puts a chunk in the place of the last one, which it has in front; returns that. Chunks are joined with nothing.
    pub(crate) fn replace_last(&mut self, extent: Extent) -> Extent {
        let last = self.list.last_mut().expect("there is one to be replaced");
        assert!(last.skip > 0 && extent.skip > 0 && extent.bytes >= last.bytes, "{extent:?} in place of {last:?}");
        self.bytes += extent.bytes - last.bytes;
        std::mem::replace(last, extent)
    }

    /// Drops what is behind the first `bytes`; returns the extents that went as a whole.
    pub(crate) fn truncate(&mut self, bytes: u64) -> Vec<Extent> {
        let keep = self.offsets.partition_point(|&offset| offset < bytes);
        let gone = self.list.split_off(keep);
        self.offsets.truncate(keep);
        if let (Some(last), Some(&offset)) = (self.list.last_mut(), self.offsets.last())
            && bytes - offset < last.bytes
        {
            (last.bytes, last.crc) = (bytes - offset, None);
        }
        self.bytes = self.bytes.min(bytes);
        gone
    }

    /// Puts `to` in the place of the extent at `from`; `None`, and nothing changed, if none is there or the bytes
    /// differ. Returns the extent that was there. Cost: to find it, and to move what is behind it in memory if there are more or fewer
    /// extents now.
    pub(crate) fn replace(&mut self, from: Place, to: &[Extent]) -> Option<Extent> {
        let (index, _) = self.find(from)?;
        let old = self.list[index];
        if to.iter().map(|extent| extent.bytes).sum::<u64>() != old.bytes {
            return None;
        }
        let around = index.saturating_sub(1)..self.list.len().min(index + 2);
        let (before, behind) = (&self.list[around.start..index], &self.list[index + 1..around.end]);
        // Neighbours that meet now are joined, as they are when a snapshot of the journal is read.
        let Self { list, offsets, .. } = before.iter().chain(to).chain(behind).copied().collect();
        self.next = around.start + list.len() - behind.len();
        let first = self.offsets[around.start];
        drop(self.offsets.splice(around.clone(), offsets.iter().map(|offset| first + offset)));
        drop(self.list.splice(around, list));
        Some(old)
    }

    /// The pieces that hold `range`, which is cut to what is there.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        let end = range.end.min(self.bytes);
        let first = self.offsets.partition_point(|&offset| offset <= range.start).saturating_sub(1);
        let mut pieces = Vec::new();
        for (offset, extent) in self.with_offsets().skip(first).take_while(|(offset, _)| *offset < end) {
            let from = range.start.max(offset) - offset;
            let to = end.min(offset + extent.bytes) - offset;
            if from < to {
                pieces.push(Piece { extent: *extent, from, bytes: to - from });
            }
        }
        pieces
    }
}

impl FromIterator<Extent> for Extents {
    fn from_iter<I: IntoIterator<Item = Extent>>(extents: I) -> Self {
        let mut out = Self::default();
        extents.into_iter().for_each(|extent| out.push(extent));
        out
    }
}

fn combine(crc: u32, more: u32, more_bytes: u64) -> u32 {
    let more_bytes = usize::try_from(more_bytes).expect("an extent is shorter than the address space");
    crate::crc::combine(crc, more, more_bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    fn extent(zone: u32, block: u64, bytes: u64) -> Extent {
        Extent { zone: ZoneId(zone), generation: 7, block, skip: 0, bytes, crc: None }
    }

    #[test]
    fn what_continues_becomes_one() {
        let extents: Extents = [extent(1, 10, 2 * BLOCK), extent(1, 12, 100), extent(1, 13, 50)].into_iter().collect();
        assert_eq!(extents.iter().count(), 2, "a padded block ends an extent");
        assert_eq!(extents.bytes(), 2 * BLOCK + 150);
    }

    #[test]
    fn checksums_of_pieces_become_that_of_the_whole() {
        let data = vec![3; 5000];
        let piece =
            |block, data: &[u8]| Extent { crc: Some(crc32c::crc32c(data)), ..extent(1, block, data.len() as u64) };
        let extents: Extents = [piece(10, &data[..4096]), piece(11, &data[4096..])].into_iter().collect();
        assert_eq!(extents.iter().map(|extent| extent.crc).collect::<Vec<_>>(), [Some(crc32c::crc32c(&data))]);
    }

    #[test]
    fn truncation_keeps_the_front() {
        let mut extents: Extents =
            [extent(1, 10, BLOCK), extent(2, 40, BLOCK), extent(3, 90, 10)].into_iter().collect();
        let gone = extents.truncate(BLOCK + 5);
        assert_eq!(gone, [extent(3, 90, 10)]);
        assert_eq!(extents.iter().copied().collect::<Vec<_>>(), [extent(1, 10, BLOCK), extent(2, 40, 5)]);
    }

    #[test]
    fn a_replacement_has_the_same_bytes() {
        let mut extents: Extents = [extent(1, 10, BLOCK), extent(2, 40, BLOCK)].into_iter().collect();
        let from = extent(1, 10, BLOCK).place();
        assert_eq!(extents.replace(from, &[extent(4, 7, 99)]), None);
        let to = [extent(4, 7, BLOCK - 1), extent(5, 9, 1)];
        assert_eq!(extents.replace(from, &to), Some(extent(1, 10, BLOCK)));
        assert_eq!(extents.pieces(BLOCK - 1..BLOCK + 1).iter().map(|p| p.extent.zone.0).collect::<Vec<_>>(), [5, 2]);
        assert_eq!(extents.replace(from, &to), None);
    }

    /// A zone of pieces of a MANIFEST holds as many as it has blocks, and names are locked for each.
    #[test]
    fn extents_that_move_in_order_cost_one_step_each() {
        const COUNT: u64 = 2_000;
        let chunk = |zone, number| Extent { skip: 40, ..extent(zone, number, 100) };
        // The first ones are elsewhere, and so are the last.
        let zone_of = |number| if (500..1_500).contains(&number) { 1 } else { 9 };
        let mut extents: Extents = (0..COUNT).map(|number| chunk(zone_of(number), number)).collect();
        let (list, mut looked_at) = (extents.list.as_ptr(), 0);
        for number in (0..COUNT).filter(|&number| zone_of(number) == 1) {
            let from = chunk(1, number).place();
            looked_at += extents.find(from).unwrap().1;
            assert_eq!(extents.replace(from, &[chunk(2, number)]), Some(chunk(1, number)));
            assert_eq!(extents.list.as_ptr(), list, "the list is not made again");
        }
        assert_eq!(looked_at, 500 + 1_000);
        assert_eq!(extents.offsets, (0..COUNT).map(|number| number * 100).collect::<Vec<_>>());
    }

    proptest! {
        /// As if all were read anew, in whatever order they are moved.
        #[test]
        fn what_is_replaced_is_joined_with_its_neighbours(
            lengths in prop::collection::vec((1_u64..4, 0_u64..2), 1..12),
            moves in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..3, 0_u64..3), 1..30),
        ) {
            let mut block = 0;
            let mut extents: Extents = lengths.iter().map(|&(blocks, gap)| {
                block += blocks + gap;
                Extent { crc: Some(7), ..extent(1, block - blocks, blocks * BLOCK) }
            }).collect();
            let bytes = extents.bytes();
            for (which, to, cut) in moves {
                let old = extents.list[which.index(extents.list.len())];
                // Right behind another one, right before it, or anywhere; in one piece or two.
                let other = extents.list[which.index(extents.list.len()).saturating_sub(1)];
                let places = [other.block + other.blocks(), other.block.saturating_sub(old.blocks()), 1_000 + block];
                let at = places[usize::try_from(to).expect("few")];
                let first = cut.min(old.blocks() - 1) * BLOCK;
                let piece = |block, bytes| Extent { crc: Some(7), ..extent(1, block, bytes) };
                let pieces = [piece(at, first), piece(at + first / BLOCK + cut % 2, old.bytes - first)];
                let pieces = if first == 0 { &pieces[1..] } else { &pieces[..] };
                let mut all = extents.list.clone();
                let index = all.iter().position(|extent| extent.is_at(old.place())).expect("just taken from it");
                all.splice(index..=index, pieces.iter().copied());
                let anew: Extents = all.into_iter().collect();
                // No store has two extents at a place; here chance does.
                let places: HashSet<Place> = extents.list.iter().map(Extent::place).collect();
                if places.len() < extents.list.len() {
                    break;
                }
                prop_assert_eq!(extents.replace(old.place(), pieces), Some(old));
                prop_assert_eq!(&extents.list, &anew.list);
                prop_assert_eq!(&extents.offsets, &anew.offsets);
                prop_assert_eq!(extents.bytes(), bytes);
            }
        }

        #[test]
        fn pieces_cover_the_range_without_gap(lengths in prop::collection::vec(1_u64..9_000, 1..20), start in 0_u64..90_000, bytes in 0_u64..90_000) {
            let mut block = 0;
            let extents: Extents = lengths.iter().enumerate().map(|(zone, &bytes)| {
                block += 100;
                extent(u32::try_from(zone).expect("few"), block, bytes)
            }).collect();
            let total: u64 = lengths.iter().sum();
            let expected = (start + bytes).min(total).saturating_sub(start);
            let pieces = extents.pieces(start..start + bytes);
            prop_assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), expected);
            for piece in &pieces {
                prop_assert!(piece.from + piece.bytes <= piece.extent.bytes);
            }
        }
    }
}
