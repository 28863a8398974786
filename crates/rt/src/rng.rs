//! Randomness that replays for ever: a generator pinned by its algorithm, and seeds as a type.

use std::fmt;
use std::str::FromStr;

use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A small fast generator: xoshiro256++, its state filled from the seed by SplitMix64.
///
/// **Stable for ever**: the same seed gives the same numbers in every version, and each function
/// documents how many numbers it draws. A seed in a bug report from years ago still replays. Not
/// for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: Xoshiro256PlusPlus,
}

impl Rng {
    /// A generator for `seed`; all seeds are equally good, zero included.
    pub fn seeded(seed: u64) -> Self {
        Self { state: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// A number in `0..bound`; draws one number. The bias is below `bound / 2^64`.
    ///
    /// # Panics
    /// If `bound` is 0: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "Rng::below(0): an empty range has no number");
        high_half(u128::from(self.next_u64()) * u128::from(bound))
    }

    /// An index in `0..len`; draws one number.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    /// True with the given probability (clamped to 0..=1); draws one number.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.passes(threshold(probability))
    }

    /// True with probability `threshold / 2^64`, or always for `u64::MAX`; draws one number.
    pub(crate) fn passes(&mut self, threshold: u64) -> bool {
        let drawn = self.next_u64();
        drawn < threshold || threshold == u64::MAX
    }

    /// A uniform number in `0.0..1.0` with 53 bits; draws one number.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts `items` in a uniform random order (Fisher-Yates from the end); draws `len - 1` numbers.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Fills `bytes` with little-endian numbers; draws one for each 8 bytes begun.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    /// An independent generator, seeded by the next number.
    pub fn fork(&mut self) -> Self {
        Self::seeded(self.next_u64())
    }
}

/// The result fits: the high half of 128 bits has 64.
fn high_half(product: u128) -> u64 {
    (product >> 64) as u64
}

/// The probability as a share of 2^64; `u64::MAX` stands for "always".
#[expect(clippy::cast_possible_truncation, reason = "float to integer casts saturate, which is what we want")]
pub(crate) fn threshold(probability: f64) -> u64 {
    (probability.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u64
}

/// A seed as a value: what tests print, users pass back and parts of a run derive their own from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seed(pub u64);

impl Seed {
    /// A generator for this seed.
    pub fn rng(self) -> Rng {
        Rng::seeded(self.0)
    }

    /// A seed of its own for the part called `label`; stable for ever (FNV-1a of the label, mixed
    /// by SplitMix64).
    ///
    /// A new part does not shift the numbers of the others, as drawing from one shared generator
    /// would.
    pub fn derive(self, label: &str) -> Seed {
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Seed(mix(self.0 ^ hash))
    }
}

/// SplitMix64's output function: every bit of the result depends on every bit of `value`.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Seed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins the algorithm: if this fails, every recorded seed has lost its meaning.
    #[test]
    fn numbers_are_pinned() {
        let mut rng = Rng::seeded(0);
        assert_eq!(rng.next_u64(), 0x53175d61490b23df);
        assert_eq!(rng.next_u64(), 0x61da6f3dc380d507);
        assert_eq!(mix(0), 0xe220a8397b1dcdaf);
        assert_eq!(Seed(7).derive("writer"), Seed(7).derive("writer"));
        assert_ne!(Seed(7).derive("writer"), Seed(7).derive("reader"));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::seeded(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[rng.index(7)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn chance_is_exact_at_the_ends() {
        let mut rng = Rng::seeded(2);
        assert!((0..1_000).all(|_| rng.chance(1.0)));
        assert!((0..1_000).all(|_| !rng.chance(0.0)));
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
    }

    #[test]
    fn shuffle_keeps_all_and_fill_covers_tails() {
        let mut rng = Rng::seeded(3);
        let mut items: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        let mut bytes = [0u8; 13];
        rng.fill(&mut bytes);
        assert!(bytes[8..].iter().any(|&b| b != 0));
    }

    #[test]
    fn seeds_print_and_parse() {
        assert_eq!(Seed(42).to_string().parse(), Ok(Seed(42)));
        assert!("x".parse::<Seed>().is_err());
    }
}
