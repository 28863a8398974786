//! Which keys are read and written: numbers as big-endian bytes, and how often each comes.

use std::sync::atomic::{AtomicU64, Ordering};

use zonda_rt::{Permutation, Rng, Seed};

/// A key of a number: its eight bytes, and zeros up to the length.
pub(crate) fn key(number: u64, bytes: usize) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(bytes, b'0');
    key
}

/// Zipf's law by the method of Gray et al., as YCSB has it: rank 0 comes most often. With a skew of 0 all come alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    count: u64,
    skew: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over at least one number, with a skew below 1.
    pub(crate) fn new(count: u64, skew: f64) -> Self {
        let count = count.max(1);
        let term = |rank: u64| (rank as f64).powf(-skew);
        let zeta: f64 = if skew > 0.0 { (1..=count).map(term).sum() } else { count as f64 };
        let tail = 1.0 - (2.0 / count as f64).powf(1.0 - skew);
        let eta = if count > 2 { tail / (1.0 - (1.0 + term(2)) / zeta) } else { 0.0 };
        Self { count, skew, zeta, eta }
    }

    /// A rank.
    pub(crate) fn rank(&self, rng: &mut Rng) -> u64 {
        if self.skew <= 0.0 {
            return rng.below(self.count);
        }
        let unit = rng.unit_f64();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.skew) {
            return 1.min(self.count - 1);
        }
        let place = (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - self.skew));
        whole(self.count as f64 * place).min(self.count - 1)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and the caller clamps")]
fn whole(value: f64) -> u64 {
    value as u64
}

/// By which the popular numbers are scattered.
const SCATTER: Seed = Seed(0x05ee_d0f4_be75);

/// The numbers that there are, and the popular ones among them.
#[derive(Debug)]
pub(crate) struct Numbers {
    loaded: u64,
    inserted: AtomicU64,
    zipf: Zipf,
    scatter: Permutation,
}

impl Numbers {
    pub(crate) fn new(loaded: u64, skew: f64) -> Self {
        let scatter = Permutation::up_to(loaded.max(1) - 1, &mut SCATTER.rng());
        Self { loaded: loaded.max(1), inserted: AtomicU64::new(0), zipf: Zipf::new(loaded, skew), scatter }
    }

    /// Any of the loaded ones.
    pub(crate) fn uniform(&self, rng: &mut Rng) -> u64 {
        rng.below(self.loaded)
    }

    /// One of the loaded ones by popularity, which is scattered over them.
    pub(crate) fn popular(&self, rng: &mut Rng) -> u64 {
        self.scatter.forward(self.zipf.rank(rng))
    }

    /// The newer, the more popular.
    pub(crate) fn latest(&self, rng: &mut Rng) -> u64 {
        let newest = self.loaded + self.inserted.load(Ordering::Relaxed) - 1;
        newest.saturating_sub(self.zipf.rank(rng))
    }

    /// A new one.
    pub(crate) fn new_one(&self) -> u64 {
        self.loaded + self.inserted.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_numbers_are() {
        assert_eq!(key(258, 16), b"\0\0\0\0\0\0\x01\x0200000000");
        assert!(key(255, 16) < key(256, 16) && key(3, 8).len() == 8);
    }

    #[test]
    fn ranks_follow_the_law() {
        let (zipf, mut rng, mut counts) = (Zipf::new(1000, 0.99), Rng::seeded(1), vec![0_u32; 1000]);
        (0..200_000).for_each(|_| counts[usize::try_from(zipf.rank(&mut rng)).unwrap()] += 1);
        let share = |ranks: std::ops::Range<usize>| f64::from(counts[ranks].iter().sum::<u32>()) / 200_000.0;
        // 1 / zeta(1000, 0.99) and the first hundredth of the ranks, by summing the law.
        assert!((share(0..1) - 0.129).abs() < 0.01, "{}", share(0..1));
        assert!((share(0..10) - 0.381).abs() < 0.02, "{}", share(0..10));
        let uniform = Zipf::new(10, 0.0);
        let mut seen = [0_u32; 10];
        (0..10_000).for_each(|_| seen[usize::try_from(uniform.rank(&mut rng)).unwrap()] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }

    #[test]
    fn the_latest_are_the_new_ones() {
        let (numbers, mut rng) = (Numbers::new(1000, 0.99), Rng::seeded(2));
        for expected in 1000..1100 {
            assert_eq!(numbers.new_one(), expected);
        }
        let recent = (0..1000).filter(|_| numbers.latest(&mut rng) >= 1000).count();
        assert!(recent > 600, "{recent}");
        assert!((0..1000).all(|_| numbers.popular(&mut rng) < 1000 && numbers.uniform(&mut rng) < 1000));
        for count in 1..4 {
            let few = Numbers::new(count, 0.99);
            assert!((0..100).all(|_| few.popular(&mut rng) < count && few.latest(&mut rng) < count));
        }
    }
}
