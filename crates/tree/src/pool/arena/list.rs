//! A list: all slabs of one class and one family of leaves, the full ones first. Its owner has it behind a lock.

use std::ptr::NonNull;

use zonda_pages::PageId;

use super::slab::{FREE, SlabAt};

/// All slabs of one class and family: the full ones first.
#[derive(Default)]
pub(super) struct List {
    pub(super) slabs: Vec<SlabAt>,
    /// Slabs of `slabs` that are full; they stand first.
    pub(super) full: usize,
    /// Cells taken of all.
    pub(super) used: u32,
    hand: (usize, u32),
}

impl List {
    fn swap(&mut self, a: usize, b: usize) {
        self.slabs.swap(a, b);
        for at in [a, b] {
            self.slabs[at].state().index = u32::try_from(at).expect("a list has few slabs");
        }
    }

    /// Whether a slab has room.
    pub(super) fn has_room(&self) -> bool {
        self.full < self.slabs.len()
    }

    /// Takes a cell for a leaf; a slab has room.
    pub(super) fn take(&mut self, leaf: PageId) -> NonNull<u8> {
        let slab = self.slabs[self.full];
        let cell = slab.take(leaf);
        self.used += 1;
        // It stands first among those with room, which is where the full ones end.
        self.full += usize::from(slab.is_full());
        cell
    }

    /// Gives a cell back; returns the slab if it is empty now.
    pub(super) fn give(&mut self, slab: SlabAt, cell: u32) -> Option<SlabAt> {
        let index = slab.state().index as usize;
        if slab.is_full() {
            self.full -= 1;
            self.swap(index, self.full);
        }
        slab.give(cell);
        self.used -= 1;
        (slab.state().used == 0).then(|| {
            let last = self.slabs.len() - 1;
            self.swap(slab.state().index as usize, last);
            self.slabs.pop().expect("it has this slab")
        })
    }

    /// Cells that are not taken.
    fn spare(&self) -> usize {
        let cells = self.slabs.first().map_or(0, |slab| usize::from(slab.state().cells));
        self.slabs.len() * cells - self.used as usize
    }

    /// The leaves of the slab with the fewest cells taken, if the others with room can hold them. They fill up before it does.
    pub(super) fn sparse(&mut self) -> Option<Vec<PageId>> {
        let least = (self.full..self.slabs.len()).min_by_key(|&at| self.slabs[at].state().used)?;
        let slab = self.slabs[least];
        let (used, cells) = (slab.state().used, slab.state().cells);
        let elsewhere = self.spare() - usize::from(cells - used);
        if elsewhere < usize::from(used) {
            return None;
        }
        self.swap(least, self.slabs.len() - 1);
        let leaves = (0..u32::from(cells)).map(|cell| slab.leaf(cell)).filter(|leaf| leaf & FREE == 0);
        Some(leaves.map(PageId).collect())
    }

    /// The next cell's leaf in a round over all of them.
    pub(super) fn next(&mut self) -> Option<PageId> {
        let (mut at, mut cell) = self.hand;
        // From the hand to the end, back to the beginning, and the slab of the hand once more.
        for _ in 0..self.slabs.len() + 2 {
            let Some(slab) = self.slabs.get(at) else {
                (at, cell) = (0, 0);
                continue;
            };
            let taken = (cell..u32::from(slab.state().cells)).find(|&cell| slab.leaf(cell) & FREE == 0);
            if let Some(taken) = taken {
                self.hand = (at, taken + 1);
                return Some(PageId(slab.leaf(taken)));
            }
            (at, cell) = (at + 1, 0);
        }
        self.hand = (0, 0);
        None
    }
}
