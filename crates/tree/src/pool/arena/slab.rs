//! A slab: 4 to 16 KiB of cells of one class, behind a header and the leaf id of each cell.
//!
//! ```text
//! Slab | leaf id u32 of each cell, or the next free cell | cells, aligned to 16
//! ```
//!
//! Unsafe code: a slab is raw memory that starts at a multiple of its size, so that a cell leads to its slab. Always: it belongs to one
//! list, and all its fields but `inner`, `list` and `size`, which never change while a cell of it is taken, are touched under that list's
//! lock only.

use std::ptr::NonNull;

use zonda_pages::PageId;

use super::super::class::{SLAB_CLASSES, class_bytes, class_for};
use super::Inner;

/// Cells and allocations are aligned to this.
pub(super) const ALIGN: usize = 16;
/// A cell that is not taken holds the index of the next such one instead of a leaf id, with this bit.
pub(super) const FREE: u32 = 1 << 31;
const NO_CELL: u32 = FREE - 1;

/// The size of an arena's slabs: each list has one that is partly free, so small arenas have small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(u8);

impl Size {
    /// 16 KiB.
    pub(super) const LARGEST: Self = Self(2);

    /// For buffers of `bytes` in all.
    pub(super) fn of(bytes: u64) -> Self {
        match bytes >> 20 {
            0..8 => Self(0),
            8..24 => Self(1),
            _ => Self::LARGEST,
        }
    }

    /// A number below 3.
    pub(crate) fn raw(self) -> u8 {
        self.0
    }

    /// The size of which this is the number.
    pub(crate) fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    pub(super) fn slab_bytes(self) -> usize {
        (4 << 10) << self.0
    }

    /// Classes below this one are cells of slabs.
    pub(super) fn slab_classes(self) -> usize {
        class_for(self.slab_bytes() / 4) + 1
    }

    pub(super) fn cells_of(self, class: usize) -> usize {
        // Leaf ids end at an address that need not be aligned as cells are.
        (self.slab_bytes() - SLAB_HEAD_BYTES - ALIGN) / (class_bytes(class) + size_of::<u32>())
    }

    fn first_cell_at(self, class: usize) -> usize {
        (SLAB_HEAD_BYTES + self.cells_of(class) * size_of::<u32>()).next_multiple_of(ALIGN)
    }
}

#[repr(C)]
struct Slab {
    inner: *const Inner,
    list: u16,
    size: Size,
    state: State,
}

/// What changes under the list's lock.
pub(super) struct State {
    /// Cells that are taken, and all.
    pub(super) used: u16,
    pub(super) cells: u16,
    /// Where its list has it.
    pub(super) index: u32,
    free: u32,
}

const SLAB_HEAD_BYTES: usize = size_of::<Slab>();

/// A slab of some list. Whoever calls its functions holds that list's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SlabAt(NonNull<Slab>);

impl SlabAt {
    /// The slab that `cell` lies in.
    pub(super) fn around(cell: NonNull<u8>, size: Size) -> Self {
        let base = cell.as_ptr().map_addr(|address| address & !(size.slab_bytes() - 1));
        Self(NonNull::new(base.cast()).expect("slabs are not at zero"))
    }

    /// Makes it a slab of `list`, none of its cells taken.
    pub(super) fn begin(self, inner: &Inner, list: usize, index: u32) {
        let (class, size) = (list % SLAB_CLASSES, inner.size);
        let cells = u16::try_from(size.cells_of(class)).expect("a slab has few cells");
        let list = u16::try_from(list).expect("there are few lists");
        // SAFETY: the caller has just taken the slab from its chunk; nobody else knows it.
        unsafe { self.0.write(Slab { inner, list, size, state: State { used: 0, cells, index, free: 0 } }) };
        for cell in 0..u32::from(cells) {
            let next = if cell + 1 == u32::from(cells) { NO_CELL } else { cell + 1 };
            self.set_leaf(cell, FREE | next);
        }
    }

    /// What changes.
    pub(super) fn state<'a>(self) -> &'a mut State {
        // SAFETY: a slab of a list is initialised, and the list's lock, which the caller holds, makes the access exclusive; no
        // reference outlives the caller's statement.
        unsafe { &mut (*self.0.as_ptr()).state }
    }

    /// Its list.
    pub(super) fn list(self) -> usize {
        // SAFETY: initialised, and unchanged while the slab is in a list.
        usize::from(unsafe { (*self.0.as_ptr()).list })
    }

    /// The arena that it was begun for.
    ///
    /// # Safety
    /// It is in a list of that arena.
    pub(super) unsafe fn inner(self) -> *const Inner {
        // SAFETY: initialised, and unchanged while the slab is in a list.
        unsafe { (*self.0.as_ptr()).inner }
    }

    /// Its memory, which nobody uses.
    pub(super) fn memory(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The slab that begins at `at`.
    pub(super) fn at(at: NonNull<u8>) -> Self {
        Self(at.cast())
    }

    fn size(self) -> Size {
        // SAFETY: as above.
        unsafe { (*self.0.as_ptr()).size }
    }

    fn leaf_at(self, cell: u32) -> *mut u32 {
        // SAFETY: `cell` is below the number of cells, whose ids lie within the slab.
        unsafe { self.0.as_ptr().cast::<u8>().add(SLAB_HEAD_BYTES).cast::<u32>().add(cell as usize) }
    }

    /// The leaf of a cell, or [`FREE`] and the next such cell.
    pub(super) fn leaf(self, cell: u32) -> u32 {
        // SAFETY: initialised by `begin`; under the list's lock.
        unsafe { self.leaf_at(cell).read() }
    }

    fn set_leaf(self, cell: u32, leaf: u32) {
        // SAFETY: as above.
        unsafe { self.leaf_at(cell).write(leaf) }
    }

    fn class(self) -> usize {
        self.list() % SLAB_CLASSES
    }

    fn cell(self, cell: u32) -> NonNull<u8> {
        let class = self.class();
        let offset = self.size().first_cell_at(class) + cell as usize * class_bytes(class);
        // SAFETY: the cell lies within the slab.
        unsafe { self.0.cast::<u8>().add(offset) }
    }

    /// The number of a cell of it.
    pub(super) fn index_of(self, cell: NonNull<u8>) -> u32 {
        let class = self.class();
        let offset = cell.addr().get() - self.0.addr().get() - self.size().first_cell_at(class);
        u32::try_from(offset / class_bytes(class)).expect("a slab has few cells")
    }

    pub(super) fn is_full(self) -> bool {
        self.state().used == self.state().cells
    }

    /// Takes a cell; it is not full.
    pub(super) fn take(self, leaf: PageId) -> NonNull<u8> {
        let cell = self.state().free;
        self.state().free = self.leaf(cell) & !FREE;
        self.state().used += 1;
        self.set_leaf(cell, leaf.0);
        self.cell(cell)
    }

    /// Takes a cell back.
    pub(super) fn give(self, cell: u32) {
        self.set_leaf(cell, FREE | self.state().free);
        self.state().free = cell;
        self.state().used -= 1;
    }
}
