//! Values that nothing refers to, as rows of cuts in the middle of value reclaim leave them: they take the room that moving needs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::cell::Cell;
use std::sync::Arc;

use common::{Toy, block_device, create, create_in_place, device, id, in_place_options, options};
use zonda_pages::{
    AreaKind, ChunkAddress, InPlaceStore, Liveness, PageAddress, PageError, PageId, PageStore, Reclaimed, Relocate,
    Relocated, Stamp, ZonedStore,
};

const VALUE_BYTES: usize = 12_000;

/// A tree whose power is cut behind so many copies of values: it refers to none of them.
struct CutShort<'a> {
    toy: &'a Toy<dyn PageStore>,
    copies: Cell<u32>,
}

impl Relocate for CutShort<'_> {
    fn relocate_page(&self, _: PageId, _: PageAddress, _: &[u8]) -> Result<Relocated, PageError> {
        Err(PageError::Busy)
    }

    fn relocate_value(&self, at: ChunkAddress, payload: &[u8]) -> Result<Relocated, PageError> {
        if !self.toy.values.lock().contains_key(&at) {
            return Ok(Relocated::Dead);
        }
        let left = self.copies.get().checked_sub(1).ok_or(PageError::Busy)?;
        self.copies.set(left);
        self.toy.store.area(AreaKind::Values).append(payload)?;
        Ok(Relocated::Moved)
    }

    fn value_liveness(&self, _: ChunkAddress, _: &[u8]) -> Result<Liveness, PageError> {
        Ok(Liveness::Unknown)
    }

    fn writes(&self) -> u64 {
        0
    }

    fn knows_values(&self) -> bool {
        true
    }

    fn stamp(&self) -> Stamp {
        Stamp(0)
    }

    fn commit_moves(&self) -> Result<(), PageError> {
        Ok(())
    }

    fn drained(&self, _: Stamp) -> bool {
        false
    }
}

/// A full store is opened again and again, and each time the power is cut while reclaim moves values; then it is written to.
fn goes_on_after_rows_of_cuts(store: Arc<dyn PageStore>, open: &dyn Fn() -> Arc<dyn PageStore>) {
    let toy = Toy::new(store);
    let values: Vec<_> = (0..251).cycle().map_while(|n| toy.put_value(&[n; VALUE_BYTES]).ok()).collect();
    // A tenth dies, of every zone or segment something.
    values.iter().step_by(10).for_each(|&at| toy.delete_value(at));
    toy.commit().unwrap();
    drop(toy);
    for _ in 0..40 {
        let toy = Toy::recover(open());
        // A writer that finds the store full makes reclaim look.
        let _full = toy.store.admit(1);
        let cut = CutShort { toy: &toy, copies: Cell::new(4) };
        while toy.store.reclaim_step(&cut).unwrap() == Reclaimed::Progress {}
    }
    let toy = Toy::recover(open());
    for step in 0.. {
        match toy.store.admit(1) {
            Ok(()) => break,
            Err(PageError::Busy) => {}
            Err(error) => panic!("{error} in a store of which a tenth is free"),
        }
        assert!(step < 20_000, "reclaim gets nowhere: {:?}", toy.store.usage());
        toy.store.reclaim_step(&toy).unwrap();
    }
    (0..50).for_each(|n| toy.put(id(n), n, 1).unwrap());
    toy.check_all();
    toy.check_values();
    assert!(toy.store.usage().zones_reset > 0);
}

#[test]
fn on_zones() {
    let device = device();
    let open = || -> Arc<dyn PageStore> { ZonedStore::open(device.clone(), &options()).unwrap().0 };
    goes_on_after_rows_of_cuts(create(&device), &open);
}

#[test]
fn in_place() {
    let device = block_device();
    let open = || -> Arc<dyn PageStore> { InPlaceStore::open(device.clone(), &in_place_options()).unwrap().0 };
    goes_on_after_rows_of_cuts(create_in_place(&device), &open);
}
