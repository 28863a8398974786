//! Which existing record an operation goes to.

mod hot;
mod hot_range;
mod latest;
mod uniform;
mod zipf;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use zonda_rt::Rng;

pub use hot::Hot;
pub use hot_range::HotRange;
pub use latest::Latest;
pub use uniform::Uniform;
pub use zipf::{Zipf, Zipfian};

use crate::keys::KeySpace;

/// Share of the operations that a hot set gets, in percent.
const HOT_OPERATIONS_PERCENT: u64 = 80;

/// The hot set is one record of this many.
const HOT_ONE_IN: u64 = 5;

/// A distribution by name, as `--distribution` takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every record alike.
    Uniform,
    /// 80 % of the operations on 20 % of the records, scattered over the keys.
    Hot,
    /// 80 % of the operations on 20 % of the records, contiguous in key order.
    HotRange,
    /// Zipfian with this constant, 0 < theta < 1, scattered over the records.
    Zipf(f64),
    /// YCSB's "latest": zipfian over the age of records, newest first.
    Latest,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Hot => f.write_str("hot"),
            Self::HotRange => f.write_str("hot-range"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is none of uniform, hot, hot-range, zipf:THETA (0 < THETA < 1), latest");
        match text {
            "uniform" => Ok(Self::Uniform),
            "hot" => Ok(Self::Hot),
            "hot-range" => Ok(Self::HotRange),
            "latest" => Ok(Self::Latest),
            "zipf" => Ok(Self::Zipf(Zipf::THETA_OF_YCSB)),
            _ => {
                let theta: f64 = text.strip_prefix("zipf:").and_then(|theta| theta.parse().ok()).ok_or_else(refused)?;
                (theta > 0.0 && theta < 1.0).then_some(Self::Zipf(theta)).ok_or_else(refused)
            }
        }
    }
}

/// A distribution made ready for a number of records. Cloning is cheap; each thread has its own.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// See [`Uniform`].
    Uniform(Uniform),
    /// See [`Hot`].
    Hot(Hot),
    /// See [`HotRange`].
    HotRange(HotRange),
    /// See [`Zipf`].
    Zipf(Zipf),
    /// See [`Latest`].
    Latest(Latest),
}

impl Chooser {
    /// Makes `distribution` ready for `records` records, to which `room` others may be added; a zipfian one costs one power for
    /// each of these, once.
    #[must_use]
    pub fn new(distribution: Distribution, keys: &Arc<KeySpace>, records: u64, room: u64) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform(Uniform),
            Distribution::Hot => Self::Hot(Hot),
            Distribution::HotRange => Self::HotRange(HotRange::new(Arc::clone(keys))),
            Distribution::Zipf(theta) => Self::Zipf(Zipf::new(records + room, theta)),
            Distribution::Latest => Self::Latest(Latest::new(records)),
        }
    }

    /// A record in `0..existing`.
    ///
    /// # Panics
    /// If there is no record: workloads that read or update are refused on an empty store.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        assert!(existing > 0, "a choice among no records");
        match self {
            Self::Uniform(uniform) => uniform.choose(rng, existing),
            Self::Hot(hot) => hot.choose(rng, existing),
            Self::HotRange(range) => range.choose(rng, existing),
            Self::Zipf(zipf) => zipf.choose(rng, existing),
            Self::Latest(latest) => latest.choose(rng, existing),
        }
    }
}

#[cfg(test)]
mod tests {
    use zonda_rt::Seed;

    use super::*;
    use crate::keys::Order;

    const RECORDS: u64 = 10_000;
    const DRAWS: usize = 50_000;

    pub(super) fn draws(distribution: Distribution, order: Order) -> (Arc<KeySpace>, Vec<u64>) {
        let keys = Arc::new(KeySpace::new(8, RECORDS, order, Seed(5)).unwrap());
        let mut chooser = Chooser::new(distribution, &keys, RECORDS, 0);
        let mut rng = Rng::seeded(1);
        let drawn = (0..DRAWS).map(|_| chooser.choose(&mut rng, RECORDS)).collect();
        (keys, drawn)
    }

    /// Share of the draws that fall on the most popular fifth of the records.
    fn share_of_top_fifth(drawn: &[u64]) -> f64 {
        let mut counts = vec![0u64; usize::try_from(RECORDS).unwrap()];
        drawn.iter().for_each(|index| counts[usize::try_from(*index).unwrap()] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts[..counts.len() / 5].iter().sum::<u64>() as f64 / drawn.len() as f64
    }

    #[test]
    fn shares_are_those_of_the_names() {
        for (distribution, low, high) in [
            (Distribution::Uniform, 0.2, 0.4),
            (Distribution::Hot, 0.78, 0.82),
            (Distribution::HotRange, 0.78, 0.84),
            (Distribution::Zipf(0.9), 0.7, 0.85),
            (Distribution::Zipf(0.99), 0.78, 0.92),
            (Distribution::Latest, 0.78, 0.92),
        ] {
            for order in [Order::Random, Order::Sorted] {
                let (_, drawn) = draws(distribution, order);
                assert!(drawn.iter().all(|index| *index < RECORDS));
                let share = share_of_top_fifth(&drawn);
                assert!((low..high).contains(&share), "{distribution} {order:?}: {share}");
            }
        }
    }

    #[test]
    fn few_records_are_enough() {
        for distribution in ["uniform", "hot", "hot-range", "zipf:0.5", "latest"] {
            for records in 1..8 {
                let keys = Arc::new(KeySpace::new(8, 100, Order::Random, Seed(5)).unwrap());
                for room in [0, 1, 50] {
                    let mut chooser = Chooser::new(distribution.parse().unwrap(), &keys, records, room);
                    let mut rng = Rng::seeded(records);
                    assert!((0..200).all(|_| chooser.choose(&mut rng, records) < records), "{distribution} {records}");
                }
            }
        }
    }

    #[test]
    fn names_round_trip_and_nonsense_is_refused() {
        for name in ["uniform", "hot", "hot-range", "zipf:0.9", "latest"] {
            assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
        }
        for name in ["", "Hot", "zipf:", "zipf:1", "zipf:0", "zipf:nan", "zipf:-1", "zipf:inf"] {
            assert!(name.parse::<Distribution>().is_err(), "{name}");
        }
    }
}
