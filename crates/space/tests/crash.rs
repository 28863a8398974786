//! Power cuts at random operations, recovery included: opening finds what was flushed and nothing that was never written,
//! and no generation that was durable is ever used again (I4).
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::geometry;
use common::model::Model;
use zonda_device::{CrashModel, CutAt, MemDevice, PowerCut, ZonedDevice};
use zonda_rt::Rng;
use zonda_space::SpaceError;

const CUTS_PER_SEED: u32 = 12;

fn powered(device: MemDevice, rng: &mut Rng) -> (PowerCut, Arc<dyn ZonedDevice>) {
    let switch = PowerCut::over(device);
    switch.arm(CutAt::Change(1 + rng.below(60)));
    (switch.clone(), Arc::new(switch))
}

/// Runs until the power goes; returns the model as it then was.
fn run(mut model: Model, rng: &mut Rng) -> Model {
    loop {
        match model.step(rng) {
            Ok(()) => model.check_tokens(),
            Err(SpaceError::Device(zonda_device::DeviceError::PowerLost)) => return model,
            Err(error) => panic!("{error}"),
        }
    }
}

fn crash(seed: u64, how: CrashModel) {
    let mut rng = Rng::seeded(seed);
    let device = MemDevice::new(geometry([4, 6, 14][usize::try_from(seed % 3).unwrap()])).unwrap();
    let switch = PowerCut::over(device);
    let mut model = Model::format(Arc::new(switch.clone())).unwrap();
    switch.arm(CutAt::Change(1 + rng.below(60)));
    let mut switch = switch;
    for _ in 0..CUTS_PER_SEED {
        model = run(model, &mut rng);
        // The power may go again while the store is opened.
        loop {
            let (next, device) = powered(switch.reopen_as(&mut rng, how), &mut rng);
            switch = next;
            match model.reopen(device) {
                Ok(reopened) => break model = reopened,
                Err(unopened) => model = unopened,
            }
        }
        model.check_data();
    }
}

#[test]
fn what_was_flushed_survives_any_cut() {
    (0..60).for_each(|seed| crash(seed, CrashModel::Prefix));
}

#[test]
fn a_page_cache_that_loses_unflushed_blocks_changes_nothing_that_counts() {
    (0..60).for_each(|seed| crash(seed, CrashModel::PageCache));
}

#[test]
fn a_half_made_store_is_no_store_and_can_be_made_again() {
    for at in 1..6 {
        for seed in 0..20 {
            let mut rng = Rng::seeded(seed);
            let switch = PowerCut::new(geometry(14)).unwrap();
            switch.arm(CutAt::Change(at));
            let made = Model::format(Arc::new(switch.clone()));
            let device: Arc<dyn ZonedDevice> = Arc::new(switch.reopen(&mut rng));
            match zonda_space::Space::open(Arc::clone(&device), &common::options()) {
                Ok((_, recovered)) => assert_eq!(recovered.zones, []),
                Err(error) => assert!(made.is_err() && matches!(error, SpaceError::NotAStore { .. }), "{error}"),
            }
            let again = zonda_space::NewStore { overwrite: true, ..common::new_store(2) };
            zonda_space::Space::format(device, again, &common::options()).unwrap();
        }
    }
}
