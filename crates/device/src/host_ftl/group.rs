//! A group that is being filled: data blocks and trims that one write will put on the device.
use super::format::{GROUP_BLOCKS_MAX, GROUP_HEADER_BYTES, GROUP_TRIMS_MAX, GroupHeader};
use crate::AlignedBuf;

/// Block size of the volume and of the device below.
pub(super) const BLOCK: usize = GROUP_HEADER_BYTES;

/// A group in memory: room for its header, then its data blocks.
#[derive(Debug)]
pub(super) struct Group {
    buffer: AlignedBuf,
    blocks: Vec<Option<u64>>,
    trims: Vec<(u64, u64)>,
    /// Data blocks that fit into the zone where it will be written.
    limit: usize,
    /// See [`GroupHeader::moved_from`].
    moved_from: Option<(u32, u64)>,
}

impl Group {
    pub(super) fn new() -> Self {
        Self {
            buffer: AlignedBuf::with_len((1 + GROUP_BLOCKS_MAX) * BLOCK),
            blocks: Vec::new(),
            trims: Vec::new(),
            limit: 0,
            moved_from: None,
        }
    }

    /// What follows is moved out of a zone whose first group has this number.
    pub(super) fn moved_from(&mut self, zone: u32, first_sequence: u64) {
        self.moved_from = Some((zone, first_sequence));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.trims.is_empty()
    }

    /// True if no data block fits any more.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() >= self.limit
    }

    /// True if no trim fits any more.
    pub(super) fn is_full_of_trims(&self) -> bool {
        self.trims.len() == GROUP_TRIMS_MAX
    }

    /// Begins an empty group for a zone with room for so many data blocks.
    pub(super) fn begin(&mut self, room_blocks: usize) {
        self.limit = room_blocks.min(GROUP_BLOCKS_MAX);
    }

    /// Adds a data block; its index.
    pub(super) fn push(&mut self, block: u64, from: &[u8]) -> usize {
        let index = self.blocks.len();
        assert!(index < self.limit, "a full group is written first");
        self.blocks.push(Some(block));
        self.replace(index, from);
        index
    }

    /// Other bytes for a data block.
    pub(super) fn replace(&mut self, index: usize, from: &[u8]) {
        self.buffer[(1 + index) * BLOCK..][..BLOCK].copy_from_slice(from);
    }

    /// Nobody wants a data block any more.
    pub(super) fn kill(&mut self, index: usize) {
        self.blocks[index] = None;
    }

    pub(super) fn trim(&mut self, first: u64, blocks: u64) {
        self.trims.push((first, blocks));
    }

    /// The bytes of a data block.
    pub(super) fn block(&self, index: usize) -> &[u8] {
        &self.buffer[(1 + index) * BLOCK..][..BLOCK]
    }

    /// The blocks of the volume that it holds, in their order.
    pub(super) fn blocks(&self) -> &[Option<u64>] {
        &self.blocks
    }

    /// Blocks on the device, header included.
    pub(super) fn len_blocks(&self) -> u32 {
        u32::try_from(1 + self.blocks.len()).expect("a group is small")
    }

    /// Writes its header.
    pub(super) fn seal(&mut self, capacity_blocks: u64, sequence: u64, durable_before: u64) {
        let checked = |(index, block): (usize, &Option<u64>)| (*block, crc32c::crc32c(self.block(index)));
        let data = self.blocks.iter().enumerate().map(checked).collect();
        let trims = self.trims.clone();
        let moved_from = self.moved_from;
        let header = GroupHeader { capacity_blocks, sequence, durable_before, moved_from, trims, data };
        header.encode_into(&mut self.buffer[..BLOCK]);
    }

    /// All of it, as it goes to the device.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len_blocks() as usize * BLOCK]
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.trims.clear();
        self.limit = 0;
    }
}
