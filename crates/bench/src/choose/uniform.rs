//! Every record alike.

use zonda_rt::Rng;

/// Every existing record has the same chance.
#[derive(Clone, Copy, Debug)]
pub struct Uniform;

impl Uniform {
    /// A record in `0..existing`; draws one number.
    pub fn choose(&mut self, rng: &mut Rng, existing: u64) -> u64 {
        rng.below(existing)
    }
}
