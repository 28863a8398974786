//! YCSB's zipfian distribution, by its own definition (Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases", as YCSB's `ZipfianGenerator` and `ScrambledZipfianGenerator` use it).
//!
//! One difference: YCSB's scrambled generator draws from a fixed 10^10 items, which reach every record; this one draws from
//! as many as there are records, so that theta is the same law for every size. Hashes fall together, so that only some of
//! the records are ever chosen: 63 % by chance, as where records are added; FNV is less even than chance and reaches 27 %
//! of 3,000,000 records, 50 % of 2,000,000 and 72 % of 6,250,000.

use zonda_rt::Rng;

use crate::keys::mix;

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

/// Zipfian popularity scattered over the records by a hash.
#[derive(Clone, Debug)]
pub struct Zipf {
    popularity: Zipfian,
    /// While records are inserted: all that there will be, so that the popular ones stay the same.
    places: Option<u64>,
}

impl Zipf {
    /// YCSB's own constant.
    pub const THETA_OF_YCSB: f64 = 0.99;

    /// For `records` records, and no others: scattered by YCSB's FNV hash.
    #[must_use]
    pub fn new(records: u64, theta: f64) -> Self {
        Self { popularity: Zipfian::new(records.max(1), theta), places: None }
    }

    /// For records that are added until there are `places`: each of these has its popularity from the beginning, and who is
    /// not there yet is drawn again (as YCSB does), so that a record stays as popular as it was, next to the others that are
    /// there. As many ranks as places: those whose records are there are about as many as the records.
    #[must_use]
    pub fn growing(places: u64, theta: f64) -> Self {
        Self { places: Some(places.max(1)), ..Self::new(places, theta) }
    }

    /// A record in `0..existing`; draws one number, or while records are added about `places / existing`.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        let Some(places) = self.places else { return fnv_hash(self.popularity.rank(rng)) % existing };
        for _ in 0..DRAWS_MAX {
            let record = mix(self.popularity.rank(rng)) % places;
            if record < existing {
                return record;
            }
        }
        mix(self.popularity.rank(rng)) % existing
    }
}

/// YCSB's `fnvhash64`: FNV-1a over the eight bytes of a number, lowest first.
fn fnv_hash(value: u64) -> u64 {
    value
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
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
        let (mut zipf, mut rng) = (Zipf::growing(30_000, 0.99), Rng::seeded(4));
        let mut counts = std::collections::BTreeMap::new();
        for existing in 10_000..30_000 {
            *counts.entry(zipf.choose(&mut rng, existing)).or_insert(0_u32) += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        // The first ranks have 9, 4 and 3 % of all, and more of those that are there.
        assert!(most > 1_000, "{most} of 20,000 draws are of the most popular record");
    }

    /// As many of the records as chance gives, 1 - 1/e, whatever their number and that of those to come.
    #[test]
    fn where_records_are_added_most_of_those_that_are_there_are_chosen() {
        for records in [20_000_u64, 32_768, 32_769] {
            for room in [1, records / 10, records] {
                // So little skew that every rank is drawn soon.
                let (mut zipf, mut rng) = (Zipf::growing(records + room, 0.01), Rng::seeded(4));
                let chosen: std::collections::BTreeSet<u64> =
                    (0..10 * records).map(|_| zipf.choose(&mut rng, records)).collect();
                let share = chosen.len() as f64 / records as f64;
                assert!((share / 0.632 - 1.0).abs() < 0.03, "{records}, {room} to come: {share}");
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

    #[test]
    fn the_hash_is_ycsbs() {
        assert_eq!(fnv_hash(0), 0xa8c7_f832_281a_39c5);
    }

    /// Bf-Tree 6: with a skew of 0.9, 80 % of the requests go to 33 % of the records.
    #[test]
    fn skew_of_0_9_is_as_the_bf_tree_paper_says() {
        let (zipfian, mut rng) = (Zipfian::new(1_000_000, 0.9), Rng::seeded(4));
        let hits = (0..100_000).filter(|_| zipfian.rank(&mut rng) < 330_000).count();
        assert!((77_000..92_000).contains(&hits), "{hits}");
    }
}
