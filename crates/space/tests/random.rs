//! Random operations against a model, on a device that is reopened now and then: tokens never exceed the budget, no
//! zone is given away that was not reset, and everything written is read back.

mod common;

use common::model::Model;
use common::{as_zoned, device};
use zonda_rt::Rng;

#[test]
fn the_budget_holds_and_data_stays_under_random_operations() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let device = device([4, 5, 6, 8, 14][usize::try_from(seed % 5).unwrap()]);
        let mut model = Model::format(as_zoned(&device)).unwrap();
        let mut busiest = 0;
        for step in 0..400 {
            model.step(&mut rng).unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
            model.check_tokens();
            model.check_free_zones();
            busiest = busiest.max(model.active());
            if rng.chance(0.02) {
                device.power_cycle();
                model = model.reopen(as_zoned(&device)).unwrap_or_else(|_| unreachable!("the power stays on"));
            }
        }
        model.check_data();
        assert!(busiest >= 4, "seed {seed} opened at most {busiest} zones at a time");
    }
}
