//! A permutation of numbers that looks random and takes no memory.

use crate::Rng;

/// A bijection of `0..=last`: three rounds of add, multiply by an odd number and xor with the upper half, over as many bits as `last` has;
/// what falls beyond `last` goes round again, less than once on average.
///
/// The same numbers of the generator give the same permutation. Not for cryptography.
#[derive(Clone, Debug)]
pub struct Permutation {
    last: u64,
    mask: u64,
    half: u32,
    rounds: [Round; 3],
}

#[derive(Clone, Copy, Debug)]
struct Round {
    add: u64,
    multiply: u64,
    unmultiply: u64,
}

impl Permutation {
    /// Draws six numbers.
    #[must_use]
    pub fn up_to(last: u64, rng: &mut Rng) -> Self {
        let bits = (u64::BITS - last.leading_zeros()).max(1);
        let rounds = std::array::from_fn(|_| Round::new(rng.next_u64(), rng.next_u64() | 1));
        Self { last, mask: u64::MAX >> (u64::BITS - bits), half: bits.div_ceil(2), rounds }
    }

    /// The place of `value`, which is `last` at most.
    #[must_use]
    pub fn forward(&self, value: u64) -> u64 {
        self.walk(value, |value| {
            self.rounds.iter().fold(value, |value, round| {
                let value = value.wrapping_add(round.add).wrapping_mul(round.multiply) & self.mask;
                value ^ (value >> self.half)
            })
        })
    }

    /// What is at `place`, which is `last` at most.
    #[must_use]
    pub fn backward(&self, place: u64) -> u64 {
        self.walk(place, |place| {
            // Xor with the upper half undoes itself, because the shift is at least half the width.
            self.rounds.iter().rev().fold(place, |value, round| {
                let value = value ^ (value >> self.half);
                value.wrapping_mul(round.unmultiply).wrapping_sub(round.add) & self.mask
            })
        })
    }

    /// From a number that is `last` at most one comes back to such a number, as every cycle is closed.
    fn walk(&self, from: u64, step: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(from <= self.last, "{from} is beyond {}", self.last);
        let mut value = step(from & self.mask);
        while value > self.last {
            value = step(value);
        }
        value
    }
}

impl Round {
    fn new(add: u64, multiply: u64) -> Self {
        // Newton's iteration doubles the number of right low bits each time: 1 (odd), so 2^6 = 64 after six.
        let unmultiply = (0..6)
            .fold(multiply, |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(multiply.wrapping_mul(inverse))));
        Self { add, multiply, unmultiply }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_own_place() {
        for last in [0, 1, 2, 6, 7, 8, 100, 1_023, 1_024, 5_000] {
            let permutation = Permutation::up_to(last, &mut Rng::seeded(last));
            let places: std::collections::BTreeSet<u64> = (0..=last).map(|value| permutation.forward(value)).collect();
            assert!(places.iter().copied().eq(0..=last), "{last}");
        }
    }

    #[test]
    fn what_goes_forward_comes_back() {
        for bits in [1, 2, 3, 31, 32, 33, 63, 64] {
            for last in [u64::MAX >> (64 - bits), (u64::MAX >> (64 - bits)) / 3 * 2] {
                let permutation = Permutation::up_to(last, &mut Rng::seeded(9));
                for value in [0, 1, 2, 12_345, u64::MAX, 1 << 63].map(|value: u64| value.min(last)) {
                    assert_eq!(permutation.backward(permutation.forward(value)), value, "{last}");
                }
            }
        }
    }

    /// Each tenth of the places gets a tenth of the first tenth of the numbers.
    #[test]
    fn neighbours_are_scattered() {
        for last in [99_999, 3_000_000] {
            let permutation = Permutation::up_to(last, &mut Rng::seeded(4));
            let mut tenths = [0_u64; 10];
            (0..last / 10).for_each(|value| {
                let tenth = permutation.forward(value) * 10 / (last + 1);
                tenths[usize::try_from(tenth).unwrap_or(0)] += 1;
            });
            assert!(tenths.iter().all(|&count| (count * 1_000 / last).abs_diff(10) <= 1), "{last}: {tenths:?}");
        }
    }
}
