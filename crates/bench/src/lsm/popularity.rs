//! How often keys are drawn: all alike, or by Zipf's law, in classes of keys of like popularity.
//!
//! The keys of each class are scattered evenly over the key space, as YCSB's hash does, so that every range of keys has the same share
//! of each class.

use super::merge::{Run, distinct, real, whole};

/// Classes of popularity, the most popular first: each has four times the ranks of all before it, and a little more.
pub(super) const CLASSES: usize = 10;
/// Ranks up to the end of a class over ranks up to the end of the one before it.
const FACTOR: f64 = 4.0;

/// A distribution over the keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Popularity {
    /// The share of all keys that each class has; `None` where all are alike.
    classes: Option<[Class; CLASSES]>,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    /// Of all keys.
    keys: f64,
    /// Of all draws.
    draws: f64,
}

impl Popularity {
    /// All keys alike.
    pub(super) const UNIFORM: Self = Self { classes: None };

    /// Zipf's law with this constant, over so many keys.
    pub(super) fn zipf(keys: u64, skew: f64) -> Self {
        let keys = real(keys.max(1));
        let end = |class: usize| keys * FACTOR.powi(i32::try_from(class + 1).expect("ten classes") - 10);
        let mass = |class: usize| mass(end(class).max(1.0), skew);
        let all = mass(CLASSES - 1);
        let class = |class: usize| match class {
            0 => Class { keys: end(0) / keys, draws: mass(0) / all },
            _ => Class { keys: (end(class) - end(class - 1)) / keys, draws: (mass(class) - mass(class - 1)) / all },
        };
        Self { classes: Some(std::array::from_fn(class)) }
    }

    /// Whether all keys are alike.
    pub(super) fn is_uniform(&self) -> bool {
        self.classes.is_none()
    }

    /// The share of all keys that is there if so much of each class is.
    pub(super) fn density(&self, shares: &[f64; CLASSES]) -> f64 {
        let classes = self.classes.iter().flatten();
        classes.zip(shares).map(|(class, share)| class.keys * share).sum::<f64>().min(1.0)
    }

    /// What so many draws of keys of a range give.
    pub(super) fn drawn(&self, draws: u64, (first, last): (u64, u64)) -> Run {
        let keys = last - first + 1;
        let Some(classes) = self.classes else {
            return Run { first, last, pairs: distinct(draws, keys), shares: [0.0; CLASSES] };
        };
        let of_class = |class: Class| 1.0 - (-real(draws) * class.draws / (real(keys) * class.keys)).exp();
        let shares = classes.map(of_class);
        Run { first, last, pairs: whole(real(keys) * self.density(&shares)).max(1), shares }
    }
}

/// The sum of `rank^-skew` over so many ranks: the first hundred by themselves, the others by the integral.
fn mass(ranks: f64, skew: f64) -> f64 {
    const EXACT: u32 = 100;
    let exact = (1..=EXACT).map(f64::from).take_while(|rank| *rank <= ranks).map(|rank| rank.powf(-skew)).sum::<f64>();
    let from = f64::from(EXACT) + 0.5;
    let power = 1.0 - skew;
    let integral =
        |to: f64| if power.abs() < 1e-9 { (to / from).ln() } else { (to.powf(power) - from.powf(power)) / power };
    exact + if ranks > from { integral(ranks) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_all_keys_and_all_draws() {
        for skew in [0.5, 0.8, 0.99, 1.0] {
            let classes = Popularity::zipf(50_000_000, skew).classes.expect("not uniform");
            let (keys, draws): (f64, f64) =
                classes.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.keys, sum.1 + it.draws));
            assert!((keys - 1.0).abs() < 1e-9 && (draws - 1.0).abs() < 1e-9, "{skew}: {keys} {draws}");
            assert!(classes.windows(2).all(|pair| pair[0].draws / pair[0].keys > pair[1].draws / pair[1].keys));
        }
    }

    #[test]
    fn the_sum_is_that_of_the_ranks() {
        let exact: f64 = (1..=100_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        assert!((mass(100_000.0, 0.99) / exact - 1.0).abs() < 1e-3);
    }
}
