//! Keys of 8 bytes spread as those of the SOSD benchmark's data sets are, for where its files are not there (ZKV 4.1, Exp#12).
//!
//! They are drawn, not measured: what they share with the data sets is what a tree sees of them, how unevenly keys lie and how many leading
//! bytes neighbours share. Each begins somewhere and goes on by gaps of at least 1:
//!
//! | spread | gaps |
//! |---|---|
//! | books | log-normal (sigma 2, median 1,024): runs of keys close together, and far between |
//! | times | seconds from 2001-01-01 on, exponential with a mean of 0.3 s at night to 2.5 s by day, so that many follow each other |
//! | ids | exponential, so that all lie evenly in `0..2^36`, and the last 21 far above, up to `2^63` |

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};
use zonda_rt::{Rng, Seed};

/// How keys are spread over the numbers of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// As the popularity of books (AMZN).
    Books,
    /// As the times of edits of an encyclopedia (WIKI).
    Times,
    /// As a sample of users' numbers (FACEBOOK).
    Ids,
}

/// 2001-01-01 in seconds since 1970.
const TIMES_BEGIN: u64 = 978_307_200;
const SECONDS_A_DAY: u64 = 86_400;
/// Where all ids but the last lie.
const IDS_END: f64 = (1_u64 << 36) as f64;
/// So many ids lie far above the others.
const IDS_FAR: usize = 21;
const IDS_FAR_STEP: u64 = (1 << 63) / IDS_FAR as u64;

impl Spread {
    /// `count` different keys, ascending.
    pub(crate) fn draw(self, count: usize, seed: Seed) -> Vec<u64> {
        let mut rng = seed.derive("spread of keys").rng();
        let mut key = if self == Self::Times { TIMES_BEGIN } else { 0 };
        let gap_of_ids = IDS_END / count as f64;
        let mut next = |at: usize| {
            key += match self {
                Self::Books => whole((normal(&mut rng) * 2.0).exp() * 1_024.0),
                Self::Times => whole(exponential(&mut rng) * (1.4 - 1.1 * (TAU * day_share(key)).cos())),
                Self::Ids if at + IDS_FAR >= count => IDS_FAR_STEP - whole(exponential(&mut rng) * gap_of_ids),
                Self::Ids => whole(exponential(&mut rng) * gap_of_ids),
            };
            key
        };
        (0..count).map(&mut next).collect()
    }
}

/// How much of its day has passed.
fn day_share(seconds: u64) -> f64 {
    (seconds % SECONDS_A_DAY) as f64 / SECONDS_A_DAY as f64
}

/// At least 1, so that keys differ.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a gap is positive and far below 2^63")]
fn whole(gap: f64) -> u64 {
    gap as u64 + 1
}

/// With a mean of 1.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit_f64()).ln()
}

/// About normal: the sum of twelve that are even has a variance of 1.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.unit_f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 1 << 14;

    fn gaps(keys: &[u64]) -> Vec<u64> {
        let mut gaps: Vec<u64> = keys.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        gaps
    }

    #[test]
    fn keys_ascend_and_differ_and_a_seed_says_which() {
        for spread in [Spread::Books, Spread::Times, Spread::Ids] {
            for count in [1, 2, KEYS] {
                let keys = spread.draw(count, Seed(4));
                assert!(keys.len() == count && keys.is_sorted_by(|a, b| a < b), "{spread:?}");
                assert_eq!(keys, spread.draw(count, Seed(4)));
            }
            assert_ne!(spread.draw(KEYS, Seed(4)), spread.draw(KEYS, Seed(5)));
        }
    }

    #[test]
    fn gaps_are_spread_as_is_said() {
        let books = gaps(&Spread::Books.draw(KEYS, Seed(1)));
        assert!((900..1_200).contains(&books[KEYS / 2]), "{}", books[KEYS / 2]);
        assert!(books[KEYS * 99 / 100] > 50 * books[KEYS / 2], "some are far between");
        let times = Spread::Times.draw(1 << 20, Seed(1));
        let days = (times[times.len() - 1] - TIMES_BEGIN) / SECONDS_A_DAY;
        assert!((10..30).contains(&days), "{days} days");
        let hour = |at: u64| times.iter().filter(|key| *key % SECONDS_A_DAY / 3_600 == at).count();
        assert!(hour(0) > hour(12) * 3 / 2, "more by night, {} and {}", hour(0), hour(12));
        assert_eq!(gaps(&times)[times.len() / 4], 1, "many follow each other");
        let ids = Spread::Ids.draw(KEYS, Seed(1));
        let (near, far) = ids.split_at(KEYS - IDS_FAR);
        assert!((1 << 35..1 << 37).contains(&near[near.len() - 1]), "{}", near[near.len() - 1]);
        assert!(far[0] > 1 << 58 && far[IDS_FAR - 1] > 1 << 62, "the last lie far above");
    }
}
