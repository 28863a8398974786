//! A scattered hot set.

use zonda_rt::Rng;

use super::{HOT_ONE_IN, HOT_OPERATIONS_PERCENT};

/// 80 % of the choices among the records whose index is a multiple of 5, the others among the rest.
///
/// Scattered in either order of creation: a leaf of a store loaded in key order holds one hot record in five, and one
/// loaded at random holds a random number of them.
#[derive(Clone, Copy, Debug)]
pub struct Hot;

impl Hot {
    /// A record in `0..existing`; draws two numbers.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        let hot = existing.div_ceil(HOT_ONE_IN);
        let cold = existing - hot;
        if rng.below(100) < HOT_OPERATIONS_PERCENT || cold == 0 {
            return rng.below(hot) * HOT_ONE_IN;
        }
        let nth = rng.below(cold);
        nth + nth / (HOT_ONE_IN - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_multiples_are_hot() {
        let mut rng = Rng::seeded(1);
        let hot = (0..100_000).filter(|_| Hot.choose(&mut rng, 1_003).is_multiple_of(HOT_ONE_IN)).count();
        assert!((79_000..81_000).contains(&hot), "{hot}");
    }
}
