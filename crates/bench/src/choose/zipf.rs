//! YCSB's zipfian distribution, by its own definition (Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases", as YCSB's `ZipfianGenerator` and `ScrambledZipfianGenerator` use it).
//!
//! One difference: YCSB's scrambled generator draws from a fixed 10^10 items, whose hashes reach every record; this one draws
//! from as many as there are records, so that theta is the same law for every size, and scatters them by a permutation: hashes
//! of so few fall together and would leave more than a third of the records out.

use zonda_rt::{Permutation, Rng, Seed};

/// Popularity ranks 0, 1, 2, ... with probability proportional to `1 / (rank + 1)^theta`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// For ranks `0..items`; costs one power per item.
    ///
    /// # Panics
    /// If `items` is 0 or `theta` is not between 0 and 1: callers check what users give.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0 && theta > 0.0 && theta < 1.0, "zipfian over {items} items with theta {theta}");
        let mut zipfian = Self { items: 0, theta, zeta: 0.0, eta: 0.0 };
        zipfian.grow(items);
        zipfian
    }

    /// Extends the ranks to `0..items`; costs one power per new item. Never shrinks.
    pub fn grow(&mut self, items: u64) {
        if items <= self.items {
            return;
        }
        self.zeta += (self.items..items).map(|rank| term(rank, self.theta)).sum::<f64>();
        self.items = items;
        let zeta_of_two = term(0, self.theta) + term(1, self.theta);
        let tail = 1.0 - (2.0 / items as f64).powf(1.0 - self.theta);
        self.eta = if items > 2 { tail / (1.0 - zeta_of_two / self.zeta) } else { 0.0 };
    }

    /// A rank; 0 is the most popular. Draws one number.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let unit = rng.unit_f64();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + term(1, self.theta) {
            return 1;
        }
        let place = (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        whole(self.items as f64 * place).min(self.items - 1)
    }
}

fn term(rank: u64, theta: f64) -> f64 {
    1.0 / ((rank + 1) as f64).powf(theta)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float to integer saturates; callers clamp"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Draws of a record that is not there yet before any that is will do: one choice in a thousand where a tenth is.
const DRAWS_MAX: u32 = 64;
/// By which the popular records are scattered: the same ones for every theta.
const SCATTER: Seed = Seed(0x5eed_0f2e_c07d);

/// Zipfian popularity scattered over the records by a permutation, so that each has a popularity of its own.
#[derive(Clone, Debug)]
pub struct Zipf {
    popularity: Zipfian,
    scatter: Permutation,
}

impl Zipf {
    /// YCSB's own constant.
    pub const THETA_OF_YCSB: f64 = 0.99;

    /// For records that are added until there are `places`, or all there from the beginning: each of these has its popularity, and who is
    /// not there yet is drawn again (as YCSB does), so that a record stays as popular as it was, next to the others that are there.
    #[must_use]
    pub fn new(places: u64, theta: f64) -> Self {
        let places = places.max(1);
        Self {
            popularity: Zipfian::new(places, theta),
            scatter: Permutation::up_to(places - 1, &mut SCATTER.derive("popularity").rng()),
        }
    }

    /// A record in `0..existing`; draws one number, or while records are added about `places / existing`.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        for _ in 0..DRAWS_MAX {
            let record = self.draw(rng);
            if record < existing {
                return record;
            }
        }
        self.draw(rng) % existing
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        self.scatter.forward(self.popularity.rank(rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_chances_of_the_definition() {
        let (zipfian, mut rng) = (Zipfian::new(1_000, 0.99), Rng::seeded(4));
        let mut counts = [0u32; 3];
        for _ in 0..200_000 {
            let rank = zipfian.rank(&mut rng);
            assert!(rank < 1_000);
            if let Some(count) = usize::try_from(rank).ok().and_then(|rank| counts.get_mut(rank)) {
                *count += 1;
            }
        }
        // zeta(1000, 0.99) = 7.728: the first two ranks are exact in Gray's method, later ones approximate.
        for (rank, expected) in [(0, 0.1294), (1, 0.0652)] {
            let share = f64::from(counts[rank]) / 200_000.0;
            assert!((share - expected).abs() < 0.003, "rank {rank}: {share}");
        }
    }

    #[test]
    fn the_popular_records_stay_popular_while_records_are_added() {
        let (mut zipf, mut rng) = (Zipf::new(30_000, 0.99), Rng::seeded(4));
        let mut counts = std::collections::BTreeMap::new();
        for existing in 10_000..30_000 {
            *counts.entry(zipf.choose(&mut rng, existing)).or_insert(0_u32) += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        // The first ranks have 9, 4 and 3 % of all, and more of those that are there.
        assert!(most > 1_000, "{most} of 20,000 draws are of the most popular record");
    }

    #[test]
    fn every_record_is_chosen_whether_others_are_added_or_not() {
        for records in [20_000_u64, 32_768, 32_769] {
            for room in [0, 1, records / 10, records] {
                // So little skew that every rank is drawn soon.
                let (mut zipf, mut rng) = (Zipf::new(records + room, 0.01), Rng::seeded(4));
                let chosen: std::collections::BTreeSet<u64> =
                    (0..10 * records).map(|_| zipf.choose(&mut rng, records)).collect();
                let share = chosen.len() as f64 / records as f64;
                assert!(share > 0.999, "{records}, {room} to come: {share}");
            }
        }
    }

    #[test]
    fn growing_equals_starting_large() {
        let mut grown = Zipfian::new(10, 0.9);
        grown.grow(500);
        grown.grow(20);
        let large = Zipfian::new(500, 0.9);
        assert!((grown.zeta - large.zeta).abs() < 1e-9 && (grown.eta - large.eta).abs() < 1e-9);
        assert_eq!(grown.items, 500);
    }

    /// Bf-Tree 6: with a skew of 0.9, 80 % of the requests go to 33 % of the records.
    #[test]
    fn skew_of_0_9_is_as_the_bf_tree_paper_says() {
        let (zipfian, mut rng) = (Zipfian::new(1_000_000, 0.9), Rng::seeded(4));
        let hits = (0..100_000).filter(|_| zipfian.rank(&mut rng) < 330_000).count();
        assert!((77_000..92_000).contains(&hits), "{hits}");
    }
}
