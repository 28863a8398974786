//! New records are the popular ones.

use zonda_rt::Rng;

use super::zipf::{Zipf, Zipfian};

/// YCSB's "skewed latest": the age of the chosen record is zipfian, newest first.
#[derive(Clone, Debug)]
pub struct Latest {
    age: Zipfian,
}

impl Latest {
    /// For `records` records to begin with; grows with them.
    #[must_use]
    pub fn new(records: u64) -> Self {
        Self { age: Zipfian::new(records.max(1), Zipf::THETA_OF_YCSB) }
    }

    /// A record in `0..existing`; draws one number.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        self.age.grow(existing);
        let age = self.age.rank(rng).min(existing - 1);
        existing - 1 - age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_the_most_popular_as_records_grow() {
        let mut latest = Latest::new(100);
        let mut rng = Rng::seeded(1);
        for existing in [100, 150, 1_000] {
            let newest = (0..1_000).filter(|_| latest.choose(&mut rng, existing) == existing - 1).count();
            assert!(newest > 80, "{existing}: {newest}");
        }
    }
}
