//! A contiguous hot set.

use std::sync::Arc;

use zonda_rt::Rng;

use super::{HOT_ONE_IN, HOT_OPERATIONS_PERCENT};
use crate::keys::KeySpace;

/// Tries to hit an existing record before falling back to a uniform choice. A try succeeds with a chance of at least
/// the filled share of the key space, mostly above one half, so the fallback is as good as never taken.
const TRIES_MAX: u32 = 64;

/// 80 % of the choices in the middle fifth of the key order, the others outside it.
#[derive(Clone, Debug)]
pub struct HotRange {
    keys: Arc<KeySpace>,
}

impl HotRange {
    /// A hot range over `keys`.
    #[must_use]
    pub fn new(keys: Arc<KeySpace>) -> Self {
        Self { keys }
    }

    /// A record in `0..existing`.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        let span = self.keys.span(existing);
        let hot = (span / HOT_ONE_IN).max(1);
        let start = (span - hot) / 2;
        let is_hot = rng.below(100) < HOT_OPERATIONS_PERCENT || hot == span;
        for _ in 0..TRIES_MAX {
            let rank = if is_hot { start + rng.below(hot) } else { outside(rng.below(span - hot), start, hot) };
            let index = self.keys.index_at(rank);
            if index < existing {
                return index;
            }
        }
        rng.below(existing)
    }
}

/// The `nth` place outside `start..start + len`.
fn outside(nth: u64, start: u64, len: u64) -> u64 {
    if nth < start { nth } else { nth + len }
}

#[cfg(test)]
mod tests {
    use super::super::Distribution;
    use super::super::tests::draws;
    use crate::keys::Order;

    #[test]
    fn the_middle_fifth_of_the_keys_is_hot() {
        for order in [Order::Random, Order::Sorted] {
            let (keys, drawn) = draws(Distribution::HotRange, order);
            let span = keys.span(10_000);
            let middle = span * 2 / 5..=span * 3 / 5;
            let hot = drawn.iter().filter(|index| middle.contains(&keys.rank_of(**index))).count();
            let share = hot as f64 / drawn.len() as f64;
            assert!((0.78..0.82).contains(&share), "{order:?} {share}");
        }
    }
}
